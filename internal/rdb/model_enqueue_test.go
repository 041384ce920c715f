package rdb_test

import (
	"errors"
	"slices"

	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/rdb"
)

// enqueue makes a batch of tasks.
func (m *machine) enqueue(t *rapid.T) {
	var tasks []*rdb.NewTask
	for range pick(t, "tasks", 1, 2, 3, 5, 12) {
		tasks = append(tasks, m.pickNewTask(t))
	}
	m.send(t, tasks)
}

// send enqueues tasks, and compares the answers with the model's.
func (m *machine) send(t *rapid.T, tasks []*rdb.NewTask) {
	b := m.anyBroker(t)
	b.Enqueue(m.ctx, tasks...)
	type target struct {
		queue          string
		later, grouped bool
	}
	calls := inCalls(tasks, func(n *rdb.NewTask) target {
		return target{n.Queue, n.ProcessAt > 0, n.ProcessAt == 0 && n.Group != ""}
	})
	want := make(map[*rdb.NewTask]error)
	if m.create(calls, want); b == m.again {
		m.create(calls, want)
	}
	for _, n := range tasks {
		if !errors.Is(n.Err, want[n]) {
			t.Errorf("enqueue of %q: error %v, want %v", n.ID, n.Err, want[n])
		}
	}
}

// create executes calls in the model, and keeps the results. A call that has made a task is known when it is sent again.
func (m *machine) create(calls [][]*rdb.NewTask, results map[*rdb.NewTask]error) {
	for _, call := range calls {
		q := m.model.queue(call[0].Queue)
		q.published = true
		if !slices.ContainsFunc(call, func(n *rdb.NewTask) bool { err, sent := results[n]; return sent && err == nil }) {
			for _, n := range call {
				results[n] = q.create(n, m.model.now)
			}
		}
	}
}

// pickNewTask draws a task to enqueue, new or just like an earlier one.
func (m *machine) pickNewTask(t *rapid.T) *rdb.NewTask {
	if len(m.created) > 0 && oneIn(t, 4, "like another") {
		again := pick(t, "task", recent(m.created)...)
		return &again
	}
	q := m.pickQueue(t)
	n := &rdb.NewTask{Queue: q.keys.Name}
	if oneIn(t, 3, "own ID") {
		n.ID = pick(t, "id", "a", "b", "c", "d", "e", "f")
	} else {
		n.ID = m.newName("random")
	}
	n.Message = m.newMessage(t, q, n.ID)
	if oneIn(t, 3, "unique") {
		n.Lock, n.LockTTL = q.keys.Unique("type", []byte(pick(t, "payload", "x", "y"))), 3600
	}
	if oneIn(t, 8, "grouped") {
		n.Group = pick(t, "group", "g", "g:h")
	}
	if oneIn(t, 5, "delayed") {
		n.ProcessAt = m.model.now + int64(rapid.IntRange(-3, 3).Draw(t, "hours"))*3600 - 60
	}
	m.created = append(m.created, *n)
	return n
}
