package dash

import (
	"context"
	"errors"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/find"
)

// jumpMsg is the result of a search for a task.
type jumpMsg struct {
	task find.Task
	err  error
}

// startJump asks for the name of a page, a queue, or the ID of a task.
func (m *model) startJump() tea.Cmd { return m.startPrompt(":", m.jump) }

// jump opens the queue or the page with a name, or the task with an ID or a unique prefix of it.
func (m *model) jump(text string) tea.Cmd {
	if text == "" {
		return nil
	}
	for _, name := range m.queueNames() {
		if name == text {
			m.openQueue(name)
			return nil
		}
	}
	for v, name := range tabNames {
		if strings.EqualFold(name, text) {
			m.switchTab(view(v))
			return nil
		}
	}
	if strings.EqualFold("Flows", text) {
		m.openFlows()
		return nil
	}
	m.busy++
	m.showToast("searching for task "+text+" …", dimTone)
	ctx, insp, queues := m.ctx, m.insp, m.queueNames()
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, actionTimeout)
		defer cancel()
		r, err := find.ByID(ctx, insp, queues, text, true)
		if err != nil {
			return jumpMsg{err: err}
		}
		task, err := r.Only(text)
		if missing := (*find.NotFoundError)(nil); errors.As(err, &missing) {
			if name := onlyPrefix(queues, text); name != "" {
				return jumpMsg{task: find.Task{Queue: name}}
			}
		}
		return jumpMsg{task: task, err: err}
	}
}

// onlyPrefix returns the only name that begins with a text, or "".
func onlyPrefix(names []string, text string) string {
	found := ""
	for _, name := range names {
		if strings.HasPrefix(name, text) {
			if found != "" {
				return ""
			}
			found = name
		}
	}
	return found
}

// jumped opens the task or the queue that was found.
func (m *model) jumped(msg jumpMsg) {
	m.busy = max(0, m.busy-1)
	switch {
	case msg.err != nil:
		m.showToast(strings.Join(strings.Fields(msg.err.Error()), " "), warnTone)
	case msg.task.ID == "":
		m.toast = cell{}
		m.openQueue(msg.task.Queue)
	default:
		m.toast = cell{}
		m.push(page{view: viewTask, queue: msg.task.Queue, id: msg.task.ID, state: asynq.TaskStatePending})
	}
}

// openQueue shows the tasks of a queue.
func (m *model) openQueue(queue string) {
	m.switchTab(viewTasks)
	m.pages[viewTasks].filter = ""
	m.listQueue(queue)
}
