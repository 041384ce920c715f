package asynq

import (
	"context"
	"errors"

	"github.com/asynq-go/asynq/internal/rdb"
)

// ResultWriter stores the result of a task in Redis, where it is found with the task for as long as the task is kept (see
// Retention).
type ResultWriter struct {
	broker    *rdb.Broker
	queue, id string
	token     string
}

var errNoResult = errors.New("asynq: only a task that was given to a handler by a server can have a result")

// TaskID returns the ID of the task that the result is of; "" for a nil ResultWriter.
func (w *ResultWriter) TaskID() string {
	if w == nil {
		return ""
	}
	return w.id
}

// Write stores data as the result, in place of what was written before. It takes a round trip to Redis, and fails with
// ErrLeaseExpired if this server no longer holds the task. On a nil ResultWriter, which tasks have that no server gave to a handler, it
// fails. Redis takes up to 512 MB.
func (w *ResultWriter) Write(data []byte) (n int, err error) {
	if w == nil || w.broker == nil {
		return 0, errNoResult
	}
	err = w.broker.WriteResult(context.Background(), w.queue, w.id, w.token, data)
	switch {
	case errors.Is(err, rdb.ErrTokenLost), errors.Is(err, rdb.ErrTaskGone):
		return 0, ErrLeaseExpired
	case err != nil:
		return 0, err
	}
	return len(data), nil
}
