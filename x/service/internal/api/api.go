// Package api implements the HTTP operations on tasks and queues, and what all operations of the
// service share: decoding, problems, rules and waiting.
package api

import (
	"context"
	"log/slog"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service/internal/auth"
)

// Config configures an API.
type Config struct {
	Client    *asynq.Client
	Inspector *asynq.Inspector
	Log       *slog.Logger
	Touch     func(queue string) // called with each queue that has received or delivered a task
	Ended     context.Context    // ends all waits
}

// API serves the operations on tasks and queues. It is safe for concurrent use.
type API struct {
	Config
	waiting waiting
	gate    gate
}

// New returns an API.
func New(cfg Config) *API { return &API{Config: cfg} }

// Routes returns the operations on tasks and queues.
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
		{"DELETE " + queue, auth.Manage, a.deleteQueue},
		{"POST " + queue + "/pause", auth.Manage, a.pauseQueue},
		{"POST " + queue + "/resume", auth.Manage, a.resumeQueue},
	}
}

// audit logs a change.
func (a *API) audit(c *Call, what, queue, id string) {
	a.Log.Info("audit", "action", what, "token", c.Who.Name, "queue", queue, "task", id, "remote", c.R.RemoteAddr)
}
