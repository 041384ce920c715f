package apiv2

import (
	"context"
	"net/http"
	"slices"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/redact"
)

// ServerPatch is a change of a running server.
type ServerPatch struct {
	Concurrency *int `json:"concurrency" doc:"How many tasks it runs at the same time, from 1 to 1,000,000."`
}

// command sends a command to a server, and responds with the server.
func (c *call) command(a access.Action, send func(ctx context.Context, id string) error) (any, error) {
	a.Server = c.id()
	if err := c.allow(a); err != nil {
		return nil, err
	}
	err := send(c.r.Context(), a.Server)
	c.done(a, err)
	if err != nil {
		return nil, err
	}
	servers, err := c.inspect().Servers()
	if err != nil {
		return nil, err
	}
	n := slices.IndexFunc(servers, func(s *asynq.ServerInfo) bool { return s.ID == a.Server })
	if n < 0 { // it was quick to shut down
		return &Server{ID: a.Server, Status: "stopped", Queues: map[string]int{}, PausedQueues: []string{}}, nil
	}
	return newServer(servers[n]), nil
}

func (c *call) quietServer() (any, error) {
	return c.command(access.Action{Verb: access.ServerQuiet}, c.api.Inspector.QuietServer)
}

func (c *call) stopServer() (any, error) {
	c.status = http.StatusAccepted
	return c.command(access.Action{Verb: access.ServerStop}, c.api.Inspector.StopServer)
}

func (c *call) patchServer() (any, error) {
	var patch ServerPatch
	if err := c.read(&patch); err != nil {
		return nil, err
	}
	if patch.Concurrency == nil || *patch.Concurrency < 1 || *patch.Concurrency > 1_000_000 {
		return nil, unprocessable("/concurrency", "must be from 1 to 1,000,000")
	}
	return c.command(access.Action{Verb: access.ServerConcurrency, Count: *patch.Concurrency}, func(ctx context.Context, id string) error {
		return c.api.Inspector.SetServerConcurrency(ctx, id, *patch.Concurrency)
	})
}

// serverQueue returns the handler of a change of a queue on one server.
func serverQueue(verb access.Verb, send func(i *asynq.Inspector, ctx context.Context, id, queue string) error) func(*call) (any, error) {
	return func(c *call) (any, error) {
		return c.command(access.Action{Verb: verb, Queue: c.queue()}, func(ctx context.Context, id string) error {
			servers, err := c.inspect().Servers()
			if err != nil {
				return err
			}
			for _, s := range servers {
				if _, known := s.Queues[c.queue()]; s.ID == id && !known && !slices.Contains(s.PausedQueues, c.queue()) {
					return problemf(http.StatusConflict, kindState, "the server does not process queue %q", c.queue())
				}
			}
			return send(c.api.Inspector, ctx, id, c.queue())
		})
	}
}

// pauseSchedule returns the handler that pauses or resumes a periodic task.
func pauseSchedule(verb access.Verb, set func(i *asynq.Inspector, ctx context.Context, entry string) error) func(*call) (any, error) {
	return func(c *call) (any, error) {
		a := access.Action{Verb: verb, Entry: c.id()}
		entries, err := c.inspect().SchedulerEntries()
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.ID == a.Entry {
				a.Queue = redact.QueueOf(e)
			}
		}
		if err := c.allow(a); err != nil {
			return nil, err
		}
		err = set(c.api.Inspector, c.r.Context(), c.id())
		c.done(a, err)
		return nil, err
	}
}
