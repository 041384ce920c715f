package worker

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

var errCause = errors.New("the cause")

type testKey struct{}

// newRunningContext returns an attempt whose handler runs, and its context.
func newRunningContext(base context.Context, deadline time.Time) (*Attempt, *taskContext) {
	a := &Attempt{Deadline: deadline, Message: &wire.TaskMessage{}}
	return a, a.context.start(base, a)
}

func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

func mustHaveEnded(ctx context.Context, t *testing.T, err, cause error) {
	t.Helper()
	if got := ctx.Err(); got != err { //nolint:errorlint // Exactly this one.
		t.Errorf("Err is %v, want %v", got, err)
	}
	if got := context.Cause(ctx); got != cause { //nolint:errorlint // Exactly this one.
		t.Errorf("Cause is %v, want %v", got, cause)
	}
	if !isDone(ctx) {
		t.Error("Done is not closed")
	}
}

func mustContinue(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := ctx.Err(); err != nil {
		t.Errorf("Err is %v", err)
	}
	if err := context.Cause(ctx); err != nil {
		t.Errorf("Cause is %v", err)
	}
}

func TestContextDeadline(t *testing.T) {
	early, late := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	within := func(deadline time.Time) context.Context {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		t.Cleanup(cancel)
		return ctx
	}
	for _, c := range []struct {
		name      string
		base      context.Context
		own, want time.Time
	}{
		{"none", context.Background(), time.Time{}, time.Time{}},
		{"own", context.Background(), early, early},
		{"deadline of the base", within(late), time.Time{}, late},
		{"own deadline before that of the base", within(late), early, early},
		{"deadline of the base before the own", within(early), late, early},
	} {
		_, ctx := newRunningContext(c.base, c.own)
		for _, sent := range []string{"before", "after"} {
			if got, ok := ctx.Deadline(); !got.Equal(c.want) || ok == c.want.IsZero() {
				t.Errorf("%s: deadline %v, %v %s the real context was created", c.name, got, ok, sent)
			}
			ctx.Done()
		}
		ctx.cancel(nil)
	}
}

func TestContextEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ask := range []func(ctx context.Context){
			func(context.Context) {},
			func(ctx context.Context) { ctx.Done() },
		} {
			_, ctx := newRunningContext(context.Background(), time.Now().Add(time.Minute))
			ask(ctx)
			time.Sleep(time.Minute - 1)
			mustContinue(ctx, t)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			mustHaveEnded(ctx, t, context.DeadlineExceeded, context.DeadlineExceeded)
			ctx.cancel(nil)
			mustHaveEnded(ctx, t, context.DeadlineExceeded, context.DeadlineExceeded)
		}
	})
}

func TestContextEndsWithItsBase(t *testing.T) {
	for _, sent := range []bool{false, true} {
		base, cancel := context.WithCancelCause(context.Background())
		_, ctx := newRunningContext(base, time.Time{})
		if sent {
			ctx.Done()
		}
		mustContinue(ctx, t)
		cancel(errCause)
		mustHaveEnded(ctx, t, context.Canceled, errCause)
	}
}

func TestContextIsCanceled(t *testing.T) {
	ask := map[string]func(ctx context.Context){
		"nothing was called": func(context.Context) {},
		"Done was called":    func(ctx context.Context) { ctx.Done() },
		"Err was called":     func(ctx context.Context) { _ = ctx.Err() },
		"Value was called":   func(ctx context.Context) { ctx.Value(testKey{}) },
	}
	for name, ask := range ask {
		t.Run(name, func(t *testing.T) {
			for _, deadline := range []time.Time{{}, time.Now().Add(time.Hour)} {
				a, ctx := newRunningContext(context.Background(), deadline)
				ask(ctx)
				a.Cancel(errCause)
				mustHaveEnded(ctx, t, context.Canceled, errCause)
				a.Cancel(errors.New("another"))
				ctx.cancel(nil) // the handler returns
				mustHaveEnded(ctx, t, context.Canceled, errCause)
			}
		})
	}
}

func TestContextCanceledBeforeStart(t *testing.T) {
	a := &Attempt{Message: &wire.TaskMessage{}}
	a.Cancel(errCause)
	ctx := a.context.start(context.Background(), a)
	mustHaveEnded(ctx, t, context.Canceled, errCause)
	if a.canceledAt.Load() == 0 {
		t.Error("the time of the cancellation was not recorded")
	}
}

func TestContextEndsWithTheHandler(t *testing.T) {
	for _, sent := range []bool{false, true} {
		_, ctx := newRunningContext(context.Background(), time.Now().Add(time.Hour))
		if sent {
			ctx.Done()
		}
		ctx.cancel(nil)
		mustHaveEnded(ctx, t, context.Canceled, context.Canceled)
	}
}

// The context is canceled with the cause in either order of Done and Cancel.
func TestContextCanceledDuringCreation(t *testing.T) {
	for range 500 {
		a, ctx := newRunningContext(context.Background(), time.Now().Add(time.Hour))
		var both sync.WaitGroup
		both.Go(func() { a.Cancel(errCause) })
		both.Go(func() { <-ctx.Done() })
		both.Go(func() {
			for ctx.Err() == nil {
				runtime.Gosched()
			}
		})
		both.Wait()
		mustHaveEnded(ctx, t, context.Canceled, errCause)
		ctx.cancel(nil)
	}
}

func TestContextValues(t *testing.T) {
	a, ctx := newRunningContext(context.WithValue(context.Background(), testKey{}, "value"), time.Time{})
	for _, sent := range []string{"before", "after"} {
		if got := ctx.Value(testKey{}); got != "value" {
			t.Errorf("value %v %s the real context was created", got, sent)
		}
		if FromContext(ctx) != a {
			t.Errorf("wrong attempt %s the real context was created", sent)
		}
		if FromContext(context.WithValue(ctx, testKey{}, 1)) != a {
			t.Errorf("wrong attempt in a child %s the real context was created", sent)
		}
		ctx.Done()
	}
	ctx.cancel(nil)
	if FromContext(context.Background()) != nil {
		t.Error("an attempt without a handler")
	}
}

// contextGoroutines returns the number of goroutines that the standard library started to link
// contexts.
func contextGoroutines() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "created by context.")
}

// The standard library links its own contexts without a goroutine. The same must be true for ours.
func TestChildContexts(t *testing.T) {
	a, ctx := newRunningContext(context.Background(), time.Now().Add(time.Hour))
	before := contextGoroutines()
	first, cancelFirst := context.WithCancel(ctx)
	defer cancelFirst()
	second, cancelSecond := context.WithTimeout(context.WithValue(ctx, testKey{}, 1), time.Hour)
	defer cancelSecond()
	unused, cancelUnused := context.WithCancel(ctx)
	if after := contextGoroutines(); after > before {
		t.Errorf("%d goroutines were started", after-before)
	}
	cancelUnused()
	mustHaveEnded(unused, t, context.Canceled, context.Canceled)
	mustContinue(ctx, t)
	a.Cancel(errCause)
	mustHaveEnded(first, t, context.Canceled, errCause)
	mustHaveEnded(second, t, context.Canceled, errCause)
}

func TestDetachedContexts(t *testing.T) {
	a, ctx := newRunningContext(context.WithValue(context.Background(), testKey{}, "value"), time.Time{})
	detached := a.detached()
	ctx.cancel(nil)
	mustContinue(detached, t)
	if FromContext(detached) != a || detached.Value(testKey{}) != "value" {
		t.Error("the detached context has a wrong value")
	}

	never := &Attempt{Message: &wire.TaskMessage{}}
	if FromContext(never.detached()) != never {
		t.Error("the detached context of an attempt whose handler never ran lacks the attempt")
	}

	msg := &wire.TaskMessage{ID: "id", Retried: 3}
	elsewhere := FromContext(ContextFor(context.Background(), "q", msg))
	if elsewhere.Message != msg || elsewhere.Queue != "q" || elsewhere.Retried != 3 {
		t.Errorf("got %+v", elsewhere)
	}
}

// The context of a handler that does not use Done must not allocate.
func TestUnusedContextDoesNotAllocate(t *testing.T) {
	f := oneQueue(t, 1).fetcher
	f.cfg.Handle = func(ctx context.Context, a *Attempt) error {
		ctx.Deadline()
		if FromContext(ctx) != a {
			t.Error("wrong attempt")
		}
		return ctx.Err()
	}
	a := &Attempt{}
	allocations := testing.AllocsPerRun(1000, func() {
		*a = Attempt{Message: a.Message, Deadline: time.Now().Add(time.Hour)}
		if err := f.perform(a); err != nil {
			t.Error(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func TestDeadline(t *testing.T) {
	start := time.Unix(1000, 0)
	const century = 100 * 365 * 24 * 60 * 60
	for _, c := range []struct {
		timeout, deadline int64
		want              time.Time
	}{
		{0, 0, time.Time{}},
		{-1, -1, time.Unix(-1, 0)},
		{60, 0, time.Unix(1060, 0)},
		{0, 1030, time.Unix(1030, 0)},
		{60, 1030, time.Unix(1030, 0)},
		{60, 1090, time.Unix(1060, 0)},
		{century, 0, time.Unix(1000+century, 0)},
		{1 << 62, 0, start.Add(time.Duration(maxTimeout) * time.Second)},
	} {
		if got := deadline(start, c.timeout, c.deadline); !got.Equal(c.want) {
			t.Errorf("timeout %d, deadline %d: %v, want %v", c.timeout, c.deadline, got, c.want)
		}
	}
}
