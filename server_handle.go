package asynq

import (
	"context"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// handle gives an attempt to the user's handler.
func (srv *Server) handle(ctx context.Context, a *worker.Attempt) error {
	return srv.handler.ProcessTask(ctx, a.Value.(*Task))
}

// prepare makes the Task that user code gets of an attempt.
func (srv *Server) prepare(a *worker.Attempt) {
	received := &struct {
		Task
		result ResultWriter
	}{
		Task:   Task{typename: a.Message.Type, payload: a.Message.Payload, headers: a.Message.Headers},
		result: ResultWriter{broker: srv.broker, queue: a.Queue, id: a.Message.ID, token: a.Token},
	}
	received.Task.result = &received.result
	a.Value = &received.Task
}

// onError tells the ErrorHandler of a failed attempt; nil if there is none.
func (srv *Server) onError() func(ctx context.Context, a *worker.Attempt, err error) {
	if srv.cfg.ErrorHandler == nil {
		return nil
	}
	return func(ctx context.Context, a *worker.Attempt, err error) {
		srv.cfg.ErrorHandler.HandleError(ctx, a.Value.(*Task), err)
	}
}

func (srv *Server) retryDelay(a *worker.Attempt, err error) time.Duration {
	return srv.cfg.RetryDelayFunc(a.Retried, err, a.Value.(*Task))
}

// countsAsFailure asks IsFailure about a crash.
func (srv *Server) countsAsFailure(err error) bool {
	counts := true
	if panicked := worker.Contain(func() { counts = srv.cfg.IsFailure(err) }); panicked != nil {
		srv.log.Error("a callback panicked", "callback", "IsFailure", "error", panicked)
		return true
	}
	return counts
}

// reportRecovered tells the ErrorHandler of a task whose server crashed.
func (srv *Server) reportRecovered(queue string, msg *wire.TaskMessage) {
	if srv.cfg.ErrorHandler == nil {
		return
	}
	panicked := worker.Contain(func() {
		task := &Task{typename: msg.Type, payload: msg.Payload, headers: msg.Headers}
		ctx := worker.ContextFor(srv.cfg.BaseContext(), queue, msg)
		srv.cfg.ErrorHandler.HandleError(ctx, task, ErrLeaseExpired)
	})
	if panicked != nil {
		srv.log.Error("a callback panicked", "callback", "ErrorHandler", "task", msg.ID, "error", panicked)
	}
}
