package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// mustHaveProgress checks the progress of a task, and when it was written, in milliseconds from
// start.
func (r *rig) mustHaveProgress(id, want string, start time.Time, at ...int64) {
	r.t.Helper()
	r.set(func() {
		task := r.queues["q"].tasks[id]
		var times []int64
		for _, written := range task.reports {
			times = append(times, written.Sub(start).Milliseconds())
		}
		if task.progress != want || fmt.Sprint(times) != fmt.Sprint(at) {
			r.t.Errorf("the progress of %s is %q, written at %v ms; want %q at %v ms", id, task.progress, times, want, at)
		}
	})
}

func (a *Attempt) mustReport(t *testing.T, data string) {
	t.Helper()
	if err := a.WriteProgress(t.Context(), []byte(data)); err != nil {
		t.Error(err)
	}
}

// The first progress is written at once, then the last one of each second, and the last one of all
// with the outcome.
func TestProgressOncePerSecond(t *testing.T) {
	for _, failure := range []error{nil, errTask} {
		synctestRun(t, func(t *testing.T) {
			r := oneQueue(t, 1)
			start := time.Now()
			r.handle = func(_ context.Context, a *Attempt) error {
				for i := range 35 {
					a.mustReport(t, fmt.Sprint(i))
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(2 * time.Second) // the last one is written
				a.mustReport(t, "late")
				time.Sleep(10 * time.Millisecond)
				a.mustReport(t, "with the outcome")
				return failure
			}
			r.addRetained("a")
			_, _ = r.roundTrip()
			time.Sleep(4900 * time.Millisecond)
			r.mustHaveProgress("a", "34", start, 1, 1002, 2003, 3004, 4005)
			time.Sleep(time.Second)
			synctest.Wait()
			r.drainWork()
			r.mustHaveProgress("a", "with the outcome", start, 1, 1002, 2003, 3004, 4005, 5501)
			time.Sleep(time.Hour)
			r.mustHaveProgress("a", "with the outcome", start, 1, 1002, 2003, 3004, 4005, 5501)
			r.mustBeFree()
		})
	}
}

// The reports of several attempts share a request.
func TestProgressSharesRequests(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 10), newGates()
		r.handle = func(ctx context.Context, a *Attempt) error {
			a.mustReport(t, "half")
			return g.handle(ctx, a)
		}
		for i := range 10 {
			r.addRetained(fmt.Sprint(i))
		}
		_, _ = r.roundTrip()
		time.Sleep(time.Second)
		r.mustHaveWritten(10)
		for i := range 10 {
			g.end(fmt.Sprint(i))
		}
		r.drainWork()
		r.mustHaveWritten(10)
		r.mustBeFree()
	})
}

// Progress that cannot be stored is kept, and sent a second later or with the outcome.
func TestProgressIsRepeated(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 2), newGates()
		start := time.Now()
		r.handle = func(ctx context.Context, a *Attempt) error {
			a.mustReport(t, "half")
			return g.handle(ctx, a)
		}
		r.addRetained("a", "b")
		r.set(func() { r.failing = errCut })
		_, _ = r.roundTrip()
		time.Sleep(2500 * time.Millisecond)
		r.mustHaveProgress("a", "", start)
		r.mustLog(1, "progress not stored", "tasks=2")
		g.end("b")
		r.set(func() { r.failing = nil })
		r.drainWork()
		r.mustHaveProgress("b", "half", start)
		time.Sleep(time.Second)
		r.mustHaveProgress("a", "half", start, 3004)
		g.end("a")
		r.drainWork()
		r.mustHaveProgress("a", "half", start, 3004)
		r.mustBeFree()
	})
}

// Redis reports with the reply to progress that the lease is lost.
func TestProgressOfLostLease(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		var late error
		r.handle = func(ctx context.Context, a *Attempt) error {
			r.set(func() { r.queues["q"].tasks["a"].token = "of another" })
			a.mustReport(t, "half")
			<-ctx.Done()
			late = a.WriteProgress(t.Context(), []byte("more"))
			return context.Cause(ctx)
		}
		r.addRetained("a")
		_, _ = r.roundTrip()
		time.Sleep(2 * resultLinger)
		synctest.Wait()
		if !errors.Is(late, ErrLeaseExpired) {
			t.Errorf("the next report returned %v", late)
		}
		r.mustHaveProgress("a", "", time.Now())
		r.mustLog(1, "lease lost, handler canceled", "task=a")
		r.mustBeFree()
	})
}

// The holder of a lease waits until its progress is stored.
func TestProgressOfReceiver(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newReceiverRig(t)
		r.addRetained("a", "b")
		var all sync.WaitGroup
		all.Go(func() {
			attempts, err := r.pool.Receive(t.Context(), 2, []string{"q"})
			if err != nil {
				t.Error(err)
				return
			}
			start := time.Now()
			for _, a := range attempts {
				all.Go(func() {
					for i := range int64(3) {
						a.mustReport(t, fmt.Sprint(i))
						r.mustHaveProgress(a.Message.ID, fmt.Sprint(i), start, []int64{1, 2, 3}[:i+1]...)
					}
				})
			}
		})
		synctest.Wait()
		_, _ = r.roundTrip()
		all.Wait()
		r.mustHaveWritten(2, 2, 2)
	})
}
