// Package dash is the dashboard of a task queue in a terminal.
//
// One poller in the background looks at Redis and hands snapshots to the model, which never waits for Redis itself: whatever becomes
// of the connection, keys work. What a page shows is a pure function of the model, so that it can be tested as text.
package dash

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
)

// MinRefresh is the least of Options.Refresh: what is less counts as this much.
const MinRefresh = 250 * time.Millisecond

const (
	defaultRefresh = 8 * time.Second
	// leaveWithin is how long Run waits for a call of Redis that is under way when the user leaves.
	leaveWithin = 300 * time.Millisecond
)

// Options of the dashboard.
type Options struct {
	// Inspector that the dashboard looks at queues with. It is required, and stays the caller's to close.
	Inspector *asynq.Inspector

	// Client that tasks are enqueued with. Without one, the dashboard enqueues nothing.
	Client *asynq.Client

	// Refresh is how often Redis is looked at; at least MinRefresh. Default 8 seconds.
	Refresh time.Duration

	// ReadOnly hides all that changes something, and refuses its keys.
	ReadOnly bool

	// In and Out are the terminal. Default standard input and output.
	In  io.Reader
	Out io.Writer

	// Logger is told when Redis fails and comes back. It must not write to the terminal. Default none.
	Logger *slog.Logger
}

// Run shows the dashboard until the user leaves it, which is no error, or ctx ends, whose cause it then returns.
//
// A call of Redis that is under way then may go on for as long as the connection's timeouts allow; Run does not wait for it.
func Run(ctx context.Context, o Options) error {
	if o.Inspector == nil {
		return errors.New("dash: Options.Inspector is missing")
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var program *tea.Program
	poller := newPoller(o.Inspector, refreshOf(o), o.Logger, func(msg tea.Msg) { program.Send(msg) })
	m := newModel(ctx, &o, poller)
	program = tea.NewProgram(m, programOptions(ctx, &o)...)

	done := make(chan struct{})
	go func() {
		defer close(done)
		poller.run(ctx)
	}()
	_, err := program.Run()
	cancel()
	select {
	case <-done:
	case <-time.After(leaveWithin):
	}
	switch {
	case outer.Err() != nil:
		return context.Cause(outer)
	case errors.Is(err, tea.ErrInterrupted):
		return nil
	default:
		return err
	}
}

func programOptions(ctx context.Context, o *Options) []tea.ProgramOption {
	opts := []tea.ProgramOption{tea.WithContext(ctx)}
	if o.In != nil {
		opts = append(opts, tea.WithInput(o.In))
	}
	if o.Out != nil {
		opts = append(opts, tea.WithOutput(o.Out))
	}
	return opts
}

func refreshOf(o Options) time.Duration {
	if o.Refresh <= 0 {
		return defaultRefresh
	}
	return max(o.Refresh, MinRefresh)
}
