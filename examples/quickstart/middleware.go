package main

import (
	"context"

	"github.com/asynq-go/asynq"
)

// An event is the start or the end of one attempt at a task.
type event struct {
	task    *asynq.Task
	retried int   // attempts that failed before this one
	ended   bool  // the handler has returned
	err     error // what it returned
}

// announce returns a middleware that reports the start and the end of each attempt on events.
//
// Handlers run at the same time on many goroutines. The channel puts their reports in one order,
// and the goroutine at its other end is the only one that prints and counts.
func announce(events chan<- event) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			retried, _ := asynq.GetRetryCount(ctx)
			send(ctx, events, event{task: t, retried: retried})
			err := next.ProcessTask(ctx, t)
			send(ctx, events, event{task: t, retried: retried, ended: true, err: err})
			return err
		})
	}
}

// send reports e, unless ctx ends first.
func send(ctx context.Context, events chan<- event, e event) {
	select {
	case events <- e:
	case <-ctx.Done():
	}
}
