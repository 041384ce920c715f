// Package api enqueues tasks and looks at them and at queues, over HTTP, and has what all operations of the service share.
package api

import (
	"context"
	"log/slog"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service/internal/auth"
)

// Config is what an API works with.
type Config struct {
	Client    *asynq.Client
	Inspector *asynq.Inspector
	Log       *slog.Logger
	Touch     func(queue string) // is told of queues that are used
	Ended     context.Context    // ends when nobody may wait any more
}

// API answers calls. It is safe for concurrent use.
type API struct {
	Config
	watcher *watcher
	waiting waiting
	gate    gate
}

// New makes an API.
func New(cfg Config) *API {
	a := &API{Config: cfg}
	a.watcher = newWatcher(cfg.Inspector)
	return a
}

// Routes are the operations on tasks and queues.
func (a *API) Routes() []Route {
	const queue, task = "/v1/queues/{queue}", "/v1/queues/{queue}/tasks/{id}"
	return []Route{
		{"POST /v1/tasks", auth.Enqueue, a.enqueue},
		{"POST /v1/tasks/batch", auth.Enqueue, a.enqueueBatch},
		{"GET " + task, auth.Read, a.getTask},
		{"DELETE " + task, auth.Manage, a.deleteTask},
		{"POST " + task + "/cancel", auth.Manage, a.cancelTask},
		{"POST " + task + "/reschedule", auth.Manage, a.rescheduleTask},
		{"POST " + task + "/run", auth.Manage, a.runTask},
		{"POST " + task + "/archive", auth.Manage, a.archiveTask},
		{"GET /v1/queues", auth.Read, a.listQueues},
		{"GET " + queue, auth.Read, a.getQueue},
		{"POST " + queue + "/pause", auth.Manage, a.pauseQueue},
		{"POST " + queue + "/resume", auth.Manage, a.resumeQueue},
	}
}

// audit logs a change.
func (a *API) audit(c *Call, what, queue, id string) {
	a.Log.Info("audit", "action", what, "token", c.Who.Name, "queue", queue, "task", id, "remote", c.R.RemoteAddr)
}

// Close ends what runs beside the calls.
func (a *API) Close() { a.watcher.close() }
