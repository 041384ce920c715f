package rdb_test

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// modelLease is longer than any run.
const modelLease = 10 * time.Minute

// roundTrip makes a round trip with at most so many reclaims, settlements and fetches.
func (m *machine) roundTrip(t *rapid.T, reclaims, settlements, fetches int) {
	trip := &rdb.RoundTrip{}
	for range rapid.IntRange(0, reclaims).Draw(t, "reclaims") {
		trip.Reclaim = append(trip.Reclaim, &rdb.Reclaim{Queue: m.pickQueue(t).keys.Name, Token: pick(t, "token", recent(m.tokens)...)})
	}
	for range rapid.IntRange(0, settlements).Draw(t, "settlements") {
		if s := m.pickSettlement(t); !slices.ContainsFunc(trip.Settle, func(other *rdb.Settlement) bool {
			return s.Queue == other.Queue && s.ID == other.ID // an attempt has one outcome
		}) {
			trip.Settle = append(trip.Settle, s)
		}
	}
	for range rapid.IntRange(0, fetches).Draw(t, "fetches") {
		trip.Fetch = append(trip.Fetch, m.pickFetch(t))
	}
	most := pick(t, "limit", 0, 0, 3, rdb.InOrder)
	for _, s := range trip.Settle {
		s.MaxActive = most
	}
	m.broker.RoundTrip(m.ctx, trip)

	now := m.model.now
	for _, u := range trip.Reclaim {
		back := m.model.queue(u.Queue).reclaim(u.Token, now)
		expect(t, "reclaim", rdb.Reclaim{Queue: u.Queue, Token: u.Token, Cursor: "0", Returned: back}, *u)
	}
	type target struct {
		queue string
		done  bool
	}
	for _, call := range inCalls(trip.Settle, func(s *rdb.Settlement) target {
		return target{s.Queue, s.Outcome == rdb.Done || s.Outcome == rdb.Revoke || s.Outcome == rdb.Expire}
	}) {
		q := m.model.queue(call[0].Queue)
		slices.SortStableFunc(call, func(a, b *rdb.Settlement) int { return cmp.Compare(a.Outcome, b.Outcome) })
		archived, freed := false, false
		for _, s := range call {
			freed = freed || s.Code == script.CodeOK
			archived = archived || s.Outcome == rdb.Archive && s.Code == script.CodeOK
			if code := q.settle(s, now); s.Err != nil || s.Code != code {
				t.Errorf("%v of %q under %q: code %d, want %d, error %v", s.Outcome, s.ID, s.Token, s.Code, code, s.Err)
			}
		}
		if archived {
			q.trim(len(q.tasks), now)
		}
		fetched := slices.ContainsFunc(trip.Fetch, func(f *rdb.Fetch) bool { return f.Queue == call[0].Queue })
		q.marked = q.marked || freed && most != 0 && len(q.pending) > 0 && !fetched
	}
	for _, f := range trip.Fetch {
		tasks, code, more := m.model.queue(f.Queue).fetch(f, now)
		if f.Err != nil || f.Code != code || f.More != more || len(f.Dropped) > 0 {
			t.Errorf("fetch: %+v; want code %d, more: %v", f, code, more)
		}
		expect(t, "fetch", tasks, f.Tasks)
	}
}

func (m *machine) pickSettlement(t *rapid.T) *rdb.Settlement {
	if len(m.settled) > 0 && oneIn(t, 5, "repeat") {
		again := pick(t, "call", recent(m.settled)...)
		return &again
	}
	q := m.pickQueue(t)
	s := &rdb.Settlement{Queue: q.keys.Name, Outcome: rdb.Outcome(rapid.IntRange(int(rdb.Done), int(rdb.Discard)).Draw(t, "outcome"))}
	s.ID, s.Token = m.pickTask(t, q)
	if task := q.tasks[s.ID]; task != nil {
		s.Lock = task.lock
	}
	switch s.Outcome {
	case rdb.Complete:
		s.Message, s.Retention = m.pickMessage(t, q, s.ID), 3600
	case rdb.Retry, rdb.Defer:
		s.Message, s.Delay = m.pickMessage(t, q, s.ID), pick(t, "delay", 0, time.Hour)
	case rdb.Archive:
		s.Message = m.pickMessage(t, q, s.ID)
	}
	if oneIn(t, 3, "result") {
		s.Result = []byte(m.newName("result"))
	}
	s.Extra = m.pickExtra(t)
	m.settled = append(m.settled, *s)
	return s
}

// pickExtra draws further values of a settlement.
func (m *machine) pickExtra(t *rapid.T) *rdb.Extra {
	if !oneIn(t, 3, "extra") {
		return nil
	}
	e := &rdb.Extra{}
	if oneIn(t, 2, "entry") {
		e.Attempt, e.LogSize = []byte(m.newName("entry")), rapid.IntRange(1, 3).Draw(t, "log size")
		e.Number = rapid.IntRange(0, 6).Draw(t, "attempt")
	}
	if oneIn(t, 2, "progress") {
		e.Progress = []byte(m.newName("progress"))
	}
	return e
}

func (m *machine) pickFetch(t *rapid.T) *rdb.Fetch {
	f := &rdb.Fetch{
		Queue:     m.pickQueue(t).keys.Name,
		N:         pick(t, "n", 1, 2, 3, 5, 10, 500),
		Token:     m.newName("token"),
		Lease:     modelLease,
		MaxActive: pick(t, "max active", 0, 0, 0, 1, 2, 3, 5, rdb.InOrder, rdb.InOrder, -1),
		Mark:      !oneIn(t, 4, "no mark"),
	}
	if oneIn(t, 4, "in time") {
		f.NotAfter = (m.model.now + 3600) * 1000
	} else if oneIn(t, 6, "stale") {
		f.NotAfter = (m.model.now - 3600) * 1000
	}
	m.tokens = append(m.tokens, f.Token)
	return f
}

func (m *machine) extend(t *rapid.T) {
	q := m.pickQueue(t)
	var held []rdb.Held
	for range rapid.IntRange(1, 4).Draw(t, "tasks") {
		id, token := m.pickTask(t, q)
		held = append(held, rdb.Held{ID: id, Token: token})
	}
	m.anyBroker(t).Extend(m.ctx, q.keys.Name, 2*modelLease, held)
	for _, h := range held {
		task, code := q.held(h.ID, h.Token, "")
		if task != nil {
			task.at = moment{unix: m.model.now + int64(2*modelLease/time.Second)}
		}
		if h.Err != nil || h.Code != code {
			t.Errorf("extend of %q under %q: code %d, want %d, error %v", h.ID, h.Token, h.Code, code, h.Err)
		}
	}
}

// writeResults writes results or progress of some tasks, perhaps several of one.
func (m *machine) writeResults(t *rapid.T) {
	var writes []*rdb.ResultWrite
	var codes []script.Code
	progress := oneIn(t, 3, "progress")
	for range rapid.IntRange(1, 4).Draw(t, "results") {
		q := m.pickQueue(t)
		id, token := m.pickTask(t, q)
		w := &rdb.ResultWrite{Queue: q.keys.Name, ID: id, Token: token, Result: []byte(m.newName("result"))}
		task, code := q.held(id, token, "")
		switch {
		case task == nil:
		case progress:
			task.progress = string(w.Result)
		default:
			task.result = string(w.Result)
		}
		writes, codes = append(writes, w), append(codes, code)
	}
	if b := m.anyBroker(t); progress {
		b.WriteProgress(m.ctx, writes)
	} else {
		b.WriteResults(m.ctx, writes)
	}
	for i, w := range writes {
		if w.Err != nil || w.Code != codes[i] {
			t.Errorf("result of %q under %q: code %d, want %d, error %v", w.ID, w.Token, w.Code, codes[i], w.Err)
		}
	}
}

// recover recovers some tasks with expired leases, and tries others.
func (m *machine) recover(t *rapid.T) {
	q, now := m.pickQueue(t), m.model.now
	skip, n := pick(t, "skip", 0, 0, 0, 1, 2), pick(t, "n", 100, 100, 2, 1)
	listed, scanned, next, err := m.broker.Expired(m.ctx, q.keys.Name, skip, n)
	want, wantScanned := q.expired(skip, n, now)
	if err != nil || scanned != wantScanned {
		t.Errorf("scanned %d leases, want %d, error %v", scanned, wantScanned, err)
	}
	expect(t, "expired", want, listed)
	if others := len(q.active) > len(q.until(now, wire.StateActive)); skip == 0 && others && scanned < n && next <= 0 {
		t.Errorf("the next lease ends in %v", next)
	} else if len(q.active) == 0 && next >= 0 {
		t.Errorf("there is no lease, and the next one ends in %v", next)
	}

	var items []*rdb.Settlement
	for _, e := range listed {
		if !oneIn(t, 4, "left alone") {
			items = append(items, m.pickRecovery(t, q, e.ID, e.Token))
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "others") {
		id, token := m.pickTask(t, q)
		if !slices.ContainsFunc(items, func(r *rdb.Settlement) bool { return r.ID == id }) {
			items = append(items, m.pickRecovery(t, q, id, token))
		}
	}
	b := m.anyBroker(t)
	b.Recover(m.ctx, items)
	codes, archived := make(map[*rdb.Settlement]script.Code), false
	for _, outcome := range []rdb.Outcome{rdb.Requeue, rdb.Archive} { // a call each
		for _, r := range items {
			if r.Outcome == outcome {
				codes[r] = q.recover(r, now)
				archived = archived || outcome == rdb.Archive && codes[r] == script.CodeOK
			}
		}
	}
	if archived {
		q.trim(len(q.tasks), now)
	}
	for _, r := range items {
		code := codes[r]
		if _, kept := q.tasks[r.ID]; b == m.again && code == script.CodeOK && kept {
			code = script.CodeAlready
		} else if !kept && b == m.again {
			code = script.CodeGone // trimmed by the first call, or never there
		}
		if r.Err != nil || r.Code != code {
			t.Errorf("recovery of %q under %q: code %d, want %d, error %v", r.ID, r.Token, r.Code, code, r.Err)
		}
	}
}

func (m *machine) pickRecovery(t *rapid.T, q *modelQueue, id, token string) *rdb.Settlement {
	s := &rdb.Settlement{Queue: q.keys.Name, ID: id, Token: token, Outcome: rdb.Requeue, Message: m.pickMessage(t, q, id)}
	if oneIn(t, 2, "archive") {
		s.Outcome = rdb.Archive
	}
	s.Failed = s.Outcome == rdb.Archive || oneIn(t, 2, "counted")
	s.Extra = m.pickExtra(t)
	return s
}

func (m *machine) forward(t *rapid.T) {
	var names []string
	for _, q := range m.model.queues {
		if names == nil || oneIn(t, 2, "this queue too") {
			names = append(names, q.keys.Name)
		}
	}
	inOrder := map[string]bool{names[0]: oneIn(t, 2, "in order")}
	for i, due := range m.broker.Forward(m.ctx, names, inOrder) {
		q := m.model.queue(names[i])
		moved := q.forward(m.model.now, inOrder[names[i]])
		next := time.Duration(-1)
		if wait := q.in(wire.StateScheduled, wire.StateRetry); len(wait) > 0 {
			next = time.Duration(wait[0].at.unix-m.model.now) * time.Second
		}
		if off := due.Next - next; off < -slack*time.Second || off > slack*time.Second || (due.Next < 0) != (next < 0) {
			t.Errorf("forward: the next task is due in %v, want %v", due.Next, next)
		}
		due.Next = 0
		expect(t, "forward", rdb.Due{Queue: names[i], Moved: moved}, due)
	}
}

// clean deletes completed and archived tasks.
func (m *machine) clean(t *rapid.T) {
	q, n := m.pickQueue(t), pick(t, "n", 500, 100, 1, 2)
	expired, err1 := m.broker.Purge(m.ctx, q.keys.Name, wire.StateCompleted, n)
	trimmed, err2 := m.broker.Purge(m.ctx, q.keys.Name, wire.StateArchived, n)
	wantExpired, wantTrimmed := q.expireCompleted(n, m.model.now), q.trim(n, m.model.now)
	if err1 != nil || err2 != nil || expired != wantExpired || trimmed != wantTrimmed {
		t.Errorf("expired %d, want %d, error %v; trimmed %d, want %d, error %v", expired, wantExpired, err1, trimmed, wantTrimmed, err2)
	}
}

// passTime lets the time of some tasks come: leases end, delays and retentions are over, the
// archive gets old.
func (m *machine) passTime(t *rapid.T) {
	q := m.pickQueue(t)
	state := pick(t, "state", wire.StateActive, wire.StateActive, wire.StateScheduled, wire.StateRetry, wire.StateCompleted, wire.StateArchived)
	for _, task := range q.in(state) {
		if oneIn(t, 3, "not this one") {
			continue
		}
		ago := rapid.IntRange(0, 3).Draw(t, "minutes")*60 + 10
		if state == wire.StateArchived {
			ago += 90 * 24 * 60 * 60
		}
		m.moveTime(t, q, task, m.model.now-int64(ago))
	}
}

// byOthers makes changes that other processes make.
func (m *machine) byOthers(t *rapid.T) {
	q := m.pickQueue(t)
	switch pick(t, "what", "resume", "resume", "pause", "lock", "lock", "lock", "fetch", "fetch", "pass marker", "look") {
	case "resume":
		q.paused = false
		m.must(t, m.client.Del(m.ctx, q.keys.Paused()))
	case "pause":
		q.paused = true
		m.must(t, m.client.Set(m.ctx, q.keys.Paused(), 1, 0))
	case "lock":
		lock := q.keys.Unique("type", []byte(pick(t, "payload", "x", "y")))
		delete(q.locks, lock) // it expires
		m.must(t, m.client.Del(m.ctx, lock))
	case "fetch":
		m.fetchAsOthersDo(t, q)
	case "pass marker":
		q.marked = len(q.pending) > 0 && !q.paused
		if err := m.broker.PassMarker(m.ctx, q.keys.Name); err != nil {
			t.Error(err)
		}
	case "look":
		m.counts(t)
	}
}

// fetchAsOthersDo fetches the first pending task like a process without tokens.
func (m *machine) fetchAsOthersDo(t *rapid.T, q *modelQueue) {
	if len(q.pending) == 0 {
		return
	}
	task := q.tasks[q.pending[0]]
	at := m.model.now + int64(modelLease/time.Second)
	q.move(task, wire.StateActive, at)
	k := q.keys
	_, err := m.client.TxPipelined(m.ctx, func(pipe redis.Pipeliner) error {
		pipe.RPopLPush(m.ctx, k.Pending(), k.Active())
		pipe.ZAdd(m.ctx, k.Lease(), redis.Z{Score: float64(at), Member: task.id})
		pipe.HSet(m.ctx, k.Task(task.id), wire.FieldState, task.state.String())
		pipe.HDel(m.ctx, k.Task(task.id), wire.FieldPendingSince)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// counts compares Waiting and Filled with the model.
func (m *machine) counts(t *rapid.T) {
	var names, waiting, delayed []string
	for _, q := range m.model.queues {
		names = append(names, q.keys.Name)
		if len(q.pending) > 0 {
			waiting = append(waiting, q.keys.Name)
		}
		if len(q.in(wire.StateScheduled, wire.StateRetry)) > 0 {
			delayed = append(delayed, q.keys.Name)
		}
	}
	gotWaiting, err1 := m.broker.Waiting(m.ctx, names)
	gotDelayed, err2 := m.broker.Filled(m.ctx, names, wire.Queue.Scheduled, wire.Queue.Retry)
	if err1 != nil || err2 != nil || !slices.Equal(gotWaiting, waiting) || !slices.Equal(gotDelayed, delayed) {
		t.Errorf("waiting: %v, want %v, error %v; delayed: %v, want %v, error %v", gotWaiting, waiting, err1, gotDelayed, delayed, err2)
	}
}

// recoverBroken recovers what another process left half done: leases of tasks that are not active,
// and active tasks without a lease.
func (m *machine) recoverBroken(t *rapid.T) {
	q, b, now := m.pickQueue(t), m.anyBroker(t), m.model.now
	lease := q.keys.Lease()
	if len(q.active) > 0 && oneIn(t, 2, "no lease") {
		task := q.tasks[pick(t, "id", q.active...)]
		m.must(t, m.client.ZRem(m.ctx, lease, task.id))
		task.at = moment{unix: now - 100, exact: true}
		r := m.pickRecovery(t, q, task.id, task.token)
		b.Recover(m.ctx, []*rdb.Settlement{r})
		code := q.recover(r, now)
		if r.Outcome == rdb.Archive {
			q.trim(len(q.tasks), now)
		}
		if _, kept := q.tasks[r.ID]; b == m.again && kept {
			code = script.CodeAlready
		} else if b == m.again {
			code = script.CodeGone
		}
		if r.Err != nil || r.Code != code {
			t.Errorf("recovery of %q without a lease: code %d, want %d, error %v", r.ID, r.Code, code, r.Err)
		}
		return
	}
	ids := slices.DeleteFunc(append(q.ids(), "none"), func(id string) bool {
		task := q.tasks[id]
		return task != nil && task.state == wire.StateActive
	})
	r := &rdb.Settlement{
		Queue: q.keys.Name, ID: pick(t, "id", ids...), Outcome: rdb.Requeue, Failed: true, Message: []byte("not to be written"),
	}
	m.must(t, m.client.ZAdd(m.ctx, lease, redis.Z{Score: float64(now - 100000), Member: r.ID}))
	listed, _, _, err := m.broker.Expired(m.ctx, q.keys.Name, 0, 1)
	if err != nil || len(listed) != 1 || listed[0].ID != r.ID || listed[0].Message != nil {
		t.Errorf("with a lease of %q, which is not active: %+v, error %v", r.ID, listed, err)
	}
	b.Recover(m.ctx, []*rdb.Settlement{r})
	code := script.CodeGone
	if b == m.again && q.tasks[r.ID] != nil {
		code = script.CodeLost // the lease is gone by then
	}
	if r.Err != nil || r.Code != code {
		t.Errorf("recovery of %q, which is not active: code %d, want %d, error %v", r.ID, r.Code, code, r.Err)
	}
}

// enqueue creates a batch of tasks.
func (m *machine) enqueue(t *rapid.T) {
	var tasks []*rdb.NewTask
	for range pick(t, "tasks", 1, 2, 3, 5, 12) {
		tasks = append(tasks, m.pickNewTask(t))
	}
	m.send(t, tasks)
}

// send enqueues tasks and compares the results with the model's.
func (m *machine) send(t *rapid.T, tasks []*rdb.NewTask) {
	b := m.anyBroker(t)
	b.Enqueue(m.ctx, tasks...)
	type target struct {
		queue string
		ready bool
	}
	calls := inCalls(tasks, func(n *rdb.NewTask) target {
		return target{n.Queue, n.ProcessAt == 0 && n.Group == ""}
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

// create executes calls in the model, and keeps the results. A call that has made a task is known
// when it is sent again.
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
		again.RandomID = false
		return &again
	}
	q := m.pickQueue(t)
	n := &rdb.NewTask{Queue: q.keys.Name}
	if oneIn(t, 3, "own ID") {
		n.ID = pick(t, "id", "a", "b", "c", "d", "e", "f")
	} else {
		n.ID, n.RandomID = m.newName("random"), true
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
