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
	"github.com/asynq-go/asynq/x/tasks"
)

// ledger records the attempts of a queue in which one task may run at a time.
type ledger struct {
	t  *testing.T
	mu sync.Mutex

	busy  string         // active worker kind; empty if none
	tries map[int]int    // attempts by task
	done  []int          // completed tasks, in order
	by    map[string]int // attempts by worker kind
}

var errFirst = errors.New("first attempt fails")

// attempt records an attempt. The first attempts of some tasks fail.
func (l *ledger) attempt(who string, task int) error {
	l.mu.Lock()
	if l.busy != "" {
		l.t.Errorf("%s starts task %d while %s is active", who, task, l.busy)
	}
	l.busy = who
	l.tries[task]++
	l.by[who]++
	fails := task%20 == 3 && l.tries[task] == 1
	l.mu.Unlock()
	<-time.After(time.Millisecond) // time for others to overlap
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = ""
	if fails {
		return errFirst
	}
	l.done = append(l.done, task)
	return nil
}

// Workers over HTTP, of the Go SDK and plain servers share queues that run one task at a time,
// ordered or not. The limit applies to all of them together.
func TestMixedWorkers(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		const n = 40
		s := newEnv(t, opt, func(c *service.Config) {
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
		// The tasks have one type, and a table has each type once, so each queue has a worker.
		for queue, limit := range map[string]tasks.Option{"serial": tasks.MaxRun(1), "strict": tasks.InOrder()} {
			w, err := tasks.Start(ctx, opt, tasks.Table{tasks.Handle("t", handler("sdk"), tasks.Queue(queue), limit, tasks.RetryDelay(soon))}, tasks.Configure(quiet))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(w.Wait) // ctx is done by then
		}
		cfg := asynq.Config{
			Queues: map[string]int{"serial": 1, "strict": 1}, QueueConfigs: map[string]asynq.QueueConfig{"serial": {Concurrency: 1}, "strict": {Ordered: true}},
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
				t.Errorf("%s: %d tasks completed: %v", queue, len(book.done), book.done)
			}
			if queue == "strict" && !slices.IsSorted(book.done) {
				t.Errorf("completed in the order %v", book.done)
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

// workOverHTTP takes and settles tasks until ctx is done.
func (s *env) workOverHTTP(ctx context.Context, books map[string]*ledger) {
	for ctx.Err() == nil {
		r, err := s.try(ctx, all, "POST", "/v1/take", `{"queues":["serial","strict"],"n":5,"wait":"1s"}`)
		if err != nil {
			continue // ctx is done; other errors leave tasks undone
		}
		for i := range r.list("tasks") {
			number, _ := r.get("tasks", i, "payload").(float64)
			outcome, body := "done", ""
			if err := books[r.str("tasks", i, "queue")].attempt("http", int(number)); err != nil {
				outcome, body = "fail", `{"error":"x","retry_in":"1s"}`
			}
			response, err := s.try(context.WithoutCancel(ctx), all, "POST", "/v1/leases/"+r.str("tasks", i, "lease")+"/"+outcome, body)
			if err != nil || response.status != 200 {
				s.t.Errorf("settle: %v: %s", err, response.body)
			}
		}
	}
}
