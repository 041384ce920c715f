package rdb_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// modelArchive is how many tasks an archive of the model keeps.
const modelArchive = 3

// model implements the transitions of the broker without Redis.
//
// A task of the model holds its own state. Redis repeats that state in collections, leases and
// locks. The test checks that they agree.
type model struct {
	now    int64 // unix seconds, when the step began
	queues []*modelQueue
}

// modelQueue is one queue.
type modelQueue struct {
	keys                     wire.Queue
	tasks                    map[string]*modelTask
	pending                  []string // the next one to run is the first
	active                   []string // in the order of their fetches
	locks                    map[string]string
	due                      map[string]*moment // when the next check of a group is due
	sets                     map[string]*modelSet
	paused, published, swept bool
	processed, failed        int

	marked bool // the step must have left a marker
}

// modelTask is one task. Its time is the score, or pending_since, of its state.
type modelTask struct {
	id, message, token, settled, group, set, lock, result, progress string
	log                                                             map[string]string // by field
	state                                                           wire.State
	at                                                              moment
}

// moment is a time in unix seconds. The model knows only approximately when a step took place. It
// reads the exact time from Redis afterwards; from then on the time must not change.
type moment struct {
	unix  int64
	exact bool
}

func newModel(broker *rdb.Broker, queues ...string) *model {
	m := &model{}
	for _, name := range queues {
		m.queues = append(m.queues, newModelQueue(broker.Keys(name)))
	}
	return m
}

func newModelQueue(keys wire.Queue) *modelQueue {
	return &modelQueue{
		keys: keys, tasks: map[string]*modelTask{}, locks: map[string]string{}, due: map[string]*moment{}, sets: map[string]*modelSet{},
	}
}

func (m *model) queue(name string) *modelQueue {
	return m.queues[slices.IndexFunc(m.queues, func(q *modelQueue) bool { return q.keys.Name == name })]
}

// begin starts a step.
func (m *model) begin() {
	m.now = time.Now().Unix()
	for _, q := range m.queues {
		q.marked = false
	}
}

// ids are the IDs of all tasks, sorted.
func (q *modelQueue) ids() []string {
	ids := make([]string, 0, len(q.tasks))
	for id := range q.tasks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// in returns the tasks in some states, in the order of their times.
func (q *modelQueue) in(states ...wire.State) []*modelTask {
	var tasks []*modelTask
	for _, t := range q.tasks {
		if slices.Contains(states, t.state) {
			tasks = append(tasks, t)
		}
	}
	slices.SortFunc(tasks, func(a, b *modelTask) int { return cmp.Or(cmp.Compare(a.at.unix, b.at.unix), cmp.Compare(a.id, b.id)) })
	return tasks
}

// until returns the first tasks of a state, those whose time is not after now.
func (q *modelQueue) until(now int64, state wire.State) []*modelTask {
	tasks := q.in(state)
	n := slices.IndexFunc(tasks, func(t *modelTask) bool { return t.at.unix > now })
	if n < 0 {
		return tasks
	}
	return tasks[:n]
}

// place is where a task goes in pending.
type place bool

const (
	last  place = false
	first place = true
)

// move puts a task into a state that is not pending.
func (q *modelQueue) move(t *modelTask, state wire.State, at int64) {
	is := func(id string) bool { return id == t.id }
	q.pending, q.active = slices.DeleteFunc(q.pending, is), slices.DeleteFunc(q.active, is)
	if state == wire.StateActive {
		q.active = append(q.active, t.id)
	}
	t.state, t.set, t.at = state, "", moment{unix: at}
}

// wait puts a task into pending, and wakes a server.
func (q *modelQueue) wait(t *modelTask, where place, now int64) {
	q.move(t, wire.StatePending, now)
	if where == first {
		q.pending = slices.Insert(q.pending, 0, t.id)
	} else {
		q.pending = append(q.pending, t.id)
	}
	q.marked = true
}

// unlock gives up the lock of a task, if it holds it still.
func (q *modelQueue) unlock(t *modelTask) {
	if q.locks[t.lock] == t.id {
		delete(q.locks, t.lock)
	}
	t.lock = ""
}

func (q *modelQueue) remove(t *modelTask, now int64) {
	q.unlock(t)
	q.move(t, wire.StateCompleted, now) // out of the lists
	delete(q.tasks, t.id)
}

// create makes a task.
func (q *modelQueue) create(n *rdb.NewTask, now int64) error {
	existing := q.tasks[n.ID]
	_, locked := q.locks[n.Lock]
	switch {
	case locked:
		return script.ErrDuplicateTask
	case existing != nil:
		return script.ErrTaskIDConflict
	}
	t := &modelTask{id: n.ID, message: string(n.Message), group: n.Group, lock: n.Lock}
	q.tasks[n.ID] = t
	if n.Lock != "" {
		q.locks[n.Lock] = n.ID
	}
	switch {
	case n.ProcessAt > 0:
		q.move(t, wire.StateScheduled, n.ProcessAt)
		t.at.exact = true
		q.marked = q.marked || q.in(wire.StateScheduled)[0] == t
	case n.Group != "":
		q.gather(t, now)
	default:
		q.wait(t, last, now)
	}
	return nil
}

// fetch takes tasks, and returns them with the code and whether some are left.
func (q *modelQueue) fetch(f *rdb.Fetch, now int64) (taken []rdb.Fetched, code script.Code, more bool) {
	if f.NotAfter > 0 && f.NotAfter < now*1000 {
		return nil, script.CodeStale, false
	}
	if q.paused {
		return nil, script.CodePaused, false
	}
	n, most := f.N, f.MaxActive
	if most == rdb.InOrder {
		most = 1
		if len(q.in(wire.StateRetry)) > 0 {
			return nil, script.CodeCapped, false
		}
	}
	capped := most > 0 && most-len(q.active) < n
	if capped {
		n = max(most-len(q.active), 0)
	}
	for _, id := range slices.Clone(q.pending[:min(n, len(q.pending))]) {
		t := q.tasks[id]
		q.move(t, wire.StateActive, now+int64(f.Lease/time.Second))
		t.token = f.Token
		taken = append(taken, rdb.Fetched{ID: id, Message: []byte(t.message), Wait: -time.Microsecond})
	}
	switch {
	case capped && len(taken) == n:
		return taken, script.CodeCapped, false // no server can take what may be left
	case len(q.pending) > 0:
		q.marked = q.marked || f.Mark && (most <= 0 || len(q.active) < most)
		return taken, script.CodeOK, true
	}
	return taken, script.CodeOK, false
}

// reclaim returns the tasks held under a token to pending. It returns their number.
func (q *modelQueue) reclaim(token string, now int64) (back int) {
	for _, id := range slices.Backward(slices.Clone(q.active)) {
		if t := q.tasks[id]; t.token == token {
			q.wait(t, first, now)
			t.token = ""
			back++
		}
	}
	return back
}

// held returns the task if it is active under the token, and CodeAlready if its last settled
// attempt was settled under by.
func (q *modelQueue) held(id, token, by string) (*modelTask, script.Code) {
	t := q.tasks[id]
	switch {
	case t == nil:
		return nil, script.CodeGone
	case t.token == token && t.state == wire.StateActive:
		return t, script.CodeOK
	case by != "" && t.settled == by:
		return nil, script.CodeAlready
	}
	return nil, script.CodeLost
}

// settle ends an attempt.
func (q *modelQueue) settle(s *rdb.Settlement, now int64) script.Code {
	t, code := q.held(s.ID, s.Token, s.Token)
	if code != script.CodeOK {
		return code
	}
	t.token, t.settled = "", s.Token
	if s.Message != nil {
		t.message = string(s.Message)
	}
	if s.Result != nil {
		t.result = string(s.Result)
	}
	t.extra(s.Extra)
	switch s.Outcome {
	case rdb.Done, rdb.Revoke, rdb.Expire:
		q.remove(t, now)
		q.processed++
	case rdb.Complete:
		q.unlock(t)
		q.move(t, wire.StateCompleted, now+s.Retention)
		q.processed++
	case rdb.Retry, rdb.Defer:
		if s.Delay == 0 && s.Outcome == rdb.Retry && t.group == "" {
			q.wait(t, place(s.MaxActive == rdb.InOrder), now)
		} else {
			q.move(t, wire.StateRetry, now+int64(s.Delay/time.Second))
		}
		q.count(s.Outcome == rdb.Retry)
	case rdb.Archive:
		q.move(t, wire.StateArchived, now)
		q.count(true)
	case rdb.Requeue:
		q.wait(t, first, now)
	case rdb.Discard:
		q.remove(t, now)
		q.count(true)
	}
	return code
}

// extra stores further values of a settlement.
func (t *modelTask) extra(e *rdb.Extra) {
	if e == nil {
		return
	}
	if e.Attempt != nil {
		log := map[string]string{wire.LogField(e.Number): string(e.Attempt)}
		for field, entry := range t.log {
			if log[field] == "" && (e.Number < e.LogSize || field != wire.LogField(e.Number-e.LogSize)) {
				log[field] = entry
			}
		}
		t.log = log // a new map: the states before keep theirs
	}
	if e.Progress != nil {
		t.progress = string(e.Progress)
	}
}

// count counts an attempt that failed, if it counts.
func (q *modelQueue) count(failed bool) {
	if failed {
		q.processed++
		q.failed++
	}
}

// trim deletes at most n tasks that the archive must not keep, and returns how many these were.
func (q *modelQueue) trim(n int, now int64) (trimmed int) {
	archived := q.in(wire.StateArchived)
	for i, t := range archived {
		tooOld := t.at.unix < now-90*24*60*60
		if trimmed < n && (tooOld || len(archived)-i > modelArchive) {
			q.remove(t, now)
			trimmed++
		}
	}
	return trimmed
}

// expireCompleted deletes at most n tasks whose retention is over, and returns how many these were.
func (q *modelQueue) expireCompleted(n int, now int64) int {
	over := q.until(now, wire.StateCompleted)
	over = over[:min(n, len(over))]
	for _, t := range over {
		q.remove(t, now)
	}
	return len(over)
}

// forward moves the due tasks and returns their number.
func (q *modelQueue) forward(now int64, inOrder bool) (moved int) {
	for _, state := range []wire.State{wire.StateScheduled, wire.StateRetry} {
		due, where := q.until(now, state), last
		if inOrder && state == wire.StateRetry {
			slices.Reverse(due)
			where = first
		}
		for _, t := range due {
			if t.group == "" {
				q.wait(t, where, now)
			} else {
				q.gather(t, now)
			}
			moved++
		}
	}
	return moved
}

// expired returns tasks whose lease has ended, and the number of scanned leases.
func (q *modelQueue) expired(skip, n int, now int64) (list []rdb.Expired, scanned int) {
	ended := q.until(now, wire.StateActive)
	ended = ended[min(skip, len(ended)):]
	ended = ended[:min(n, len(ended))]
	for _, t := range ended {
		if t.token == "" && t.at.unix > now-30 {
			continue // a foreign clock may be behind
		}
		list = append(list, rdb.Expired{ID: t.id, Token: t.token, Message: []byte(t.message)})
	}
	return list, len(ended)
}

// byRecovery stands for the name of a recovery that the model does not know yet.
const byRecovery = "the recovery"

// recover takes a task back whose lease has ended.
func (q *modelQueue) recover(r *rdb.Settlement, now int64) script.Code {
	t, code := q.held(r.ID, r.Token, "")
	if code != script.CodeOK {
		return code
	}
	if t.at.unix > now {
		return script.CodeLost
	}
	t.token, t.settled = "", byRecovery
	if r.Message != nil {
		t.message = string(r.Message)
	}
	t.extra(r.Extra)
	if r.Outcome == rdb.Archive {
		q.move(t, wire.StateArchived, now)
	} else {
		q.wait(t, first, now)
	}
	q.count(r.Failed)
	return code
}
