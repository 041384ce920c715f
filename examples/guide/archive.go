package guide

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynq-go/asynq"
)

// NewAlertingServer returns a server that reports each task that it archives, and waits an hour for
// the handlers of new types.
func NewAlertingServer(redis asynq.RedisConnOpt, alert func(ctx context.Context, text string) error) *asynq.Server {
	return asynq.NewServer(redis, asynq.Config{
		UnhandledFor: time.Hour,
		OnArchived: func(ctx context.Context, t *asynq.TaskInfo, err error) {
			text := fmt.Sprintf("%s %s of queue %s is archived: %v", t.Type, t.ID, t.Queue, err)
			if err := alert(ctx, text); err != nil {
				slog.Error("alert not sent", "text", text, "error", err)
			}
		},
	})
}
