package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"

	"github.com/asynq-go/asynq"
)

// The types of the tasks. A handler of the mux serves one type, or all that begin with a prefix.
const (
	emailPrefix  = "email:"
	typeWelcome  = emailPrefix + "welcome"
	typeInvoice  = emailPrefix + "invoice"
	typeReminder = emailPrefix + "reminder"
	typeImage    = "image:thumbnail"
	typeReport   = "report:build"
)

var errServerBusy = errors.New("mail server busy")

type email struct {
	To, Subject string
}

type picture struct {
	Name          string
	Width, Height int
}

type report struct {
	Title   string
	Amounts []int
}

// newTask returns a task with a JSON payload. A payload can be any bytes.
func newTask(typename string, payload any) *asynq.Task {
	b, err := json.Marshal(payload)
	if err != nil {
		panic(fmt.Sprintf("payload of %s: %v", typename, err)) // The payloads above always encode.
	}
	return asynq.NewTask(typename, b)
}

// decode decodes the payload of t. If that fails, a retry would fail, too, so the error skips them.
func decode(t *asynq.Task, payload any) error {
	if err := json.Unmarshal(t.Payload(), payload); err != nil {
		return fmt.Errorf("payload of %s: %w: %w", t.Type(), err, asynq.SkipRetry)
	}
	return nil
}

// newMux returns the handlers, with the middleware that reports each attempt on events.
func newMux(events chan<- event) *asynq.ServeMux {
	mux := asynq.NewServeMux()
	mux.Use(announce(events))
	mux.HandleFunc(emailPrefix, sendEmail)
	mux.HandleFunc(typeImage, makeThumbnail)
	mux.HandleFunc(typeReport, buildReport)
	return mux
}

func sendEmail(ctx context.Context, t *asynq.Task) error {
	var mail email
	if err := decode(t, &mail); err != nil {
		return err
	}
	// The first attempt at the invoice fails. The task is retried after the delay that
	// RetryDelayFunc returns, as for any error except SkipRetry and RevokeTask.
	if retried, _ := asynq.GetRetryCount(ctx); t.Type() == typeInvoice && retried == 0 {
		return errServerBusy
	}
	return nil
}

func makeThumbnail(_ context.Context, t *asynq.Task) error {
	var pic picture
	if err := decode(t, &pic); err != nil {
		return err
	}
	return png.Encode(io.Discard, image.NewGray(image.Rect(0, 0, pic.Width/8, pic.Height/8)))
}

func buildReport(_ context.Context, t *asynq.Task) error {
	var r report
	if err := decode(t, &r); err != nil {
		return err
	}
	total := 0
	for _, amount := range r.Amounts {
		total += amount
	}
	// The result is kept as long as the task: until its Retention ends.
	_, err := fmt.Fprintf(t.ResultWriter(), `{"title":%q,"total":%d}`, r.Title, total)
	return err
}
