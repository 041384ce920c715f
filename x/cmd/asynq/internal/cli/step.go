package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// stepRow is a step of a task in machine-readable output.
type stepRow struct {
	Name     string     `json:"name"`
	Kind     string     `json:"kind"`
	Recorded *time.Time `json:"recorded"`
	Until    *time.Time `json:"until"` // null unless it is a sleep or a wait
	Value    string     `json:"value"` // JSON; empty unless its kind is run
}

// signalRow is a signal of a task in machine-readable output.
type signalRow struct {
	Name  string `json:"name"`
	Value string `json:"value"` // JSON
}

// setSteps adds the steps and signals of the task.
func (r *inspectRow) setSteps(all *asynq.TaskSteps) {
	r.steps, r.Awaits = all, all.Awaits
	r.Steps, r.Signals = []stepRow{}, []signalRow{}
	for _, s := range all.Steps {
		r.Steps = append(r.Steps, stepRow{s.Name, string(s.Kind), moment(s.Recorded), moment(s.Until), string(s.Value)})
	}
	for _, s := range all.Signals {
		r.Signals = append(r.Signals, signalRow{s.Name, string(s.Value)})
	}
}

// maxStepValue is the maximum number of bytes of a value in a line.
const maxStepValue = 200

// writeSteps writes steps and signals as text.
func writeSteps(b *strings.Builder, all *asynq.TaskSteps, now time.Time) {
	if len(all.Steps) > 0 {
		fmt.Fprintf(b, "Steps (%d):\n", len(all.Steps))
	}
	received := make(map[string]bool)
	for _, s := range all.Signals {
		received[s.Name] = true
	}
	for _, s := range all.Steps {
		fmt.Fprintf(b, "  %s  %s: %s\n", out.Time(s.Recorded), out.Clean(s.Name), stepText(s, received[s.Name], now))
	}
	if len(all.Signals) > 0 {
		fmt.Fprintf(b, "Signals (%d):\n", len(all.Signals))
	}
	for _, s := range all.Signals {
		fmt.Fprintf(b, "  %s: %s\n", out.Clean(s.Name), shortValue(s.Value))
	}
}

// stepText describes a step.
func stepText(s asynq.TaskStep, received bool, now time.Time) string {
	switch {
	case s.Kind == asynq.StepRun:
		return shortValue(s.Value)
	case s.Kind == asynq.StepSleep && s.Until.After(now):
		return "sleeps until " + out.Time(s.Until)
	case s.Kind == asynq.StepSleep:
		return "slept until " + out.Time(s.Until)
	case s.Kind == asynq.StepWait && received:
		return "has its signal"
	case s.Kind == asynq.StepWait:
		return "waits for its signal until " + out.Time(s.Until)
	case s.Kind == asynq.StepTimeout:
		return "timed out at " + out.Time(s.Until)
	}
	return string(s.Kind)
}

// shortValue returns the beginning of a value.
func shortValue(value []byte) string {
	if len(value) > maxStepValue {
		return out.Clean(strings.ToValidUTF8(string(value[:maxStepValue]), "")) + "… (" + out.Bytes(int64(len(value))) + ")"
	}
	return out.Clean(string(value))
}
