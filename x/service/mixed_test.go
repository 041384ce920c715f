package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service"
	"github.com/asynq-go/asynq/x/service/tasks"
)

// ledger is what workers of several kinds did with the tasks of a queue in which one at a time may run.
type ledger struct {
	t  *testing.T
	mu sync.Mutex

	busy  string         // who is at work; "": nobody
	tries map[int]int    // by task
	done  []int          // in this order
	by    map[string]int // how many attempts each kind of worker had
}

var errFirst = errors.New("not at the first attempt")

// attempt is one of a worker. Two of them fail at first.
func (l *ledger) attempt(who string, task int) error {
	l.mu.Lock()
	if l.busy != "" {
		l.t.Errorf("%s begins task %d while %s is at work", who, task, l.busy)
	}
	l.busy = who
	l.tries[task]++
	l.by[who]++
	fails := task%20 == 3 && l.tries[task] == 1
	l.mu.Unlock()
	<-time.After(time.Millisecond) // the work, with which others would overlap
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = ""
	if fails {
		return errFirst
	}
	l.done = append(l.done, task)
	return nil
}

// Workers over HTTP, of the Go SDK and plain servers share queues in which one task runs at a time, in order or not: it is one at a time
// for all of them together.
func TestWorkersOfAllKinds(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		const n = 40
		s := newSite(t, opt, func(c *service.Config) {
			c.Queues = map[string]service.QueueConfig{"serial": {MaxRun: 1}, "strict": {InOrder: true}}
		})
		books := make(map[string]*ledger)
		for _, queue := range []string{"serial", "strict"} {
			books[queue] = &ledger{t: t, tries: make(map[int]int), by: make(map[string]int)}
			s.enqueue(queue, n, `,"retention":"1h"`)
		}
		soon := func(int, error) time.Duration { return time.Millisecond }
		quiet := func(cfg *asynq.Config) {
			cfg.LogLevel, cfg.Concurrency, cfg.TaskCheckInterval = asynq.ErrorLevel, 4, 50*time.Millisecond
		}
		handler := func(who string) asynq.Handler {
			return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
				queue, _ := asynq.GetQueueName(ctx)
				var number int
				if _, err := fmt.Sscan(string(task.Payload()), &number); err != nil {
					return err
				}
				return books[queue].attempt(who, number)
			})
		}

		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		// The tasks have one type, and an SDK's table has each name once: so there is a worker for each queue.
		for queue, limit := range map[string]tasks.Option{"serial": tasks.MaxRun(1), "strict": tasks.InOrder()} {
			w, err := tasks.Start(ctx, opt, tasks.Table{tasks.Handle("t", handler("sdk"), tasks.Queue(queue), limit, tasks.RetryDelay(soon))}, tasks.Configure(quiet))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(w.Wait) // ctx has ended by then
		}
		cfg := asynq.Config{
			Queues: map[string]int{"serial": 1, "strict": 1}, QueueConcurrency: map[string]int{"serial": 1, "strict": asynq.InOrder},
			RetryDelayFunc: func(n int, err error, _ *asynq.Task) time.Duration { return soon(n, err) },
		}
		quiet(&cfg)
		server := asynq.NewServer(opt, cfg)
		if err := server.Start(handler("server")); err != nil {
			t.Fatal(err)
		}
		defer server.Shutdown()
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		for range 2 {
			group.Go(func() { s.workOverHTTP(ctx, books) })
		}

		proctest.Eventually(t, "all tasks to be done", func() bool {
			for _, book := range books {
				book.mu.Lock()
				left := n - len(book.done)
				book.mu.Unlock()
				if left > 0 {
					return false
				}
			}
			return true
		})
		for queue, book := range books {
			book.mu.Lock()
			if sorted := slices.Sorted(slices.Values(book.done)); len(slices.Compact(sorted)) != n || len(book.done) != n {
				t.Errorf("%s: %d tasks were done: %v", queue, len(book.done), book.done)
			}
			if queue == "strict" && !slices.IsSorted(book.done) {
				t.Errorf("they were done in the order %v", book.done)
			}
			for task, tries := range book.tries {
				want := 1
				if task%20 == 3 {
					want = 2
				}
				if tries != want {
					t.Errorf("%s: task %d had %d attempts, want %d", queue, task, tries, want)
				}
			}
			t.Logf("%s: attempts by %v", queue, book.by)
			book.mu.Unlock()
		}
	})
}

// workOverHTTP takes and settles tasks until ctx ends.
func (s *site) workOverHTTP(ctx context.Context, books map[string]*ledger) {
	for ctx.Err() == nil {
		r, err := s.try(ctx, all, "POST", "/v1/take", `{"queues":["serial","strict"],"n":5,"wait":"1s"}`)
		if err != nil {
			continue // ctx has ended, or else this shows in what is not done
		}
		for i := range r.list("tasks") {
			number, _ := r.get("tasks", i, "payload").(float64)
			outcome, body := "done", ""
			if err := books[r.str("tasks", i, "queue")].attempt("http", int(number)); err != nil {
				outcome, body = "fail", `{"error":"x","retry_in":"1s"}`
			}
			answer, err := s.try(context.WithoutCancel(ctx), all, "POST", "/v1/leases/"+r.str("tasks", i, "lease")+"/"+outcome, body)
			if err != nil || answer.status != 200 {
				s.t.Errorf("settle: %v: %s", err, answer.body)
			}
		}
	}
}
