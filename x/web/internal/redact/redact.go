// Package redact controls which part of payloads and results is visible. All code that shows or
// searches them uses it.
package redact

import (
	"bytes"
	"log/slog"
	"slices"

	"github.com/asynq-go/asynq"
)

// Redact returns the visible part of data, which it must not modify. The data is never empty.
type Redact func(queue, typename string, data []byte) []byte

// New wraps a user's function: if it panics, nothing is visible. It returns nil if the function is
// nil; then everything is visible.
func New(redact func(queue, typename string, data []byte) []byte, logger *slog.Logger) Redact {
	if redact == nil {
		return nil
	}
	return func(queue, typename string, data []byte) (shown []byte) {
		defer func() {
			if r := recover(); r != nil {
				logger.Error("web: Redact panicked, hiding the payload", "queue", queue, "type", typename, "panic", r)
				shown = nil
			}
		}()
		return redact(queue, typename, data)
	}
}

// Bytes returns the visible bytes, and whether they differ from the original.
func (f Redact) Bytes(queue, typename string, data []byte) (shown []byte, redacted bool) {
	if f == nil || len(data) == 0 {
		return data, false
	}
	shown = f(queue, typename, data)
	return shown, !bytes.Equal(shown, data)
}

// Task returns a task as filters may see it, so that searches do not reveal redacted data.
func (f Redact) Task(t *asynq.TaskInfo) *asynq.TaskInfo {
	if f == nil {
		return t
	}
	c := *t
	c.Payload, _ = f.Bytes(t.Queue, t.Type, t.Payload)
	c.Result, _ = f.Bytes(t.Queue, t.Type, t.Result)
	return &c
}

// QueueOf returns the queue of the tasks of a scheduler entry.
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
