package worker

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
)

// RoundTrip is one of the requests that a Fetcher may have in flight. A loop makes it again and
// again; in between, a worker that has just finished an attempt may make it (inline flush).
type RoundTrip struct {
	f          *Fetcher
	call       rdb.RoundTrip
	claim      claim    // of the request's fetches
	fetches    []*fetch // the structs are used again
	addFetch   func(q *queueState, n int)
	effects    effects  // of the replies
	inline     bool     // made by a worker
	inlineNext *Attempt // the fetched attempt that this worker runs next

	// Guarded by the fetcher's lock, because the other round trip reads them.
	acquired bool            // by its loop or by a worker
	inFlight bool            // counted in lane.gate
	fetching bool            // the request has fetches
	settled  []*Attempt      // by this request
	reclaims []*unknownFetch // by this request
}

// fetch is a fetch of a round trip.
type fetch struct {
	call    rdb.Fetch
	woken   bool       // a marker of the queue was popped before
	tasks   []*Attempt // of the reply
	decided []*Attempt // that do not run: expired, or with messages that cannot be decoded
}

func (f *Fetcher) newRoundTrip() *RoundTrip {
	t := &RoundTrip{f: f, claim: f.demand.newClaim()}
	t.addFetch = func(q *queueState, n int) { f.lane.planFetch(t, q, n) }
	return t
}

// newFetch adds an empty fetch to the request.
func (t *RoundTrip) newFetch() *fetch {
	n := len(t.fetches)
	t.fetches = slices.Grow(t.fetches, 1)[:n+1]
	if t.fetches[n] == nil {
		t.fetches[n] = &fetch{}
	}
	in := t.fetches[n]
	t.call.Fetch = append(t.call.Fetch, &in.call)
	return in
}

// clear empties the request and its replies, so that they are not retained during a pause.
func (t *RoundTrip) clear() {
	c, e := &t.call, &t.effects
	clear(c.Settle)
	for _, in := range t.fetches {
		clear(in.tasks)
		*in = fetch{tasks: in.tasks[:0]}
	}
	clear(e.run)
	clear(e.unwanted)
	c.Reclaim, c.Settle, c.Fetch = c.Reclaim[:0], c.Settle[:0], c.Fetch[:0]
	t.reclaims, t.fetches = t.reclaims[:0], t.fetches[:0]
	*e = effects{run: e.run[:0], unwanted: e.unwanted[:0], delayed: e.delayed[:0]}
}

// Wake ends the pause between two round trips. All round trips of a fetcher share it: any of them
// can do the work.
func (t *RoundTrip) Wake() <-chan struct{} { return t.f.wake }

// Tick makes one round trip: it settles the finished attempts and fetches for the free slots. It is
// the tick of a loop: it returns how long there is nothing to do unless the loop is woken.
func (t *RoundTrip) Tick(ctx context.Context) (delay time.Duration, err error) {
	if !t.acquire() {
		return untilWoken, nil // a worker makes it, and wakes the loop if needed
	}
	defer func() { t.release(delay) }() // also if a callback panics
	return t.run(ctx)
}

// run makes one round trip if there is anything to do. Otherwise it returns how long to wait.
func (t *RoundTrip) run(ctx context.Context) (delay time.Duration, err error) {
	f, now := t.f, time.Now()
	if !t.maySend() {
		return untilWoken, nil
	}
	f.awaitStarting()
	if err := t.pollEmpty(ctx, now); err != nil {
		t.recordResult(err)
		return 0, err
	}
	f.mu.Lock()
	planned := f.lane.plan(t, now)
	if !planned {
		delay = f.lane.pollDelay(now)
	}
	f.mu.Unlock()
	if planned {
		err = t.send(ctx)
		t.recordResult(err)
	}
	f.updateWaiter(ctx) // after pollDelay: a queue that becomes due in between is in one of the two
	return delay, err
}

// send sends the request and applies the replies. It returns the connection error, if there was
// one.
func (t *RoundTrip) send(ctx context.Context) error {
	f, sent := t.f, uptime()
	t.exchange(ctx)
	report := t.report(sent)
	for _, fetch := range t.fetches {
		f.decode(fetch, sent)
	}
	f.mu.Lock()
	e := f.lane.apply(t, time.Now())
	f.mu.Unlock()
	notify(f.pool.drained)
	f.starting.Add(int64(len(e.run)))
	for _, a := range e.run {
		if t.inline && t.inlineNext == nil {
			t.inlineNext = a
		} else {
			f.pool.submit(a)
		}
	}
	for _, d := range e.delayed {
		f.cfg.Delayed(d.queue, d.delay)
	}
	for _, done := range e.archived {
		f.cfg.Archived.Call(done.attempt, done.err)
	}
	for _, a := range e.members {
		f.cfg.MemberEnded(a.Queue, a.settlement.Member.Part)
	}
	for _, log := range e.logs {
		log()
	}
	if e.more {
		f.pool.signal()
	}
	cut := e.cut
	f.mu.Lock()
	t.clear()
	f.mu.Unlock()
	t.notifyRoundTrip(report, cut)
	return cut
}

// awaitStarting yields, for a moment, until the attempts that were fetched last have started: their
// outcomes may share this round trip. See fewSlots.
func (f *Fetcher) awaitStarting() {
	if f.cfg.slots() > fewSlots {
		return
	}
	began := uptime()
	for n := 0; n < maxYields && f.starting.Load() > 0 && since(began) < maxYielding; n++ {
		runtime.Gosched()
	}
}

// exchange sends the request and receives the replies. After a panic, in hooks of the connection,
// the replies are unknown.
func (t *RoundTrip) exchange(ctx context.Context) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		err := &PanicError{Value: v, Stack: debug.Stack()}
		t.f.cfg.Log.Error("round trip panicked", "error", err, "stack", string(err.Stack))
		for _, r := range t.call.Reclaim {
			r.Err = err
		}
		for _, s := range t.call.Settle {
			s.Err = err
		}
		for _, fetch := range t.call.Fetch {
			fetch.Err = err
		}
	}()
	t.f.cfg.Broker.RoundTrip(ctx, &t.call)
}

// pollEmpty checks, every CheckInterval, whether idle queues have tasks without a marker: tasks of
// other libraries, or tasks whose marker was lost with the server that popped it.
func (t *RoundTrip) pollEmpty(ctx context.Context, now time.Time) error {
	f := t.f
	f.mu.Lock()
	unused := f.lane.unusedMarkers()
	names := f.lane.polled(now)
	f.mu.Unlock()
	for _, name := range unused {
		if err := f.cfg.Broker.PassMarker(ctx, name); err != nil {
			f.cfg.Log.Warn("marker not passed on, relying on polling", "queue", name, "error", err)
		}
	}
	if len(names) == 0 {
		return nil
	}
	t.claim.sent()
	waiting, err := f.cfg.Broker.Waiting(ctx, names)
	t.claim.land(err == nil, nil, &t.effects)
	if script.Refused(err) {
		f.cfg.Log.Warn("Redis rejected the check for pending tasks", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range waiting {
		f.lane.queue(name).wake()
	}
	return nil
}

// acquire reserves the round trip for its loop. It reports false if a worker has it.
func (t *RoundTrip) acquire() bool {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.f.idleUntil = time.Time{}
	if t.acquired {
		return false
	}
	t.acquired = true
	return true
}

// release ends what acquire began. A delay above zero is the time until the loop's next tick.
func (t *RoundTrip) release(delay time.Duration) {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	if t.f.cfg.slots() <= fewSlots {
		t.land() // from here on, workers may flush inline
	}
	t.acquired = false
	if delay > 0 {
		t.f.idleUntil = time.Now().Add(delay)
	}
}

// maySend reports whether the round trip may start. After a failure only the round trip that failed
// may, once its loop has backed off.
func (t *RoundTrip) maySend() bool {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.land()
	return t.f.failed == nil || t.f.failed == t
}

// land marks the round trip as returned. It stays marked as in flight until its loop is about to
// send again or to pause, so that finished attempts wait for it instead of a second round trip. The
// caller holds the lock.
func (t *RoundTrip) land() {
	if t.inFlight {
		t.inFlight = false
		t.f.lane.gate.End()
	}
}

// recordResult records whether the last round trip succeeded.
func (t *RoundTrip) recordResult(err error) {
	t.f.mu.Lock()
	switch {
	case err == nil && t.f.failed == t:
		t.f.failed = nil
	case err != nil && t.f.failed == nil && !t.inline: // any loop repeats the round trip of a worker
		t.f.failed = t
	}
	t.f.mu.Unlock()
	t.f.demand.setHealthy(err == nil)
}

// flushInline makes a round trip on the goroutine of a worker that has just finished an attempt. It
// returns a fetched attempt for the worker to run next, or nil. Otherwise the process would have to
// wake one goroutine for the round trip and another for the attempt: with few slots, that costs
// more than everything else it does for a task.
func (f *Fetcher) flushInline() (next *Attempt) {
	t := f.tryAcquire()
	if t == nil {
		return nil
	}
	failed := true
	defer func() {
		next, t.inlineNext = t.inlineNext, nil
		t.releaseInline(failed)
	}()
	if n := f.cfg.slots(); n > 1 && n <= fewSlots {
		runtime.Gosched() // quick handlers that have just started return
	}
	_, err := t.run(context.Background()) // bounded by the timeouts of the connection
	failed = err != nil
	return next
}

// tryAcquire reserves a round trip for a worker, if one is worth sending and its loop is idle. It
// returns nil otherwise.
func (f *Fetcher) tryAcquire() *RoundTrip {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.lane.worthSending() {
		return nil // another round trip was sent in the meantime
	}
	for _, t := range f.lane.trips {
		if f.cfg.InlineFlush && f.failed == nil && !t.acquired && !t.inFlight {
			t.acquired, t.inline, t.inFlight = true, true, true
			f.lane.gate.Start(0)
			return t
		}
	}
	f.signal()
	return nil
}

// releaseInline ends what tryAcquire began, and wakes a loop if there is work that is due now, or
// before its next tick.
func (t *RoundTrip) releaseInline(failed bool) {
	f := t.f
	f.mu.Lock()
	t.land()
	t.acquired, t.inline = false, false
	left := failed || f.lane.needsWake(time.Now(), f.idleUntil)
	f.mu.Unlock()
	if left {
		f.signal()
	}
}
