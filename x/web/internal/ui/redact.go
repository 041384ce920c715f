package ui

import (
	"bytes"

	"github.com/asynq-go/asynq"
)

// redact is what may be shown of a payload or a result, and whether that differs from what it is. It is all of it that pages may use.
func (u *UI) redact(queue, typename string, data []byte) (shown []byte, redacted bool) {
	if u.Redact == nil || len(data) == 0 {
		return data, false
	}
	defer func() {
		if r := recover(); r != nil { // a mistake of it must not show more
			u.Logger.Error("web: Redact panicked: nothing is shown of the payload", "queue", queue, "type", typename, "panic", r)
			shown, redacted = nil, true
		}
	}()
	shown = u.Redact(queue, typename, data)
	return shown, !bytes.Equal(shown, data)
}

// seen is a task as filters see it: nobody may find out by searching what is not shown.
func (u *UI) seen(t *asynq.TaskInfo) *asynq.TaskInfo {
	if u.Redact == nil {
		return t
	}
	c := *t
	c.Payload, _ = u.redact(t.Queue, t.Type, t.Payload)
	c.Result, _ = u.redact(t.Queue, t.Type, t.Result)
	return &c
}

// formatted is what a formatter makes of data. One that panics is as good as none.
func formatted(text func(string, []byte) (string, bool), typename string, data []byte) (s string, ok bool) {
	if text == nil {
		return "", false
	}
	defer func() {
		if recover() != nil {
			s, ok = "", false
		}
	}()
	return text(typename, data)
}
