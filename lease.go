package asynq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// Lease is the right to work on a task that a Receiver has received. Its holder extends it before
// it expires, and settles it with Complete, Fail or Release. If a lease expires, the attempt fails
// with ErrLeaseExpired, and the task is retried.
//
// Settling is idempotent: if a lease is settled more than once, here or with another Receiver, the
// first outcome counts, and later calls return nil, too. A Lease is safe for concurrent use.
type Lease struct {
	receiver *Receiver
	ref      LeaseRef // without Worker

	mu sync.Mutex // guards leaseState
	leaseState
}

type leaseState struct {
	worker  string
	attempt *worker.Attempt // nil until it is loaded
	info    *TaskInfo       // as attempt
}

// LeaseRef identifies a lease. It is all that a Receiver needs to extend or settle the lease, also
// in another process.
type LeaseRef struct {
	// Queue and ID identify the task.
	Queue, ID string

	// Token is the secret under which the task is held, see Lease.Token.
	Token string

	// Worker is the name under which Inspector.Servers lists the lease, see Receiver.ReceiveAs. It
	// is optional; an invalid name is ignored.
	Worker string
}

// Ref returns a reference to the lease.
func (l *Lease) Ref() LeaseRef {
	return LeaseRef{Queue: l.ref.Queue, ID: l.ref.ID, Token: l.ref.Token, Worker: l.Worker()}
}

func (l *Lease) state() leaseState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaseState
}

func (l *Lease) setWorker(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worker = name
}

// Queue returns the queue of the task.
func (l *Lease) Queue() string { return l.ref.Queue }

// Worker returns the name under which the task was received: see Receiver.ReceiveAs. It is empty
// for tasks that were received without a name, or opened with a LeaseRef that has none.
func (l *Lease) Worker() string { return l.state().worker }

// ID returns the ID of the task.
func (l *Lease) ID() string { return l.ref.ID }

// Token returns the token under which the task is held: an opaque string of letters, digits and
// hyphens that is required to extend or settle the lease.
func (l *Lease) Token() string { return l.ref.Token }

// Task returns the task. Its ResultWriter works as in a Handler.
func (l *Lease) Task() *Task {
	if a := l.state().attempt; a != nil {
		return a.Value.(*Task)
	}
	return nil
}

// Info returns the state of the task when it was received or opened. TaskInfo.Deadline is that of
// the task; see Lease.Deadline for that of the attempt.
func (l *Lease) Info() *TaskInfo {
	info := l.state().info
	if info == nil {
		return nil
	}
	clone := *info
	return &clone
}

// Deadline returns when the attempt must end: when the task's timeout has passed or at its
// deadline, whichever is earlier. It is zero if the task has neither. The lease cannot be extended
// beyond it, but may be settled until it expires.
func (l *Lease) Deadline() time.Time {
	if a := l.state().attempt; a != nil {
		return a.Deadline
	}
	return time.Time{}
}

// ExpiresAt returns when the lease expires unless it is extended, by the clock of this host. It is
// zero for a lease returned by OpenLease before its first Extend.
func (l *Lease) ExpiresAt() time.Time {
	if a := l.state().attempt; a != nil {
		return a.ExpiresAt()
	}
	return time.Time{}
}

// Context returns a context that ends when the holder must stop working on the task. Its cause
// (context.Cause) is one of:
//   - ErrTaskCanceled: the task was canceled. Call Fail with any error.
//   - ErrLeaseExpired: the lease has expired or was lost.
//   - context.DeadlineExceeded: the Deadline has passed.
//   - context.Canceled: the lease is settled.
//
// GetTaskID and the like accept the context. For a lease returned by OpenLease, cancellations and
// the expiry are detected from the first Extend on.
func (l *Lease) Context() context.Context {
	if a := l.state().attempt; a != nil {
		return a.Context()
	}
	return context.Background()
}

// Extend makes the lease expire ReceiverConfig.LeaseDuration from now, or at the Deadline if that
// is earlier, and returns that time. It returns ErrLeaseExpired if the lease has expired or is
// settled, and context.DeadlineExceeded if the Deadline has passed, which leaves the lease
// unchanged. After any other error, the lease may or may not be extended: try again.
func (l *Lease) Extend(ctx context.Context) (time.Time, error) {
	if err := l.receiver.Extend(ctx, l)[0]; err != nil {
		return time.Time{}, err
	}
	return l.ExpiresAt(), nil
}

// Complete settles the lease with success. The task is kept with its result for its Retention, or
// deleted if it has none. If result is nil, the result that the task's ResultWriter wrote is kept.
//
// It returns ErrLeaseExpired if the lease has expired, and nil if the task no longer exists. After
// any other error, such as that of ctx, the task may or may not be completed: try again.
func (l *Lease) Complete(ctx context.Context, result []byte) error {
	return l.receiver.Settle(ctx, Settlement{Lease: l, Result: result})[0]
}

// Fail settles the lease with an error, which has the same effect as an error of a Handler: the
// task is retried after the delay that RetryDelayFunc returns, or archived if its retries are
// exhausted. SkipRetry, RevokeTask, RetryAfter, Snooze, IsFailure and ErrorHandler apply. Fail
// returns an error if cause is nil, the errors of Complete, and ErrLeaseExpired if the task no
// longer exists, unless cause is RevokeTask.
func (l *Lease) Fail(ctx context.Context, cause error) error {
	if cause == nil {
		return errors.New("asynq: Fail needs an error: call Complete for success")
	}
	return l.receiver.Settle(ctx, Settlement{Lease: l, Err: cause})[0]
}

// Release returns the task to the front of its queue without using up an attempt. It returns the
// errors of Fail.
func (l *Lease) Release(ctx context.Context) error {
	return l.receiver.Settle(ctx, Settlement{Lease: l, Release: true})[0]
}

// OpenLease returns the lease that ref identifies, to continue work that was received elsewhere. If
// this Receiver does not hold the lease itself, OpenLease reads the task from Redis; to settle a
// lease without its task, use Settle with Settlement.Ref. It returns ErrLeaseExpired if the lease
// has expired, is settled or never existed.
func (r *Receiver) OpenLease(ctx context.Context, ref LeaseRef) (*Lease, error) {
	leases, errs := r.OpenLeases(ctx, ref)
	return leases[0], errs[0]
}

// OpenLeases is like OpenLease for many leases, which it reads in few round trips. The results are
// in the order of refs: each has a lease or an error.
func (r *Receiver) OpenLeases(ctx context.Context, refs ...LeaseRef) ([]*Lease, []error) {
	leases := make([]*Lease, len(refs))
	for i, ref := range refs {
		leases[i] = r.lease(ref)
	}
	_, errs := r.load(ctx, leases)
	for i, err := range errs {
		if err != nil {
			leases[i], errs[i] = nil, notHeldError(err)
		}
	}
	return leases, errs
}

// lease returns the lease of a reference. Unless this Receiver holds it, it is not loaded.
func (r *Receiver) lease(ref LeaseRef) *Lease {
	l := &Lease{receiver: r, ref: LeaseRef{Queue: ref.Queue, ID: ref.ID, Token: ref.Token}}
	if a := r.pool.LookUp(ref.Queue, ref.ID, ref.Token); a != nil {
		l = a.Lease.(*Lease)
	}
	if l.Worker() == "" && validateWorkerName(ref.Worker) == nil {
		l.setWorker(ref.Worker)
	}
	return l
}

// Settlement is the outcome of one lease: success, unless Err or Release is set.
type Settlement struct {
	// Lease is the lease to settle. It must belong to the Receiver that settles it.
	Lease *Lease

	// Ref identifies the lease to settle if Lease is nil.
	Ref LeaseRef

	// Result is the result of a successful task, as for Lease.Complete.
	Result []byte

	// Err is the error of a failed attempt, as for Lease.Fail.
	Err error

	// Release returns the task to its queue, like Lease.Release. It is ignored if Err is set.
	Release bool
}

// Settle settles many leases in few round trips. The result has one error per settlement, in order,
// as Complete, Fail and Release return them. If a lease occurs more than once, its first settlement
// counts.
func (r *Receiver) Settle(ctx context.Context, settlements ...Settlement) []error {
	leases := make([]*Lease, len(settlements))
	for i, s := range settlements {
		switch {
		case s.Lease != nil:
			leases[i] = s.Lease
		case s.Ref != LeaseRef{}:
			leases[i] = r.lease(s.Ref)
		}
	}
	attempts, errs := r.load(ctx, leases)
	var decisions []worker.Decision
	var at []int
	for i, s := range settlements {
		if attempts[i] == nil {
			errs[i] = s.notHeldError(errs[i])
			continue
		}
		decisions = append(decisions, worker.Decision{
			Attempt: attempts[i], Result: s.Result, Err: handlerError(s.Err), Release: s.Release && s.Err == nil,
		})
		at = append(at, i)
	}
	if len(decisions) == 0 {
		return errs // r may be nil
	}
	for n, err := range r.pool.Settle(ctx, decisions) {
		errs[at[n]] = receiverError(err)
	}
	return errs
}

// Extend extends many leases in few round trips. The result has one error per lease, in order, as
// Lease.Extend returns them.
func (r *Receiver) Extend(ctx context.Context, leases ...*Lease) []error {
	attempts, errs := r.load(ctx, leases)
	var held []*worker.Attempt
	var at []int
	for i, a := range attempts {
		if errs[i] = notHeldError(errs[i]); a != nil {
			held, at = append(held, a), append(at, i)
		}
	}
	if len(held) == 0 {
		return errs // r may be nil
	}
	for n, err := range r.pool.Extend(ctx, held) {
		if errs[at[n]] = err; err == nil {
			l := leases[at[n]]
			l.mu.Lock()
			l.attempt = held[n]
			l.mu.Unlock()
		}
	}
	return errs
}

// ready returns an error if ctx is nil or the Receiver is not running. r is nil for the zero value
// of a Lease.
func (r *Receiver) ready(ctx context.Context) error {
	switch {
	case r == nil:
		return errors.New("asynq: the lease was not returned by a Receiver")
	case ctx == nil:
		return errNilContext
	}
	return r.usable()
}

// The errors of load for leases that the caller cannot hold any more.
var (
	errLeaseSettled = errors.New("asynq: the lease was settled by its holder")
	errLeaseGone    = errors.New("asynq: the task of the lease does not exist")
)

// notHeldError translates an error of load for an operation that requires the lease to be held.
func notHeldError(err error) error {
	if errors.Is(err, errLeaseSettled) || errors.Is(err, errLeaseGone) {
		return ErrLeaseExpired
	}
	return err
}

// notHeldError translates an error of load for the settlement, which succeeds if the lease is
// already settled.
func (s Settlement) notHeldError(err error) error {
	deletes := s.Err == nil && !s.Release || errors.Is(s.Err, RevokeTask)
	if errors.Is(err, errLeaseSettled) || errors.Is(err, errLeaseGone) && deletes {
		return nil
	}
	return notHeldError(err)
}

// load returns the attempt or the error of each lease. It reads the tasks of leases that are not
// loaded yet.
func (r *Receiver) load(ctx context.Context, leases []*Lease) ([]*worker.Attempt, []error) {
	attempts, errs := make([]*worker.Attempt, len(leases)), make([]error, len(leases))
	notReady := r.ready(ctx)
	var names []inspect.TaskName
	var at []int
	for i, l := range leases {
		switch {
		case notReady != nil:
			errs[i] = notReady
		case l == nil:
			errs[i] = errors.New("asynq: the lease must not be nil")
		case l.receiver != r:
			errs[i] = fmt.Errorf("asynq: the lease of task %q belongs to another Receiver: use its Ref", l.ref.ID)
		default:
			if attempts[i] = l.state().attempt; attempts[i] != nil {
				continue
			}
			if errs[i] = ErrLeaseExpired; l.valid() {
				names, at = append(names, inspect.TaskName{Queue: l.ref.Queue, ID: l.ref.ID}), append(at, i)
			}
		}
	}
	if len(names) > 0 {
		infos, failed := inspect.New(r.base.broker).TaskInfos(ctx, names)
		for i, info := range infos {
			attempts[at[i]], errs[at[i]] = leases[at[i]].loaded(info, failed[i])
		}
	}
	return attempts, errs
}

// valid reports whether a lease with this queue, ID and token can exist.
func (l *Lease) valid() bool {
	return validateQueueName(l.ref.Queue) == nil && strings.TrimSpace(l.ref.ID) != "" && isToken(l.ref.Token)
}

// isToken reports whether s has the form of a token. Servers of other libraries hold tasks without
// one, and scripts receive tokens joined by other characters.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 100
}

// loaded stores what Redis returned for the lease's task.
func (l *Lease) loaded(info *inspect.TaskInfo, err error) (*worker.Attempt, error) {
	switch {
	case errors.Is(err, script.ErrTaskGone):
		return nil, errLeaseGone
	case err != nil:
		return nil, err
	case info.State == wire.StateActive && info.Token == l.ref.Token:
	case info.Settled == l.ref.Token:
		return nil, errLeaseSettled
	default:
		return nil, ErrLeaseExpired
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.attempt == nil {
		l.attempt = l.receiver.pool.Adopt(l.ref.Queue, l.ref.Token, info.Message)
		l.info = l.attempt.Lease.(*Lease).info
		l.attempt.Lease = l
	}
	return l.attempt, nil
}
