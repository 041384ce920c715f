package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

const (
	// maxFetch bounds the tasks of one fetch; so do the scripts.
	maxFetch = 500
	// fetchPatience is how long after it was sent a fetch may still be executed. It is longer than a reply may take.
	fetchPatience = 10 * time.Second
	// The pause before a queue is asked again that refused a turn, doubled with each refusal in a row.
	minQueuePause = 100 * time.Millisecond
	maxQueuePause = 5 * time.Second
)

// Pump moves the tasks of one lane: fetches them for the free slots and settles them when they have run.
type Pump struct {
	pool   *Pool
	cfg    *Config
	slots  *slots
	demand *demand
	waiter Waiter
	wake   chan struct{} // ends the rest between two turns

	// Of the turn alone: no other goroutine touches these.
	turn      rdb.Turn
	unsettled []*Attempt // finished, and not in this turn
	sent      []*Attempt // whose settlements are in this turn
	doubts    []*doubt
	nextLook  time.Time // at queues whose tasks may come without a marker
	clock     redisClock

	mu       sync.Mutex
	queues   []*queueState // most important first
	finished []*Attempt    // since the last turn
	open     []*Attempt    // not settled yet
	begun    uint64        // attempts so far
	inFlight bool          // the turn that is on its way fetches
	waiting  []string      // the queues that the waiter waits for now; nil: it does not wait
	roused   bool          // the waiter was told that the queues are others now
	waitWake chan struct{} // ends the waiter loop's rest
}

// doubt is a fetch whose reply was lost.
type doubt struct {
	undo   rdb.Undo
	due    time.Time // when to undo it
	final  time.Time // after which it can no longer be executed: the undo after that is the last
	sent   bool      // in this turn
	undone bool      // once at least
}

// redisClock estimates the time that Redis has from the replies of fetches.
type redisClock struct {
	known  bool
	redis  int64 // unix ms
	seenAt time.Time
}

func (c *redisClock) learn(ms int64, at time.Time) {
	*c = redisClock{known: true, redis: ms, seenAt: at}
}

// in returns the time of Redis after d from now in unix ms, 0 if it is not known.
func (c *redisClock) in(d time.Duration, now time.Time) int64 {
	if !c.known {
		return 0
	}
	return c.redis + (now.Sub(c.seenAt) + d).Milliseconds()
}

func newPump(pool *Pool, lane []string, waiter Waiter) *Pump {
	p := &Pump{
		pool: pool, cfg: &pool.cfg, slots: pool.slots, waiter: waiter,
		wake: make(chan struct{}, 1), waitWake: make(chan struct{}, 1),
	}
	for _, name := range lane {
		p.queues = append(p.queues, &queueState{
			name: name, weight: max(pool.cfg.Queues[name], 1), maxActive: pool.cfg.MaxActive[name],
			complain: rate.Sometimes{First: 1, Interval: 30 * time.Second}, // a queue may stay broken for long
		})
	}
	slices.SortFunc(p.queues, func(a, b *queueState) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
	})
	p.demand = pool.slots.join(p.signal)
	return p
}

// Wake ends the rest between two turns.
func (p *Pump) Wake() <-chan struct{} { return p.wake }

func (p *Pump) signal() { notify(p.wake) }

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// finish hands an attempt over to be settled.
func (p *Pump) finish(a *Attempt) {
	p.mu.Lock()
	p.finished = append(p.finished, a)
	p.mu.Unlock()
	p.signal()
}

// Turn is one round trip: settle what has finished, fetch for the free slots. It is the pump loop's tick: the duration is how
// long there is nothing to do, unless woken.
func (p *Pump) Turn(ctx context.Context) (time.Duration, error) {
	now := time.Now()
	if err := p.look(ctx, now); err != nil {
		p.slots.setHealthy(p.demand, false)
		return 0, err
	}
	p.plan(now)
	if p.turn.Empty() {
		p.rouseWaiter(ctx)
		return p.rest(now), nil
	}
	sent := uptime()
	p.cfg.Broker.Turn(ctx, &p.turn)
	err := p.learn(sent)
	p.slots.setHealthy(p.demand, err == nil)
	p.rouseWaiter(ctx)
	return 0, err
}

// plan decides what this turn does.
func (p *Pump) plan(now time.Time) {
	t := &p.turn
	t.Undo, t.Settle, t.Fetch = t.Undo[:0], t.Settle[:0], t.Fetch[:0]
	for _, d := range p.doubts {
		if d.sent = !now.Before(d.due); d.sent {
			t.Undo = append(t.Undo, &d.undo)
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsettled = append(p.unsettled, p.finished...)
	clear(p.finished)
	p.finished = p.finished[:0]
	later := p.unsettled[:0]
	for _, a := range p.unsettled {
		if now.Before(p.queue(a.Queue).retryAt) {
			later = append(later, a)
			continue
		}
		p.sent = append(p.sent, a)
		t.Settle = append(t.Settle, &a.settlement)
	}
	clear(p.unsettled[len(later):])
	p.unsettled = later

	if !p.pool.fetching.Load() {
		p.slots.reserve(p.demand, 0, 0)
		return
	}
	var ready []*queueState
	weight, priority := 0, 0
	for _, q := range p.queues {
		if q.shut && slices.ContainsFunc(t.Settle, func(s *rdb.Settlement) bool { return s.Queue == q.name }) {
			q.shut, q.dry = false, false // a task of it ends in this very turn, before the fetch: there may be room again
		}
		if q.ready(now) {
			ready = append(ready, q)
			weight += q.weight
			priority = max(priority, q.weight)
		}
	}
	free := p.slots.reserve(p.demand, weight, priority)
	used := 0
	share(free, ready, p.cfg.Strict, func(q *queueState, n int) {
		n = min(n, maxFetch)
		used += n
		q.asked, q.told = q.told, false
		t.Fetch = append(t.Fetch, &rdb.Fetch{
			Queue: q.name, N: n, Token: p.token(), Lease: p.cfg.Lease, MaxActive: q.maxActive,
			NotAfter: p.clock.in(fetchPatience, now),
		})
	})
	p.slots.release(free - used)
	p.inFlight = len(t.Fetch) > 0
}

// token makes a token that no other fetch has.
func (p *Pump) token() string {
	return p.cfg.TokenPrefix + strconv.FormatUint(p.pool.fetches.Add(1), 36)
}

// learn takes in the answers of a turn. The error is the one that cut the connection, if one did.
func (p *Pump) learn(sent int64) error {
	now := time.Now()
	cut := p.learnUndone(now)
	for _, f := range p.turn.Fetch {
		if err := p.learnFetched(f, sent, now); err != nil {
			cut = err
		}
	}
	if err := p.learnSettled(now); err != nil {
		cut = err
	}
	clear(p.turn.Settle) // keep no settled task's memory while resting
	clear(p.turn.Fetch)
	p.landed()
	return cut
}

// learnUndone notes which fetches are undone. The error is the one that cut the connection: the loop backs off then.
func (p *Pump) learnUndone(now time.Time) (cut error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubts = slices.DeleteFunc(p.doubts, func(d *doubt) bool {
		switch {
		case !d.sent:
		case rdb.Refused(d.undo.Err):
			q := p.queue(d.undo.Queue)
			p.refused(q, now, d.undo.Err)
			d.due = q.retryAt
		case d.undo.Err != nil:
			cut = d.undo.Err
		case !d.undo.Done():
			d.due = now // more leases to look through
		case !d.due.Before(d.final):
			if d.undo.Back > 0 {
				p.cfg.Log.Info("gave back tasks of a fetch whose reply was lost", "queue", d.undo.Queue, "tasks", d.undo.Back)
			}
			return true
		default:
			d.undone = true
			d.due = d.final
		}
		return false
	})
	for _, q := range p.queues {
		q.doubted = slices.ContainsFunc(p.doubts, func(d *doubt) bool { return d.undo.Queue == q.name && !d.undone })
	}
	return cut
}

// learnFetched starts the tasks that a fetch took, and notes what it says of its queue.
func (p *Pump) learnFetched(f *rdb.Fetch, sent int64, now time.Time) error {
	p.mu.Lock()
	q := p.queue(f.Queue)
	told, toldAgain := q.asked, q.told // toldAgain: while the fetch was on its way, perhaps of a task that it did not see
	switch {
	case f.Err != nil && rdb.Refused(f.Err):
		p.refused(q, now, f.Err)
		p.mu.Unlock()
		p.slots.release(f.N)
		return nil
	case f.Err != nil:
		q.doubted = true
		p.mu.Unlock()
		p.slots.release(f.N)
		final := now.Add(fetchPatience)
		if f.NotAfter == 0 {
			final = now.Add(p.cfg.Lease)
		}
		p.doubts = append(p.doubts, &doubt{undo: rdb.Undo{Queue: f.Queue, Token: f.Token}, due: now, final: final})
		return f.Err
	case f.Code == rdb.CodePaused || f.Code == rdb.CodeCapped:
		q.dry, q.shut, q.credit = true, true, 0
	case f.Code == rdb.CodeOK && !f.More:
		q.dry, q.shut, q.credit = !toldAgain, false, 0
	}
	q.fails = 0
	p.clock.learn(f.Now, now)
	p.mu.Unlock()
	if told && len(f.Tasks) == 0 {
		p.cfg.Delayed(f.Queue, 0) // the marker was for the forwarder: a delayed task is due earlier than the others
	}

	for _, id := range f.Dropped {
		p.cfg.Log.Error("dropped an ID from pending that no pending task has", "queue", f.Queue, "task", id)
	}
	p.slots.release(f.N - len(f.Tasks))
	if !p.pool.fetching.Load() {
		slices.Reverse(f.Tasks) // they are given back to the front one by one: the oldest must be the last
	}
	for _, t := range f.Tasks {
		p.begin(f, t, sent)
	}
	return nil
}

// begin opens an attempt for a task that was fetched, and hands it to a worker.
func (p *Pump) begin(f *rdb.Fetch, t rdb.Fetched, fetchedAt int64) {
	a := &Attempt{Queue: f.Queue, Token: f.Token, Started: time.Now(), pump: p, leased: fetchedAt}
	a.settlement = rdb.Settlement{Queue: f.Queue, ID: t.ID, Token: f.Token}
	msg, err := wire.DecodeTaskMessage(t.Message)
	if err == nil && msg.ID != t.ID {
		err = errors.New("the message is that of task " + strconv.Quote(msg.ID))
	}
	if err != nil {
		p.cfg.Log.Error("archived a task that cannot be read", "queue", f.Queue, "task", t.ID, "error", err)
		a.Message = &wire.TaskMessage{ID: t.ID, Queue: f.Queue}
		a.settlement.Outcome, a.settlement.Failed = rdb.Archive, true
		a.decide()
		p.register(a)
		p.slots.release(1)
		p.finish(a)
		return
	}
	a.Message, a.Retried = msg, msg.Retried
	a.Deadline = deadline(a.Started, msg.Timeout, msg.Deadline)
	p.cfg.Prepare(a)
	p.register(a)
	if !p.pool.fetching.Load() && a.decide() { // the server was stopped while the fetch was on its way
		a.settlement.Outcome = rdb.Requeue
		p.slots.release(1)
		p.finish(a)
		return
	}
	p.pool.submit(a)
}

// learnSettled closes the attempts that are settled, and keeps the others to be sent again with the same token.
func (p *Pump) learnSettled(now time.Time) error {
	var cut error
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.sent {
		s, q := &a.settlement, p.queue(a.Queue)
		switch {
		case s.Err == nil:
			if !now.Before(q.retryAt) {
				q.fails = 0
			}
			p.close(a)
			continue
		case !rdb.Refused(s.Err):
			cut = s.Err
		case !now.Before(q.retryAt):
			p.refused(q, now, s.Err)
		}
		a.tries++
		p.unsettled = append(p.unsettled, a)
	}
	clear(p.sent)
	p.sent = p.sent[:0]
	for _, q := range p.queues {
		q.owed = 0
	}
	for _, a := range p.unsettled {
		p.queue(a.Queue).owed++
	}
	return cut
}

// close ends an attempt that Redis has answered for. The caller holds the lock.
func (p *Pump) close(a *Attempt) {
	p.unregister(a)
	s := &a.settlement
	switch {
	case s.Code.Err() == nil:
		if s.Outcome == rdb.Retry {
			p.cfg.Delayed(a.Queue, s.Delay)
		}
	case a.tries == 0 && !a.lost.Load():
		p.cfg.Log.Warn("the outcome of a task was refused, because this server no longer holds it",
			"queue", a.Queue, "task", s.ID, "type", a.Message.Type, "outcome", s.Outcome.String(), "error", s.Code.Err())
	}
}

// refused gives a queue that answered with an error a pause. The caller holds the lock.
func (p *Pump) refused(q *queueState, now time.Time, err error) {
	pause := min(minQueuePause<<min(q.fails, 10), maxQueuePause)
	q.fails++
	q.retryAt = now.Add(pause)
	q.complain.Do(func() {
		p.cfg.Log.Error("a queue is in trouble", "queue", q.name, "failures", q.fails, "pause", pause, "error", err)
	})
}
