package guide

import (
	"context"

	"github.com/asynq-go/asynq"
)

// Serve processes tasks until ctx ends, and then shuts the server down. It suits programs that
// handle signals themselves; Server.Run does the same for SIGTERM and SIGINT.
func Serve(ctx context.Context, srv *asynq.Server, handler asynq.Handler) error {
	if err := srv.Start(handler); err != nil {
		return err
	}
	<-ctx.Done()
	srv.Shutdown()
	return nil
}

// Reindex processes a long task in steps, and stops between two of them when its context ends: at
// its deadline, at a shutdown, or when the task is canceled.
func Reindex(ctx context.Context, t *asynq.Task) error {
	for _, b := range t.Payload() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		process(b)
	}
	return nil
}

// process stands for one step of a long task.
func process(byte) {}
