package worker

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// opened makes an attempt the one of its lease, unless the lease has one. The caller holds the
// fetcher's lock.
func (r *receiver) opened(a *Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name := keyOf(a); r.leases[name] == nil {
		r.leases[name] = a
	}
}

func (r *receiver) closed(a *Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name := keyOf(a); r.leases[name] == a {
		delete(r.leases, name)
	}
}

func (r *receiver) lookUp(name leaseKey) *Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leases[name]
}

// LookUp returns the attempt of a lease that the pool holds, or nil.
func (pool *Pool) LookUp(queue, id, token string) *Attempt {
	return pool.receiver.lookUp(leaseKey{queue, id, token})
}

// Adopt creates an attempt for a lease that another process received. The pool does not hold the
// lease before it is extended or settled.
func (pool *Pool) Adopt(queue, token string, msg *wire.TaskMessage) *Attempt {
	a := &Attempt{
		Queue: queue, Token: token, Started: receivedAt(token), Wait: -1, fetcher: pool.fetcherFor(queue, true), index: noIndex,
	}
	a.settlement = rdb.Settlement{Queue: queue, ID: msg.ID, Token: token}
	a.prepare(msg)
	return a
}

// receivedAt returns when a lease was received, by the clock of its receiver. It reads the time
// from the token, because nothing else shows how much of a timeout is left. Without it, the attempt
// starts now.
func receivedAt(token string) time.Time {
	now := time.Now()
	ms, err := strconv.ParseInt(token[strings.LastIndexByte(token, '-')+1:], 36, 64)
	if at := time.UnixMilli(ms); err == nil && at.Before(now) {
		return at
	}
	return now
}

// Context returns a context that ends when the holder of the lease must stop.
func (a *Attempt) Context() context.Context { return &a.context }

// ExpiresAt returns when the lease ends unless it is extended; the zero time if that is unknown.
func (a *Attempt) ExpiresAt() time.Time {
	at := a.expires.Load()
	if at == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(at - uptime()))
}

// NotifyStarted calls Observer.Started.
func (a *Attempt) NotifyStarted() { a.fetcher.notifyStarted(a) }

// leaseAttempt returns the attempt of the lease of a. If the lease has none, that is a, which is
// then registered unless it is settled. The caller holds the fetcher's lock.
func (f *Fetcher) leaseAttempt(a *Attempt) *Attempt {
	if a.status.Load() != running {
		return a
	}
	if other := f.pool.receiver.lookUp(keyOf(a)); other != nil {
		return other
	}
	f.lane.register(a)
	return a
}

// Decision is how the holder of a lease ends an attempt.
type Decision struct {
	Attempt *Attempt
	Result  []byte // on success
	Err     error  // nil for success
	Release bool   // requeue the task; Err is ignored
}

// Settle ends attempts, and waits for the replies. Of two calls for the same attempt, the first one
// determines the outcome, and both get its reply.
func (pool *Pool) Settle(ctx context.Context, decisions []Decision) []error {
	attempts := make([]*Attempt, len(decisions))
	fetchers := make(map[*Fetcher]bool, 1)
	for i, v := range decisions {
		f := v.Attempt.fetcher
		f.mu.Lock()
		a := f.leaseAttempt(v.Attempt)
		ours := a.decide()
		f.mu.Unlock()
		if attempts[i] = a; ours {
			f.applyDecision(a, v)
			f.awaitRoom(ctx, a)
			fetchers[f] = f.addFinished(a) || fetchers[f]
		}
	}
	for f, send := range fetchers {
		if send {
			f.signal()
		}
	}
	errs := make([]error, len(decisions))
	for i, a := range attempts {
		errs[i] = a.awaitReply(ctx)
	}
	return errs
}

// applyDecision writes a decision to the settlement.
func (f *Fetcher) applyDecision(a *Attempt, v Decision) {
	if v.Release {
		a.settlement.Outcome = rdb.Requeue
	} else {
		f.decideOutcome(a, v.Err)
	}
	if s := &a.settlement; v.Result != nil && (s.Outcome == rdb.Complete || s.Outcome == rdb.Done && s.Member != nil) {
		s.Result = v.Result
	}
	a.Cancel(nil)
	f.notifyEnded(a, v.Err)
}

// awaitReply waits for the reply to a settlement.
func (a *Attempt) awaitReply(ctx context.Context) error {
	select {
	case <-a.replied:
		return a.replyError()
	default:
	}
	select {
	case <-a.replied:
		return a.replyError()
	case <-ctx.Done():
		return ctx.Err()
	case <-a.fetcher.pool.receiver.poolClosed:
		return ErrServerClosed
	}
}

func (a *Attempt) replyError() error {
	s := &a.settlement
	switch {
	case s.Code == script.CodeGone && (s.Deletes() || s.Outcome == rdb.Complete):
		return nil // also the reply to a repeated call
	case s.Code == script.CodeGone, s.Code == script.CodeLost:
		return ErrLeaseExpired
	default:
		return s.Code.Err()
	}
}

// Extend extends leases. It replaces each attempt by that of its lease, which may be another one.
func (pool *Pool) Extend(ctx context.Context, attempts []*Attempt) []error {
	errs := make([]error, len(attempts))
	extensions := make([]extension, len(attempts))
	members := make(map[*Fetcher][]int, 1)
	now := time.Now()
	for i, a := range attempts {
		length := pool.cfg.Lease
		if left := a.Deadline.Sub(now); !a.Deadline.IsZero() && left < length {
			length = left.Truncate(time.Second) + time.Second // whole seconds: few calls for many deadlines
		}
		switch {
		case a.status.Load() != running:
			errs[i] = ErrLeaseExpired
		case !a.Deadline.IsZero() && !now.Before(a.Deadline):
			errs[i] = context.DeadlineExceeded
		default:
			extensions[i] = extension{attempt: a, length: length}
			members[a.fetcher] = append(members[a.fetcher], i)
		}
	}
	for f, indexes := range members {
		call := make([]*extension, len(indexes))
		for j, i := range indexes {
			call[j] = &extensions[i]
		}
		_, err := f.extensions.Do(ctx, call)
		for j, i := range indexes {
			switch e := call[j]; {
			case err != nil:
				errs[i] = err
			case e.err != nil:
				errs[i] = e.err
			case e.lost:
				attempts[i].endLease(true)
				errs[i] = ErrLeaseExpired
			default:
				attempts[i] = attempts[i].setExpiry(e.expires)
			}
		}
	}
	return errs
}

// setExpiry records when the lease ends, and returns the attempt of the lease.
func (a *Attempt) setExpiry(end int64) *Attempt {
	f := a.fetcher
	f.mu.Lock()
	defer f.mu.Unlock()
	a.expires.Store(end)
	in := f.leaseAttempt(a)
	in.expires.Store(end)
	return in
}

// endLease records that the lease is lost or has expired.
func (a *Attempt) endLease(lost bool) {
	f := a.fetcher
	f.mu.Lock()
	if a.status.Load() != running || !lost && a.expires.Load() > uptime() {
		f.mu.Unlock()
		return // settled or extended in the meantime
	}
	held := a.index != noIndex
	if held {
		f.lane.unregister(a)
	}
	f.mu.Unlock()
	a.lost.Store(true)
	cause := ErrLeaseExpired
	if !lost && !a.Deadline.IsZero() && !time.Now().Before(a.Deadline) {
		cause = context.DeadlineExceeded // the lease was not extended beyond the deadline, so both end together
	}
	a.Cancel(cause)
	if held {
		f.cfg.Log.Warn("lease ended without an outcome", "queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type)
		f.notifyLeaseLost(a)
	}
}
