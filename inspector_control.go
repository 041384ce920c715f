package asynq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/asynq-go/asynq/internal/wire"
)

// QuietServer makes a server stop fetching tasks, as Server.Stop and SIGTSTP do. Its running tasks
// continue. This cannot be undone: the server has to be restarted to fetch again. Quieting such a
// server again does nothing.
//
// Like all commands to a server, it returns when the server has confirmed it; Servers then shows
// its effect. It returns ErrServerNotFound if no running server has this ID, ErrRemoteControl if
// the server accepts no commands, and ErrCommandUnconfirmed if it has not replied within 10 seconds
// or until ctx ended (errors.Is).
func (i *Inspector) QuietServer(ctx context.Context, serverID string) error {
	return i.command(ctx, serverID, wire.ServerCommand{Verb: wire.CommandQuiet})
}

// StopServer shuts a server down, as Server.Shutdown does: it stops fetching, and running tasks
// have Config.ShutdownTimeout to end. Server.Run returns then, and Server.Done is closed. A program
// that calls Server.Start and waits for neither keeps running, without the server.
//
// It returns when the shutdown has begun. See QuietServer for the errors.
func (i *Inspector) StopServer(ctx context.Context, serverID string) error {
	return i.command(ctx, serverID, wire.ServerCommand{Verb: wire.CommandStop})
}

// SetServerConcurrency changes how many tasks a server runs at the same time, until it ends, as
// Server.SetConcurrency does. Running tasks continue. It returns an error if n is less than 1 or
// more than 1,000,000; see QuietServer for the others.
func (i *Inspector) SetServerConcurrency(ctx context.Context, serverID string, n int) error {
	return i.command(ctx, serverID, wire.ServerCommand{Verb: wire.CommandConcurrency, N: n})
}

// PauseServerQueue stops one server from fetching tasks of a queue, as Server.PauseQueue does,
// until ResumeServerQueue or the end of the server. Its running tasks continue. PauseQueue pauses a
// queue on all servers. It returns an error if the server does not process the queue; see
// QuietServer for the others.
func (i *Inspector) PauseServerQueue(ctx context.Context, serverID, queue string) error {
	return i.command(ctx, serverID, wire.ServerCommand{Verb: wire.CommandPause, Queue: queue})
}

// ResumeServerQueue lets one server fetch tasks of a queue again after PauseServerQueue. If the
// queue is not paused on this server, it does nothing. It does not undo PauseQueue. It returns an
// error if the server does not process the queue; see QuietServer for the others.
func (i *Inspector) ResumeServerQueue(ctx context.Context, serverID, queue string) error {
	return i.command(ctx, serverID, wire.ServerCommand{Verb: wire.CommandResume, Queue: queue})
}

// The waiting for the reply to a command. A server reads its commands at once if it receives the
// message, and otherwise with its next heartbeat.
const (
	commandWait   = 2 * heartbeatInterval
	minReplyDelay = 5 * time.Millisecond // between two looks; it doubles
	maxReplyDelay = 250 * time.Millisecond
)

// command sends a command to a server and waits for its reply.
func (i *Inspector) command(ctx context.Context, serverID string, c wire.ServerCommand) error {
	if ctx == nil {
		return errNilContext
	}
	switch {
	case c.Verb == wire.CommandConcurrency && (c.N < 1 || c.N > maxConcurrency):
		return errConcurrency(c.N)
	case c.Verb == wire.CommandPause || c.Verb == wire.CommandResume:
		if err := validateQueueName(c.Queue); err != nil {
			return err
		}
	}
	server, found, err := i.inspector.Server(ctx, serverID)
	switch {
	case err != nil:
		return brokerError(err)
	case !found:
		return fmt.Errorf("asynq: %w: %q", ErrServerNotFound, serverID)
	case server.Control == nil:
		return fmt.Errorf("asynq: %w: %q is a worker, or a server of another library", ErrRemoteControl, serverID)
	case server.Control.Refuses:
		return fmt.Errorf("asynq: %w: %q has Config.DisableRemoteControl", ErrRemoteControl, serverID)
	}
	c.ID = uuid.NewString()
	text, err := c.Encode()
	if err != nil {
		return brokerError(err)
	}
	switch err := i.broker.SendCommand(ctx, server.Key, serverID, text); {
	case err == nil:
		return i.awaitReply(ctx, server.Key, c.ID)
	case ctx.Err() != nil:
		return fmt.Errorf("asynq: %w: %w", ErrCommandUnconfirmed, err)
	default:
		return brokerError(err)
	}
}

// awaitReply returns the error of a command, once the server has replied.
func (i *Inspector) awaitReply(ctx context.Context, server, id string) error {
	bounded, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	for delay := minReplyDelay; ; delay = min(2*delay, maxReplyDelay) {
		reply, ok, err := i.broker.CommandReply(bounded, server, id)
		switch {
		case ok && reply != "":
			return errors.New(reply)
		case ok:
			return nil
		case err != nil && bounded.Err() == nil:
			return brokerError(err)
		}
		select {
		case <-time.After(delay):
		case <-bounded.Done():
			return fmt.Errorf("asynq: %w: %w", ErrCommandUnconfirmed, context.Cause(bounded))
		}
	}
}
