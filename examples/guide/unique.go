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

// IndexDocument enqueues the indexing of a document. While it waits, further calls give it the
// newest text; while it runs, the first of them enqueues one more task.
func IndexDocument(ctx context.Context, client *asynq.Client, id string, text []byte) error {
	task := asynq.NewTask("document:index", text)
	_, err := client.EnqueueContext(ctx, task, asynq.UniqueKey("index-"+id, time.Hour), asynq.OnDuplicate(asynq.Replace))
	return err
}

// NotifyEdited enqueues a mail about a document 5 s after its last edit, at most a minute after the
// first. It expires ten minutes after the last edit if no worker has started it.
func NotifyEdited(ctx context.Context, client *asynq.Client, id string) error {
	task := asynq.NewTask("document:edited", []byte(id))
	_, err := client.EnqueueContext(ctx, task, asynq.Debounce("edited-"+id, 5*time.Second, time.Minute), asynq.ExpiresIn(10*time.Minute))
	return err
}

// RefreshFeed enqueues the refresh of a feed, at once and then at most every minute.
func RefreshFeed(ctx context.Context, client *asynq.Client, id string) error {
	task := asynq.NewTask("feed:refresh", []byte(id))
	_, err := client.EnqueueContext(ctx, task, asynq.Throttle("feed-"+id, time.Minute), asynq.OnDuplicate(asynq.Replace))
	return err
}
