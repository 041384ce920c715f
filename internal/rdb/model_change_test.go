package rdb_test

import (
	"errors"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// The changes that a caller of the inspector makes.
const (
	toRun        = "run"
	toArchive    = "archive"
	toDelete     = "delete"
	toReschedule = "reschedule"
)

// change makes a change of tasks, in one call: it decides about all before it changes any.
func (q *modelQueue) change(what string, ids []string, at, now int64) []script.Code {
	var out []*modelTask
	codes := make([]script.Code, len(ids))
	for i, id := range ids {
		switch t := q.tasks[id]; {
		case t == nil:
			codes[i] = script.CodeGone
		case slices.Contains(out, t):
			codes[i] = script.CodeAlready
		case t.state == wire.StateActive:
			codes[i] = script.CodeActive
		case t.set != "":
			codes[i] = script.CodeStaged
		case what == toRun && t.state == wire.StatePending,
			what == toArchive && t.state == wire.StateArchived:
			codes[i] = script.CodeUnfit
		default:
			out = append(out, t)
		}
	}
	for _, t := range out {
		switch {
		case what == toDelete:
			q.remove(t, now)
		case what == toArchive:
			q.move(t, wire.StateArchived, now)
		case what == toReschedule:
			state := wire.StateScheduled
			if t.state == wire.StateRetry {
				state = wire.StateRetry
			}
			q.move(t, state, at)
			t.at.exact = true
		case t.group != "" && t.state != wire.StateAggregating:
			q.gather(t, now)
		default:
			q.wait(t, last, now)
		}
	}
	switch {
	case what == toArchive && len(out) > 0:
		q.trim(len(q.tasks), now)
	case what == toReschedule:
		for _, state := range []wire.State{wire.StateScheduled, wire.StateRetry} {
			if tasks := q.in(state); len(tasks) > 0 && slices.Contains(out, tasks[0]) {
				q.marked = true
			}
		}
	}
	return codes
}

// listed returns the tasks of a state that are listed as such, those of a group if they are
// aggregating, as an Inspector is shown them.
func (q *modelQueue) listed(state wire.State, group string) []*modelTask {
	named := func(ids []string) (tasks []*modelTask) {
		for _, id := range ids {
			tasks = append(tasks, q.tasks[id])
		}
		return tasks
	}
	switch state {
	case wire.StatePending:
		return named(q.pending)
	case wire.StateActive:
		return named(q.active)
	case wire.StateAggregating:
		return q.waiting(group)
	}
	tasks := q.in(state)
	if state == wire.StateArchived || state == wire.StateCompleted {
		slices.Reverse(tasks)
	}
	return tasks
}

// change changes tasks that are named.
func (m *machine) change(t *rapid.T) {
	q, b := m.pickQueue(t), m.anyBroker(t)
	in := inspect.New(b)
	var ids []string
	for range rapid.IntRange(1, 6).Draw(t, "tasks") {
		ids = append(ids, pick(t, "id", append(q.ids(), "none")...))
	}
	what := pick(t, "what", toRun, toArchive, toDelete, toReschedule)
	at := m.model.now + int64(rapid.IntRange(-3, 3).Draw(t, "hours"))*3600 - 60
	codes, err := in.Change(m.ctx, inspect.Change{Verb: inspect.Verb(what), Queue: q.keys.Name, At: at}, ids)
	if err != nil {
		t.Error(err)
	}
	expect(t, what+" "+strings.Join(ids, " "), q.change(what, ids, at, m.model.now), codes)
}

// changeAll changes all tasks of a state.
func (m *machine) changeAll(t *rapid.T) {
	q, b := m.pickQueue(t), m.anyBroker(t)
	in := inspect.New(b)
	what := pick(t, "what", toRun, toRun, toArchive, toDelete)
	states := []wire.State{wire.StateScheduled, wire.StateRetry, wire.StateAggregating}
	if what != toRun {
		states = append(states, wire.StatePending)
	}
	if what != toArchive {
		states = append(states, wire.StateArchived, wire.StateCompleted)
	}
	state, group := pick(t, "state", states...), ""
	if state == wire.StateAggregating {
		group = pick(t, "group", "g", "g:h")
	}
	tasks := q.listed(state, group)
	if state == wire.StateArchived || state == wire.StateCompleted {
		slices.Reverse(tasks) // the oldest first
	}
	var done inspect.Changed
	err := in.ChangeAll(m.ctx, inspect.Change{Verb: inspect.Verb(what), Queue: q.keys.Name, From: state, Group: group, Done: &done})
	n := done.Tasks()
	if n != len(tasks) || err != nil {
		t.Errorf("%s of all %v tasks: %d, want %d, error %v", what, state, n, len(tasks), err)
	}
	q.change(what, taskIDs(tasks), 0, m.model.now)
}

// updateMessage changes the message of a task.
func (m *machine) updateMessage(t *rapid.T) {
	q := m.pickQueue(t)
	ids := append(q.ids(), "none")
	if tasks := taskIDs(q.in(wire.StateScheduled)); len(tasks) > 0 && !oneIn(t, 3, "any task") {
		ids = tasks
	}
	id, payload := pick(t, "id", ids...), m.newName("payload")
	edit := func(msg *wire.TaskMessage) error { msg.Payload = []byte(payload); return nil }
	var want error
	switch task := q.tasks[id]; {
	case task == nil:
		want = script.ErrTaskGone
	case task.state == wire.StateActive:
		want = script.ErrTaskActive
	case task.state != wire.StateScheduled:
		want = script.ErrTaskUnfit
	default:
		msg, err := wire.DecodeTaskMessage([]byte(task.message))
		if err != nil {
			t.Fatal(err)
		}
		_ = edit(msg)
		encoded, err := msg.Encode()
		if err != nil {
			t.Fatal(err)
		}
		task.message = string(encoded)
	}
	if err := inspect.New(m.anyBroker(t)).UpdateMessage(m.ctx, q.keys.Name, id, edit); !errors.Is(err, want) {
		t.Errorf("update of %q: error %v, want %v", id, err, want)
	}
}

// removeQueue deletes a queue, mostly one that is empty: there is much to be seen yet of the
// others.
func (m *machine) removeQueue(t *rapid.T) {
	q, b := m.pickQueue(t), m.anyBroker(t)
	force := oneIn(t, 3, "force")
	var want error
	switch {
	case force && len(q.active) > 0:
		want = script.ErrTaskActive
	case !force && len(q.tasks)+len(q.sets) > 0:
		want = script.ErrQueueNonempty
	}
	if err := inspect.New(b).RemoveQueue(m.ctx, q.keys.Name, force); !errors.Is(err, want) {
		t.Errorf("removal of %s, force: %v: error %v, want %v", q.keys.Name, force, err, want)
	}
	if want != nil {
		return
	}
	*q = *newModelQueue(q.keys)
	// The other broker is of another process, and would put the queue's name back half a minute
	// later only.
	if b == m.broker {
		m.again = newModelBroker(m.again.Client())
	} else {
		m.broker = newModelBroker(m.broker.Client())
	}
}
