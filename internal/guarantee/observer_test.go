package guarantee_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// recorder keeps what its Observer receives.
type recorder struct {
	mu        sync.Mutex
	starts    map[string]asynq.AttemptStart // by task type
	ends      map[string]asynq.AttemptEnd
	lost      []string
	recovered []string
	trips     asynq.RoundTripStats // the totals
}

func newRecorder() *recorder {
	return &recorder{starts: make(map[string]asynq.AttemptStart), ends: make(map[string]asynq.AttemptEnd)}
}

func (r *recorder) observer() *asynq.Observer {
	locked := func(f func()) {
		r.mu.Lock()
		defer r.mu.Unlock()
		f()
	}
	return &asynq.Observer{
		AttemptStarted: func(a asynq.AttemptStart) { locked(func() { r.starts[a.Type] = a }) },
		AttemptEnded:   func(a asynq.AttemptEnd) { locked(func() { r.ends[a.Type] = a }) },
		LeaseLost:      func(task asynq.ObservedTask) { locked(func() { r.lost = append(r.lost, task.ID) }) },
		TaskRecovered:  func(task asynq.ObservedTask) { locked(func() { r.recovered = append(r.recovered, task.ID) }) },
		RoundTripEnded: func(trip asynq.RoundTripStats) {
			locked(func() {
				r.trips.Duration += trip.Duration
				r.trips.Settled += trip.Settled
				r.trips.Rejected += trip.Rejected
				r.trips.Requested += trip.Requested
				r.trips.Fetched += trip.Fetched
			})
		},
	}
}

// holds reports whether a condition holds. It locks the records meanwhile.
func (r *recorder) holds(cond func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cond()
}

func TestObserverOutcomes(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.AllowViolations()
		failed := errors.New("failed")
		returns := map[string]error{
			"succeeds": nil, "fails": failed, "out of retries": failed, "skips": fmt.Errorf("no: %w", asynq.SkipRetry),
			"revoked": asynq.RevokeTask, "snoozes": asynq.Snooze(time.Hour),
		}
		for id := range returns {
			env.Enqueue(id, asynq.MaxRetry(len(id)%14)) // "out of retries" has none left
		}
		env.Enqueue("stays")
		env.RDB.HSet(context.Background(), env.Queue.Task("unreadable"), "state", "pending", "msg", "\xff")
		env.RDB.RPush(context.Background(), env.Queue.Pending(), "unreadable")
		rec, staying := newRecorder(), make(chan struct{})
		srv := env.Serve(asynq.Config{Concurrency: 4, Observer: rec.observer(), ShutdownTimeout: 10 * time.Millisecond},
			func(ctx context.Context, task *asynq.Task) error {
				if task.Type() == "stays" {
					close(staying)
					<-ctx.Done()
				}
				return returns[task.Type()]
			})
		testenv.Await(env, staying, "the last task to start")
		env.Eventually(func() bool { return rec.holds(func() bool { return len(rec.ends) == len(returns)+1 }) }, "all AttemptEnded calls")
		srv.Shutdown()
		for id, want := range map[string]asynq.Outcome{
			"succeeds": asynq.OutcomeSucceeded, "fails": asynq.OutcomeRetried, "out of retries": asynq.OutcomeArchived,
			"skips": asynq.OutcomeArchived, "revoked": asynq.OutcomeRevoked, "snoozes": asynq.OutcomeDeferred,
			"stays": asynq.OutcomeRequeued, "": asynq.OutcomeArchived,
		} {
			start, end := rec.starts[id], rec.ends[id]
			if end.Outcome != want || end.Queue != "default" || end.Duration < 0 || end.Duration > time.Minute {
				env.T.Errorf("%q: AttemptEnded got %+v, want outcome %s", id, end, want)
			}
			if (end.Err == nil) != (want == asynq.OutcomeSucceeded) || returns[id] != nil && !errors.Is(end.Err, returns[id]) {
				env.T.Errorf("%q: AttemptEnded got error %v", id, end.Err)
			}
			if id != "" && (start.ID != id || start.Wait < 0 || start.Wait > time.Minute) {
				env.T.Errorf("%q: AttemptStarted got %+v", id, start)
			}
		}
		if got := rec.trips; got.Settled != 8 || got.Fetched != 8 || got.Requested < 8 || got.Rejected != 0 || got.Duration <= 0 {
			env.T.Errorf("totals of the round trips: %+v", got)
		}
	})
}

func TestObserverLeases(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("t")
		rec, started := newRecorder(), make(chan struct{}, 1)
		env.Serve(asynq.Config{LeaseDuration: time.Second, Observer: rec.observer()}, func(ctx context.Context, _ *asynq.Task) error {
			if n, _ := asynq.GetRetryCount(ctx); n > 0 {
				return nil
			}
			started <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		testenv.Await(env, started, "the task to start")
		env.StealLease("t")
		env.AwaitState("t", "")
		rec.mu.Lock()
		defer rec.mu.Unlock()
		if len(rec.lost) != 1 || len(rec.recovered) != 1 || rec.starts["t"].Retried != 1 || rec.ends["t"].Outcome != asynq.OutcomeSucceeded {
			env.T.Errorf("lost %v, recovered %v, started %+v, ended %+v", rec.lost, rec.recovered, rec.starts["t"], rec.ends["t"])
		}
	})
}

func TestObserverStuckHandler(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("t", asynq.Timeout(time.Second), asynq.MaxRetry(0))
		rec, proceed := newRecorder(), make(chan struct{})
		env.T.Cleanup(func() { close(proceed) })
		env.Serve(asynq.Config{StuckGracePeriod: time.Millisecond, Observer: rec.observer()}, func(context.Context, *asynq.Task) error {
			<-proceed
			return nil
		})
		env.AwaitState("t", "archived")
		if end := rec.ends["t"]; !errors.Is(end.Err, asynq.ErrHandlerStuck) || end.Outcome != asynq.OutcomeArchived {
			env.T.Errorf("AttemptEnded got %+v", end)
		}
	})
}
