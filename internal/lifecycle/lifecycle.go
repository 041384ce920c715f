// Package lifecycle moves a component from new to active, stopped and closed, once, and bounds how
// long its shutdown takes.
//
//	new ── Start ──> active ── Stop ──> stopped ── Shutdown ──> closed
//	 │                 └──────────── Shutdown ────────────────────┘
//	 └── Shutdown, if CloseUnstarted
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// State is a state of a component.
type State int32

// The states, in their order.
const (
	New     State = iota // not started
	Active               // running
	Stopped              // running, but takes no new work: after Stop, and during Shutdown
	Closed               // shut down
)

// String returns the state as servers publish it in Redis.
func (s State) String() string { return [...]string{"new", "active", "stopped", "closed"}[s] }

// Lifecycle is the state of one component. Its methods are safe for concurrent use. Transitions
// exclude each other: a second Shutdown waits for the first one.
type Lifecycle struct {
	// Name is the name of the component in errors and log lines, such as "server".
	Name string

	// ErrClosed is the error of a closed component.
	ErrClosed error

	// CloseUnstarted closes a component that is shut down before its start. Otherwise such a
	// Shutdown does nothing.
	CloseUnstarted bool

	// Release releases what the component holds since it was created, such as its connection. It is
	// called when the component is closed.
	Release func() error

	// Log receives the progress of a shutdown and its errors.
	Log *slog.Logger

	transition sync.Mutex // held during transitions
	state      atomic.Int32
}

// State returns the current state. It does not wait for transitions.
func (l *Lifecycle) State() State { return State(l.state.Load()) }

func (l *Lifecycle) set(s State) { l.state.Store(int32(s)) }

// Err returns ErrClosed if the component is closed.
func (l *Lifecycle) Err() error {
	if l.State() == Closed {
		return l.ErrClosed
	}
	return nil
}

// Start makes a new component active and calls start. If start fails, the component is new again.
// In any other state, Start returns an error.
func (l *Lifecycle) Start(start func() error) error {
	l.transition.Lock()
	defer l.transition.Unlock()
	switch l.State() {
	case Active:
		return fmt.Errorf("asynq: the %s is already running", l.Name)
	case Stopped:
		return fmt.Errorf("asynq: the %s was stopped: shut it down and make a new one", l.Name)
	case Closed:
		return l.ErrClosed
	}
	l.set(Active)
	err := start()
	if err != nil {
		l.set(New)
	}
	return err
}

// Stop makes an active component stopped and calls stop. In any other state it does nothing.
func (l *Lifecycle) Stop(stop func()) {
	l.transition.Lock()
	defer l.transition.Unlock()
	if l.State() == Active {
		l.set(Stopped)
		stop()
	}
}

// TryStop is like Stop, but does not wait for another transition. It reports whether the component
// is stopped, or is being stopped or closed.
func (l *Lifecycle) TryStop(stop func()) bool {
	if l.transition.TryLock() {
		defer l.transition.Unlock()
		if l.State() == Active {
			l.set(Stopped)
			stop()
		}
	}
	return l.State() >= Stopped
}

// Change calls change with whether the component is active, and waits for transitions before. It
// returns ErrClosed if the component is closed.
func (l *Lifecycle) Change(change func(active bool) error) error {
	l.transition.Lock()
	defer l.transition.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	return change(l.State() == Active)
}

// Shutdown closes the component: it calls end if the component was started, and then Release. It
// returns and logs their errors. If the component is closed, Shutdown does nothing.
func (l *Lifecycle) Shutdown(end func() error) error {
	l.transition.Lock()
	defer l.transition.Unlock()
	var err error
	switch state := l.State(); {
	case state == Closed || state == New && !l.CloseUnstarted:
		return nil
	case state == New:
		l.set(Closed)
		err = l.Release()
	default:
		l.Log.Info(l.Name + " shutting down")
		l.set(Stopped)
		err = end()
		l.set(Closed)
		if err = errors.Join(err, l.Release()); err == nil {
			l.Log.Info(l.Name + " shut down")
		}
	}
	if err != nil {
		l.Log.Error("shutdown incomplete", "error", err)
	}
	return err
}

// Steps are the last steps of a shutdown. Their time limits count from the first one, so that a
// shutdown is bounded when Redis is unreachable.
type Steps struct {
	began time.Time
	errs  []error
}

// Run calls step and waits for it until limit has passed since the first step.
func (s *Steps) Run(limit time.Duration, step func(ctx context.Context) error) {
	if s.began.IsZero() {
		s.began = time.Now()
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.began.Add(limit))
	defer cancel()
	s.errs = append(s.errs, await(ctx, step))
}

// Err returns the errors of all steps.
func (s *Steps) Err() error { return errors.Join(s.errs...) }

// Within calls step and waits for it until limit has passed or ctx has ended.
func Within(ctx context.Context, limit time.Duration, step func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return await(ctx, step)
}

// await waits for step until ctx ends. step may take longer, because commands to an unreachable
// Redis have longer timeouts of their own.
func await(ctx context.Context, step func(ctx context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- step(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("asynq: timed out waiting for Redis: %w", ctx.Err())
	}
}
