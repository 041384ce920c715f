package dash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/clone"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/editor"
)

// editedMsg is the payload of a task after the editor has ended.
type editedMsg struct {
	ref     ref
	payload []byte
	err     error
}

// runEditor runs an editor in the terminal of the dashboard. Tests replace it.
type runEditor func(*exec.Cmd, func(error) tea.Msg) tea.Cmd

func inTerminal(c *exec.Cmd, done func(error) tea.Msg) tea.Cmd { return tea.ExecProcess(c, done) }

// editPayload opens the payload of the selected task in an editor.
func (m *model) editPayload() tea.Cmd {
	r := m.target()
	switch {
	case r.kind != refTask:
		return nil
	case r.state == asynq.TaskStateActive || r.state == asynq.TaskStateCompleted:
		m.showToast(r.state.String()+" tasks cannot be changed", warnTone)
		return nil
	case len(m.editor) == 0:
		m.showToast(editor.ErrNone.Error(), warnTone)
		return nil
	}
	text, form := editor.Show(r.data)
	path, command, err := editor.File(m.ctx, m.editor, text)
	if err != nil {
		m.showToast(err.Error(), badTone)
		return nil
	}
	return m.runEditor(command, func(err error) tea.Msg {
		defer os.Remove(path)
		if err != nil {
			return editedMsg{ref: r, err: fmt.Errorf("editor: %w", err)}
		}
		edited, err := os.ReadFile(path)
		if err != nil {
			return editedMsg{ref: r, err: err}
		}
		payload, err := editor.Payload(r.data, edited, form)
		return editedMsg{ref: r, payload: payload, err: err}
	})
}

// edited asks for confirmation of an edited payload.
func (m *model) edited(msg editedMsg) tea.Cmd {
	r := msg.ref
	switch {
	case msg.err != nil:
		m.showToast("not changed: "+msg.err.Error(), badTone)
		return nil
	case bytes.Equal(msg.payload, r.data):
		m.showToast("nothing was changed", dimTone)
		return nil
	}
	insp, of := m.insp, fmt.Sprintf("the payload of task %s (%s) of queue %s", r.id, r.typ, r.queue)
	return m.confirm(&action{verb: "Change", of: of, do: func(ctx context.Context) (string, error) {
		now, err := insp.WithContext(ctx).GetTaskInfo(r.queue, r.id)
		if err != nil {
			return "", err
		}
		if !bytes.Equal(now.Payload, r.data) {
			return "", errors.New("the payload has changed in the meantime")
		}
		_, err = insp.UpdateTask(ctx, r.queue, r.id, append([]byte{}, msg.payload...))
		return "changed " + of, err
	}})
}

// copyTask returns the action that enqueues a copy of a task.
func (m *model) copyTask(r *ref) (*action, error) {
	insp, client := m.insp, m.client
	switch {
	case r.kind != refTask:
		return nil, nil
	case client == nil:
		return nil, errors.New("enqueueing is not available")
	}
	return &action{verb: "Enqueue a copy", of: fmt.Sprintf("of task %s (%s) of queue %s", r.id, r.typ, r.queue), do: func(ctx context.Context) (string, error) {
		t, err := insp.WithContext(ctx).GetTaskInfo(r.queue, r.id)
		if err != nil {
			return "", err
		}
		info, err := clone.Enqueue(ctx, client, t)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("enqueued task %s, %s", info.ID, info.State), nil
	}}, nil
}

// yank copies the IDs of the marked tasks, or of the selected item, to the clipboard of the
// terminal; with payload the payload of the selected task.
func (m *model) yank(payload bool) tea.Cmd {
	r := m.target()
	text, what := r.id, "the ID"
	switch {
	case payload && (r.kind != refTask || !isText(r.data)):
		m.showToast("only a payload that is text can be copied", warnTone)
		return nil
	case payload:
		text, what = string(r.data), "the payload"
	case len(m.marks.keys) > 0:
		ids := make([]string, 0, len(m.marks.keys))
		for _, k := range m.marks.keys {
			ids = append(ids, m.marks.refs[k].id)
		}
		text, what = strings.Join(ids, "\n")+"\n", plural(len(ids), "ID")
	case r.kind == refQueue:
		text, what = r.queue, "the name"
	case r.kind == refGroup:
		text, what = r.group, "the name"
	case r.kind == refNode || r.kind == refNodeTask:
		text, what = r.group, "the name"
	case r.kind == refError || r.kind == refNone || r.kind == refLink:
		return nil
	}
	m.showToast("copied "+what+" to the clipboard", dimTone)
	return tea.SetClipboard(text)
}
