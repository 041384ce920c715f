package asynq

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/asynq-go/asynq/internal/loops"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// This file is what can be changed about a running server, by its program or by an Inspector.

// errUnknownCommand is the reply of a server to a command of a newer Inspector.
var errUnknownCommand = errors.New("asynq: the server does not know this command: update its program")

func errConcurrency(n int) error {
	return fmt.Errorf("asynq: the concurrency of a server must be from 1 to 1,000,000, not %d", n)
}

// SetConcurrency changes Config.Concurrency of the server, also while it runs. Running tasks
// continue: if more run than the new limit allows, no task starts until enough of them have ended.
// It returns an error if n is less than 1 or more than 1,000,000, and ErrServerClosed after
// Shutdown.
//
// A server on a Redis Cluster that starts with less than 50 keeps a pool of three connections to
// each primary, and any server one request in flight for each: start it with more if it may
// need a high throughput later.
func (srv *Server) SetConcurrency(n int) error {
	if n < 1 || n > maxConcurrency {
		return errConcurrency(n)
	}
	if err := srv.life.Err(); err != nil {
		return err
	}
	srv.settings.Lock()
	srv.cfg.Concurrency = n
	if srv.pool != nil {
		srv.pool.Resize(n)
	}
	srv.settings.Unlock()
	wake(srv.beat)
	return nil
}

// PauseQueue stops this server from fetching tasks of a queue, until ResumeQueue. Its running tasks
// continue, other servers are not affected, and the server still maintains the queue: it recovers
// tasks and forwards those that are due. Inspector.PauseQueue pauses a queue on all servers.
//
// The pause ends with the server. Pausing a paused queue does nothing. PauseQueue returns an error
// if the queue is not one of Config.Queues, and ErrServerClosed after Shutdown.
func (srv *Server) PauseQueue(queue string) error { return srv.setPaused(queue, true) }

// ResumeQueue lets this server fetch tasks of a queue again after PauseQueue. If the queue is not
// paused on this server, it does nothing. It returns an error if the queue is not one of
// Config.Queues, and ErrServerClosed after Shutdown.
func (srv *Server) ResumeQueue(queue string) error { return srv.setPaused(queue, false) }

func (srv *Server) setPaused(queue string, paused bool) error {
	if srv.cfg.Queues[queue] == 0 {
		return fmt.Errorf("asynq: the server does not process queue %q", queue)
	}
	if err := srv.life.Err(); err != nil {
		return err
	}
	srv.settings.Lock()
	if paused {
		srv.paused[queue] = true
	} else {
		delete(srv.paused, queue)
	}
	if srv.pool != nil {
		srv.pool.PauseQueue(queue, paused)
	}
	srv.settings.Unlock()
	wake(srv.beat)
	return nil
}

// Done returns a channel that is closed when the server has shut down: by Shutdown, or because an
// Inspector stopped it (Inspector.StopServer). A program that calls Start instead of Run should end
// when either its own signal arrives or the channel is closed.
func (srv *Server) Done() <-chan struct{} { return srv.done }

// launch creates the workers and loops with the current settings.
func (srv *Server) launch() *runner.Runner {
	srv.settings.Lock()
	defer srv.settings.Unlock()
	pool, table := srv.assemble()
	for queue := range srv.paused {
		pool.PauseQueue(queue, true)
	}
	srv.pool = pool
	srv.log.Info("server started", "concurrency", srv.cfg.Concurrency, "queues", len(srv.cfg.Queues))
	return table
}

// presence returns the loop that publishes the server. It also executes commands, unless the server
// refuses them.
func (srv *Server) presence(pool *worker.Pool) runner.Loop {
	heartbeater := &loops.Heartbeater{
		Broker: srv.broker, Interval: heartbeatInterval, Snapshot: func() []loops.Server {
			info, control := srv.describe()
			return []loops.Server{{
				Process: srv.process, Info: info, Patterns: srv.patterns(), Control: control, Running: srv.workerInfos(pool.Running()),
				Parts: srv.publishedPartitions(srv.cfg.Queues, srv.parts),
			}}
		},
	}
	loop := runner.Loop{Name: "heartbeater", Stage: stagePresence, Tick: heartbeater.Tick, Wake: srv.beat}
	if !srv.cfg.DisableRemoteControl {
		remote := &loops.Remote{
			Broker: srv.broker, Process: srv.process, Log: srv.log, Execute: srv.execute, Beat: heartbeater.Tick,
		}
		loop.Tick = remote.Tick
	}
	return loop
}

// describe returns what the heartbeat publishes about the server.
func (srv *Server) describe() (info *wire.ServerInfo, control []byte) {
	srv.settings.Lock()
	defer srv.settings.Unlock()
	info = srv.info()
	state := wire.ServerControl{Refuses: srv.cfg.DisableRemoteControl}
	if len(srv.paused) > 0 {
		state.Paused = slices.Sorted(maps.Keys(srv.paused))
		info.Queues = maps.Clone(info.Queues)
		maps.DeleteFunc(info.Queues, func(queue string, _ int) bool { return srv.paused[queue] })
	}
	control, err := state.Encode()
	if err != nil {
		srv.log.Error("state of remote control not published", "error", err)
	}
	return info, control
}

// execute executes a command of an Inspector. It must not wait for transitions of the server: the
// loop that calls it ends with the server.
func (srv *Server) execute(c wire.ServerCommand) (after func(), err error) {
	switch c.Verb {
	case wire.CommandConcurrency:
		return nil, srv.SetConcurrency(c.N)
	case wire.CommandPause:
		return nil, srv.PauseQueue(c.Queue)
	case wire.CommandResume:
		return nil, srv.ResumeQueue(c.Queue)
	case wire.CommandQuiet, wire.CommandStop:
		if !srv.life.TryStop(srv.stopFetching) {
			return nil, errors.New("asynq: the server is starting: try again")
		}
		if c.Verb == wire.CommandStop {
			after = func() { go srv.Shutdown() }
		}
		return after, nil
	default:
		return nil, errUnknownCommand
	}
}

// receive passes a message of the channel of cancellations on.
func (srv *Server) receive(pool *worker.Pool) func(message string) {
	return func(message string) {
		if id, ok := wire.ParseControl(message); !ok {
			pool.Cancel(message)
		} else if id == srv.process.ID {
			wake(srv.beat)
		}
	}
}
