package guide

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynq-go/asynq"
)

// TypeWelcomeEmail is the type of tasks that welcome a user.
const TypeWelcomeEmail = "email:welcome"

// WelcomeEmail is the payload of such a task.
type WelcomeEmail struct {
	UserID int `json:"user_id"`
}

// NewWelcomeEmail returns a task with the options that all tasks of its type share.
func NewWelcomeEmail(userID int) (*asynq.Task, error) {
	payload, err := json.Marshal(WelcomeEmail{UserID: userID})
	if err != nil {
		return nil, err
	}
	return asynq.NewTask(TypeWelcomeEmail, payload, asynq.MaxRetry(5), asynq.Timeout(time.Minute)), nil
}

// HandleWelcomeEmail sends one mail. A returned error makes the task run again later.
func HandleWelcomeEmail(ctx context.Context, t *asynq.Task) error {
	var email WelcomeEmail
	if err := json.Unmarshal(t.Payload(), &email); err != nil {
		return fmt.Errorf("payload: %w: %w", err, asynq.SkipRetry)
	}
	slog.InfoContext(ctx, "welcome", "user", email.UserID)
	return nil
}
