// Command worker processes the tasks that the producer enqueues.
//
//	REDIS_URL=redis://127.0.0.1:6379 go run ./examples/web/worker
//
// On SIGTERM or SIGINT it stops fetching and waits for the running handlers. Tasks that do not
// finish in time return to their queue. SIGTSTP only stops fetching, as a first step of a deploy.
package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/asynq-go/asynq"

	"github.com/asynq-go/asynq/examples/web/tasks"
)

func main() {
	if err := run(); err != nil {
		slog.Error("worker failed", "error", err)
		os.Exit(1)
	}
}

func run() error {
	redis, err := asynq.ParseRedisURI(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"))
	if err != nil {
		return err
	}
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency: 20,
		// While all queues have tasks, six of ten come from the first, three from the second and
		// one from the third, so that no queue starves.
		Queues: map[string]int{tasks.QueueEmail: 6, "default": 3, "low": 1},
		// An orchestrator must wait longer than this between SIGTERM and SIGKILL.
		ShutdownTimeout: 20 * time.Second,
		ErrorHandler:    asynq.ErrorHandlerFunc(reportExhausted),
	})

	mux := asynq.NewServeMux()
	mux.Use(logAttempts)
	mux.Handle(tasks.TypeEmail, tasks.EmailHandler{Send: tasks.LogEmail})
	return server.Run(mux) // Returns after a signal, when the shutdown is complete.
}

// logAttempts is a middleware that logs each attempt at a task with its duration.
func logAttempts(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		start := time.Now()
		err := next.ProcessTask(ctx, t)

		id, _ := asynq.GetTaskID(ctx)
		retried, _ := asynq.GetRetryCount(ctx)
		log := slog.With("type", t.Type(), "task", id, "attempt", retried+1, "duration", time.Since(start))
		if err != nil {
			log.WarnContext(ctx, "attempt failed", "error", err)
		} else {
			log.InfoContext(ctx, "task done")
		}
		return err
	})
}

// reportExhausted logs the tasks without retries left. They are archived, where an operator can
// inspect them.
func reportExhausted(ctx context.Context, t *asynq.Task, err error) {
	if errors.Is(err, asynq.RevokeTask) {
		return // The handler dropped the task on purpose; it is not archived.
	}
	id, _ := asynq.GetTaskID(ctx)
	retried, _ := asynq.GetRetryCount(ctx)
	maxRetry, _ := asynq.GetMaxRetry(ctx)
	if retried >= maxRetry || errors.Is(err, asynq.SkipRetry) {
		slog.ErrorContext(ctx, "task archived", "type", t.Type(), "task", id, "error", err)
	}
}
