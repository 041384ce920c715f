package worker

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// note makes an attempt the one that stands for its lease, unless there is one. The caller holds the pump's lock.
func (h *hand) note(a *Attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if name := nameOf(a); h.leases[name] == nil {
		h.leases[name] = a
	}
}

func (h *hand) forget(a *Attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if name := nameOf(a); h.leases[name] == a {
		delete(h.leases, name)
	}
}

func (h *hand) lookUp(name leaseName) *Attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leases[name]
}

// Wanted is how many tasks are waited for.
func (pool *Pool) Wanted() int { return pool.hand.wanted() }

// LookUp returns the attempt of a lease that is held here, nil if none is.
func (pool *Pool) LookUp(queue, id, token string) *Attempt {
	return pool.hand.lookUp(leaseName{queue, id, token})
}

// Adopt makes an attempt of a lease that was taken elsewhere. It is not held here before it is extended or settled.
func (pool *Pool) Adopt(queue, token string, msg *wire.TaskMessage) *Attempt {
	a := &Attempt{
		Message: msg, Queue: queue, Token: token, Retried: msg.Retried, Started: takenAt(token), Wait: -1,
		pump: pool.pumpOf(queue), index: noIndex, answered: make(chan struct{}),
	}
	a.settlement = rdb.Settlement{Queue: queue, ID: msg.ID, Token: token, Lock: msg.UniqueKey}
	a.Deadline = deadline(a.Started, msg.Timeout, msg.Deadline)
	a.context.begin(context.Background(), a)
	pool.cfg.Prepare(a)
	return a
}

// takenAt reads from the token when a lease was taken, by its taker's clock: nothing else tells how much of a timeout is left. Without
// it the attempt begins now.
func takenAt(token string) time.Time {
	now := time.Now()
	ms, err := strconv.ParseInt(token[strings.LastIndexByte(token, '-')+1:], 36, 64)
	if at := time.UnixMilli(ms); err == nil && at.Before(now) {
		return at
	}
	return now
}

// hold prepares an attempt to be taken by hand.
func (p *Pump) hold(a *Attempt, fetchedAt int64) {
	a.answered = make(chan struct{})
	a.expires.Store(fetchedAt + int64(p.cfg.Lease))
	a.context.begin(context.Background(), a)
}

// Context ends when the holder of the lease is to stop.
func (a *Attempt) Context() context.Context { return &a.context }

// ExpiresAt is when the lease ends unless it is extended; zero if that is not known.
func (a *Attempt) ExpiresAt() time.Time {
	at := a.expires.Load()
	if at == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(at - uptime()))
}

// Tell tells the Observer that the holder begins.
func (a *Attempt) Tell() { a.pump.tellStarted(a) }

// standIn returns the attempt that stands for the lease of a: another one that does already, or else a, which is open then, unless it is
// settled. The caller holds the pump's lock.
func (p *Pump) standIn(a *Attempt) *Attempt {
	if a.progress.Load() != running {
		return a
	}
	if other := p.pool.hand.lookUp(nameOf(a)); other != nil {
		return other
	}
	p.enter(a)
	return a
}

// Verdict is how an attempt ends whose task was taken by hand.
type Verdict struct {
	Attempt *Attempt
	Result  []byte // of success
	Err     error  // nil for success
	Release bool   // unfinished, and Err counts for nothing
}

// Settle ends attempts, and waits for the answers. An attempt that is ended twice has one outcome, the first, and both get its answer.
func (pool *Pool) Settle(ctx context.Context, verdicts []Verdict) []error {
	attempts := make([]*Attempt, len(verdicts))
	pumps := make(map[*Pump]bool, 1)
	for i, v := range verdicts {
		p := v.Attempt.pump
		p.mu.Lock()
		a := p.standIn(v.Attempt)
		ours := a.decide()
		p.mu.Unlock()
		if attempts[i] = a; ours {
			p.judge(a, v)
			pumps[p] = p.add(a) || pumps[p]
		}
	}
	for p, turn := range pumps {
		if turn {
			p.signal()
		}
	}
	errs := make([]error, len(verdicts))
	for i, a := range attempts {
		errs[i] = a.await(ctx)
	}
	return errs
}

// judge decides the outcome.
func (p *Pump) judge(a *Attempt, v Verdict) {
	ending := Returned
	if v.Release {
		a.settlement.Outcome = rdb.Requeue
	} else {
		p.outcome(a, v.Err)
		ending = endingOf(&a.settlement, v.Err)
	}
	if a.settlement.Outcome == rdb.Complete {
		a.settlement.Result = v.Result
	}
	a.Cancel(nil)
	p.tellEnded(a, ending, v.Err)
}

// await waits for the answer to a settlement.
func (a *Attempt) await(ctx context.Context) error {
	select {
	case <-a.answered:
		return a.answer()
	default:
	}
	select {
	case <-a.answered:
		return a.answer()
	case <-ctx.Done():
		return ctx.Err()
	case <-a.pump.pool.hand.ended:
		return ErrServerClosed
	}
}

func (a *Attempt) answer() error {
	s := &a.settlement
	switch {
	case s.Code == rdb.CodeGone && (s.Outcome == rdb.Done || s.Outcome == rdb.Complete || s.Outcome == rdb.Discard):
		return nil // the answer to a repeated call, too
	case s.Code == rdb.CodeGone, s.Code == rdb.CodeLost:
		return ErrLeaseExpired
	default:
		return s.Code.Err()
	}
}

// Extend extends leases. It puts attempts that stand for their leases in the place of those that do not.
func (pool *Pool) Extend(ctx context.Context, attempts []*Attempt) []error {
	type target struct {
		queue  string
		length time.Duration
	}
	errs := make([]error, len(attempts))
	groups := make(map[target][]int, 1)
	now := time.Now()
	for i, a := range attempts {
		t := target{a.Queue, pool.cfg.Lease}
		if left := a.Deadline.Sub(now); !a.Deadline.IsZero() && left < t.length {
			t.length = left.Truncate(time.Second) + time.Second // few groups for many deadlines
		}
		switch {
		case a.progress.Load() != running:
			errs[i] = ErrLeaseExpired
		case !a.Deadline.IsZero() && !now.Before(a.Deadline):
			errs[i] = context.DeadlineExceeded
		default:
			groups[t] = append(groups[t], i)
		}
	}
	for t, members := range groups {
		held := make([]rdb.Held, len(members))
		for j, i := range members {
			held[j] = rdb.Held{ID: attempts[i].settlement.ID, Token: attempts[i].Token}
		}
		sent := uptime()
		pool.cfg.Broker.Extend(ctx, t.queue, t.length, held)
		for j, i := range members {
			switch h := held[j]; {
			case h.Err != nil:
				errs[i] = h.Err
			case h.Code == rdb.CodeOK:
				attempts[i] = attempts[i].extendedUntil(sent + int64(t.length))
			default:
				attempts[i].letGo(true)
				errs[i] = ErrLeaseExpired
			}
		}
	}
	return errs
}

// extendedUntil notes when the lease ends, and returns the attempt that stands for it.
func (a *Attempt) extendedUntil(end int64) *Attempt {
	p := a.pump
	p.mu.Lock()
	defer p.mu.Unlock()
	a.expires.Store(end)
	in := p.standIn(a)
	in.expires.Store(end)
	return in
}

// letGo notes that the lease is lost, or has ended.
func (a *Attempt) letGo(lost bool) {
	p := a.pump
	p.mu.Lock()
	if a.progress.Load() != running || !lost && a.expires.Load() > uptime() {
		p.mu.Unlock()
		return // settled in the meantime, which is why; or extended
	}
	held := a.index != noIndex
	if held {
		p.unregister(a)
	}
	p.mu.Unlock()
	a.lost.Store(true)
	cause := ErrLeaseExpired
	if !lost && !a.Deadline.IsZero() && !time.Now().Before(a.Deadline) {
		cause = context.DeadlineExceeded // the lease was not extended past it, so the two end together
	}
	a.Cancel(cause)
	if held {
		p.cfg.Log.Warn("a lease ended without an outcome", "queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type)
		p.tellLeaseLost(a)
	}
}

// watchHeld lets go of the leases that have ended, and returns how long until the next one can. Others may have extended
// one, or settle it in time still; this pool knows nothing of that.
func (p *Pump) watchHeld() time.Duration {
	rest := p.cfg.Lease / 6
	ended := func(a *Attempt) bool {
		at := a.expires.Load()
		if at == 0 || a.progress.Load() != running {
			return false
		}
		left := time.Duration(at - uptime())
		rest = min(rest, max(left, 10*time.Millisecond))
		return left <= 0
	}
	p.each(ended, func(a *Attempt) { a.letGo(false) })
	return rest
}

// passOrphans passes markers on that were popped for somebody who does not wait any more.
func (p *Pump) passOrphans(ctx context.Context) {
	if p.pool.hand == nil {
		return
	}
	var orphans []string
	p.mu.Lock()
	for _, q := range p.queues {
		if q.told && !p.wants(q) {
			q.told = false
			orphans = append(orphans, q.name)
		}
	}
	p.mu.Unlock()
	for _, name := range orphans {
		if err := p.cfg.Broker.PassMarker(ctx, name); err != nil {
			p.cfg.Log.Warn("a marker could not be passed on; others find the tasks by looking", "queue", name, "error", err)
		}
	}
}
