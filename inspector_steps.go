package asynq

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// TaskSteps are the steps and signals of a task: see package step.
type TaskSteps struct {
	// Steps are the recorded steps, in the order in which they were recorded. A step.WaitSignal
	// whose signal was there before is not recorded.
	Steps []TaskStep

	Signals []TaskSignal // received or not, by name

	// Awaits is the signal for which the task waits now; empty if for none.
	Awaits string
}

// TaskStep is a recorded step of a task.
type TaskStep struct {
	Name     string
	Kind     StepKind
	Recorded time.Time // by the clock of Redis, to the millisecond
	Until    time.Time // end of a sleep or wait; zero for StepRun
	Value    []byte    // value of StepRun as JSON; nil for others
}

// StepKind says which function recorded a step.
type StepKind string

// The kinds of steps. Later releases may add others.
const (
	StepRun     StepKind = StepKind(wire.StepRun)     // step.Run: the value is recorded
	StepSleep   StepKind = StepKind(wire.StepSleep)   // step.Sleep: the task sleeps, or has slept, until Until
	StepWait    StepKind = StepKind(wire.StepWait)    // step.WaitSignal: the task waits, or has the signal
	StepTimeout StepKind = StepKind(wire.StepTimeout) // step.WaitSignal: the signal has not come in time
)

// TaskSignal is a signal that was sent to a task.
type TaskSignal struct {
	Name  string
	Value []byte // as JSON
}

// TaskSteps returns the steps and signals of a task. If the task runs at the moment, they may be of
// slightly different times. It returns ErrQueueNotFound or ErrTaskNotFound (errors.Is).
func (i *Inspector) TaskSteps(ctx context.Context, queue, id string) (*TaskSteps, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	fields, err := i.inspector.Steps(ctx, queue, id)
	if errors.Is(err, script.ErrTaskGone) {
		if err := i.mustExist(ctx, queue, queueNotFoundText); err != nil {
			return nil, err
		}
		return nil, taskNotFound(queue, id)
	}
	if err != nil {
		return nil, brokerError(err)
	}
	all := &TaskSteps{}
	for name, record := range fields.Steps {
		if s, ok := wire.DecodeStep(record); ok {
			all.Steps = append(all.Steps, TaskStep{
				Name: name, Kind: StepKind(s.Kind), Recorded: unixMilli(s.At), Until: unixMilli(s.Until), Value: s.Value,
			})
		}
	}
	slices.SortFunc(all.Steps, func(a, b TaskStep) int {
		return cmp.Or(a.Recorded.Compare(b.Recorded), cmp.Compare(a.Name, b.Name))
	})
	for name, value := range fields.Signals {
		all.Signals = append(all.Signals, TaskSignal{Name: name, Value: []byte(value)})
	}
	slices.SortFunc(all.Signals, func(a, b TaskSignal) int { return cmp.Compare(a.Name, b.Name) })
	if name, _, ok := wire.DecodeAwaits(fields.Awaits); ok {
		all.Awaits = name
	}
	return all, nil
}
