package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/runner"
)

func (r *rig) extend() error {
	r.t.Helper()
	rest, err := r.pump.ExtendLeases(context.Background())
	if rest != testLease/6 {
		r.t.Errorf("rests for %v", rest)
	}
	return err
}

func TestLeasesAreExtended(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newRig(t, 2, map[string]int{"p": 1, "q": 1}), newGates()
		r.handle = g.handle
		if err := r.extend(); err != nil {
			t.Error(err)
		}
		r.addSilently("p", "a")
		r.addSilently("q", "b")
		_, _ = r.turn()
		loops := r.run()
		for range 50 {
			time.Sleep(testLease / 5)
			r.set(func() {
				for _, lease := range []time.Time{r.queues["p"].tasks["a"].lease, r.queues["q"].tasks["b"].lease} {
					if left := time.Until(lease); left < testLease*4/5 {
						t.Errorf("a lease lasts for only %v", left)
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

// The lease of a finished task lasts until Redis has its outcome.
func TestLeaseOfAnUnsettledTaskIsExtended(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.addSilently("q", "a")
		_, _ = r.turn()
		r.cutNext(lost)
		r.mustFail()
		time.Sleep(testLease / 2)
		if err := r.extend(); err != nil {
			t.Error(err)
		}
		if left := time.Until(r.queues["q"].tasks["a"].lease); left != testLease {
			t.Errorf("the lease lasts for %v", left)
		}
		r.settled()
		r.mustBe("q", "a", "done")
	})
}

func TestLostLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 2)
		causes := make(chan error, 2)
		r.handle = func(ctx context.Context, _ *Attempt) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		}
		r.addSilently("q", "taken", "gone")
		r.settled()
		r.set(func() {
			r.queues["q"].tasks["taken"].token = "of another"
			r.queues["q"].tasks["gone"].state = "done"
			r.asked = nil
		})
		for range 2 { // the second time there is nothing to be lost any more
			if err := r.extend(); err != nil {
				t.Error(err)
			}
		}
		for range 2 {
			if cause := <-causes; !errors.Is(cause, ErrLeaseExpired) {
				t.Errorf("canceled with %v", cause)
			}
		}
		r.settled()
		r.mustHaveAsked() // what comes of it is nobody's business
		r.mustLog(2, "lease was lost; its handler is canceled")
		r.mustLog(2, "is dropped, because its lease was lost")
		r.mustBe("q", "taken", "active")
		r.mustBeFree()
	})
}

// That a task which is settled in this moment is not held any more says nothing.
func TestLeaseOfATaskThatIsBeingSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.addSilently("q", "a")
		_, _ = r.turn()
		r.cutNext(unanswered)
		r.mustFail()
		if err := r.extend(); err != nil {
			t.Error(err)
		}
		r.mustLog(0, "lease was lost")
		r.settled()
		r.mustBeFree()
	})
}

// While Redis cannot be reached, the handler goes on as long as the lease can have lasted.
func TestLeaseWhileRedisIsGone(t *testing.T) {
	for _, answer := range []error{errCut, refusal("MASTERDOWN")} {
		bubble(t, func(t *testing.T) {
			r := oneQueue(t, 2)
			time.Sleep(time.Hour)
			begun := time.Now()
			ended := make(chan time.Duration, 1)
			r.handle = func(ctx context.Context, a *Attempt) error {
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, ErrLeaseExpired) {
					t.Errorf("%s ended with %v", a.Message.ID, cause)
				}
				ended <- time.Since(begun)
				return ctx.Err()
			}
			r.addSilently("q", "a")
			_, _ = r.turn()
			time.Sleep(testLease / 2)
			if err := r.extend(); err != nil {
				t.Error(err)
			}
			r.set(func() { r.failing = answer })
			if err := r.extend(); err == nil || !strings.Contains(err.Error(), answer.Error()) {
				t.Errorf("got %v", err)
			}
			watch := runner.New(runner.Options{}, runner.Loop{Tick: r.pump.WatchLeases})
			watch.Start(context.Background())
			if after := <-ended; after != testLease*3/2 {
				t.Errorf("ended after %v", after)
			}
			time.Sleep(testLease) // nothing is left to be ended
			if err := watch.StopAll(context.Background()); err != nil {
				t.Error(err)
			}
			r.mustLog(1, "could not be extended", "task=a")

			// Nobody took it in the meantime: the outcome counts.
			r.set(func() { r.failing = nil })
			if err := r.extend(); err != nil {
				t.Error(err)
			}
			r.settled()
			r.mustBe("q", "a", "retry")
			r.mustBeFree()
		})
	}
}

func TestWatchLeasesPace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := oneQueue(t, 2), newGates()
		r.handle = g.handle
		watch := func(want time.Duration) {
			t.Helper()
			if rest, err := r.pump.WatchLeases(context.Background()); rest != want || err != nil {
				t.Errorf("rest of %v, error %v, want %v", rest, err, want)
			}
		}
		watch(testLease / 6)
		r.addSilently("q", "a", "b")
		r.settled()
		watch(testLease / 6)
		time.Sleep(testLease - time.Second)
		watch(time.Second)
		g.end("b") // no handler of it is left to be ended
		r.cutNext(lost)
		r.mustFail()
		time.Sleep(time.Second - 1)
		watch(10 * time.Millisecond)
		r.mustLog(0, "could not be extended")
		time.Sleep(time.Nanosecond)
		watch(10 * time.Millisecond)
		watch(testLease / 6)
		r.mustLog(1, "could not be extended", "task=a")
		g.end("a")
	})
}

// One broken queue does not keep the leases of others from being extended.
func TestLeasesOfOtherQueues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newRig(t, 2, map[string]int{"broken": 1, "q": 1}), newGates()
		r.handle = g.handle
		r.addSilently("broken", "a")
		r.addSilently("q", "b")
		r.settled()
		r.set(func() { r.refuse["broken"] = errWrongType })
		time.Sleep(testLease / 2)
		if err := r.extend(); err != nil {
			t.Errorf("the loop backs off: %v", err)
		}
		r.mustLog(1, "leases of a queue could not be extended", "WRONGTYPE")
		if left := time.Until(r.queues["q"].tasks["b"].lease); left != testLease {
			t.Errorf("the lease lasts for %v", left)
		}
		r.set(func() { clear(r.refuse) })
		g.end("a", "b")
		r.settled()
		r.mustBeFree()
	})
}
