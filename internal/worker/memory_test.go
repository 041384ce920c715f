package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// errCut is an I/O error: it leaves open what was done. A refusal is an answer of Redis: nothing was.
var errCut = errors.New("connection reset by peer")

type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// fate is what becomes of a turn.
type fate int

const (
	answered   fate = iota
	lost            // on the way there
	unanswered      // done, but the answer is lost
)

// memory plays Redis: it keeps queues in memory, by the clock of the test.
type memory struct {
	t testing.TB

	mu      sync.Mutex
	queues  map[string]*memQueue
	changed chan struct{} // closed when there is something for waiters
	asked   []string      // what turns asked for, in order
	turns   int

	fate    func(t *rdb.Turn) fate // nil: all is answered
	refuse  map[string]error       // queue → its answer to everything; "fetch " and queue → to fetches
	most    int                    // tasks in an answer, as if they had many bytes; 0: any number
	latency time.Duration          // there, and as much back
	skew    time.Duration          // of its clock
	failing error                  // the answer to everything but turns
	passing error                  // PassMarker's answer
	looks   []string               // the queues that Waiting asked about
	passed  []string               // the queues whose markers were passed on
}

type memQueue struct {
	pending []string // the next one to run first
	tasks   map[string]*memTask
	paused  bool
	marker  bool
}

type memTask struct {
	message []byte
	state   string // pending, active, done, completed, retry or archived
	token   string // of the fetch that holds it, or that settled it
	lease   time.Time
	due     time.Time // of a retry
}

func newMemory(t testing.TB, queues ...string) *memory {
	m := &memory{t: t, queues: make(map[string]*memQueue), changed: make(chan struct{}), refuse: make(map[string]error)}
	for _, name := range queues {
		m.queues[name] = &memQueue{tasks: make(map[string]*memTask)}
	}
	return m
}

// add enqueues tasks as this library does, with a marker.
func (m *memory) add(queue string, ids ...string) {
	m.addSilently(queue, ids...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mark(m.queues[queue])
}

// addSilently enqueues tasks as other libraries do.
func (m *memory) addSilently(queue string, ids ...string) {
	for _, id := range ids {
		m.addMessage(queue, &wire.TaskMessage{Type: "test", ID: id, Queue: queue, MaxRetry: 3})
	}
}

func (m *memory) addMessage(queue string, msg *wire.TaskMessage) {
	b, err := msg.Encode()
	if err != nil {
		m.t.Fatal(err)
	}
	m.addRaw(queue, msg.ID, b)
}

func (m *memory) addRaw(queue, id string, message []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[queue]
	q.tasks[id] = &memTask{message: message, state: "pending"}
	q.pending = append(q.pending, id)
}

func (m *memory) mark(q *memQueue) {
	q.marker = true
	close(m.changed)
	m.changed = make(chan struct{})
}

// state tells where a task is, and what its message says.
func (m *memory) state(queue, id string) (string, *wire.TaskMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	task := m.queues[queue].tasks[id]
	msg, err := wire.DecodeTaskMessage(slices.Clone(task.message))
	if err != nil {
		msg = nil
	}
	return task.state, msg
}

func (m *memory) isDone(id string) bool {
	state, _ := m.state("q", id)
	return state == "done"
}

func (m *memory) mustBe(queue, id, want string) {
	m.t.Helper()
	if state, _ := m.state(queue, id); state != want {
		m.t.Errorf("task %s of %s is %s, want %s", id, queue, state, want)
	}
}

// mustHaveAsked checks what turns asked for since the last time.
func (m *memory) mustHaveAsked(want ...string) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.asked, want) {
		m.t.Errorf("asked for %q, want %q", m.asked, want)
	}
	m.asked = nil
}

func (m *memory) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// Turn does what a turn asks for, in its order.
func (m *memory) Turn(_ context.Context, t *rdb.Turn) {
	time.Sleep(m.latency)
	defer time.Sleep(m.latency)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turns++
	fate := answered
	if m.fate != nil {
		fate = m.fate(t)
	}
	for _, u := range t.Undo {
		m.asked = append(m.asked, "undo "+u.Queue)
		u.Err = m.part(fate, u.Queue, func(q *memQueue) { m.undo(q, u) })
	}
	for _, s := range t.Settle {
		m.asked = append(m.asked, fmt.Sprintf("%v %s", s.Outcome, s.ID))
		s.Err = m.part(fate, s.Queue, func(q *memQueue) { s.Code = m.settle(q, s) })
	}
	for _, f := range t.Fetch {
		m.asked = append(m.asked, fmt.Sprintf("fetch %d of %s", f.N, f.Queue))
		if f.Err = m.refuse["fetch "+f.Queue]; f.Err != nil {
			continue
		}
		f.Err = m.part(fate, f.Queue, func(q *memQueue) { m.fetch(q, f) })
		if f.Err != nil {
			f.Tasks, f.Dropped, f.Code, f.More = nil, nil, 0, false // they were in the answer
		}
	}
	for _, name := range t.Pass {
		m.asked = append(m.asked, "pass "+name)
		_ = m.part(fate, name, func(q *memQueue) { m.pass(q) }) // what comes of it is not told
	}
}

// part does one part of a turn.
func (m *memory) part(fate fate, queue string, do func(q *memQueue)) error {
	if err := m.refuse[queue]; err != nil && fate == answered {
		return err
	}
	if fate != lost {
		do(m.queues[queue])
	}
	if fate != answered {
		return errCut
	}
	return nil
}

func (m *memory) fetch(q *memQueue, f *rdb.Fetch) {
	now := time.Now().Add(m.skew)
	f.Now = now.UnixMilli()
	m.forward(q)
	active := 0
	for _, task := range q.tasks {
		if task.state == "active" {
			active++
		}
	}
	n := f.N
	if f.MaxActive > 0 {
		n = min(n, f.MaxActive-active)
	}
	switch {
	case f.NotAfter != 0 && f.Now > f.NotAfter:
		f.Code = rdb.CodeStale
		return
	case q.paused:
		f.Code = rdb.CodePaused
		return
	case n <= 0:
		f.Code = rdb.CodeCapped
		return
	}
	if m.most > 0 {
		n = min(n, m.most)
	}
	for ; n > 0 && len(q.pending) > 0; n-- {
		id := q.pending[0]
		q.pending = q.pending[1:]
		task := q.tasks[id]
		if task == nil || task.state != "pending" {
			f.Dropped = append(f.Dropped, id)
			continue
		}
		if task.token == f.Token {
			m.t.Errorf("two fetches have the token %q", f.Token)
		}
		task.state, task.token, task.lease = "active", f.Token, now.Add(f.Lease)
		f.Tasks = append(f.Tasks, rdb.Fetched{ID: id, Message: slices.Clone(task.message)})
	}
	if f.More = len(q.pending) > 0; f.More && f.Mark && (f.MaxActive <= 0 || active+len(f.Tasks) < f.MaxActive) {
		m.mark(q)
	}
}

// forward does what a forwarder would have done.
func (m *memory) forward(q *memQueue) {
	for id, task := range q.tasks {
		if task.state == "retry" && !task.due.After(time.Now().Add(m.skew)) {
			task.state = "pending"
			q.pending = append(q.pending, id)
		}
	}
}

func (m *memory) undo(q *memQueue, u *rdb.Undo) {
	for id, task := range q.tasks {
		if task.state == "active" && task.token == u.Token {
			task.state, task.token = "pending", ""
			q.pending = slices.Insert(q.pending, 0, id)
			u.Back++
			m.mark(q)
		}
	}
	u.Cursor = "0"
}

func (m *memory) settle(q *memQueue, s *rdb.Settlement) rdb.Code {
	task := q.tasks[s.ID]
	switch {
	case task == nil || task.state == "done":
		return rdb.CodeGone
	case task.token != s.Token:
		return rdb.CodeLost
	case task.state != "active":
		return rdb.CodeAlready
	}
	if s.Message != nil {
		task.message = slices.Clone(s.Message)
	}
	switch s.Outcome {
	case rdb.Done, rdb.Discard:
		task.state = "done"
	case rdb.Complete:
		task.state = "completed"
	case rdb.Archive:
		task.state = "archived"
	case rdb.Retry:
		task.state, task.due = "retry", time.Now().Add(m.skew+s.Delay)
	case rdb.Requeue:
		task.state = "pending"
		q.pending = slices.Insert(q.pending, 0, s.ID)
		m.mark(q)
	}
	return rdb.CodeOK
}

// Extend lets leases last.
func (m *memory) Extend(_ context.Context, queue string, lease time.Duration, tasks []rdb.Held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range tasks {
		h := &tasks[i]
		task := m.queues[queue].tasks[h.ID]
		switch {
		case m.failing != nil:
			h.Err = m.failing
		case m.refuse[queue] != nil:
			h.Err = m.refuse[queue]
		case task == nil || task.state != "active":
			h.Code = rdb.CodeGone
		case task.token != h.Token:
			h.Code = rdb.CodeLost
		default:
			h.Code = rdb.CodeOK
			task.lease = time.Now().Add(m.skew + lease)
		}
	}
}

// Waiting tells which queues have tasks in pending.
func (m *memory) Waiting(_ context.Context, queues []string) (waiting []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks = append(m.looks, queues...)
	for _, name := range queues {
		q := m.queues[name]
		m.forward(q)
		if len(q.pending) > 0 {
			waiting = append(waiting, name)
		}
	}
	return waiting, m.failing
}

func (m *memory) pass(q *memQueue) {
	if len(q.pending) > 0 {
		m.mark(q)
	}
}

// PassMarker leaves a marker if there are tasks.
func (m *memory) PassMarker(_ context.Context, queue string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passed = append(m.passed, queue)
	m.pass(m.queues[queue])
	return cmp.Or(m.passing, m.failing)
}
