// Package dash implements the terminal dashboard.
//
// A poller in the background reads Redis and sends snapshots to the model. The model never waits
// for Redis, so keys work even without a connection. The screen is a pure function of the model, so
// tests compare it as text.
package dash

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
)

// MinRefresh is the minimum of Options.Refresh. Run raises shorter intervals to it.
const MinRefresh = 250 * time.Millisecond

const (
	defaultRefresh = 8 * time.Second
	// exitTimeout is how long Run waits for an in-flight call to Redis when the user quits.
	exitTimeout = 300 * time.Millisecond
)

// Options configures the dashboard.
type Options struct {
	// Inspector reads and changes queues and tasks. It is required. Run does not close it.
	Inspector *asynq.Inspector

	// Client enqueues tasks. If nil, the dashboard cannot enqueue tasks.
	Client *asynq.Client

	// Refresh is the refresh interval, at least MinRefresh. The default is 8 seconds.
	Refresh time.Duration

	// ReadOnly hides and disables all changes.
	ReadOnly bool

	// Target describes the connection: the context, the server, the database and the namespace. It
	// is shown under the tabs and in confirmations. If empty, nothing is shown.
	Target string

	// User is the name of the user who mutes causes. It may be empty.
	User string

	// Health are the thresholds of causes. Run returns an error if they are invalid.
	Health health.Settings

	// Context is the name of the context, if any.
	Context string

	// Editor is the command line of the editor of payloads. If empty, payloads cannot be edited.
	Editor []string

	// Protected makes each confirmation require the name of the context.
	Protected bool

	// In and Out are the terminal. The defaults are standard input and output.
	In  io.Reader
	Out io.Writer

	// Logger logs when Redis becomes unreachable and reachable again. It must not write to the
	// terminal. If nil, nothing is logged.
	Logger *slog.Logger
}

// Run shows the dashboard until the user quits or ctx ends. It returns nil if the user quits, and
// the cause of ctx if ctx ends.
//
// Run does not wait for in-flight calls to Redis, which may continue until the connection times
// out.
func Run(ctx context.Context, o Options) error {
	if o.Inspector == nil {
		return errors.New("dash: Options.Inspector is required")
	}
	if err := o.Health.Validate(); err != nil {
		return err
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var program *tea.Program
	poller := newPoller(&o, func(msg tea.Msg) { program.Send(msg) })
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
	case <-time.After(exitTimeout):
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
