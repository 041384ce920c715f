package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// Each failed attempt adds an entry to the log of its task.
func TestAttemptLog(t *testing.T) {
	for name, c := range map[string]struct {
		handle func(ctx context.Context, r *rig) error
		kind   string // empty: no entry
		err    string
		took   int64 // milliseconds
	}{
		"error": {func(context.Context, *rig) error { time.Sleep(1500 * time.Millisecond); return errTask }, wire.AttemptFailed, "task failed", 1500},
		"panic": {func(context.Context, *rig) error { panic("no good") }, wire.AttemptPanicked, "panic: no good", 0},
		"a panic with a known error": {func(context.Context, *rig) error { panic(ErrStuck) },
			wire.AttemptPanicked, "panic: " + ErrStuck.Error(), 0},
		"methods that panic": {func(context.Context, *rig) error { return (*nilError)(nil) },
			wire.AttemptPanicked, "panic: runtime error: invalid memory address or nil pointer dereference", 0},
		"timeout": {func(ctx context.Context, _ *rig) error { <-ctx.Done(); return ctx.Err() },
			wire.AttemptTimedOut, "context deadline exceeded", 60_000},
		"canceled": {func(ctx context.Context, r *rig) error { r.pool.Cancel("a"); <-ctx.Done(); return errTask },
			wire.AttemptCanceled, "task failed", 0},
		"stuck": {func(context.Context, *rig) error { time.Sleep(time.Hour); return nil },
			wire.AttemptStuck, ErrStuck.Error() + "\ncontext deadline exceeded", 65_500},
		"skip retry":          {func(context.Context, *rig) error { return fmt.Errorf("no: %w", ErrSkipRetry) }, wire.AttemptFailed, "no: " + ErrSkipRetry.Error(), 0},
		"success":             {func(context.Context, *rig) error { return nil }, "", "", 0},
		"snooze":              {func(context.Context, *rig) error { return &RetryError{After: time.Second, Snooze: true} }, "", "", 0},
		"that does not count": {func(context.Context, *rig) error { return errNoFailure }, "", "", 0},
		"revoked":             {func(context.Context, *rig) error { return ErrRevokeTask }, "", "", 0},
		"canceled, to archive": {func(_ context.Context, r *rig) error {
			r.pool.Cancel(wire.CancelMessage("a", wire.CancelArchive))
			return errTask
		}, wire.AttemptCanceled, "task failed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctestRun(t, func(t *testing.T) {
				r := oneQueue(t, 1)
				r.cfg.AttemptLog, r.cfg.Holder = 5, func(a *Attempt) string { return "holder of " + a.Message.ID }
				r.cfg.IsFailure = func(err error) bool { return !errors.Is(err, errNoFailure) }
				r.handle = func(ctx context.Context, _ *Attempt) error { return c.handle(ctx, r) }
				r.addMessage("q", &wire.TaskMessage{Type: "test", ID: "a", Queue: "q", MaxRetry: 3, Timeout: 60, Retention: 60})
				_, _ = r.roundTrip()
				start := time.Now().UnixMilli()
				for range 140 {
					time.Sleep(500 * time.Millisecond)
					_, _ = r.fetcher.WatchStuck(t.Context())
				}
				synctest.Wait()
				_, _ = r.roundTrip()
				r.set(func() {
					log := r.queues["q"].tasks["a"].log
					if c.kind == "" {
						if len(log) != 0 {
							t.Errorf("the log is %+v", log)
						}
						return
					}
					want := wire.Attempt{Started: start, Ended: start + c.took, Kind: c.kind, Server: "holder of a", Err: c.err}
					if len(log) == 0 || log[0] != want {
						t.Errorf("the log is %+v, want %+v", log, want)
					}
				})
				time.Sleep(2 * time.Hour) // a stuck handler returns
			})
		})
	}
}

var errNoFailure = errors.New("no failure")

// Without the option, no entry is encoded.
func TestNoAttemptLog(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.handle = func(_ context.Context, a *Attempt) error { return errTask }
		r.add("q", "a")
		r.drainWork()
		r.mustBe("q", "a", "retry")
		r.set(func() {
			if log := r.queues["q"].tasks["a"].log; log != nil {
				t.Errorf("the log is %+v", log)
			}
		})
	})
}
