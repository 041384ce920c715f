package asynq

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// Settlement says how one lease ends: with success, unless Err or Release is set.
type Settlement struct {
	Lease   *Lease
	Result  []byte // as for Lease.Done
	Err     error  // as for Lease.Fail; it counts before Release
	Release bool   // as Lease.Release
}

// Settle ends many leases in few round trips. It returns as many errors, in their order, each as Done, Fail or Release would return it.
// Where a lease comes twice, its first outcome counts.
func (t *Taker) Settle(ctx context.Context, settlements ...Settlement) []error {
	errs := make([]error, len(settlements))
	leases := make([]*Lease, len(settlements))
	for i, s := range settlements {
		leases[i] = s.Lease
	}
	if t.refuse(ctx, leases, errs) {
		return errs
	}
	var verdicts []worker.Verdict
	var at []int
	for i, found := range t.load(ctx, leases) {
		if errs[i] != nil {
			continue
		}
		s := settlements[i]
		if found.where != leaseHeld {
			errs[i] = found.answer(s)
			continue
		}
		verdicts = append(verdicts, worker.Verdict{Attempt: found.attempt, Result: s.Result, Err: s.Err, Release: s.Release && s.Err == nil})
		at = append(at, i)
	}
	for i, err := range t.pool.Settle(ctx, verdicts) {
		errs[at[i]] = takerError(err)
	}
	return errs
}

// Extend extends many leases in few round trips. It returns as many errors, in their order, each as Lease.Extend would return it.
func (t *Taker) Extend(ctx context.Context, leases ...*Lease) []error {
	errs := make([]error, len(leases))
	if t.refuse(ctx, leases, errs) {
		return errs
	}
	var attempts []*worker.Attempt
	var at []int
	for i, found := range t.load(ctx, leases) {
		if errs[i] != nil {
			continue
		}
		if errs[i] = found.err(); errs[i] == nil {
			attempts, at = append(attempts, found.attempt), append(at, i)
		}
	}
	for i, err := range t.pool.Extend(ctx, attempts) {
		l := leases[at[i]]
		if errs[at[i]] = err; err == nil {
			l.mu.Lock()
			l.attempt = attempts[i]
			l.mu.Unlock()
		}
	}
	return errs
}

// ready says why nothing can be done with leases; nil if it can.
func (t *Taker) ready(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return t.usable()
}

// refuse finds the leases with which nothing can be done, and reports whether that is all of them.
func (t *Taker) refuse(ctx context.Context, leases []*Lease, errs []error) (all bool) {
	err := t.ready(ctx)
	for i, l := range leases {
		switch {
		case err != nil:
			errs[i] = err
		case l == nil:
			errs[i] = errors.New("asynq: the lease must not be nil")
		case l.taker != t:
			errs[i] = fmt.Errorf("asynq: the lease of task %q is another Taker's: get it from Taker.Lease", l.id)
		}
	}
	return err != nil
}

// whereabouts are what Redis, or this taker, knows of a lease.
type whereabouts int

const (
	leaseHeld    whereabouts = iota
	leaseSettled             // by its holder
	leaseLost
	leaseGone // and so is the task
	leaseUnknown
)

// finding is what came of looking for a lease.
type finding struct {
	where   whereabouts
	attempt *worker.Attempt // leaseHeld
	cause   error           // leaseUnknown
}

// err is what the finding means to who wants the lease to be held.
func (f finding) err() error {
	switch f.where {
	case leaseHeld:
		return nil
	case leaseUnknown:
		return f.cause
	default:
		return ErrLeaseExpired
	}
}

// answer is what the finding means to who wants the lease to be settled, where it is not held.
func (f finding) answer(s Settlement) error {
	deleted := s.Err == nil && !s.Release || errors.Is(s.Err, RevokeTask)
	if f.where == leaseSettled || f.where == leaseGone && deleted {
		return nil
	}
	return f.err()
}

// load finds the leases whose tasks are not known yet. What is nil or another taker's it leaves alone.
func (t *Taker) load(ctx context.Context, leases []*Lease) []finding {
	found := make([]finding, len(leases))
	var names []rdb.TaskName
	var at []int
	for i, l := range leases {
		if l == nil || l.taker != t {
			continue
		}
		switch a := l.held(); {
		case a != nil:
			found[i].attempt = a
		case !l.possible():
			found[i].where = leaseLost
		default:
			names, at = append(names, rdb.TaskName{Queue: l.queue, ID: l.id}), append(at, i)
		}
	}
	if len(names) == 0 {
		return found
	}
	infos, errs := t.base.broker.TaskInfos(ctx, names)
	for i, info := range infos {
		found[at[i]] = leases[at[i]].find(info, errs[i])
	}
	return found
}

// possible reports whether there can be such a lease.
func (l *Lease) possible() bool {
	return validateQueueName(l.queue) == nil && strings.TrimSpace(l.id) != "" && isToken(l.token)
}

// isToken reports whether a text can be a token. Tasks of other libraries are held under none, and scripts are given tokens with other
// characters in between.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 100
}

// find judges what Redis knows of the lease's task, and keeps it.
func (l *Lease) find(info *rdb.TaskInfo, err error) finding {
	switch {
	case errors.Is(err, rdb.ErrTaskGone):
		return finding{where: leaseGone}
	case err != nil:
		return finding{where: leaseUnknown, cause: err}
	case info.State == wire.StateActive && info.Token == l.token:
	case info.Settled == l.token:
		return finding{where: leaseSettled}
	default:
		return finding{where: leaseLost}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.attempt == nil {
		l.attempt = l.taker.pool.Adopt(l.queue, l.token, info.Message)
		l.info = l.attempt.Lease.(*Lease).info
		l.attempt.Lease = l
	}
	return finding{attempt: l.attempt}
}
