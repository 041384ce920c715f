package worker

import (
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/asynq-go/asynq/internal/batch"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
)

// lane is the state of a Fetcher: what it knows about its queues, and the attempts that it holds.
// plan decides what a round trip sends, and apply what its replies change. Neither does I/O. The
// fetcher's lock guards all of it.
type lane struct {
	cfg      *Config
	demand   demand
	newToken func() string

	queues    []*queueState // highest weight first
	byName    map[string]*queueState
	finished  []*Attempt // since the last round trip
	unsettled []*Attempt // finished and sent at least once, or held back by a queue's pause
	open      []*Attempt // not settled yet
	opened    uint64     // attempts so far
	unknown   []*unknownFetch
	clock     redisClock
	nextPoll  time.Time     // of idle queues, for tasks without a marker
	lastWake  time.Time     // when a marker was last popped
	trickle   bool          // markers follow each other within maxHold
	holdUntil time.Time     // when the outcome that waits for a marker is sent without one; zero: none waits
	ready     []*queueState // while planning: the queues to fetch from
	notAfter  int64         // while planning: when the fetches end, by the clock of Redis

	trips []*RoundTrip // those that may be in flight
	gate  batch.Gate   // counts those that are

	failures map[*Attempt]error // of attempts whose tasks are being archived; empty without a callback
}

// redisClock estimates the time of Redis from the replies of fetches.
type redisClock struct {
	known  bool
	redis  int64 // Unix milliseconds
	seenAt time.Time
}

func (c *redisClock) set(ms int64, at time.Time) {
	*c = redisClock{known: true, redis: ms, seenAt: at}
}

// in returns the time of Redis after d from now, in Unix milliseconds; 0 if unknown.
func (c *redisClock) in(d time.Duration, now time.Time) int64 {
	if !c.known {
		return 0
	}
	return c.redis + (now.Sub(c.seenAt) + d).Milliseconds()
}

// queue returns the state of a queue of the lane. It adds queues that are new or were pruned.
func (l *lane) queue(name string) *queueState {
	q := l.byName[name]
	if q == nil {
		weight, maxActive, partitions := l.demand.settings(name)
		q = &queueState{
			name: name, weight: max(weight, 1), maxActive: maxActive, partitions: partitions,
			errorLog: rate.Sometimes{First: 1, Interval: 30 * time.Second}, // a queue may stay broken for long
		}
		at, _ := slices.BinarySearchFunc(l.queues, q, byImportance)
		l.queues = slices.Insert(l.queues, at, q)
		l.byName[name] = q
	}
	return q
}

// noIndex is the index of an attempt that is not open.
const noIndex = -1

// register adds an open attempt: its lease is extended until it is settled.
func (l *lane) register(a *Attempt) {
	l.opened++
	a.number = l.opened
	a.index = len(l.open)
	l.open = append(l.open, a)
	l.demand.opened(a)
}

// unregister removes an attempt from the open ones.
func (l *lane) unregister(a *Attempt) {
	last := len(l.open) - 1
	l.open[a.index] = l.open[last]
	l.open[a.index].index = a.index
	l.open[last] = nil
	l.open = l.open[:last]
	a.index = noIndex
	l.demand.closed(a)
}

// worthSending reports whether a round trip should start for the finished attempts: immediately if
// none is in flight, otherwise if they are enough for a second one. The round trip in flight
// settles the rest when it returns.
func (l *lane) worthSending() bool { return l.gate.Worth(len(l.finished)) }

// plan fills the request of a round trip, and reports whether there is anything to send.
func (l *lane) plan(t *RoundTrip, now time.Time) bool {
	t.clear()
	if !l.worthSending() || l.holds(now) {
		return false
	}
	l.planReclaims(t, now)
	l.planSettlements(t, now)
	l.planFetches(t, now)
	if t.call.Empty() {
		return false
	}
	l.gate.Start(0)
	t.inFlight, t.fetching = true, len(t.fetches) > 0
	t.claim.sent()
	return true
}

func (l *lane) planSettlements(t *RoundTrip, now time.Time) {
	was, later, bytes := l.unsettled, l.unsettled[:0], 0
	plan := func(a *Attempt) {
		q := l.queue(a.Queue)
		if now.Before(q.retryAt) {
			later = append(later, a)
			return
		}
		t.settled = append(t.settled, a)
		if q.bundle = 1; now.Sub(a.Started) < quickAttempt {
			q.bundle = min(l.cfg.slots()/8, maxBundle)
		}
		a.settlement.MaxActive = q.maxActive
		if a.settlement.Outcome == rdb.Retry && a.settlement.AtOnce() {
			q.wake() // the request makes the task pending before it fetches
		}
		t.call.Settle = append(t.call.Settle, &a.settlement)
		bytes += len(a.settlement.Message) + len(a.settlement.Result)
	}
	for _, a := range was {
		plan(a)
	}
	n := 0
	for ; n < len(l.finished) && len(t.settled) < maxSettled && bytes < maxSettledBytes; n++ {
		plan(l.finished[n])
	}
	l.finished = slices.Delete(l.finished, 0, n) // the next round trip settles the rest
	clear(was[min(len(later), len(was)):])
	l.unsettled = later
}

func (l *lane) planFetches(t *RoundTrip, now time.Time) {
	l.ready = l.ready[:0]
	for _, q := range l.queues {
		if q.partitions != nil {
			q.wakeAtLimit(t, now)
		}
		if q.phase == atCapacity && slices.ContainsFunc(t.settled, func(a *Attempt) bool { return a.Queue == q.name }) {
			q.wake() // this request settles one of its tasks before it fetches: there may be room
		}
		if q.fetchable(now) {
			l.ready = append(l.ready, q)
		}
	}
	l.notAfter = l.clock.in(fetchValidity, now)
	t.claim.plan(l.ready, t.addFetch)
	l.planSorts(t, now)
}

// planFetch adds a fetch of n tasks of a queue.
func (l *lane) planFetch(t *RoundTrip, q *queueState, n int) {
	f := t.newFetch()
	f.woken = q.wakePending
	f.call = rdb.Fetch{
		Queue: q.name, N: n, Token: l.newToken(), Lease: l.cfg.Lease, MaxActive: q.maxActive,
		NotAfter: l.notAfter, Mark: q.wakePending || !q.markerLeft || q.capped(),
		Waits: l.measuresWaits(q),
	}
	q.wakePending = false
	if q.partitions != nil {
		q.addPartitions(&f.call, t, n == 0 && l.sortDue(q))
	}
}

// measureGap is the time between two fetches of a queue that measure how long tasks have waited, if
// only statistics need it. To measure it in each would cost Redis up to a tenth of a task.
const measureGap = 250 * time.Millisecond

// measuresWaits reports whether the next fetch of a queue measures how long its tasks have waited.
func (l *lane) measuresWaits(q *queueState) bool {
	if l.cfg.Observer != nil && l.cfg.Observer.Started != nil {
		return true
	}
	now := uptime()
	if l.cfg.Count == nil || time.Duration(now-q.measured) < measureGap && q.measured != 0 {
		return false
	}
	q.measured = now
	return true
}

// effects are what the replies to a round trip cause outside of the lane.
type effects struct {
	cut      error      // the connection error, if there was one: the loop must back off
	run      []*Attempt // by workers
	unwanted []*Attempt // tasks that go back
	more     bool       // other lanes may have tasks for the remaining demand
	delayed  []delayed
	archived []archived
	members  []*Attempt // members of flows whose tasks have ended
	logs     []func()
}

// delayed is a retry that the forwarder must not miss.
type delayed struct {
	queue string
	delay time.Duration
}

// archived is an attempt whose task Redis has archived, and its error.
type archived struct {
	attempt *Attempt
	err     error
}

// apply applies the replies to a round trip.
func (l *lane) apply(t *RoundTrip, now time.Time) *effects {
	e := &t.effects
	l.applyReclaims(t, e, now)
	for _, f := range t.fetches {
		l.applyFetch(f, e, now)
	}
	t.claim.land(!slices.ContainsFunc(t.fetches, func(f *fetch) bool { return isCut(f.call.Err) }), t.fetches, e)
	for _, a := range slices.Backward(e.unwanted) { // one by one to the front: the oldest must come last
		l.requeue(a)
	}
	l.applySettlements(t, e, now)
	t.fetching = false
	return e
}

// isCut reports whether err is an error of the connection, after which the outcome of a call is
// unknown.
func isCut(err error) bool { return err != nil && !script.Refused(err) }

// applyFetch registers the tasks of a fetch, and updates the state of its queue.
func (l *lane) applyFetch(f *fetch, e *effects, now time.Time) {
	c, q := &f.call, l.queue(f.call.Queue)
	q.markerLeft = c.Err == nil && c.Code == script.CodeOK && c.More
	switch {
	case script.Refused(c.Err):
		l.backOff(q, e, now, c.Err)
	case c.Err != nil:
		q.phase = unknown
		final := now.Add(fetchValidity)
		if c.NotAfter == 0 {
			final = now.Add(l.cfg.Lease)
		}
		l.unknown = append(l.unknown, &unknownFetch{
			reclaim: rdb.Reclaim{Queue: c.Queue, Token: c.Token}, due: now, final: final,
		})
		e.cut = c.Err
	default:
		l.applyFound(f, q, now)
		if f.woken && len(c.Tasks) == 0 { // the marker was for the forwarder: a delayed task is due earlier than expected
			e.delayed = append(e.delayed, delayed{c.Queue, 0})
		}
		q.failures = 0
		l.clock.set(c.Now, now)
	}
	for _, id := range c.Dropped {
		e.logs = append(e.logs, func() {
			l.cfg.Log.Error("dropped an ID without a pending task", "queue", c.Queue, "task", id)
		})
	}
	for _, a := range f.decided {
		l.register(a)
		l.finished = append(l.finished, a)
	}
	for _, a := range f.tasks {
		l.register(a)
	}
}

// applyFound updates the state of a queue after a fetch.
func (l *lane) applyFound(f *fetch, q *queueState, now time.Time) {
	if f.call.Partitions != nil {
		q.applyPartitions(&f.call, now)
	}
	idle := func(p phase) phase {
		if q.wakePending { // while the fetch was in flight, perhaps for a task that it did not see
			return ready
		}
		return p
	}
	switch c := &f.call; {
	case c.Code == script.CodePaused:
		q.found(paused)
	case c.N == 0: // see planSorts
		if c.More {
			q.wake()
		}
	case c.Code == script.CodeCapped:
		q.found(idle(atCapacity))
		q.credit = 0
		if f.woken && len(c.Tasks) == 0 {
			q.wakeBackoffUntil = now.Add(wakeBackoff)
		}
	case c.Code == script.CodeOK && !c.More:
		q.found(idle(empty))
		q.credit = 0
	case c.Code == script.CodeOK:
		q.found(ready) // the other round trip may have found it empty before
	}
}

// requeue decides to return the task of an attempt to the front of its queue, unless its outcome is
// decided.
func (l *lane) requeue(a *Attempt) {
	if a.decide() {
		a.settlement.Outcome = rdb.Requeue
		l.finished = append(l.finished, a)
	}
}

// applySettlements closes the settled attempts, and keeps the others, to be sent again with the
// same token.
func (l *lane) applySettlements(t *RoundTrip, e *effects, now time.Time) {
	for _, a := range t.settled {
		s, q := &a.settlement, l.queue(a.Queue)
		switch {
		case s.Err == nil:
			if !now.Before(q.retryAt) {
				q.failures = 0
			}
			if a.tries > 0 {
				q.unsettled--
			}
			l.close(a, e)
			continue
		case isCut(s.Err):
			e.cut = s.Err
		case !now.Before(q.retryAt):
			l.backOff(q, e, now, s.Err)
		}
		if a.tries == 0 {
			q.unsettled++
		}
		a.tries++
		l.unsettled = append(l.unsettled, a)
	}
	clear(t.settled)
	t.settled = t.settled[:0]
}

// close closes an attempt that Redis has replied to.
func (l *lane) close(a *Attempt, e *effects) {
	l.unregister(a)
	s := &a.settlement
	if s.Member != nil && s.Member.Part != "" && l.cfg.MemberEnded != nil {
		e.members = append(e.members, a)
	}
	if s.Outcome == rdb.Archive && l.cfg.Archived != nil {
		if s.Code.Err() == nil {
			e.archived = append(e.archived, archived{a, l.failures[a]})
		}
		delete(l.failures, a)
	}
	switch code := s.Code; {
	case code.Err() == nil:
		if (s.Outcome == rdb.Retry || s.Outcome == rdb.Defer) && !s.AtOnce() {
			e.delayed = append(e.delayed, delayed{a.Queue, s.Delay})
		}
	case a.tries == 0 && !a.lost.Load() && a.replied == nil: // the holder of a lease gets the error
		e.logs = append(e.logs, func() {
			l.cfg.Log.Warn("outcome rejected: the server no longer holds the task",
				"queue", a.Queue, "task", s.ID, "type", a.Message.Type, "outcome", s.Outcome.String(), "error", code.Err())
		})
	}
	if a.replied != nil {
		close(a.replied)
	}
}

// backOff pauses a queue that replied with an error.
func (l *lane) backOff(q *queueState, e *effects, now time.Time, err error) {
	pause := min(minQueuePause<<min(q.failures, 10), maxQueuePause)
	q.failures++
	q.retryAt = now.Add(pause)
	failures := q.failures
	e.logs = append(e.logs, func() {
		q.errorLog.Do(func() {
			l.cfg.Log.Error("queue error, backing off", "queue", q.name, "failures", failures, "pause", pause, "error", err)
		})
	})
}

// openCount returns the number of attempts to settle, fetches in flight and unknown fetches. The
// latter may hold tasks, too.
func (l *lane) openCount() int {
	n := 0
	for _, a := range l.open {
		if a.mustSettle() {
			n++
		}
	}
	for _, t := range l.trips {
		if t.fetching {
			n++
		}
	}
	for _, q := range l.queues {
		if q.phase == unknown {
			n++
		}
	}
	return n
}
