// Package redact says what may be shown of payloads and results. Whatever shows or searches them goes through it.
package redact

import (
	"bytes"
	"log/slog"
	"slices"

	"github.com/asynq-go/asynq"
)

// Redact is what may be shown of data, which it does not change. The data is never empty.
type Redact func(queue, typename string, data []byte) []byte

// New guards a function that the user wrote: where it panics, nothing is shown. Without a function it is nil, and all is shown.
func New(redact func(queue, typename string, data []byte) []byte, logger *slog.Logger) Redact {
	if redact == nil {
		return nil
	}
	return func(queue, typename string, data []byte) (shown []byte) {
		defer func() {
			if r := recover(); r != nil {
				logger.Error("web: Redact panicked: nothing is shown of the payload", "queue", queue, "type", typename, "panic", r)
				shown = nil
			}
		}()
		return redact(queue, typename, data)
	}
}

// Bytes are what may be shown, and whether that differs from what they are.
func (f Redact) Bytes(queue, typename string, data []byte) (shown []byte, redacted bool) {
	if f == nil || len(data) == 0 {
		return data, false
	}
	shown = f(queue, typename, data)
	return shown, !bytes.Equal(shown, data)
}

// Task is a task as filters see it: nobody may find out by searching what is not shown.
func (f Redact) Task(t *asynq.TaskInfo) *asynq.TaskInfo {
	if f == nil {
		return t
	}
	c := *t
	c.Payload, _ = f.Bytes(t.Queue, t.Type, t.Payload)
	c.Result, _ = f.Bytes(t.Queue, t.Type, t.Result)
	return &c
}

// QueueOf is the queue that the tasks of a scheduler's entry go to.
func QueueOf(e *asynq.SchedulerEntry) string {
	queue := "default"
	opts := e.Opts
	if e.Task != nil {
		opts = slices.Concat(e.Task.Options(), e.Opts)
	}
	for _, o := range opts {
		if name, ok := o.Value().(string); ok && o.Type() == asynq.QueueOpt && name != "" {
			queue = name
		}
	}
	return queue
}
