package loops

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// RemoteBroker is the part of rdb.Broker that a Remote uses.
type RemoteBroker interface {
	Commands(ctx context.Context, p wire.Process) ([]string, error)
	ConfirmCommands(ctx context.Context, p wire.Process, results ...rdb.CommandResult) error
}

// Remote executes the commands of Inspectors with the heartbeat of a server. A command is read
// before a heartbeat and confirmed after it, so that a caller that has the reply finds its effects
// published. A message on the channel of cancellations only makes the heartbeat earlier: if it is
// lost, the command is executed with the next one.
type Remote struct {
	Broker  RemoteBroker
	Process wire.Process
	Log     *slog.Logger

	// Execute executes a command. Unless after is nil, it is called when the tick ends, whether or
	// not the command was confirmed.
	Execute func(c wire.ServerCommand) (after func(), err error)

	// Beat is the tick of the heartbeat.
	Beat func(ctx context.Context) (time.Duration, error)

	executed []rdb.CommandResult // not confirmed yet
	refused  bool                // the last attempt to read commands
}

// Tick executes the commands that have arrived, and makes a heartbeat.
func (r *Remote) Tick(ctx context.Context) (time.Duration, error) {
	commands, err := r.Broker.Commands(ctx, r.Process)
	if refused := script.Refused(err); refused != r.refused {
		if r.refused = refused; refused {
			r.Log.Warn("remote control is unavailable: Redis rejected reading the commands", "error", err)
		}
	}
	var afters []func()
	for _, command := range commands {
		if slices.ContainsFunc(r.executed, func(e rdb.CommandResult) bool { return e.Command == command }) {
			continue
		}
		if after := r.execute(command); after != nil {
			afters = append(afters, after)
		}
	}
	defer func() {
		for _, after := range afters {
			after()
		}
	}()
	delay, beatErr := r.Beat(ctx)
	switch {
	case beatErr != nil:
		return 0, beatErr
	case len(r.executed) > 0:
		if err := r.Broker.ConfirmCommands(ctx, r.Process, r.executed...); err != nil {
			return 0, err
		}
		r.executed = nil
	}
	return delay, script.IgnoreRefused(err)
}

// execute executes one command and keeps its result.
func (r *Remote) execute(command string) (after func()) {
	c, err := wire.DecodeServerCommand(command)
	if err == nil {
		after, err = r.Execute(c)
	}
	result := rdb.CommandResult{Command: command, ID: c.ID}
	if err != nil {
		result.Reply = err.Error()
		r.Log.Warn("command not executed", "command", c.Verb, "queue", c.Queue, "n", c.N, "error", err)
	} else {
		r.Log.Info("command executed", "command", c.Verb, "queue", c.Queue, "n", c.N)
	}
	r.executed = append(r.executed, result)
	return after
}
