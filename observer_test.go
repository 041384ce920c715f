package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// witness keeps what an Observer is told.
type witness struct {
	mu        sync.Mutex
	starts    map[string]asynq.AttemptStart // by type
	ends      map[string]asynq.AttemptEnd
	lost      []string
	recovered []string
	turns     asynq.TurnStats // in all
}

func newWitness() *witness {
	return &witness{starts: make(map[string]asynq.AttemptStart), ends: make(map[string]asynq.AttemptEnd)}
}

func (w *witness) observer() *asynq.Observer {
	locked := func(f func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		f()
	}
	return &asynq.Observer{
		AttemptStarted: func(a asynq.AttemptStart) { locked(func() { w.starts[a.Type] = a }) },
		AttemptEnded:   func(a asynq.AttemptEnd) { locked(func() { w.ends[a.Type] = a }) },
		LeaseLost:      func(task asynq.ObservedTask) { locked(func() { w.lost = append(w.lost, task.ID) }) },
		TaskRecovered:  func(task asynq.ObservedTask) { locked(func() { w.recovered = append(w.recovered, task.ID) }) },
		TurnEnded: func(turn asynq.TurnStats) {
			locked(func() {
				w.turns.Duration += turn.Duration
				w.turns.Settled += turn.Settled
				w.turns.Refused += turn.Refused
				w.turns.Wanted += turn.Wanted
				w.turns.Fetched += turn.Fetched
			})
		},
	}
}

// saw looks at what came so far.
func (w *witness) saw(is func() bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return is()
}

func TestObserverOutcomes(t *testing.T) {
	everywhere(t, func(s *site) {
		s.AllowViolations()
		failed := errors.New("failed")
		returns := map[string]error{
			"succeeds": nil, "fails": failed, "fails for good": failed, "skips": fmt.Errorf("no: %w", asynq.SkipRetry),
			"is revoked": asynq.RevokeTask, "snoozes": asynq.Snooze(time.Hour),
		}
		for id := range returns {
			s.enqueue(id, asynq.MaxRetry(len(id)%14)) // "fails for good" has none left
		}
		s.enqueue("stays")
		s.redis.HSet(context.Background(), s.queue.Task("unreadable"), "state", "pending", "msg", "\xff")
		s.redis.RPush(context.Background(), s.queue.Pending(), "unreadable")
		w, staying := newWitness(), make(chan struct{})
		srv := s.serve(asynq.Config{Concurrency: 4, Observer: w.observer(), ShutdownTimeout: 10 * time.Millisecond},
			func(ctx context.Context, task *asynq.Task) error {
				if task.Type() == "stays" {
					close(staying)
					<-ctx.Done()
				}
				return returns[task.Type()]
			})
		receive(s, staying, "the last one to start")
		s.eventually(func() bool { return w.saw(func() bool { return len(w.ends) == len(returns)+1 }) }, "all ends to be told")
		srv.Shutdown()
		for id, want := range map[string]asynq.Outcome{
			"succeeds": asynq.OutcomeSucceeded, "fails": asynq.OutcomeRetried, "fails for good": asynq.OutcomeArchived,
			"skips": asynq.OutcomeArchived, "is revoked": asynq.OutcomeDropped, "snoozes": asynq.OutcomeDeferred,
			"stays": asynq.OutcomeReturned, "": asynq.OutcomeArchived,
		} {
			start, end := w.starts[id], w.ends[id]
			if end.Outcome != want || end.Queue != "default" || end.Duration < 0 || end.Duration > time.Minute {
				s.t.Errorf("%q ended so: %+v, want %s", id, end, want)
			}
			if (end.Err == nil) != (want == asynq.OutcomeSucceeded) || returns[id] != nil && !errors.Is(end.Err, returns[id]) {
				s.t.Errorf("%q ended with %v", id, end.Err)
			}
			if id != "" && (start.ID != id || start.Wait < 0 || start.Wait > time.Minute) {
				s.t.Errorf("%q started so: %+v", id, start)
			}
		}
		if got := w.turns; got.Settled != 8 || got.Fetched != 8 || got.Wanted < 8 || got.Refused != 0 || got.Duration <= 0 {
			s.t.Errorf("the turns: %+v", got)
		}
	})
}

func TestObserverLeases(t *testing.T) {
	everywhere(t, func(s *site) {
		s.enqueue("t")
		w, started := newWitness(), make(chan struct{}, 1)
		s.serve(asynq.Config{LeaseDuration: time.Second, Observer: w.observer()}, func(ctx context.Context, _ *asynq.Task) error {
			if n, _ := asynq.GetRetryCount(ctx); n > 0 {
				return nil
			}
			started <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		receive(s, started, "the task to start")
		s.takeOver("t")
		s.awaitState("t", "")
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.lost) != 1 || len(w.recovered) != 1 || w.starts["t"].Retried != 1 || w.ends["t"].Outcome != asynq.OutcomeSucceeded {
			s.t.Errorf("lost %v, recovered %v, started %+v, ended %+v", w.lost, w.recovered, w.starts["t"], w.ends["t"])
		}
	})
}

func TestObserverStuckHandler(t *testing.T) {
	everywhere(t, func(s *site) {
		s.enqueue("t", asynq.Timeout(time.Second), asynq.MaxRetry(0))
		w, proceed := newWitness(), make(chan struct{})
		s.t.Cleanup(func() { close(proceed) })
		s.serve(asynq.Config{StuckGracePeriod: time.Millisecond, Observer: w.observer()}, func(context.Context, *asynq.Task) error {
			<-proceed
			return nil
		})
		s.awaitState("t", "archived")
		if end := w.ends["t"]; !errors.Is(end.Err, asynq.ErrHandlerStuck) || end.Outcome != asynq.OutcomeArchived {
			s.t.Errorf("it ended so: %+v", end)
		}
	})
}

// What panics in an Observer, or ends its goroutine, changes nothing.
func TestGuarantee11ObserverPanics(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]func(){"a panic": panicInHandler, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(s *site) {
				s.enqueueMany(20)
				var ran tally
				srv := s.serve(asynq.Config{Concurrency: 2, Observer: &asynq.Observer{
					AttemptStarted: func(asynq.AttemptStart) { crash() },
					AttemptEnded:   func(asynq.AttemptEnd) { crash() },
					TurnEnded:      func(asynq.TurnStats) { crash() },
				}}, func(_ context.Context, task *asynq.Task) error {
					ran.add(task.Type())
					return nil
				})
				s.awaitEmpty()
				srv.Shutdown()
				s.wantCounts(20, 0)
				for _, callback := range []string{"AttemptStarted", "AttemptEnded", "TurnEnded"} {
					if s.log.count("a callback panicked", "Observer."+callback) == 0 {
						s.t.Errorf("nothing is logged of %s", callback)
					}
				}
			})
		})
	}
}
