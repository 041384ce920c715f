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
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// errCut is an I/O error: Redis may have executed the request. A refusal is an error reply: it has
// not.
var errCut = errors.New("connection reset by peer")

type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// failure is the kind of failure of a round trip.
type failure int

const (
	noFailure failure = iota
	lost              // the request is lost
	replyLost         // executed, but the reply is lost
)

// memory is a Broker that keeps queues in memory, with the clock of the test.
type memory struct {
	t testing.TB

	mu      sync.Mutex
	queues  map[string]*memQueue
	changed chan struct{} // closed when waiters must check again
	sent    []string      // the parts of the requests, in order
	trips   int

	failure func(t *rdb.RoundTrip) failure // nil: no failures
	refuse  map[string]error               // queue → error reply to everything; "fetch " and queue → to fetches
	most    int                            // tasks per reply, as if limited by bytes; 0: no limit
	latency time.Duration                  // each way
	skew    time.Duration                  // of its clock
	failing error                          // the error of everything but round trips
	passing error                          // the error of PassMarker
	writes  []int                          // the numbers of results of the requests for them
	extends int                            // the number of requests for extensions
	polls   []string                       // the arguments of Waiting
	passed  []string                       // the queues whose markers were passed on
}

type memQueue struct {
	pending []string // next task first
	tasks   map[string]*memTask
	paused  bool
	marker  bool
}

type memTask struct {
	message []byte
	state   string // pending, active, done, completed, retry or archived
	token   string // of the fetch that holds it, or of the last settlement
	lease   time.Time
	due     time.Time // of a retry
	result  string
	log     []wire.Attempt
	// progress and the times of its writes
	progress string
	reports  []time.Time
}

func newMemory(t testing.TB, queues ...string) *memory {
	m := &memory{t: t, queues: make(map[string]*memQueue), changed: make(chan struct{}), refuse: make(map[string]error)}
	for _, name := range queues {
		m.queues[name] = &memQueue{tasks: make(map[string]*memTask)}
	}
	return m
}

// add enqueues tasks like this library, with a marker.
func (m *memory) add(queue string, ids ...string) {
	m.addSilently(queue, ids...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mark(m.queues[queue])
}

// addSilently enqueues tasks like other libraries, without a marker.
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

// state returns the state of a task, and its message.
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

// mustHaveSent checks the parts of the requests since the last call.
func (m *memory) mustHaveSent(want ...string) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.sent, want) {
		m.t.Errorf("sent %q, want %q", m.sent, want)
	}
	m.sent = nil
}

func (m *memory) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// travel is the way of a request. It returns that of the reply.
func (m *memory) travel() (back func()) {
	var latency time.Duration
	m.set(func() { latency = m.latency })
	time.Sleep(latency)
	return func() { time.Sleep(latency) }
}

// RoundTrip executes a request, part by part.
func (m *memory) RoundTrip(_ context.Context, t *rdb.RoundTrip) {
	defer m.travel()()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trips++
	failure := noFailure
	if m.failure != nil {
		failure = m.failure(t)
	}
	for _, u := range t.Reclaim {
		m.sent = append(m.sent, "reclaim "+u.Queue)
		u.Err = m.part(failure, u.Queue, func(q *memQueue) { m.reclaim(q, u) })
	}
	for _, s := range t.Settle {
		m.sent = append(m.sent, fmt.Sprintf("%v %s", s.Outcome, s.ID))
		s.Err = m.part(failure, s.Queue, func(q *memQueue) { s.Code = m.settle(q, s) })
	}
	for _, fetch := range t.Fetch {
		m.sent = append(m.sent, fmt.Sprintf("fetch %d of %s", fetch.N, fetch.Queue))
		if fetch.Err = m.refuse["fetch "+fetch.Queue]; fetch.Err != nil {
			continue
		}
		fetch.Err = m.part(failure, fetch.Queue, func(q *memQueue) { m.fetch(q, fetch) })
		if fetch.Err != nil {
			fetch.Tasks, fetch.Dropped, fetch.Code, fetch.More = nil, nil, 0, false // in the lost reply
		}
	}
}

// part executes one part of a request.
func (m *memory) part(failure failure, queue string, do func(q *memQueue)) error {
	if err := m.refuse[queue]; err != nil && failure == noFailure {
		return err
	}
	if failure != lost {
		do(m.queues[queue])
	}
	if failure != noFailure {
		return errCut
	}
	return nil
}

func (m *memory) fetch(q *memQueue, fetch *rdb.Fetch) {
	now := time.Now().Add(m.skew)
	fetch.Now = now.UnixMilli()
	m.forward(q)
	active := 0
	for _, task := range q.tasks {
		if task.state == "active" {
			active++
		}
	}
	n := fetch.N
	if fetch.MaxActive > 0 {
		n = min(n, fetch.MaxActive-active)
	}
	switch {
	case fetch.NotAfter != 0 && fetch.Now > fetch.NotAfter:
		fetch.Code = script.CodeStale
		return
	case q.paused:
		fetch.Code = script.CodePaused
		return
	case n <= 0:
		fetch.Code = script.CodeCapped
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
			fetch.Dropped = append(fetch.Dropped, id)
			continue
		}
		if task.token == fetch.Token {
			m.t.Errorf("two fetches have the token %q", fetch.Token)
		}
		task.state, task.token, task.lease = "active", fetch.Token, now.Add(fetch.Lease)
		fetch.Tasks = append(fetch.Tasks, rdb.Fetched{ID: id, Message: slices.Clone(task.message)})
	}
	if fetch.More = len(q.pending) > 0; fetch.More && fetch.Mark && (fetch.MaxActive <= 0 || active+len(fetch.Tasks) < fetch.MaxActive) {
		m.mark(q)
	}
}

// forward does the work of a forwarder.
func (m *memory) forward(q *memQueue) {
	for id, task := range q.tasks {
		if task.state == "retry" && !task.due.After(time.Now().Add(m.skew)) {
			task.state = "pending"
			q.pending = append(q.pending, id)
		}
	}
}

func (m *memory) reclaim(q *memQueue, u *rdb.Reclaim) {
	for id, task := range q.tasks {
		if task.state == "active" && task.token == u.Token {
			task.state, task.token = "pending", ""
			q.pending = slices.Insert(q.pending, 0, id)
			u.Returned++
			m.mark(q)
		}
	}
	u.Cursor = "0"
}

func (m *memory) settle(q *memQueue, s *rdb.Settlement) script.Code {
	task := q.tasks[s.ID]
	switch {
	case task == nil || task.state == "done":
		return script.CodeGone
	case task.token != s.Token:
		return script.CodeLost
	case task.state != "active":
		return script.CodeAlready
	}
	if s.Message != nil {
		task.message = slices.Clone(s.Message)
	}
	if s.Result != nil {
		task.result = string(s.Result)
	}
	if e := s.Extra; e != nil {
		if e.Attempt != nil {
			task.log = append(task.log, wire.DecodeAttempts(e.Attempt)...)
		}
		if e.Progress != nil {
			task.progress = string(e.Progress)
		}
	}
	switch s.Outcome {
	case rdb.Done, rdb.Revoke, rdb.Expire, rdb.Discard:
		task.state = "done"
	case rdb.Complete:
		task.state = "completed"
	case rdb.Archive:
		task.state = "archived"
	case rdb.Retry, rdb.Defer:
		task.state, task.due = "retry", time.Now().Add(m.skew+s.Delay)
	case rdb.Requeue:
		task.state = "pending"
		q.pending = slices.Insert(q.pending, 0, s.ID)
		m.mark(q)
	}
	if s.MaxActive > 0 || s.MaxActive == rdb.InOrder {
		m.pass(q)
	}
	return script.CodeOK
}

// Extend extends leases.
func (m *memory) Extend(_ context.Context, queue string, lease time.Duration, tasks []rdb.Held) {
	defer m.travel()()
	m.mu.Lock()
	m.extends++
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
			h.Code = script.CodeGone
		case task.token != h.Token:
			h.Code = script.CodeLost
		default:
			h.Code = script.CodeOK
			task.lease = time.Now().Add(m.skew + lease)
		}
	}
}

// WriteResults stores results.
func (m *memory) WriteResults(_ context.Context, writes []*rdb.ResultWrite) {
	m.write(writes, func(task *memTask, data string) { task.result = data })
}

// WriteProgress stores progress.
func (m *memory) WriteProgress(_ context.Context, writes []*rdb.ResultWrite) {
	m.write(writes, func(task *memTask, data string) {
		task.progress, task.reports = data, append(task.reports, time.Now())
	})
}

// The memory has no steps: their tests are on Redis.
var errNoSteps = errors.New("no steps")

func (m *memory) ReadSteps(context.Context, string, string, string) (*rdb.StepState, error) {
	return nil, errNoSteps
}

func (m *memory) ReadStep(context.Context, string, string, string) (string, error) {
	return "", errNoSteps
}

func (m *memory) WriteStep(context.Context, *rdb.StepWrite) error { return errNoSteps }

func (m *memory) write(writes []*rdb.ResultWrite, store func(task *memTask, data string)) {
	defer m.travel()()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes = append(m.writes, len(writes))
	for _, w := range writes {
		if w.Err = m.failing; w.Err != nil {
			continue
		}
		w.Err = m.part(noFailure, w.Queue, func(q *memQueue) {
			task := q.tasks[w.ID]
			switch {
			case task == nil:
				w.Code = script.CodeGone
			case task.state != "active" || task.token != w.Token:
				w.Code = script.CodeLost
			default:
				store(task, string(w.Result))
			}
		})
	}
}

// Waiting returns the queues that have pending tasks.
func (m *memory) Waiting(_ context.Context, queues []string) (waiting []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.polls = append(m.polls, queues...)
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
