// Worker processes the tasks that the producer enqueues.
//
//	REDIS_URL=redis://127.0.0.1:6379 go run ./examples/web/worker
//
// On SIGTERM or SIGINT it stops fetching, lets the running handlers finish, and gives back what they did not. SIGTSTP
// only stops the fetching, as a first step of a deployment.
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
		// Of ten tasks fetched while all queues have some, six come from the first, three from the second, one from the
		// third: no queue starves.
		Queues: map[string]int{tasks.QueueEmail: 6, "default": 3, "low": 1},
		// An orchestrator that sends SIGTERM should wait longer than this before it kills.
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

// reportExhausted logs the tasks that will not be tried again: they are in the archive, where a human can look at them.
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
