package worker

import (
	"context"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// Trip is one of the turns that a pump may have on their way at the same time. Its loop makes them, or a worker that leads.
type Trip struct {
	*Pump

	turn rdb.Turn
	led  bool     // by a worker
	own  *Attempt // that the worker which leads keeps for itself
	// Guarded by the pump's lock, because the other trip counts what is on its way.
	busy     bool                 // its loop, or a worker, is at it
	sent     []*Attempt           // whose settlements are in the turn
	undos    []*doubt             // in the turn
	portions map[string][]portion // of the turn's fetches, by queue, where tasks are taken by hand
	fetching bool                 // the turn fetches
	out      bool                 // from when it leaves until it is about to leave again
}

// Wake ends the rest between two turns. The trips share it: either can do what there is to do.
func (t *Trip) Wake() <-chan struct{} { return t.wake }

// Turn is one round trip: settle what has finished, fetch for the free slots. It is the pump loop's tick: the duration is how
// long there is nothing to do, unless woken.
func (t *Trip) Turn(ctx context.Context) (rest time.Duration, err error) {
	if !t.board(ctx) {
		return untilWoken, nil // a worker leads, and sees to everything
	}
	defer func() { t.getOff(rest) }() // also if a callback panics
	return t.round(ctx)
}

// round makes one round trip, if there is anything to do, or else returns for how long there is not.
func (t *Trip) round(ctx context.Context) (rest time.Duration, err error) {
	now := time.Now()
	if !t.mayLeave() {
		return untilWoken, nil
	}
	if err := t.look(ctx, now); err != nil {
		t.ended(err)
		return 0, err
	}
	if !t.plan(now) {
		rest := t.rest(now)
		t.rouseWaiter(ctx) // after rest: a queue that is to be waited for from a moment in between on is roused for now or then
		return rest, nil
	}
	sent := uptime()
	t.cfg.Broker.Turn(ctx, &t.turn)
	report := t.report(sent)
	err = t.learn(sent)
	t.tellTurn(report, err)
	t.ended(err)
	t.rouseWaiter(ctx)
	return 0, err
}

// board reports whether the trip's loop may make a turn, and holds off the workers until it gets off.
func (t *Trip) board(ctx context.Context) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx, t.restsUntil = ctx, time.Time{}
	if t.busy {
		return false
	}
	t.busy = true
	return true
}

// getOff notes that the loop rests.
func (t *Trip) getOff(rest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cfg.Concurrency <= fewSlots {
		t.isBack() // the workers lead from here on
	}
	t.busy = false
	if rest > 0 {
		t.restsUntil = time.Now().Add(rest)
	}
}

// mayLeave reports whether the trip may try its luck: when one has failed, that one alone tries again, when its loop has backed off.
func (t *Trip) mayLeave() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.isBack()
	return t.failed == nil || t.failed == t
}

// isBack notes that the trip is about to leave again, or to rest. Until then what ends is for it: no other needs to leave with a few. The
// caller holds the lock.
func (t *Trip) isBack() {
	if t.out {
		t.out = false
		t.flying--
	}
}

// ended notes whether the trip's last turn went through.
func (t *Trip) ended(err error) {
	t.mu.Lock()
	switch {
	case err == nil && t.failed == t:
		t.failed = nil
	case err != nil && t.failed == nil && !t.led: // a worker's turn is made again by any of the loops
		t.failed = t
	}
	t.mu.Unlock()
	t.slots.setHealthy(t.demand, err == nil)
}

// worthATrip reports whether a trip should leave for what has finished: at once if none is on its way, else with as much as is worth
// one; what is left, the trip that is on its way takes along when it is back. The caller holds the lock.
func (p *Pump) worthATrip() bool {
	return p.flying == 0 || p.flying < len(p.trips) && len(p.finished) >= p.batch
}

// plan decides what this turn does, and reports whether there is anything to do.
func (t *Trip) plan(now time.Time) bool {
	turn := &t.turn
	turn.Undo, turn.Settle, turn.Fetch, turn.Pass = turn.Undo[:0], turn.Settle[:0], turn.Fetch[:0], turn.Pass[:0]
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.worthATrip() {
		return false
	}
	t.planUndos(now)
	t.planSettlements(now)
	t.planFetches(now)
	t.planPasses()
	if turn.Empty() {
		return false
	}
	t.out = true
	t.flying++
	t.fetching = len(turn.Fetch) > 0
	return true
}

func (t *Trip) planUndos(now time.Time) {
	for _, d := range t.doubts {
		if d.sent || now.Before(d.due) {
			continue
		}
		d.sent = true
		if d.undo.Begins() {
			d.begun = now
		}
		t.undos = append(t.undos, d)
		t.turn.Undo = append(t.turn.Undo, &d.undo)
	}
}

func (t *Trip) planSettlements(now time.Time) {
	was, later, bytes := t.unsettled, t.unsettled[:0], 0
	plan := func(a *Attempt) {
		if now.Before(t.queue(a.Queue).retryAt) {
			later = append(later, a)
			return
		}
		t.sent = append(t.sent, a)
		t.turn.Settle = append(t.turn.Settle, &a.settlement)
		bytes += len(a.settlement.Message) + len(a.settlement.Result)
	}
	for _, a := range was {
		plan(a)
	}
	n := 0
	for ; n < len(t.finished) && len(t.sent) < maxSettled && bytes < maxSettledBytes; n++ {
		plan(t.finished[n])
	}
	t.finished = slices.Delete(t.finished, 0, n) // the next turn takes the others along
	clear(was[min(len(later), len(was)):])
	t.unsettled = later
}

func (t *Trip) planFetches(now time.Time) {
	if !t.pool.fetching.Load() {
		t.slots.reserve(t.demand, 0, 0)
		return
	}
	var ready []*queueState
	weight, priority := 0, 0
	for _, q := range t.queues {
		if q.full && slices.ContainsFunc(t.sent, func(a *Attempt) bool { return a.Queue == q.name }) {
			q.full, q.dry = false, false // a task of it ends in this very turn, before the fetch: there may be room again
		}
		if q.ready(now) {
			ready = append(ready, q)
			weight += q.weight
			priority = max(priority, q.weight)
		}
	}
	if t.pool.hand != nil {
		t.pool.hand.plan(ready, func(q *queueState, n int, portions []portion) {
			t.planFetch(q, n, now)
			t.portions[q.name] = portions
		})
		return
	}
	free := t.slots.reserve(t.demand, weight, priority)
	used := 0
	share(free, ready, t.cfg.Strict, func(q *queueState, n int) {
		n = min(n, maxFetch)
		used += n
		t.planFetch(q, n, now)
	})
	t.slots.release(free - used)
}

func (t *Trip) planFetch(q *queueState, n int, now time.Time) {
	t.turn.Fetch = append(t.turn.Fetch, &rdb.Fetch{
		Queue: q.name, N: n, Token: t.token(), Lease: t.cfg.Lease, MaxActive: q.maxActive,
		NotAfter: t.clock.in(fetchPatience, now), Mark: q.told || !q.flowing || q.capped(), Waits: t.cfg.Observer != nil && t.cfg.Observer.Started != nil,
	})
	q.asked, q.told = q.told, false
}

// planPasses lets others know of the room that the turn makes in queues of which only so many tasks may be active, where it does not
// fill it itself.
func (t *Trip) planPasses() {
	for _, f := range t.turn.Fetch {
		t.queue(f.Queue).covered = true // the fetch leaves the marker where there is room still
	}
	for _, a := range t.sent {
		if q := t.queue(a.Queue); q.capped() && !q.covered {
			q.covered = true
			t.turn.Pass = append(t.turn.Pass, q.name)
		}
	}
	for _, f := range t.turn.Fetch {
		t.queue(f.Queue).covered = false
	}
	for _, name := range t.turn.Pass {
		t.queue(name).covered = false
	}
}
