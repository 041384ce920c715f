// Package clone enqueues copies of tasks.
package clone

import (
	"context"
	"time"

	"github.com/asynq-go/asynq"
)

// Enqueue enqueues a copy of a task with a new ID, in the same queue. The options come after those
// of the task. A copy has the type, payload, headers, maximum number of retries, timeout and
// retention of the task, and its deadline unless that has passed. It has no uniqueness lock, group
// or expiry.
func Enqueue(ctx context.Context, c *asynq.Client, t *asynq.TaskInfo, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	same := []asynq.Option{asynq.Queue(t.Queue), asynq.MaxRetry(t.MaxRetry), asynq.Timeout(t.Timeout), asynq.Retention(t.Retention)}
	if t.Deadline.After(time.Now()) {
		same = append(same, asynq.Deadline(t.Deadline))
	}
	return c.EnqueueContext(ctx, asynq.NewTaskWithHeaders(t.Type, t.Payload, t.Headers), append(same, opts...)...)
}
