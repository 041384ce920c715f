package browser_test

import (
	"context"
	"testing"

	"github.com/asynq-go/asynq"
)

// Servers and their tasks appear and disappear on the open page.
func TestServersAreLive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := open(t, s.url)
	b.visit("/servers")
	b.says("No server is running")
	eval[bool](b, `document.querySelector("h1").marked = true`)
	same := func(when string) {
		t.Helper()
		if !eval[bool](b, `document.querySelector("h1").marked === true`) {
			t.Errorf("%s the page was replaced instead of updated", when)
		}
	}
	finish := make(chan struct{})
	server := asynq.NewServer(s.redis, asynq.Config{Concurrency: 2, LogLevel: asynq.FatalLevel})
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	s.subscribed(t, 1)
	b.says("1 active server", "0 of 2 slots busy", "idle")
	same("when a server starts")

	ends, canceled := s.add(t, "ends", ""), s.add(t, "canceled", "")
	there := func(id string) string { return `document.getElementById(` + quote("task-default-"+id) + `)` }
	b.until(there(ends) + ` && ` + there(canceled))
	b.says("2 of 2 slots busy", "2 tasks, longest-running first")
	same("when tasks begin")

	b.click(`main button[aria-label="Cancel task `+canceled+`"]`, "Cancel")
	b.says("Cancellation of task " + canceled + " requested")
	b.until(`!` + there(canceled) + ` && ` + there(ends))
	b.says("1 of 2 slots busy")
	s.reaches(t, canceled, asynq.TaskStateRetry)

	eval[bool](b, `document.querySelector("h1").marked = true`) // canceling loaded the page again
	close(finish)
	b.until(`!` + there(ends))
	b.says("No active tasks", "0 of 2 slots busy")
	same("when a task ends")

	server.Shutdown()
	b.says("No server is running")
	same("when a server ends")
}
