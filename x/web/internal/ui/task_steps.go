package ui

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/asynq-go/asynq"
)

// taskStep is a recorded step of a task, without its value, which may be a secret.
type taskStep struct {
	Name  string
	At    time.Time
	State string // the color
	Text  string
	Until time.Time // zero: there is no end to show
}

// stepsOf returns the steps of a task, in the order in which they were recorded, and then the
// signals that it has not waited for: they came early. A task that is deleted meanwhile has none.
func (u *UI) stepsOf(r *http.Request, t *asynq.TaskInfo) ([]taskStep, error) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	steps, err := u.Inspector.TaskSteps(ctx, t.Queue, t.ID)
	if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	received := make(map[string]bool)
	for _, s := range steps.Signals {
		received[s.Name] = true
	}
	var all []taskStep
	for _, s := range steps.Steps {
		all = append(all, newTaskStep(s, received[s.Name], u.now()))
		delete(received, s.Name)
	}
	for _, s := range steps.Signals {
		if received[s.Name] {
			all = append(all, taskStep{Name: s.Name, State: "pending", Text: "signal"})
		}
	}
	return all, nil
}

func newTaskStep(s asynq.TaskStep, received bool, now time.Time) taskStep {
	shown := taskStep{Name: s.Name, At: s.Recorded, State: "completed", Text: "done"}
	switch {
	case s.Kind == asynq.StepSleep && s.Until.After(now):
		shown.State, shown.Text, shown.Until = "scheduled", "sleeps until", s.Until
	case s.Kind == asynq.StepSleep:
		shown.Text, shown.Until = "slept until", s.Until
	case s.Kind == asynq.StepWait && received:
		shown.Text = "signal received"
	case s.Kind == asynq.StepWait:
		shown.State, shown.Text, shown.Until = "scheduled", "waits for its signal until", s.Until
	case s.Kind == asynq.StepTimeout:
		shown.State, shown.Text, shown.Until = "retry", "timed out", s.Until
	}
	return shown
}
