// Package tasks holds what the producer and the worker share: the type of each task, its payload
// and its handler.
package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/mail"
	"strings"

	"github.com/asynq-go/asynq"
)

// TypeEmail is the type of a task that sends one email.
const TypeEmail = "email:send"

// QueueEmail is the queue of emails. Users wait for them, so the worker gives it the highest
// weight.
const QueueEmail = "critical"

// maxSubject is the longest subject in bytes: the limit of a line in RFC 5322.
const maxSubject = 998

// ErrInvalidEmail is wrapped by the errors of Email.Validate.
var ErrInvalidEmail = errors.New("invalid email")

// An Email is the payload of a task of type TypeEmail.
type Email struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

// Validate returns an error that wraps ErrInvalidEmail if e cannot be sent.
func (e Email) Validate() error {
	if _, err := mail.ParseAddress(e.To); err != nil {
		return fmt.Errorf("%w: to: %w", ErrInvalidEmail, err)
	}
	if e.Subject == "" || len(e.Subject) > maxSubject || strings.ContainsAny(e.Subject, "\r\n") {
		return fmt.Errorf("%w: subject: want one line of 1 to %d bytes", ErrInvalidEmail, maxSubject)
	}
	return nil
}

// NewEmail returns a task that sends e, or an error that wraps ErrInvalidEmail. It validates here
// rather than in the handler, because the caller can still handle the error.
func NewEmail(e Email) (*asynq.Task, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	payload, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode email: %w", err)
	}
	return asynq.NewTask(TypeEmail, payload, asynq.Queue(QueueEmail)), nil
}

// EmailHandler processes tasks of type TypeEmail.
type EmailHandler struct {
	// Send delivers the email. It may be called more than once for the same email, because a task
	// runs at least once. Use taskID as an idempotency key if the mail service accepts one.
	Send func(ctx context.Context, taskID string, e Email) error
}

// ProcessTask sends the email of t. Errors are retried, except those of the payload, which would
// fail again.
func (h EmailHandler) ProcessTask(ctx context.Context, t *asynq.Task) error {
	var e Email
	if err := json.Unmarshal(t.Payload(), &e); err != nil {
		return fmt.Errorf("decode email: %w: %w", err, asynq.SkipRetry)
	}
	id, _ := asynq.GetTaskID(ctx)
	if err := h.Send(ctx, id, e); err != nil {
		return fmt.Errorf("send email: %w", err)
	}
	return nil
}

// LogEmail writes the email to the default log, in place of a mail service.
func LogEmail(ctx context.Context, taskID string, e Email) error {
	slog.InfoContext(ctx, "email sent", "task", taskID, "to", e.To, "subject", e.Subject)
	return nil
}
