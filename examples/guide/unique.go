package guide

import (
	"context"
	"errors"
	"time"

	"github.com/asynq-go/asynq"
)

// RequestReport enqueues the report of a month, unless it is already waiting or running.
func RequestReport(ctx context.Context, client *asynq.Client, month string) error {
	task := asynq.NewTask("report:monthly", []byte(month))
	_, err := client.EnqueueContext(ctx, task, asynq.Unique(time.Hour))
	if errors.Is(err, asynq.ErrDuplicateTask) {
		return nil // The other task does the work.
	}
	return err
}

// ChargeOrder enqueues the payment of an order, and returns the ID of the task. For a day, further
// calls for the same order enqueue nothing, and return the same ID.
func ChargeOrder(ctx context.Context, client *asynq.Client, orderID string) (string, error) {
	task := asynq.NewTask("order:charge", []byte(orderID))
	info, err := client.EnqueueContext(ctx, task, asynq.IdempotencyKey("charge-"+orderID, 24*time.Hour))
	if err != nil {
		return "", err // Repeat the call: it cannot enqueue a second task.
	}
	return info.ID, nil
}
