package rdb_test

import (
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// modelLease is longer than any run.
const modelLease = 10 * time.Minute

// turn makes a turn of a pump, of at most so many parts.
func (m *machine) turn(t *rapid.T, undos, settlements, fetches int) {
	turn := &rdb.Turn{}
	for range rapid.IntRange(0, undos).Draw(t, "undos") {
		turn.Undo = append(turn.Undo, &rdb.Undo{Queue: m.pickQueue(t).keys.Name, Token: pick(t, "token", recent(m.tokens)...)})
	}
	for range rapid.IntRange(0, settlements).Draw(t, "settlements") {
		if s := m.pickSettlement(t); !slices.ContainsFunc(turn.Settle, func(other *rdb.Settlement) bool {
			return s.Queue == other.Queue && s.ID == other.ID // an attempt has one outcome
		}) {
			turn.Settle = append(turn.Settle, s)
		}
	}
	for range rapid.IntRange(0, fetches).Draw(t, "fetches") {
		turn.Fetch = append(turn.Fetch, m.pickFetch(t))
	}
	m.broker.Turn(m.ctx, turn)

	now := m.model.now
	for _, u := range turn.Undo {
		back := m.model.queue(u.Queue).undo(u.Token, now)
		expect(t, "undo", rdb.Undo{Queue: u.Queue, Token: u.Token, Cursor: "0", Back: back}, *u)
	}
	type target struct {
		queue   string
		outcome rdb.Outcome
	}
	for _, call := range inCalls(turn.Settle, func(s *rdb.Settlement) target { return target{s.Queue, s.Outcome} }) {
		q := m.model.queue(call[0].Queue)
		for _, s := range call {
			if code := q.settle(s, now); s.Err != nil || s.Code != code {
				t.Errorf("%v of %q under %q: code %d, want %d, error %v", s.Outcome, s.ID, s.Token, s.Code, code, s.Err)
			}
		}
		if call[0].Outcome == rdb.Archive && slices.ContainsFunc(call, func(s *rdb.Settlement) bool { return s.Code == rdb.CodeOK }) {
			q.trim(len(q.tasks), now)
		}
	}
	for _, f := range turn.Fetch {
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
	case rdb.Retry:
		s.Message, s.Delay, s.Failed = m.pickMessage(t, q, s.ID), time.Hour, !oneIn(t, 3, "not counted")
	case rdb.Archive:
		s.Message, s.Failed = m.pickMessage(t, q, s.ID), !oneIn(t, 3, "not counted")
	}
	m.settled = append(m.settled, *s)
	return s
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

func (m *machine) writeResult(t *rapid.T) {
	q := m.pickQueue(t)
	id, token := m.pickTask(t, q)
	result := m.newName("result")
	task, code := q.held(id, token, "")
	if task != nil {
		task.result = result
	}
	if err := m.anyBroker(t).WriteResult(m.ctx, q.keys.Name, id, token, []byte(result)); !errors.Is(err, code.Err()) {
		t.Errorf("result of %q under %q: error %v, want %v", id, token, err, code.Err())
	}
}

// recover takes back some of the tasks whose lease has ended, and tries others.
func (m *machine) recover(t *rapid.T) {
	q, now := m.pickQueue(t), m.model.now
	skip, n := pick(t, "skip", 0, 0, 0, 1, 2), pick(t, "n", 100, 100, 2, 1)
	listed, looked, next, err := m.broker.Expired(m.ctx, q.keys.Name, skip, n)
	want, wantLooked := q.expired(skip, n, now)
	if err != nil || looked != wantLooked {
		t.Errorf("looked at %d leases, want %d, error %v", looked, wantLooked, err)
	}
	expect(t, "expired", want, listed)
	if others := len(q.active) > len(q.until(now, wire.StateActive)); skip == 0 && others && looked < n && next <= 0 {
		t.Errorf("the next lease ends in %v", next)
	} else if len(q.active) == 0 && next >= 0 {
		t.Errorf("there is no lease, and the next one ends in %v", next)
	}

	var items []*rdb.Recovery
	for _, e := range listed {
		if !oneIn(t, 4, "left alone") {
			items = append(items, m.pickRecovery(t, q, e.ID, e.Token))
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "others") {
		id, token := m.pickTask(t, q)
		if !slices.ContainsFunc(items, func(r *rdb.Recovery) bool { return r.ID == id }) {
			items = append(items, m.pickRecovery(t, q, id, token))
		}
	}
	b := m.anyBroker(t)
	b.Recover(m.ctx, q.keys.Name, items)
	codes, archived := make(map[*rdb.Recovery]rdb.Code), false
	for _, archive := range []bool{false, true} { // a call each
		for _, r := range items {
			if r.Archive == archive {
				codes[r] = q.recover(r, now)
				archived = archived || archive && codes[r] == rdb.CodeOK
			}
		}
	}
	if archived {
		q.trim(len(q.tasks), now)
	}
	for _, r := range items {
		code := codes[r]
		if _, kept := q.tasks[r.ID]; b == m.again && code == rdb.CodeOK && kept {
			code = rdb.CodeAlready
		} else if !kept && b == m.again {
			code = rdb.CodeGone // trimmed by the first call, or never there
		}
		if r.Err != nil || r.Code != code {
			t.Errorf("recovery of %q under %q: code %d, want %d, error %v", r.ID, r.Token, r.Code, code, r.Err)
		}
	}
}

func (m *machine) pickRecovery(t *rapid.T, q *modelQueue, id, token string) *rdb.Recovery {
	return &rdb.Recovery{ID: id, Token: token, Message: m.pickMessage(t, q, id), Archive: oneIn(t, 2, "archive"), Failed: oneIn(t, 2, "counted")}
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
	expired, err1 := m.broker.ExpireCompleted(m.ctx, q.keys.Name, n)
	trimmed, err2 := m.broker.TrimArchived(m.ctx, q.keys.Name, n)
	wantExpired, wantTrimmed := q.expireCompleted(n, m.model.now), q.trim(n, m.model.now)
	if err1 != nil || err2 != nil || expired != wantExpired || trimmed != wantTrimmed {
		t.Errorf("expired %d, want %d, error %v; trimmed %d, want %d, error %v", expired, wantExpired, err1, trimmed, wantTrimmed, err2)
	}
}

// passTime lets the time of some tasks come: leases end, delays and retentions are over, the archive gets old.
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

// byOthers makes changes that come from elsewhere.
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
		q.marked = len(q.pending) > 0
		if err := m.broker.PassMarker(m.ctx, q.keys.Name); err != nil {
			t.Error(err)
		}
	case "look":
		m.look(t)
	}
}

// fetchAsOthersDo takes the first pending task as a process does that knows no tokens.
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

// look asks what waits.
func (m *machine) look(t *rapid.T) {
	var names, waiting []string
	delayed := false
	for _, q := range m.model.queues {
		names = append(names, q.keys.Name)
		if len(q.pending) > 0 {
			waiting = append(waiting, q.keys.Name)
		}
		delayed = delayed || len(q.in(wire.StateScheduled, wire.StateRetry)) > 0
	}
	gotWaiting, err1 := m.broker.Waiting(m.ctx, names)
	gotDelayed, err2 := m.broker.Delayed(m.ctx, names)
	if err1 != nil || err2 != nil || !slices.Equal(gotWaiting, waiting) || gotDelayed != delayed {
		t.Errorf("waiting: %v, want %v, error %v; delayed: %v, want %v, error %v", gotWaiting, waiting, err1, gotDelayed, delayed, err2)
	}
}
