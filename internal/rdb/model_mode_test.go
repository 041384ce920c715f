package rdb_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/rdbcheck"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// TestModeModel makes random calls with modes, among fetches, outcomes, lost replies, deletions and
// the passing of time, and compares the tasks of the queue and their locks with a model after each.
// No two tasks of a key may wait.
func TestModeModel(t *testing.T) {
	redistest.LimitChecks(t, 40)
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		repeating := redistest.RepeatingBroker(t, r)
		rapid.Check(t, func(rt *rapid.T) {
			if err := r.Client().FlushDB(context.Background()).Err(); err != nil {
				rt.Fatal(err)
			}
			m := &modeMachine{
				t: t, r: r, brokers: []*rdb.Broker{rdb.New(r.Client(), ""), repeating}, tasks: map[string]*modeTask{}, locks: map[string]string{},
				windows: map[string]modeWindow{},
			}
			rt.Repeat(map[string]func(*rapid.T){
				"enqueue": m.enqueue, "enqueue2": m.enqueue, "fetch": m.fetch, "settle": m.settle, "reclaim": m.reclaim, "delete": m.delete,
				"pass": m.pass, "": m.check,
			})
		})
	})
}

// The durations of the model. No sum of them is a multiple of a step of time, so a task is either
// due or not for a minute and more, however slow the test is.
const (
	modeQuiet   = 1000
	modeMaxWait = 1500
	modeWindowS = 1000
	modeDelay   = 1000
	modeRetry   = 500
	modeStep    = 400
)

type modeTask struct {
	id, lock, payload string
	state             wire.State
	retried           int
	due, first        int64 // unix seconds, approximately; 0: none
	bounced           bool  // the last call that set its time was a debounce
	followed          bool  // a later task has taken over the lock
	token             string
}

func (t *modeTask) waits() bool {
	return t.state == wire.StatePending || t.state == wire.StateScheduled || t.state == wire.StateRetry
}

// modeWindow is the window of a throttle.
type modeWindow struct {
	till int64 // unix seconds
	id   string
}

type modeMachine struct {
	t       *testing.T
	r       *redistest.Redis
	brokers []*rdb.Broker
	serial  int
	tasks   map[string]*modeTask
	locks   map[string]string
	windows map[string]modeWindow
	pending []string // the next one to run is the first
}

// enqueue makes a call, sometimes twice.
func (m *modeMachine) enqueue(rt *rapid.T) {
	m.serial++
	id, key := fmt.Sprint("t", m.serial), pick(rt, "key", "a", "b")
	kind := pick(rt, "kind", "keep", "replace", "supersede", "delayed", "debounce", "throttle", "fold")
	now := time.Now().Unix()
	n := moded(m.t, id, key, map[string]rdb.DuplicatePolicy{"keep": rdb.Keep, "throttle": rdb.Keep, "supersede": rdb.Supersede}[kind])
	if n.Mode.Policy == rdb.Reject {
		n.Mode.Policy = rdb.Replace
	}
	n.LockTTL = 1e6
	switch kind {
	case "delayed":
		n.ProcessAt = now + modeDelay
	case "debounce":
		n.Mode.Quiet, n.Mode.MaxWait = modeQuiet, modeMaxWait
	case "throttle", "fold":
		n = m.throttled(n, key)
	}
	if m.brokers[pick(rt, "broker", 0, 0, 1)].Enqueue(context.Background(), n); n.Err != nil {
		rt.Fatal(n.Err)
	}
	want, superseded := m.call(n, kind, now)
	if n.Mode.FirstID != want || n.Mode.Repeated != (want != id) || n.Mode.Superseded != superseded {
		rt.Errorf("%s %q of key %q: it stands for %+v, want %q, superseding %q", kind, id, key, n.Mode, want, superseded)
	}
}

func (m *modeMachine) throttled(n *rdb.NewTask, key string) *rdb.NewTask {
	policy := n.Mode.Policy
	n = moded(m.t, n.ID, "throttle:"+key, policy)
	n.LockTTL = 1e6
	n.Mode.Throttle, n.Mode.Window = "asynq:{q}:throttle:"+key, modeWindowS
	return n
}

// call is the specification of enqueue_mode.lua. It returns the ID of the task that the call stands
// for, and that of an active task to cancel.
func (m *modeMachine) call(n *rdb.NewTask, kind string, now int64) (id, superseded string) {
	window, open := m.windows[n.Mode.Throttle]
	open = open && window.till > now
	if kind == "throttle" {
		if open {
			return window.id, ""
		}
		m.windows[n.Mode.Throttle] = modeWindow{now + modeWindowS, n.ID}
		m.add(&modeTask{id: n.ID, payload: n.ID}, 0)
		return n.ID, ""
	}
	holder := m.tasks[m.locks[n.Lock]]
	if holder != nil && !holder.waits() && holder.state != wire.StateActive {
		holder = nil
	}
	switch {
	case holder == nil, holder.state == wire.StateActive && kind != "keep":
		t := &modeTask{id: n.ID, lock: n.Lock, payload: n.ID}
		at := n.ProcessAt
		switch {
		case kind == "debounce":
			t.first, t.bounced, at = now, true, now+modeQuiet
		case kind == "fold" && open:
			at = window.till
			m.windows[n.Mode.Throttle] = modeWindow{at + modeWindowS, n.ID}
		case kind == "fold":
			t.lock = ""
			m.windows[n.Mode.Throttle] = modeWindow{now + modeWindowS, n.ID}
		}
		if m.add(t, at); t.lock != "" {
			m.locks[n.Lock] = n.ID
			if holder != nil {
				holder.followed = true
			}
		}
		if kind == "supersede" && holder != nil {
			superseded = holder.id
		}
		return n.ID, superseded
	case kind == "keep":
		return holder.id, ""
	}
	holder.payload = n.ID
	switch {
	case kind == "fold":
	case kind == "debounce" && holder.state == wire.StateScheduled:
		if holder.first == 0 {
			holder.first = now
		}
		holder.due, holder.bounced = min(now+modeQuiet, holder.first+modeMaxWait), true
	case kind == "debounce", holder.state == wire.StateRetry && n.ProcessAt == 0, holder.state == wire.StatePending && n.ProcessAt == 0:
	case holder.state == wire.StateRetry:
		holder.due = n.ProcessAt
	default:
		holder.bounced = false
		m.leavePending(holder)
		m.add(holder, n.ProcessAt)
	}
	return holder.id, ""
}

// add puts a task into pending or scheduled.
func (m *modeMachine) add(t *modeTask, at int64) {
	m.tasks[t.id] = t
	if t.state, t.due = wire.StateScheduled, at; at == 0 {
		t.state = wire.StatePending
		m.pending = append(m.pending, t.id)
	}
}

func (m *modeMachine) leavePending(t *modeTask) {
	m.pending = slices.DeleteFunc(m.pending, func(id string) bool { return id == t.id })
}

// remove deletes a task and releases its lock, if it holds one.
func (m *modeMachine) remove(t *modeTask) {
	m.leavePending(t)
	delete(m.tasks, t.id)
	if m.locks[t.lock] == t.id {
		delete(m.locks, t.lock)
	}
}

func (m *modeMachine) fetch(rt *rapid.T) {
	m.serial++
	token := fmt.Sprint("f", m.serial)
	f := redistest.Fetch(m.t, m.brokers[0], rdb.Fetch{N: 1, Token: token})
	if f.Err != nil || len(f.Tasks) != min(len(m.pending), 1) {
		rt.Fatalf("fetched %d tasks of %q, error %v", len(f.Tasks), m.pending, f.Err)
	}
	for _, got := range f.Tasks {
		if got.ID != m.pending[0] {
			rt.Fatalf("fetched %q, want %q", got.ID, m.pending[0])
		}
		t := m.tasks[got.ID]
		m.leavePending(t)
		t.state, t.token, t.due = wire.StateActive, token, 0
	}
}

// replaced reports whether a task that leaves the state active is deleted rather than made waiting.
// If it waits, it has its lock again.
func (m *modeMachine) replaced(t *modeTask) bool {
	if !t.followed {
		return false
	}
	if other := m.tasks[m.locks[t.lock]]; other != nil && (other.waits() || other.state == wire.StateActive) {
		m.remove(t)
		return true
	}
	t.followed, m.locks[t.lock] = false, t.id
	return false
}

// in returns the IDs of the tasks in some states.
func (m *modeMachine) in(is func(t *modeTask) bool) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(m.tasks)) {
		if is(m.tasks[id]) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (m *modeMachine) settle(rt *rapid.T) {
	active := m.in(func(t *modeTask) bool { return t.state == wire.StateActive })
	if len(active) == 0 {
		rt.Skip()
	}
	t := m.tasks[pick(rt, "task", active...)]
	s := rdb.Settlement{ID: t.id, Token: t.token, Outcome: pick(rt, "outcome", rdb.Done, rdb.Complete, rdb.Retry, rdb.Archive, rdb.Requeue), Lock: t.lock}
	msg := redistest.Message("q", t.id)
	msg.Payload, msg.UniqueKey, msg.Retried = []byte(t.payload), t.lock, t.retried
	t.token = ""
	switch s.Outcome {
	case rdb.Done:
		m.remove(t)
	case rdb.Complete:
		s.Retention = 1e6
		m.remove(t)
		m.tasks[t.id] = t
		t.state, t.lock = wire.StateCompleted, ""
	case rdb.Retry:
		s.Delay = modeRetry * time.Second
		msg.Retried++
		if !m.replaced(t) {
			t.state, t.retried, t.due = wire.StateRetry, t.retried+1, time.Now().Unix()+modeRetry
		}
	case rdb.Archive:
		t.state, t.followed = wire.StateArchived, false
	default:
		m.release(t)
	}
	if s.Outcome != rdb.Requeue {
		s.Message = redistest.Encode(m.t, msg)
	}
	if code := redistest.Settle(m.t, m.brokers[0], s); code != script.CodeOK {
		rt.Fatalf("%v of %q: code %d", s.Outcome, t.id, code)
	}
}

// release returns an active task to the front of pending.
func (m *modeMachine) release(t *modeTask) {
	if !m.replaced(t) {
		t.state = wire.StatePending
		m.pending = slices.Insert(m.pending, 0, t.id)
	}
}

// reclaim returns the task of a fetch as if the reply to it was lost.
func (m *modeMachine) reclaim(rt *rapid.T) {
	active := m.in(func(t *modeTask) bool { return t.state == wire.StateActive })
	if len(active) == 0 {
		rt.Skip()
	}
	t := m.tasks[pick(rt, "task", active...)]
	n := redistest.Reclaim(m.t, m.brokers[0], t.token)
	t.token = ""
	m.release(t)
	if want := map[wire.State]int{wire.StatePending: 1}[t.state]; n != want {
		rt.Errorf("reclaimed %d tasks of the fetch of %q, want %d", n, t.id, want)
	}
}

func (m *modeMachine) delete(rt *rapid.T) {
	ids := m.in(func(t *modeTask) bool { return t.state != wire.StateActive })
	if len(ids) == 0 {
		rt.Skip()
	}
	id := pick(rt, "task", ids...)
	codes, err := inspect.New(m.brokers[0]).Change(context.Background(), inspect.Change{Verb: inspect.Delete, Queue: "q"}, []string{id})
	if err != nil || codes[0] != script.CodeOK {
		rt.Fatalf("delete: %v, error %v", codes, err)
	}
	m.remove(m.tasks[id])
}

// pass lets time pass, and moves due tasks.
func (m *modeMachine) pass(*rapid.T) {
	shift(m.t, m.r, modeStep)
	now := time.Now().Unix()
	var due []*modeTask
	for _, t := range m.tasks {
		if t.state == wire.StateScheduled || t.state == wire.StateRetry {
			if t.due -= modeStep; t.due <= now {
				due = append(due, t)
			}
		}
		if t.first > 0 {
			t.first -= modeStep
		}
	}
	for key, w := range m.windows {
		m.windows[key] = modeWindow{w.till - modeStep, w.id}
	}
	redistest.Forward(m.t, m.brokers[0])
	// The order among tasks that become due at once is that of their sets, scores and IDs.
	order := m.r.Client().LRange(context.Background(), "asynq:{q}:pending", 0, int64(len(due))-1).Val()
	slices.Reverse(order)
	for _, t := range due {
		t.state, t.due = wire.StatePending, 0
		if !slices.Contains(order, t.id) {
			m.t.Errorf("%q is due, and the pending tasks are %q", t.id, order)
		}
	}
	if len(due) > 0 {
		m.pending = append(m.pending, order...)
	}
}

// check compares Redis with the model.
func (m *modeMachine) check(rt *rapid.T) {
	ctx, c := context.Background(), m.r.Client()
	keys := c.Keys(ctx, "asynq:{q}:t:*").Val()
	if len(keys) != len(m.tasks) {
		rt.Errorf("Redis has the tasks %q, the model %v", keys, slices.Sorted(maps.Keys(m.tasks)))
	}
	waiting := make(map[string]string)
	for id, t := range m.tasks {
		f := c.HMGet(ctx, "asynq:{q}:t:"+id, "msg", "state", "first_at").Val()
		text, _ := f[0].(string)
		msg, err := wire.DecodeTaskMessage([]byte(text))
		if err != nil || msg.ID != id || string(msg.Payload) != t.payload || msg.Retried != t.retried || f[1] != t.state.String() {
			rt.Errorf("task %+v: state %v, message %+v, error %v", t, f[1], msg, err)
		}
		m.adopt(rt, t, f[2])
		if t.waits() && t.lock != "" {
			if other := waiting[t.lock]; other != "" {
				rt.Errorf("%q and %q wait with the lock %q", other, id, t.lock)
			}
			waiting[t.lock] = id
		}
		if t.state == wire.StateScheduled && t.bounced && t.due > t.first+modeMaxWait {
			rt.Errorf("%q is due %d s after its first call", id, t.due-t.first)
		}
	}
	locks := c.Keys(ctx, "asynq:{q}:unique:*").Val()
	for _, lock := range locks {
		if holder := c.Get(ctx, lock).Val(); holder != m.locks[lock] {
			rt.Errorf("%q holds the lock %q, in the model %q", holder, lock, m.locks[lock])
		}
	}
	if len(locks) != len(m.locks) {
		rt.Errorf("Redis has the locks %q, the model %v", locks, m.locks)
	}
	order := c.LRange(ctx, "asynq:{q}:pending", 0, -1).Val()
	if slices.Reverse(order); !slices.Equal(order, m.pending) {
		rt.Errorf("pending are %q, in the model %q", order, m.pending)
	}
	found, err := rdbcheck.Check(ctx, c, "asynq")
	if err != nil {
		rt.Fatal(err)
	}
	for _, v := range found {
		rt.Errorf("broken invariant: %v", v)
	}
}

// adopt compares the times of a task, which the model knows approximately, and takes them over.
func (m *modeMachine) adopt(rt *rapid.T, t *modeTask, first any) {
	near := func(what string, got, want int64) int64 {
		if got < want-60 || got > want+60 {
			rt.Errorf("%s of %q is %d, want %d", what, t.id, got, want)
		}
		return got
	}
	if t.state == wire.StateScheduled || t.state == wire.StateRetry {
		t.due = near("the time", int64(m.r.Client().ZScore(context.Background(), "asynq:{q}:"+t.state.String(), t.id).Val()), t.due)
	}
	if text, ok := first.(string); ok && t.first > 0 {
		at, _ := strconv.ParseInt(text, 10, 64)
		t.first = near("the first call", at, t.first)
	}
	for key, w := range m.windows {
		value, _, _ := strings.Cut(m.r.Client().Get(context.Background(), key).Val(), " ")
		if ms, err := strconv.ParseInt(value, 10, 64); err == nil {
			m.windows[key] = modeWindow{near("the window "+key, ms/1000, w.till), w.id}
		}
	}
}
