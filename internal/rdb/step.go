package rdb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// ErrTooManySignals is the error of a signal to a task that has wire.MaxSignals signals.
var ErrTooManySignals = errors.New("the task has too many signals")

// StepState is what the hash of a task has about its steps.
type StepState struct {
	Now     int64             // by the Redis clock, unix ms
	Steps   map[string]string // records by name; see wire.DecodeStep
	Signals map[string]string // values by name

	// Unread has the sizes of records and values that exceed what a call reads, by field. See
	// ReadStep.
	Unread map[string]int64
}

// ReadSteps returns the steps of a task to the attempt that holds it. It returns ErrTaskGone or
// ErrTokenLost if no attempt holds the task under the token.
func (b *Broker) ReadSteps(ctx context.Context, queue, id, token string) (*StepState, error) {
	c := script.NewCall(readStepsScript, 1+2).Key(b.Keys(queue).Task(id)).Arg(token, script.MaxBatchBytes)
	b.Run(ctx, c)
	r := c.Read()
	code := r.Code()
	s := &StepState{Now: r.Int(), Steps: make(map[string]string), Signals: make(map[string]string)}
	for r.More() {
		field := r.Text()
		step, isStep := strings.CutPrefix(field, wire.FieldStep)
		signal, isSignal := strings.CutPrefix(field, wire.FieldSignal)
		switch value := r.Value().(type) {
		case int64:
			if s.Unread == nil {
				s.Unread = make(map[string]int64)
			}
			s.Unread[field] = value
		case string:
			switch {
			case isStep:
				s.Steps[step] = value
			case isSignal:
				s.Signals[signal] = value
			}
		default:
			r.Fail()
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return s, code.Err()
}

// ReadStep returns a field of a task that ReadSteps has left out. It returns ErrTaskGone if there
// is none.
func (b *Broker) ReadStep(ctx context.Context, queue, id, field string) (string, error) {
	values, err := b.Client().HMGet(ctx, b.Keys(queue).Task(id), field).Result()
	if err != nil {
		return "", fmt.Errorf("rdb: read step: %w", err)
	}
	value, ok := values[0].(string)
	if !ok {
		return "", script.ErrTaskGone
	}
	return value, nil
}

// StepWrite records a step of a task on behalf of the attempt that holds it, and holds the result.
type StepWrite struct {
	Queue, ID, Token string

	Name  string
	Kind  wire.StepKind // StepRun, StepSleep or StepWait
	Value []byte        // StepRun
	For   time.Duration // StepSleep, StepWait

	Code   script.Code // CodeOK, CodeAlready, CodeGone or CodeLost
	Now    int64       // by the Redis clock, unix ms
	Record string      // of the step; empty for StepRun
	Signal []byte      // StepWait: the value of the signal; nil: it has not come
}

// WriteStep records a step. It returns ErrTaskGone or ErrTokenLost if no attempt holds the task
// under the token.
func (b *Broker) WriteStep(ctx context.Context, w *StepWrite) error {
	c := script.NewCall(writeStepScript, 1+4).Key(b.Keys(w.Queue).Task(w.ID)).Arg(w.Token, w.Name, string(w.Kind))
	if w.Kind == wire.StepRun {
		c.Arg(w.Value)
	} else {
		c.Arg(script.Ceil(max(w.For, 0), time.Millisecond))
	}
	b.Run(ctx, c)
	r := c.Read()
	w.Code, w.Now, w.Record, w.Signal = r.Code(), r.Int(), r.Text(), r.Bytes()
	if err := r.Err(); err != nil {
		return err
	}
	return w.Code.Err()
}

// Signal stores a signal for a task, and makes the task pending if it waits for it. It does nothing
// if the task has the signal. It returns ErrTaskGone, ErrTaskUnfit if the task is completed, or
// ErrTooManySignals.
func (b *Broker) Signal(ctx context.Context, queue, id, name string, value []byte) error {
	q := b.Queue(queue)
	c := script.NewCall(signalScript, 5+4).
		Key(q.Retry, q.Scheduled, q.Pending, q.Marker, q.Keys.Task(id)).
		Arg(id, name, value, wire.MaxSignals)
	b.Run(ctx, c)
	r := c.Read()
	code := r.Code()
	if err := r.Err(); err != nil {
		return err
	}
	if code == script.CodeCapped {
		return ErrTooManySignals
	}
	return code.Err()
}

// appendAwaits adds a call for each settlement whose task sleeps until a signal. It follows the
// settlement in the same pipeline. Its reply is not read: without the call, or if it comes first,
// the task runs again after the delay of the settlement, and its handler waits again.
func (b *Broker) appendAwaits(calls []*script.Call, items []*Settlement) []*script.Call {
	for _, s := range items {
		if s.Extra == nil || !s.Extra.Await || s.Outcome != Defer {
			continue
		}
		q := b.Queue(s.Queue)
		calls = append(calls, script.NewCall(awaitSignalScript, 4+3).
			Key(q.Retry, q.Pending, q.Marker, q.Keys.Task(s.ID)).
			Arg(s.ID, s.Token, script.Flag(b.MillisecondTimes)))
	}
	return calls
}
