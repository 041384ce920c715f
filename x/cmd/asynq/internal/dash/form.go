package dash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

// form is the form for a new task.
type form struct {
	fields []field
	focus  int
	err    string
}

type field struct {
	label string
	hint  string
	input textinput.Model
}

const (
	fieldType = iota
	fieldPayload
	fieldQueue
	fieldIn
	fieldRetry
	labelWidth   = 10
	payloadLimit = 1 << 16
)

// startForm opens the form, filled with the queue of the selected item and, if it is a task, its
// type and payload.
func (m *model) startForm() tea.Cmd {
	if m.client == nil {
		m.showToast("enqueueing is not available", warnTone)
		return nil
	}
	r := m.target()
	queue := r.queue
	if queue == "" && m.page().view == viewTasks {
		queue = m.page().queue
	}
	if queue == "" {
		queue = "default"
	}
	data := ""
	if r.kind == refTask && isText(r.data) && len(r.data) <= payloadLimit {
		data = oneLine(r.data)
	}
	f := &form{}
	for _, init := range [...]struct{ label, hint, value string }{
		fieldType:    {"Type", "email:welcome", r.typ},
		fieldPayload: {"Payload", `{"user":42}`, data},
		fieldQueue:   {"Queue", "default", queue},
		fieldIn:      {"Run in", "now; or 90s, 10m, 2h", ""},
		fieldRetry:   {"Max retry", "25", ""},
	} {
		in := m.newInput(init.value)
		in.CharLimit, in.Placeholder = payloadLimit, init.hint
		f.fields = append(f.fields, field{label: init.label, hint: init.hint, input: in})
	}
	m.form = f
	m.resizeInputs()
	return f.fields[0].input.Focus()
}

// oneLine returns a payload as one line for an input, or "" if that is not possible.
func oneLine(data []byte) string {
	if slices.ContainsFunc(data, func(c byte) bool { return c < ' ' }) {
		if !json.Valid(data) {
			return ""
		}
		// White space between JSON tokens is insignificant, and strings contain no control
		// characters.
		return strings.Map(func(r rune) rune {
			if r < ' ' {
				return -1
			}
			return r
		}, string(data))
	}
	return string(data)
}

func (m *model) pressForm(k tea.KeyPressMsg, key string) tea.Cmd {
	f := m.form
	switch key {
	case "esc":
		m.form = nil
		return nil
	case "tab", "down":
		return f.focusOn(f.focus + 1)
	case "shift+tab", "up":
		return f.focusOn(f.focus - 1)
	case "enter":
		a, err := m.enqueue()
		if err != nil {
			f.err = err.Error()
			return nil
		}
		m.form = nil
		return m.confirm(a)
	}
	f.err = ""
	return m.toInput(k)
}

func (f *form) focusOn(i int) tea.Cmd {
	f.fields[f.focus].input.Blur()
	f.focus = (i + len(f.fields)) % len(f.fields)
	return f.fields[f.focus].input.Focus()
}

func (f *form) value(i int) string { return strings.TrimSpace(f.fields[i].input.Value()) }

// enqueue returns the action that the form describes.
func (m *model) enqueue() (*action, error) {
	f, client := m.form, m.client
	typename, queue := f.value(fieldType), f.value(fieldQueue)
	if typename == "" {
		return nil, errors.New("the task type is missing")
	}
	if queue == "" {
		queue = "default"
	}
	opts := []asynq.Option{asynq.Queue(queue)}
	if s := f.value(fieldIn); s != "" {
		d, ok := filter.ParseDuration(s)
		if !ok {
			return nil, fmt.Errorf("run in: invalid duration %q: use a form like 90s, 10m, 2h or 3d", s)
		}
		opts = append(opts, asynq.ProcessIn(d))
	}
	if s := f.value(fieldRetry); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return nil, errors.New("max retry must be an integer of at least 0")
		}
		opts = append(opts, asynq.MaxRetry(n))
	}
	task := asynq.NewTask(typename, []byte(f.fields[fieldPayload].input.Value()))
	return &action{verb: "Enqueue", of: fmt.Sprintf("a task %s to queue %s", typename, queue), do: func(ctx context.Context) (string, error) {
		info, err := client.EnqueueContext(ctx, task, opts...)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("enqueued task %s, %s%s", info.ID, info.State, inWords(info.NextProcessAt)), nil
	}}, nil
}

func inWords(t time.Time) string {
	if d := time.Until(t); d > time.Second {
		return " in " + span(d)
	}
	return ""
}
