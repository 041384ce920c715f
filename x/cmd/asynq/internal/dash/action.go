package dash

import (
	"context"
	"errors"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

const (
	// actWithin bounds an action on one thing, actAllWithin one on all tasks of a state.
	actWithin    = 20 * time.Second
	actAllWithin = 10 * time.Minute
)

type refKind int

const (
	refNone refKind = iota
	refQueue
	refGroup
	refTask
	refEntry
	refFault
)

// ref is what a row stands for.
type ref struct {
	kind   refKind
	queue  string
	id     string // of a task or an entry, or the key of a fault
	group  string
	state  asynq.TaskState
	typ    string // of a task
	data   []byte
	paused bool
}

// action is a change that waits for a yes.
type action struct {
	// verb and of say what it does to what, in words.
	verb, of string
	// risky says that it cannot be taken back.
	risky bool
	all   bool
	do    func(context.Context) (string, error)
}

// doneMsg is the outcome of an action.
type doneMsg struct {
	text string
	err  error
}

// dialog asks whether an action is meant.
type dialog struct{ action }

// verbs are what keys do, by what they do it to.
var verbs = map[string]string{
	"r": "run", "a": "archive", "d": "delete", "c": "cancel", "p": "pause", "e": "enqueue",
	"R": "run all", "A": "archive all", "D": "delete all",
}

// act asks for an action on what is selected.
func (m *model) act(key string) tea.Cmd {
	verb, ok := verbs[key]
	if !ok {
		return nil
	}
	if m.readOnly {
		m.say("read-only: "+verb+" is switched off", warnTone)
		return nil
	}
	if verb == "enqueue" {
		return m.startForm()
	}
	target := m.target()
	var a *action
	var err error
	switch key {
	case "R", "A", "D":
		a, err = m.actionAll(key)
	default:
		a, err = m.action(key, &target)
	}
	switch {
	case err != nil:
		m.say(err.Error(), warnTone)
	case a != nil:
		m.dialog = &dialog{action: *a}
	}
	return nil
}

// target is what an action would change.
func (m *model) target() ref {
	p := m.page()
	switch p.view {
	case viewTask:
		b, _, _ := m.body()
		if b.task != nil {
			return refOf(b.task)
		}
	case viewEntry:
		return ref{kind: refEntry, id: p.id}
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

// action is what a key does to one thing; nil if it does nothing there.
func (m *model) action(key string, r *ref) (*action, error) {
	insp, queue, id := m.insp, r.queue, r.id
	simple := func(verb, done, of string, do func(*asynq.Inspector) error) *action {
		return &action{verb: verb, of: of, do: func(ctx context.Context) (string, error) {
			return done + " " + of, do(insp.WithContext(ctx))
		}}
	}
	switch r.kind {
	case refQueue:
		if key == "p" && r.paused {
			return simple("Resume", "resumed", "queue "+queue, func(i *asynq.Inspector) error { return i.UnpauseQueue(queue) }), nil
		}
		if key == "p" {
			return simple("Pause", "paused", "queue "+queue, func(i *asynq.Inspector) error { return i.PauseQueue(queue) }), nil
		}
	case refEntry:
		if key == "r" {
			return &action{verb: "Enqueue now", of: "the task of entry " + id, do: func(ctx context.Context) (string, error) {
				task, err := insp.RunSchedulerEntry(ctx, id)
				if task == nil {
					return "", err
				}
				return "enqueued task " + task.ID, err
			}}, nil
		}
	case refTask:
		of := fmt.Sprintf("task %s (%s) of queue %s", id, r.typ, queue)
		active := r.state == asynq.TaskStateActive
		switch key {
		case "c":
			if !active {
				return nil, errors.New("only an active task can be canceled")
			}
			return simple("Cancel", "asked the server to cancel", of, func(i *asynq.Inspector) error { return i.CancelProcessing(id) }), nil
		case "r":
			return simple("Run", "made pending:", of, func(i *asynq.Inspector) error { return i.RunTask(queue, id) }), can(!active, "an active task runs already")
		case "a":
			return simple("Archive", "archived", of, func(i *asynq.Inspector) error { return i.ArchiveTask(queue, id) }),
				can(!active, "an active task cannot be archived: cancel it first")
		case "d":
			a := simple("Delete", "deleted", of, func(i *asynq.Inspector) error { return i.DeleteTask(queue, id) })
			a.risky = true
			return a, can(!active, "an active task cannot be deleted: cancel it first")
		}
	}
	return nil, nil
}

func can(ok bool, otherwise string) error {
	if ok {
		return nil
	}
	return errors.New(otherwise)
}

// actionAll is what a key does to all tasks that the page lists, those that are not on the screen among them.
func (m *model) actionAll(key string) (*action, error) {
	p := *m.page()
	if p.view != viewTasks || p.queue == "" {
		return nil, nil
	}
	f, err := filter.Parse(p.filter)
	if err != nil {
		return nil, err
	}
	if !f.MayMatch(p.queue, p.state) {
		return nil, errors.New("no task here can match the filter")
	}
	search := f.TaskFilter()
	search.Group = p.group
	change, verb, done := m.insp.RunTasks, "Run", "made pending"
	switch {
	case p.state == asynq.TaskStateActive:
		return nil, errors.New("active tasks can only be canceled one by one")
	case key == "R" && p.state == asynq.TaskStatePending:
		return nil, errors.New("pending tasks run by themselves")
	case key == "A":
		if p.state == asynq.TaskStateArchived || p.state == asynq.TaskStateCompleted {
			return nil, fmt.Errorf("%s tasks cannot be archived", p.state)
		}
		change, verb, done = m.insp.ArchiveTasks, "Archive", "archived"
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
	return &action{verb: verb, of: of, risky: key == "D", all: true, do: func(ctx context.Context) (string, error) {
		n, err := change(ctx, p.queue, p.state, search)
		return fmt.Sprintf("%s %s of queue %s", done, plural(n, "task"), p.queue), err
	}}, nil
}

// answer takes the answer to the dialog. Only "y" is a yes.
func (m *model) answer(key string) tea.Cmd {
	switch key {
	case "y", "Y":
		a := m.dialog.action
		m.dialog = nil
		return m.start(&a)
	case "n", "N", "esc", "q", "enter":
		m.dialog = nil
		m.say("nothing was changed", dimTone)
	}
	return nil
}

// start has an action done in the background.
func (m *model) start(a *action) tea.Cmd {
	m.busy++
	m.say(a.verb+" "+a.of+" …", dimTone)
	ctx, within, do := m.ctx, actWithin, a.do
	if a.all {
		within = actAllWithin
	}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		text, err := do(ctx)
		return doneMsg{text: text, err: err}
	}
}

func (m *model) done(msg doneMsg) {
	m.busy = max(0, m.busy-1)
	switch {
	case msg.err == nil:
		m.say(msg.text, goodTone)
	case msg.text == "":
		m.say(msg.err.Error(), badTone)
	default:
		m.say("failed: "+msg.err.Error(), badTone)
	}
	m.watcher.poke()
}
