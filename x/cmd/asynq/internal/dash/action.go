package dash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
	"github.com/asynq-go/asynq/x/health"
)

const (
	// actionTimeout is the timeout of an action on one item, bulkTimeout of one on all tasks of a
	// state.
	actionTimeout = 20 * time.Second
	bulkTimeout   = 10 * time.Minute
)

type refKind int

const (
	refNone refKind = iota
	refQueue
	refGroup
	refTask
	refEntry
	refError
	refCause
	refServer
	refLink // evidence of a cause
	refType // a task type in a history
	refPartition
	refFlow
	refNode     // of a flow
	refNodeTask // a node of one task, which exists
)

// ref identifies the item of a row.
type ref struct {
	kind   refKind
	queue  string
	id     string // of a task, an entry, a kind of error, a cause, a server or a flow
	group  string // or the name of a node
	state  asynq.TaskState
	typ    string // of a task, or a task type
	data   []byte
	paused bool
	task   string      // of a node: the ID of its task
	link   health.Link // of evidence
}

// action is a change that requires confirmation.
type action struct {
	// verb and of describe the change and its object.
	verb, of string
	// risky means that the change cannot be undone.
	risky bool
	all   bool
	do    func(context.Context) (string, error)

	// name is the text to type to confirm; "" if y confirms.
	name string

	// warning describes side effects.
	warning string
	// prepare, if not nil, computes the warning before the confirmation.
	prepare func(context.Context) (warning string, err error)

	// question, if not empty, asks for a text first; with returns the action with that text.
	question string
	with     func(text string) (*action, error)
}

// verbs names the actions of keys.
var verbs = map[string]string{
	"r": "run", "a": "archive", "d": "delete", "c": "cancel", "p": "pause", "e": "enqueue",
	"t": "quiet", "x": "stop", "E": "edit", "C": "copy", "z": "mute", "R": "run all", "A": "archive all", "D": "delete all",
}

// requestAction asks for confirmation of an action on the selected item.
func (m *model) requestAction(key string) tea.Cmd {
	verb, ok := verbs[key]
	if !ok {
		return nil
	}
	if m.readOnly {
		if r := m.target(); r.isFlow() {
			verb = cmp.Or(flowVerbs[key], verb)
		}
		m.showToast("read-only: "+verb+" is disabled", warnTone)
		return nil
	}
	switch verb {
	case "enqueue":
		return m.startForm()
	case "edit":
		return m.editPayload()
	}
	target := m.target()
	var a *action
	var err error
	switch key {
	case "R", "A", "D":
		a, err = m.actionAll(key)
	case "C":
		a, err = m.copyTask(&target)
	case "r", "a", "d", "c":
		if len(m.marks.keys) > 0 {
			a, err = m.actionMarked(key)
			break
		}
		fallthrough
	default:
		a, err = m.action(key, &target)
	}
	switch {
	case err != nil:
		m.showToast(err.Error(), warnTone)
	case a != nil && a.question != "":
		return m.askFor(a)
	case a != nil && a.prepare != nil:
		return m.prepare(a)
	case a != nil:
		return m.confirm(a)
	}
	return nil
}

// discardWarning warns that a full archive deletes tasks.
func discardWarning(n, limit int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("This deletes %s from the archive, oldest first (limit: %s).", plural(n, "task"), number(limit))
}

// warnOfDiscards adds a warning to an archive action if a full archive would delete tasks. It reads
// Redis only if the last snapshot does not show enough space for most tasks; n counts the tasks.
func (m *model) warnOfDiscards(a *action, queue string, most func(*asynq.QueueInfo) int, n func(context.Context) (int, error)) {
	if q := m.queue(queue); q != nil && most(q) <= cmp.Or(q.Archive.MaxTasks, asynq.ArchiveMaxTasks)-q.Archived {
		return
	}
	insp := m.insp
	a.prepare = func(ctx context.Context) (string, error) {
		room, err := insp.ArchiveRoom(ctx, queue)
		if err != nil {
			return "", err
		}
		tasks, err := n(ctx)
		if err != nil || tasks <= room {
			return "", err
		}
		limits, err := insp.ArchiveLimits(ctx, queue)
		return discardWarning(tasks-room, limits.MaxTasks), err
	}
}

// target returns the item that an action would change.
func (m *model) target() ref {
	p := m.page()
	switch p.view {
	case viewTask:
		b, _, _ := m.body()
		if b.task != nil {
			return refOf(b.task)
		}
	case viewEntry:
		return m.entryRef(p.id)
	case viewCause:
		return ref{kind: refCause, id: p.id}
	default:
		if r, ok := m.selected(); ok {
			return r.ref
		}
	}
	return ref{}
}

func refOf(t *asynq.TaskInfo) ref {
	return ref{kind: refTask, queue: t.Queue, id: t.ID, group: t.Group, state: t.State, typ: t.Type, data: t.Payload}
}

// action returns the action of a key on one item, or nil if there is none.
func (m *model) action(key string, r *ref) (*action, error) {
	insp, queue, id := m.insp, r.queue, r.id
	simple := func(verb, done, of string, do func(*asynq.Inspector) error) *action {
		return &action{verb: verb, of: of, do: func(ctx context.Context) (string, error) {
			return done + " " + of, do(insp.WithContext(ctx))
		}}
	}
	switch r.kind {
	case refCause:
		return m.actionCause(key, id)
	case refServer:
		return m.actionServer(key, id)
	case refQueue:
		if key == "p" && r.paused {
			return simple("Resume", "resumed", "queue "+queue, func(i *asynq.Inspector) error { return i.UnpauseQueue(queue) }), nil
		}
		if key == "p" {
			return simple("Pause", "paused", "queue "+queue, func(i *asynq.Inspector) error { return i.PauseQueue(queue) }), nil
		}
		if key == "d" {
			return m.deleteQueue(queue), nil
		}
	case refPartition:
		return m.actionPartition(key, r), nil
	case refFlow, refNode, refNodeTask:
		return m.actionFlow(key, r)
	case refEntry:
		return m.actionEntry(key, r), nil
	case refTask:
		of := fmt.Sprintf("task %s (%s) of queue %s", id, r.typ, queue)
		active := r.state == asynq.TaskStateActive
		switch key {
		case "c":
			if !active {
				return nil, errors.New("only an active task can be canceled")
			}
			return simple("Cancel", "sent cancellation of", of, func(i *asynq.Inspector) error { return i.CancelProcessing(id) }), nil
		case "r":
			return simple("Run", "moved to pending:", of, func(i *asynq.Inspector) error { return i.RunTask(queue, id) }),
				cmp.Or(require(!active, "the task is already active"), require(r.state != asynq.TaskStatePending, "the task is already pending"))
		case "a":
			a := simple("Archive", "archived", of, func(i *asynq.Inspector) error { return i.ArchiveTask(queue, id) })
			m.warnOfDiscards(a, queue, func(*asynq.QueueInfo) int { return 1 }, func(context.Context) (int, error) { return 1, nil })
			ended := r.state == asynq.TaskStateArchived || r.state == asynq.TaskStateCompleted
			return a, cmp.Or(require(!active, "an active task cannot be archived: cancel it first"),
				require(!ended, r.state.String()+" tasks cannot be archived"))
		case "d":
			a := simple("Delete", "deleted", of, func(i *asynq.Inspector) error { return i.DeleteTask(queue, id) })
			a.risky = true
			return a, require(!active, "an active task cannot be deleted: cancel it first")
		}
	}
	return nil, nil
}

// deleteQueue returns the action that deletes a queue. If it has tasks, its name confirms.
func (m *model) deleteQueue(queue string) *action {
	insp := m.insp
	a := &action{verb: "Delete", of: "queue " + queue, risky: true}
	tasks := 0
	if q := m.queue(queue); q == nil || q.Size > 0 {
		a.of, a.name = a.of+" and its tasks", queue
		if q != nil {
			tasks = q.Size
			a.of = fmt.Sprintf("queue %s and its %s", queue, plural(tasks, "task"))
		}
		if clean(queue) != queue || strings.TrimSpace(queue) != queue || len(queue) > filterLimit {
			a.name = "delete" // the name cannot be typed
		}
	}
	of, force := a.of, a.name != ""
	a.do = func(ctx context.Context) (string, error) {
		return "deleted " + of, insp.WithContext(ctx).DeleteQueue(queue, force)
	}
	return a
}

func require(ok bool, otherwise string) error {
	if ok {
		return nil
	}
	return errors.New(otherwise)
}

// actionAll returns the action of a key on all tasks that the page lists, including those that are
// not on the screen, or on all tasks of a kind of error.
func (m *model) actionAll(key string) (*action, error) {
	p := *m.page()
	if p.view == viewErrors || p.view == viewError {
		return m.actionKind(key)
	}
	if r := m.target(); r.kind == refCause {
		return m.actionCause(key, r.id)
	}
	if p.view != viewTasks || p.queue == "" {
		return nil, nil
	}
	f, err := filter.Parse(p.filter)
	if err != nil {
		return nil, err
	}
	if !f.MayMatch(p.queue, p.state) {
		return nil, errors.New("the filter cannot match tasks of this queue and state")
	}
	search := f.TaskFilter()
	search.Group = p.group
	insp, change, verb, done := m.insp, m.insp.RunTasks, "Run", "moved to pending:"
	discarded := 0
	switch {
	case p.state == asynq.TaskStateActive:
		return nil, errors.New("active tasks can only be canceled one by one")
	case key == "R" && p.state == asynq.TaskStatePending:
		return nil, errors.New("the tasks are already pending")
	case key == "A":
		if p.state == asynq.TaskStateArchived || p.state == asynq.TaskStateCompleted {
			return nil, fmt.Errorf("%s tasks cannot be archived", p.state)
		}
		change, verb, done = func(ctx context.Context, queue string, state asynq.TaskState, f asynq.TaskFilter) (int, error) {
			r, err := insp.ArchiveTasks(ctx, queue, state, f)
			discarded = r.Discarded
			return r.Archived, err
		}, "Archive", "archived"
	case key == "D":
		change, verb, done = m.insp.DeleteTasks, "Delete", "deleted"
	}
	of := fmt.Sprintf("all %s tasks of queue %s", p.state, p.queue)
	if q := m.queue(p.queue); q != nil && p.filter == "" && p.group == "" {
		of = fmt.Sprintf("all %s %s tasks of queue %s", number(count(q, p.state)), p.state, p.queue)
	}
	if p.group != "" {
		of += " in group " + p.group
	}
	if p.filter != "" {
		of += " that match " + p.filter
	}
	a := &action{verb: verb, of: of, risky: key == "D", all: true, do: func(ctx context.Context) (string, error) {
		n, err := change(ctx, p.queue, p.state, search)
		text := fmt.Sprintf("%s %s of queue %s", done, plural(n, "task"), p.queue)
		if discarded > 0 {
			text += fmt.Sprintf(", deleted %s from the archive", plural(discarded, "task"))
		}
		return text, err
	}}
	if key == "A" {
		m.warnOfDiscards(a, p.queue, func(q *asynq.QueueInfo) int { return count(q, p.state) }, func(ctx context.Context) (int, error) {
			n := 0
			for _, err := range insp.Tasks(ctx, p.queue, p.state, search) {
				if err != nil {
					return 0, err
				}
				n++
			}
			return n, nil
		})
	}
	return a, nil
}
