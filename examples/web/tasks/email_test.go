package tasks_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"

	"github.com/asynq-go/asynq/examples/web/tasks"
)

func TestNewEmailAndHandlerAgreeOnThePayload(t *testing.T) {
	want := tasks.Email{To: "ada@example.com", Subject: "Welcome"}
	task, err := tasks.NewEmail(want)
	if err != nil {
		t.Fatal(err)
	}

	var got tasks.Email
	handler := tasks.EmailHandler{Send: func(_ context.Context, _ string, e tasks.Email) error {
		got = e
		return nil
	}}
	if err := handler.ProcessTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if task.Type() != tasks.TypeEmail || got != want {
		t.Errorf("sent %+v for a task of type %q, want %+v for %q", got, task.Type(), want, tasks.TypeEmail)
	}
}

func TestNewEmailRefusesWhatCannotBeSent(t *testing.T) {
	for name, e := range map[string]tasks.Email{
		"no recipient":      {Subject: "Hi"},
		"bad recipient":     {To: "nobody", Subject: "Hi"},
		"no subject":        {To: "ada@example.com"},
		"two-line subject":  {To: "ada@example.com", Subject: "Hi\r\nBcc: all@example.com"},
		"very long subject": {To: "ada@example.com", Subject: strings.Repeat("x", 999)},
	} {
		if _, err := tasks.NewEmail(e); !errors.Is(err, tasks.ErrInvalidEmail) {
			t.Errorf("%s: got %v, want ErrInvalidEmail", name, err)
		}
	}
}

func TestEmailHandlerErrors(t *testing.T) {
	down := errors.New("mail service down")
	handler := tasks.EmailHandler{Send: func(context.Context, string, tasks.Email) error { return down }}

	err := handler.ProcessTask(t.Context(), asynq.NewTask(tasks.TypeEmail, []byte("not JSON")))
	if !errors.Is(err, asynq.SkipRetry) {
		t.Errorf("unreadable payload: got %v, want SkipRetry", err)
	}
	err = handler.ProcessTask(t.Context(), asynq.NewTask(tasks.TypeEmail, []byte(`{"to":"ada@example.com"}`)))
	if !errors.Is(err, down) || errors.Is(err, asynq.SkipRetry) {
		t.Errorf("failed send: got %v, want %v, to be retried", err, down)
	}
}
