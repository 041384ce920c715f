package guide

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
)

// BuildReport builds the report of a month, and writes its address as the result of the task.
func BuildReport(_ context.Context, t *asynq.Task) error {
	if len(t.Payload()) == 0 {
		return fmt.Errorf("no month: %w", asynq.SkipRetry)
	}
	_, err := t.ResultWriter().Write([]byte("https://reports.example.com/" + string(t.Payload())))
	return err
}

// ReportAddress enqueues the report of a month, and waits for its address, at most until ctx ends.
func ReportAddress(ctx context.Context, client *asynq.Client, month string) (string, error) {
	task := asynq.NewTask("report:build", []byte(month), asynq.MaxRetry(2), asynq.Retention(24*time.Hour))
	info, err := client.EnqueueAndWait(ctx, task)
	var failed *asynq.TaskFailedError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("report of %q: %s", month, failed.Info.LastErr) // archived: no retry left
	}
	if err != nil {
		return "", err // not enqueued; or ctx has ended, and the task continues
	}
	return string(info.Result), nil
}
