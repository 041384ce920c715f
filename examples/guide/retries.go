package guide

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/asynq-go/asynq"
)

// CallWebhook calls the URL in the payload. What it returns decides about the next attempt.
func CallWebhook(ctx context.Context, t *asynq.Task) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, string(t.Payload()), http.NoBody)
	if err != nil {
		return fmt.Errorf("%w: %w", asynq.SkipRetry, err) // archived at once
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err // retried after the delay of RetryDelayFunc
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusTooManyRequests:
		return asynq.RetryAfter(30 * time.Second) // retried, with a delay of its own
	case http.StatusServiceUnavailable:
		return asynq.Snooze(10 * time.Minute) // runs again without using an attempt
	case http.StatusGone:
		return asynq.RevokeTask // ends here, and is not archived
	default:
		return fmt.Errorf("webhook: %s", resp.Status)
	}
}

// RetryDelay waits 10 s after the first failure, and twice as long after each further one, up to an
// hour. Set it as Config.RetryDelayFunc.
func RetryDelay(failures int, _ error, _ *asynq.Task) time.Duration {
	return min(10*time.Second<<min(failures, 9), time.Hour)
}

// LogFailure logs a failed attempt. Set it as Config.ErrorHandler, with asynq.ErrorHandlerFunc.
func LogFailure(ctx context.Context, t *asynq.Task, err error) {
	id, _ := asynq.GetTaskID(ctx)
	before, _ := asynq.GetRetryCount(ctx)
	slog.WarnContext(ctx, "attempt failed", "task", id, "type", t.Type(), "attempt", before+1, "error", err)
}
