// Package api implements the HTTP operations on tasks, queues and workflows, and what all
// operations of the service share: decoding, problems, rules and waiting.
package api

import (
	"context"
	"log/slog"
	"slices"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
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

// API serves the operations on tasks, queues and workflows. It is safe for concurrent use.
type API struct {
	Config
	flows   *flow.Inspector
	waiting waiting
	gate    gate
}

// New returns an API.
func New(cfg Config) *API { return &API{Config: cfg, flows: flow.Inspect(cfg.Inspector)} }

// Routes returns the operations on tasks, queues and workflows.
func (a *API) Routes() []Route {
	const queue, task = "/v1/queues/{queue}", "/v1/queues/{queue}/tasks/{id}"
	tasks := []Route{
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
	return slices.Concat(tasks, a.workflowRoutes(), a.batchRoutes())
}

// audit logs a change.
func (a *API) audit(c *Call, what, queue, id string) {
	a.Log.Info("audit", "action", what, "token", c.Who.Name, "queue", queue, "task", id, "remote", c.R.RemoteAddr)
}
