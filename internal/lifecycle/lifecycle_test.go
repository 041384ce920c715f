package lifecycle_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/lifecycle"
)

var errClosed = errors.New("closed")

// component counts the calls of its Lifecycle.
type component struct {
	lifecycle.Lifecycle
	log                            strings.Builder
	started, stopped, ended, freed atomic.Int32
}

func newComponent() *component {
	c := &component{}
	c.Name, c.ErrClosed, c.Log = "thing", errClosed, slog.New(slog.NewTextHandler(&c.log, nil))
	c.Release = func() error { c.freed.Add(1); return nil }
	return c
}

func (c *component) start() error    { return c.Start(func() error { c.started.Add(1); return nil }) }
func (c *component) stop()           { c.Stop(func() { c.stopped.Add(1) }) }
func (c *component) shutdown() error { return c.Shutdown(func() error { c.ended.Add(1); return nil }) }

// want checks the state and how often each function was called.
func (c *component) want(t *testing.T, state string, started, stopped, ended, freed int32) {
	t.Helper()
	if got := c.State().String(); got != state {
		t.Errorf("state %q, want %q", got, state)
	}
	got := [4]int32{c.started.Load(), c.stopped.Load(), c.ended.Load(), c.freed.Load()}
	if want := [4]int32{started, stopped, ended, freed}; got != want {
		t.Errorf("calls of start, stop, end and Release: %v, want %v", got, want)
	}
}

func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want %q", err, text)
	}
}

func TestOrder(t *testing.T) {
	c := newComponent()
	c.stop()
	if err := errors.Join(c.shutdown(), c.Err()); err != nil {
		t.Errorf("Shutdown before Start: %v", err)
	}
	c.want(t, "new", 0, 0, 0, 0)
	wantError(t, c.Start(func() error { return io.EOF }), "EOF")
	c.want(t, "new", 0, 0, 0, 0)
	if err := c.start(); err != nil {
		t.Errorf("Start after one that failed: %v", err)
	}
	c.want(t, "active", 1, 0, 0, 0)
	wantError(t, c.start(), "asynq: the thing is already running")
	c.stop()
	c.stop()
	c.want(t, "stopped", 1, 1, 0, 0)
	wantError(t, c.start(), "asynq: the thing was stopped: shut it down and make a new one")
	if err := errors.Join(c.Err(), c.shutdown(), c.shutdown()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	c.stop()
	wantError(t, c.start(), "closed")
	c.want(t, "closed", 1, 1, 1, 1)
	wantError(t, c.Err(), "closed")
}

func TestCloseUnstarted(t *testing.T) {
	c := newComponent()
	c.CloseUnstarted = true
	if err := errors.Join(c.shutdown(), c.shutdown()); err != nil {
		t.Error(err)
	}
	wantError(t, c.start(), "closed")
	c.want(t, "closed", 0, 0, 0, 1)
	if c.log.Len() > 0 {
		t.Errorf("logged %s", c.log.String())
	}
}

func TestChange(t *testing.T) {
	c := newComponent()
	for _, state := range []string{"new", "active", "stopped"} {
		err := c.Change(func(active bool) error {
			if active != (state == "active") {
				t.Errorf("%s: active is %v", state, active)
			}
			return io.EOF
		})
		wantError(t, err, "EOF")
		if state == "new" {
			_ = c.start()
		} else {
			c.stop()
		}
	}
	_ = c.shutdown()
	wantError(t, c.Change(func(bool) error { return nil }), "closed")
}

// TryStop does not wait for a transition, and reports whether the component is on its way to stop.
func TestTryStop(t *testing.T) {
	c := newComponent()
	try := func(want bool) {
		t.Helper()
		if got := c.TryStop(func() { c.stopped.Add(1) }); got != want {
			t.Errorf("TryStop returns %t in state %s", got, c.State())
		}
	}
	try(false)
	if err := c.Start(func() error { try(false); return nil }); err != nil {
		t.Fatal(err)
	}
	c.want(t, "active", 0, 0, 0, 0)
	try(true)
	try(true)
	c.want(t, "stopped", 0, 1, 0, 0)
	if err := c.Shutdown(func() error { try(true); return nil }); err != nil {
		t.Fatal(err)
	}
	try(true)
	c.want(t, "closed", 0, 1, 0, 1)
}

func TestShutdownErrors(t *testing.T) {
	c := newComponent()
	_ = c.start()
	c.Release = func() error { return io.ErrClosedPipe }
	err := c.Shutdown(func() error {
		if c.State() != lifecycle.Stopped {
			t.Errorf("the state during a shutdown is %v", c.State())
		}
		return io.EOF
	})
	if !errors.Is(err, io.EOF) || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v, want those of both functions", err)
	}
	if log := c.log.String(); !strings.Contains(log, "thing shutting down") || !strings.Contains(log, "shutdown incomplete") ||
		strings.Contains(log, "shut down\"") {
		t.Errorf("log:\n%s", log)
	}
}

// Transitions that run at the same time exclude each other: each happens once, and no Shutdown
// returns before the component is closed.
func TestConcurrentCalls(t *testing.T) {
	c := newComponent()
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	ending, proceed := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_ = c.Shutdown(func() error {
				c.ended.Add(1)
				close(ending)
				<-proceed
				return nil
			})
			if c.State() != lifecycle.Closed {
				t.Errorf("state %v after Shutdown", c.State())
			}
		})
	}
	<-ending
	for range 4 {
		all.Go(c.stop)
		all.Go(func() { wantError(t, c.start(), "closed") })
	}
	if err := c.Err(); err != nil { // does not wait
		t.Errorf("during the shutdown: %v", err)
	}
	close(proceed)
	all.Wait()
	c.want(t, "closed", 1, 0, 1, 1)
}

func TestConcurrentStarts(t *testing.T) {
	c := newComponent()
	var all sync.WaitGroup
	var succeeded atomic.Int32
	for range 10 {
		all.Go(func() {
			if c.start() == nil {
				succeeded.Add(1)
			}
		})
		all.Go(func() { _ = c.shutdown() })
	}
	all.Wait()
	if n := succeeded.Load(); n != 1 {
		t.Errorf("%d calls of Start succeeded", n)
	}
	_ = c.shutdown()
	c.want(t, "closed", 1, 0, 1, 1)
}

func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		blocked := func(context.Context) error { <-proceed; return nil } // ignores its context
		began := time.Now()
		var s lifecycle.Steps
		s.Run(time.Second, func(context.Context) error { return io.EOF })
		s.Run(time.Second, blocked)
		s.Run(3*time.Second, blocked)
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("the steps took %v, want 3 s", d)
		}
		s.Run(2*time.Second, func(ctx context.Context) error { return ctx.Err() })
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("a step after its limit took until %v", d)
		}
		if err := s.Err(); !errors.Is(err, io.EOF) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want those of all steps", err)
		}
		close(proceed)
	})
}

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Minute); return nil }
		began := time.Now()
		wantError(t, lifecycle.Within(t.Context(), time.Second, wait), "timed out waiting for Redis")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		wantError(t, lifecycle.Within(ctx, time.Hour, wait), "deadline exceeded")
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("took %v, want 1 s and 2 s", d)
		}
		if err := lifecycle.Within(ctx, time.Hour, func(context.Context) error { return io.EOF }); err == nil {
			t.Error("no error")
		}
		time.Sleep(2 * time.Minute)
	})
}
