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

// TaskID returns the ID of the task that the result is of.
func (w *ResultWriter) TaskID() string { return w.id }

// Write stores data as the result, in place of what was written before. It takes a round trip to Redis, and fails with
// ErrLeaseExpired if this server no longer holds the task.
func (w *ResultWriter) Write(data []byte) (n int, err error) {
	err = w.broker.WriteResult(context.Background(), w.queue, w.id, w.token, data)
	switch {
	case errors.Is(err, rdb.ErrTokenLost), errors.Is(err, rdb.ErrTaskGone):
		return 0, ErrLeaseExpired
	case err != nil:
		return 0, err
	}
	return len(data), nil
}
