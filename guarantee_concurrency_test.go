package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// gauge counts the handlers at work.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

// enter returns how many handlers are at work, this one included.
func (g *gauge) enter() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now++
	g.most = max(g.most, g.now)
	return g.now
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now--
}

func (g *gauge) peak() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most
}

// handle is a handler that takes a moment.
func (g *gauge) handle(context.Context, *asynq.Task) error {
	g.enter()
	defer g.leave()
	time.Sleep(time.Millisecond) // so that handlers overlap
	return nil
}

func TestGuarantee12Concurrency(t *testing.T) {
	t.Parallel()
	t.Run("is reached and not exceeded", func(t *testing.T) {
		everywhere(t, func(s *site) {
			var g gauge
			var once sync.Once
			full := make(chan struct{})
			s.enqueueMany(200)
			s.serve(asynq.Config{Concurrency: 7}, func(context.Context, *asynq.Task) error {
				if g.enter() >= 7 {
					once.Do(func() { close(full) })
				}
				defer g.leave()
				<-full                       // the first seven wait for each other
				time.Sleep(time.Millisecond) // so that more than seven would overlap
				return nil
			})
			receive(s, full, "7 handlers to run at once")
			s.awaitEmpty()
			if g.peak() != 7 {
				s.t.Errorf("%d handlers ran at once, want 7", g.peak())
			}
		})
	})
	t.Run("holds for the queue across servers", func(t *testing.T) {
		everywhere(t, func(s *site) {
			var g gauge
			s.enqueueMany(60)
			cfg := asynq.Config{Concurrency: 10, QueueConcurrency: map[string]int{"default": 3}, TaskCheckInterval: 20 * time.Millisecond}
			s.serve(cfg, g.handle)
			s.serve(cfg, g.handle)
			s.awaitEmpty()
			if g.peak() > 3 {
				s.t.Errorf("%d handlers ran at once on all servers, want no more than 3", g.peak())
			}
		})
	})
	t.Run("a stuck handler keeps its slot for a grace", func(t *testing.T) { everywhere(t, stuckHandler) })
	t.Run("a handler that ends within its grace is not stuck", func(t *testing.T) {
		everywhere(t, func(s *site) {
			h := newHeld()
			s.enqueue("t", asynq.Timeout(time.Second), asynq.Retention(time.Hour))
			s.serve(asynq.Config{StuckGracePeriod: time.Minute}, h.handle)
			if cause := receive(s, h.causes, "the deadline"); !errors.Is(cause, context.DeadlineExceeded) {
				s.t.Errorf("its context ended with cause %v", cause)
			}
			close(h.proceed)
			s.awaitState("t", "completed")
			if s.log.count("stuck") > 0 {
				s.t.Error("it was reported as stuck")
			}
		})
	})
	t.Run("canceled from outside", func(t *testing.T) { everywhere(t, canceledHandler) })
}

func stuckHandler(s *site) {
	const grace = 500 * time.Millisecond
	started, reports, release := make(chan time.Time, 10), make(chan error, 10), make(chan struct{})
	defer close(release)
	s.enqueue("stuck", asynq.Timeout(time.Second), asynq.MaxRetry(0))
	s.enqueue("next")
	s.serve(asynq.Config{
		Concurrency: 1, StuckGracePeriod: grace,
		ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { reports <- err }),
	}, func(_ context.Context, task *asynq.Task) error {
		started <- time.Now()
		if task.Type() == "stuck" {
			<-release
		}
		return nil
	})
	first, second := receive(s, started, "the first task to start"), receive(s, started, "the second one to start")
	if d := second.Sub(first); d < time.Second+grace {
		s.t.Errorf("the slot was free after %v, want not before timeout and grace have passed", d)
	}
	if err := receive(s, reports, "the ErrorHandler to hear of it"); !errors.Is(err, asynq.ErrHandlerStuck) || !errors.Is(err, context.DeadlineExceeded) {
		s.t.Errorf("ErrorHandler heard of %v, want ErrHandlerStuck and DeadlineExceeded", err)
	}
	s.awaitState("stuck", "archived")
	s.awaitState("next", "")
	if n := s.log.count("ERROR", "stuck", "task=stuck"); n != 1 {
		s.t.Errorf("it was logged %d times, want once", n)
	}
	s.wantCounts(2, 1)
}

func canceledHandler(s *site) {
	const namespace = "canceled-handler" // channels are the same in all databases
	h := newHeld()
	close(h.proceed)
	s.BrokerIn(namespace)
	id := strings.ReplaceAll(s.t.Name(), "/", "-")
	client := s.clientOn(asynq.WithNamespace(s.opt(), namespace))
	s.serve(asynq.Config{Namespace: namespace}, h.handle)
	if _, err := client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID(id)); err != nil {
		s.t.Fatal(err)
	}
	receive(s, h.started, "the task to start")
	s.eventually(func() bool {
		return s.redis.Publish(context.Background(), namespace+":cancel", id).Val() > 0
	}, "the server to listen")
	if cause := receive(s, h.causes, "the handler to be canceled"); !errors.Is(cause, asynq.ErrTaskCanceled) {
		s.t.Errorf("its context ended with cause %v, want ErrTaskCanceled", cause)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	t.Run("is strict with one slot", func(t *testing.T) {
		everywhere(t, func(s *site) {
			var ran tally
			var want []string
			for i := range 100 {
				want = append(want, fmt.Sprint("t", i))
			}
			s.enqueueMany(100)
			s.serve(asynq.Config{Concurrency: 1}, ran.handle)
			s.awaitEmpty()
			if got := ran.order(); !slices.Equal(got, want) {
				s.t.Errorf("ran in the order %v", got)
			}
		})
	})
	queues := []string{"low", "middle", "high"}
	priorities := map[string]int{"low": 1, "middle": 3, "high": 6}
	// run has one slot process 60 tasks of each queue, and returns the queues in the order of the tasks.
	run := func(s *site, cfg asynq.Config) []string {
		var ran tally
		for _, queue := range queues {
			for i := range 60 {
				s.enqueue(fmt.Sprint(queue, i), asynq.Queue(queue))
			}
		}
		cfg.Queues = priorities
		cfg.Concurrency = 1
		s.serve(cfg, func(ctx context.Context, _ *asynq.Task) error {
			queue, _ := asynq.GetQueueName(ctx)
			ran.add(queue)
			return nil
		})
		s.eventually(func() bool { return len(ran.order()) == 180 }, "all tasks to run")
		return ran.order()
	}
	t.Run("of strict priorities", func(t *testing.T) {
		everywhere(t, func(s *site) {
			order := run(s, asynq.Config{StrictPriority: true})
			for i, queue := range order {
				if want := queues[2-i/60]; queue != want {
					s.t.Fatalf("task %d came from %q, want %q: %v", i, queue, want, order)
				}
			}
		})
	})
	t.Run("of weights", func(t *testing.T) {
		everywhere(t, func(s *site) {
			shares := make(map[string]int)
			for _, queue := range run(s, asynq.Config{})[:60] { // while all queues have tasks
				shares[queue]++
			}
			for queue, weight := range priorities {
				if n, want := shares[queue], 6*weight; n < want/2 || n > want*2 {
					s.t.Errorf("%d of the first 60 tasks came from %q, want about %d", n, queue, want)
				}
			}
		})
	})
}
