package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/runner"
)

func (r *rig) extend() error {
	r.t.Helper()
	rest, err := r.fetcher.ExtendLeases(context.Background())
	if rest != testLease/6 {
		r.t.Errorf("delay %v", rest)
	}
	return err
}

func TestLeasesAreExtended(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newRig(t, 2, map[string]int{"p": 1, "q": 1}), newGates()
		r.handle = g.handle
		if err := r.extend(); err != nil {
			t.Error(err)
		}
		r.addSilently("p", "a")
		r.addSilently("q", "b")
		_, _ = r.roundTrip()
		loops := r.run()
		for range 50 {
			time.Sleep(testLease / 5)
			r.set(func() {
				for _, lease := range []time.Time{r.queues["p"].tasks["a"].lease, r.queues["q"].tasks["b"].lease} {
					if left := time.Until(lease); left < testLease*4/5 {
						t.Errorf("lease time left: %v", left)
					}
				}
			})
		}
		g.end("a", "b")
		r.stop(loops)
		r.mustBe("p", "a", "done")
		r.mustBe("q", "b", "done")
	})
}

// The lease of a finished task is extended until Redis has its outcome.
func TestLeaseOfAnUnsettledTaskIsExtended(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.addSilently("q", "a")
		_, _ = r.roundTrip()
		r.cutNext(lost)
		r.mustFail()
		time.Sleep(testLease / 2)
		if err := r.extend(); err != nil {
			t.Error(err)
		}
		if left := time.Until(r.queues["q"].tasks["a"].lease); left != testLease {
			t.Errorf("lease time left: %v", left)
		}
		r.drainWork()
		r.mustBe("q", "a", "done")
	})
}

func TestLostLease(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 2)
		causes := make(chan error, 2)
		r.handle = func(ctx context.Context, _ *Attempt) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		}
		r.addSilently("q", "taken", "gone")
		r.drainWork()
		r.set(func() {
			r.queues["q"].tasks["taken"].token = "of another"
			r.queues["q"].tasks["gone"].state = "done"
			r.sent = nil
		})
		for range 2 { // nothing to lose the second time
			if err := r.extend(); err != nil {
				t.Error(err)
			}
		}
		for range 2 {
			if cause := <-causes; !errors.Is(cause, ErrLeaseExpired) {
				t.Errorf("canceled with %v", cause)
			}
		}
		r.drainWork()
		r.mustHaveSent() // outcome irrelevant
		r.mustLog(2, "lease lost, handler canceled")
		r.mustLog(2, "outcome dropped: lease lost")
		r.mustBe("q", "taken", "active")
		r.mustBeFree()
	})
}

// A task that was settled in the meantime is not held any more, which does not count as lost.
func TestLeaseOfATaskThatIsBeingSettled(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.addSilently("q", "a")
		_, _ = r.roundTrip()
		r.cutNext(replyLost)
		r.mustFail()
		if err := r.extend(); err != nil {
			t.Error(err)
		}
		r.mustLog(0, "lease lost")
		r.drainWork()
		r.mustBeFree()
	})
}

// While Redis is unreachable, the handler runs as long as the lease can last.
func TestLeaseWhileRedisIsDown(t *testing.T) {
	for _, answer := range []error{errCut, refusal("MASTERDOWN")} {
		synctestRun(t, func(t *testing.T) {
			r := oneQueue(t, 2)
			time.Sleep(time.Hour)
			start := time.Now()
			ended := make(chan time.Duration, 1)
			r.handle = func(ctx context.Context, a *Attempt) error {
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, ErrLeaseExpired) {
					t.Errorf("%s ended with %v", a.Message.ID, cause)
				}
				ended <- time.Since(start)
				return ctx.Err()
			}
			r.addSilently("q", "a")
			_, _ = r.roundTrip()
			time.Sleep(testLease / 2)
			if err := r.extend(); err != nil {
				t.Error(err)
			}
			r.set(func() { r.failing = answer })
			if err := r.extend(); err == nil || !strings.Contains(err.Error(), answer.Error()) {
				t.Errorf("returned %v", err)
			}
			watch := runner.New(slog.New(slog.DiscardHandler), runner.Loop{Tick: r.fetcher.WatchLeases})
			watch.Start(context.Background())
			if after := <-ended; after != testLease*3/2 {
				t.Errorf("ended after %v", after)
			}
			time.Sleep(testLease) // nothing left to cancel
			if err := watch.StopAll(context.Background()); err != nil {
				t.Error(err)
			}
			r.mustLog(1, "not extended in time", "task=a")

			// no other server recovered it: the outcome counts
			r.set(func() { r.failing = nil })
			if err := r.extend(); err != nil {
				t.Error(err)
			}
			r.drainWork()
			r.mustBe("q", "a", "retry")
			r.mustBeFree()
		})
	}
}

func TestWatchLeasesInterval(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 2), newGates()
		r.handle = g.handle
		watch := func(want time.Duration) {
			t.Helper()
			if rest, err := r.fetcher.WatchLeases(context.Background()); rest != want || err != nil {
				t.Errorf("delay %v, error %v, want %v", rest, err, want)
			}
		}
		watch(testLease / 6)
		r.addSilently("q", "a", "b")
		r.drainWork()
		watch(testLease / 6)
		time.Sleep(testLease - time.Second)
		watch(time.Second)
		g.end("b") // no handler left to cancel
		r.cutNext(lost)
		r.mustFail()
		time.Sleep(time.Second - 1)
		watch(10 * time.Millisecond)
		r.mustLog(0, "not extended in time")
		time.Sleep(time.Nanosecond)
		watch(10 * time.Millisecond)
		watch(testLease / 6)
		r.mustLog(1, "not extended in time", "task=a")
		g.end("a")
	})
}

// An error of one queue does not prevent the extension of leases of others.
func TestLeasesOfOtherQueues(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newRig(t, 2, map[string]int{"broken": 1, "q": 1}), newGates()
		r.handle = g.handle
		r.addSilently("broken", "a")
		r.addSilently("q", "b")
		r.drainWork()
		r.set(func() { r.refuse["broken"] = errWrongType })
		time.Sleep(testLease / 2)
		if err := r.extend(); err != nil {
			t.Errorf("the loop backs off: %v", err)
		}
		r.mustLog(1, "leases of a queue not extended", "WRONGTYPE")
		if left := time.Until(r.queues["q"].tasks["b"].lease); left != testLease {
			t.Errorf("lease time left: %v", left)
		}
		r.set(func() { clear(r.refuse) })
		g.end("a", "b")
		r.drainWork()
		r.mustBeFree()
	})
}
