package asynq

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// UniqueKey is like Unique, with a key of the caller in place of the type and the payload: Enqueue
// returns ErrDuplicateTask if another task of the queue with this key holds the uniqueness lock.
// The task holds the lock until it succeeds or is deleted, at most until ttl after it is due. ttl
// is rounded up to whole seconds.
//
// Enqueue returns an error if the key is blank or not valid UTF-8, or if ttl is not positive.
// OnDuplicate changes what Enqueue does with a duplicate. Of Unique, UniqueKey, Debounce and
// Throttle, the last one applies.
func UniqueKey(key string, ttl time.Duration) Option { return uniqueKeyOption{key, ttl.String()} }

// DuplicatePolicy is what Enqueue does if another task holds the uniqueness lock.
type DuplicatePolicy int

// The policies of OnDuplicate. A task is waiting if it is pending, scheduled, in retry, or in a
// group and not being aggregated.
const (
	// Reject returns ErrDuplicateTask and changes nothing. It is the default.
	Reject DuplicatePolicy = iota

	// Keep changes nothing, and returns the TaskInfo of the other task with IsRepeated set.
	Keep

	// Replace gives the other task, if it is waiting, the payload, the options and the time of the
	// new one. If it is active, the new task is created and takes over the lock.
	Replace

	// Supersede is Replace. If the other task is active, it is also canceled, and deleted if its
	// handler then returns an error.
	Supersede
)

var policyNames = [...]string{"Reject", "Keep", "Replace", "Supersede"}

// String returns the name of the constant.
func (p DuplicatePolicy) String() string {
	if p < 0 || int(p) >= len(policyNames) {
		return strconv.Itoa(int(p))
	}
	return policyNames[p]
}

// OnDuplicate sets what Enqueue does if another task holds the uniqueness lock of a task with
// Unique or UniqueKey. With any policy but Reject, the lock of a task that is archived, completed
// or gone is free: the new task takes it.
//
// A replaced task keeps its ID, its number of retries and its last error. A pending one keeps its
// place in the queue, unless the call delays it. A task in retry keeps its time, unless the call
// sets a later one than now. All others get the time of the call. Enqueue then returns the TaskInfo
// of the replaced task, with IsRepeated set.
//
// An active task never sees the new payload. The task that follows it waits for nothing: both may
// run at once. But no two tasks wait with the same lock: if the attempt of the active task fails,
// or a shutdown interrupts it, the task is deleted instead of retried, provided that the task that
// follows it waits or is active. The attempt has the same outcome and counts as usual: an Observer
// is notified of OutcomeRetried, for example. If the following task has ended, the other is
// retried, and holds the lock again. A task whose retries are exhausted is archived in either case.
//
// Supersede cancels the active task on a best-effort basis, after the new task was created: the
// request is lost if no server receives it. Servers of other libraries cancel such a task, but
// retry it if its handler fails, also beside the task that follows it.
//
// Enqueue returns an error if the task has no lock, if the policy is unknown, or if the task also
// has an IdempotencyKey. A Scheduler and the task of a GroupAggregator only accept Reject.
func OnDuplicate(policy DuplicatePolicy) Option { return onDuplicateOption(policy) }

// Debounce delays the task until no other call with the key was made for quiet, at most for maxWait
// after the first call; 0 means no maximum. Calls with the same key and queue share one task, which
// runs with the type, the payload and the options of the last call: it is a UniqueKey with
// OnDuplicate(Replace) and a time, and shares its keys with UniqueKey. So Enqueue returns the
// TaskInfo of the shared task, with the ID of the first call. The clock of Redis decides.
//
// Once the task is due it does not move any more: while it is pending or in retry, calls replace
// it. While it is active, the next call creates another one, and a failed attempt of the active one
// is not retried (see OnDuplicate). The key is held for at most a day longer than quiet and maxWait
// after the last call: a task that waits longer in its queue is no longer replaced.
//
// quiet and maxWait are rounded up to whole seconds. Enqueue returns an error if the key is blank
// or not valid UTF-8, if quiet is not positive, if maxWait is negative, or if the task also has
// ProcessAt, ProcessIn, an IdempotencyKey, or OnDuplicate with another policy than Replace or
// Supersede.
func Debounce(key string, quiet, maxWait time.Duration) Option {
	return debounceOption{key, quiet.String(), maxWait.String()}
}

// Throttle enqueues at most one task per key, queue and window. The first call creates its task at
// once and begins a window. Further calls within the window create nothing, and return the TaskInfo
// of the first task with IsRepeated set; if that task is gone, only its ID and Queue are set.
//
// With OnDuplicate(Replace), calls within the window are folded into one task that is due at its
// end, with the type, the payload and the options of the last call. This task begins the next
// window. The clock of Redis decides.
//
// window is rounded up to whole seconds. Enqueue returns an error if the key is blank or not valid
// UTF-8, if window is not positive, or if the task also has ProcessAt, ProcessIn, an
// IdempotencyKey, or OnDuplicate with another policy than Keep or Replace.
func Throttle(key string, window time.Duration) Option { return throttleOption{key, window.String()} }

// ExpiresIn limits how long a task may wait: no attempt starts d after the call or later, rounded
// up to whole seconds, by the clock of Redis. A task that has expired before its first attempt is
// deleted instead, which counts as processed, not as failed. One that has expired after an attempt
// that failed or returned Snooze is archived, which counts as failed. If an archived task that has
// expired is run again, it is archived again, unless Inspector.UpdateTask has set a new ExpiresIn.
//
// Servers and Receivers of this library check it when they fetch a task, so an expired task remains
// in its queue until then. Those of other libraries ignore it, and so does the aggregation of a
// group. Enqueue returns an error if d is not positive, or if the task is due after it expires.
func ExpiresIn(d time.Duration) Option { return expiresInOption(d) }

// PartitionKey assigns the task to a partition of its queue, such as the tasks of one customer. If
// the servers of the queue configure QueueConfig.Partitions, partitions share the queue fairly, and
// each has its own limits. Tasks without a key are one more partition. Without such servers, the
// key has no effect.
//
// Enqueue returns an error if the key is blank, longer than 256 bytes, not valid UTF-8, or contains
// control characters.
func PartitionKey(key string) Option { return partitionKeyOption(key) }

// maxPartitionKey is the maximum length of a partition key in bytes.
const maxPartitionKey = 256

// validPartitionKey returns an error if a partition key is invalid.
func validPartitionKey(key string) error {
	switch {
	case strings.TrimSpace(key) == "":
		return errors.New("asynq: partition key must not be blank: omit it for a task without one")
	case len(key) > maxPartitionKey:
		return fmt.Errorf("asynq: partition key has %d bytes, more than %d: use a shorter one, such as a hash of it", len(key), maxPartitionKey)
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return fmt.Errorf("asynq: partition key %q must be UTF-8 without control characters", key)
	}
	return nil
}

// rareOptions are options that few tasks have.
type rareOptions struct {
	once      ownKey // of IdempotencyKey
	key       ownKey // of UniqueKey, Debounce or Throttle
	policy    DuplicatePolicy
	chosen    bool // a policy was given
	expiresIn time.Duration
	partition string // of PartitionKey

	awaitable, cancelOnReturn bool
}

// ownKey is the argument of an option with a key.
type ownKey struct {
	kind    OptionType    // MaxRetryOpt: none
	name    string        // the key
	ttl     time.Duration // quiet of Debounce; window of Throttle
	maxWait time.Duration // Debounce
}

// debounceTTL is how long a debounced task holds its key beyond its latest time.
const debounceTTL = 24 * time.Hour

// apply applies one of the options.
func (r *rareOptions) apply(opt Option) (err error) {
	switch v := opt.(type) {
	case idempotencyKeyOption:
		r.once, err = newOwnKey(opt, v[0], v[1])
	case uniqueKeyOption:
		r.key, err = newOwnKey(opt, v[0], v[1])
	case throttleOption:
		r.key, err = newOwnKey(opt, v[0], v[1])
	case debounceOption:
		if r.key, err = newOwnKey(opt, v[0], v[1]); err != nil {
			return err
		}
		if r.key.maxWait, err = time.ParseDuration(v[2]); err != nil || r.key.maxWait < 0 {
			return fmt.Errorf("asynq: %v: maxWait must be a duration and not negative", opt)
		}
	case onDuplicateOption:
		if r.policy, r.chosen = DuplicatePolicy(v), true; v < 0 || int(v) >= len(policyNames) {
			return fmt.Errorf("asynq: %v: unknown policy: use Reject, Keep, Replace or Supersede", opt)
		}
	case expiresInOption:
		if r.expiresIn = time.Duration(v); v <= 0 {
			return fmt.Errorf("asynq: %v: the duration must be positive", opt)
		}
	case partitionKeyOption:
		r.partition, err = string(v), validPartitionKey(string(v))
	case awaitableOption:
		r.awaitable = true
	case cancelOnReturnOption:
		r.cancelOnReturn = true
	}
	return err
}

// newOwnKey validates a key and the duration that belongs to it.
func newOwnKey(opt Option, key, duration string) (ownKey, error) {
	ttl, err := time.ParseDuration(duration)
	if strings.TrimSpace(key) == "" || !utf8.ValidString(key) || err != nil || ttl <= 0 {
		return ownKey{}, fmt.Errorf("asynq: %v: the key must be UTF-8 and not blank, and its duration positive", opt)
	}
	return ownKey{kind: opt.Type(), name: key, ttl: ttl}, nil
}

// onceMode returns the mode of an IdempotencyKey; nil if there is none.
func (r *rareOptions) onceMode() *rdb.Mode {
	if r.once.name == "" {
		return nil
	}
	return &rdb.Mode{Key: r.once.name, TTL: ceilSeconds(r.once.ttl)}
}

// mode returns how a task with these options depends on earlier calls; nil if only its lock does.
func (r *rareOptions) mode(o *taskOptions, now time.Time) (*rdb.Mode, error) {
	m := &rdb.Mode{Policy: rdb.DuplicatePolicy(r.policy)}
	switch r.key.kind {
	case DebounceOpt:
		m.Quiet, m.MaxWait = ceilSeconds(r.key.ttl), ceilSeconds(r.key.maxWait)
		if !r.chosen {
			m.Policy = rdb.Replace
		}
		if m.Policy != rdb.Replace && m.Policy != rdb.Supersede {
			return nil, fmt.Errorf("asynq: Debounce and OnDuplicate(%v) exclude each other: use Replace or Supersede", r.policy)
		}
	case ThrottleOpt:
		m.Window = ceilSeconds(r.key.ttl)
		if !r.chosen {
			m.Policy = rdb.Keep
		}
		if m.Policy != rdb.Keep && m.Policy != rdb.Replace {
			return nil, fmt.Errorf("asynq: Throttle and OnDuplicate(%v) exclude each other: use Keep or Replace", r.policy)
		}
	default:
		if r.policy == Reject {
			return r.onceMode(), nil
		}
		if r.key.kind != UniqueKeyOpt && o.uniqueTTL == 0 {
			return nil, fmt.Errorf("asynq: OnDuplicate(%v) needs Unique or UniqueKey", r.policy)
		}
	}
	if r.once.name != "" {
		return nil, errors.New("asynq: IdempotencyKey excludes OnDuplicate, Debounce and Throttle")
	}
	if m.Quiet+m.Window > 0 && o.processAt.After(now) {
		return nil, errors.New("asynq: Debounce and Throttle set the time of the task: omit ProcessAt and ProcessIn")
	}
	return m, nil
}

// lock sets the lock of the task, and what its mode needs of the queue.
func (r *rareOptions) lock(c *creation, keys wire.Queue, delay int64) {
	k := &r.key
	switch k.kind {
	case DebounceOpt:
		c.order.Lock = keys.UniqueKey(k.name)
		c.order.LockTTL = ceilSeconds(k.ttl) + ceilSeconds(k.maxWait) + ceilSeconds(debounceTTL)
	case ThrottleOpt:
		c.order.Lock, c.order.Mode.Throttle = keys.ThrottleLock(k.name), keys.Throttle(k.name)
		c.order.LockTTL = 2*ceilSeconds(k.ttl) + ceilSeconds(debounceTTL)
	default:
		c.order.Lock, c.order.LockTTL = keys.UniqueKey(k.name), ceilSeconds(k.ttl)+delay
	}
}

// addRare validates the rare options of a task, and adds them to its order and its message.
func (c *creation) addRare(o *taskOptions, keys wire.Queue, now time.Time) (err error) {
	r := o.rare
	if c.order.Mode, err = r.mode(o, now); err != nil {
		return err
	}
	if r.key.name != "" {
		r.lock(c, keys, ceilSeconds(max(o.processAt.Sub(now), 0)))
	}
	if r.expiresIn > 0 {
		due := now
		if m := c.order.Mode; m != nil {
			due = due.Add(time.Duration(m.Quiet) * time.Second)
		}
		expires := now.Add(r.expiresIn)
		if !expires.After(due) || !expires.After(o.processAt) {
			return fmt.Errorf("asynq: ExpiresIn(%v): the task would be due after it expires", r.expiresIn)
		}
		c.msg.SetExpires(ceilUnix(expires))
	}
	if r.partition != "" {
		c.msg.SetPartitionKey(r.partition)
	}
	if r.awaitable {
		c.msg.SetExt(c.msg.Ext().Set(wire.ExtAwait, "-"))
	}
	return nil
}

// independent returns an error if the task depends on earlier calls, which who does not support.
func (c *creation) independent(who string) error {
	switch {
	case c.order.Mode == nil:
		return nil
	case c.order.Mode.Key != "":
		return fmt.Errorf("asynq: %s cannot have an IdempotencyKey", who)
	default:
		return fmt.Errorf("asynq: %s cannot have Debounce, Throttle, or OnDuplicate with another policy than Reject", who)
	}
}

// repeated reports whether the creation stands for a task that an earlier call created.
func (c *creation) repeated() bool {
	return c.order.Mode != nil && c.order.Mode.Repeated
}

// mustRead reports whether the task must be read for its TaskInfo.
func (c *creation) mustRead() bool {
	m := c.order.Mode
	return m != nil && m.State == 0 && (m.Key == "" || c.repeated())
}

// modeInfo returns the state of a task with a mode, as its call left it.
func (c *creation) modeInfo() *TaskInfo {
	m, msg := c.order.Mode, &c.msg
	if c.repeated() {
		replaced, err := wire.DecodeTaskMessage(append(slices.Clip(c.order.Message), m.Kept...))
		if err != nil {
			replaced = &wire.TaskMessage{ID: m.FirstID, Queue: msg.Queue} // a bug: both parts were encoded
		}
		msg = replaced
	}
	var next time.Time
	switch {
	case m.State == wire.StatePending, c.order.ProcessAt > 0: // the time of this call
		next = c.next
	case m.DueAt > 0:
		next = time.Unix(m.DueAt, 0)
	}
	info := newTaskInfo(msg, TaskState(m.State), next, nil)
	info.IsRepeated = c.repeated()
	return info
}

// parsePolicy parses the name of a policy.
func parsePolicy(text string) (DuplicatePolicy, error) {
	for i, name := range policyNames {
		if name == text {
			return DuplicatePolicy(i), nil
		}
	}
	return 0, fmt.Errorf("unknown policy %q", text)
}

// parseTriple parses a quoted string and two other values, separated by commas.
func parseTriple(text string) ([3]string, error) {
	pair, err := parsePair(text)
	if err != nil {
		return [3]string{}, err
	}
	second, third, ok := strings.Cut(pair[1], ",")
	if !ok {
		return [3]string{}, strconv.ErrSyntax
	}
	return [3]string{pair[0], strings.TrimSpace(second), strings.TrimSpace(third)}, nil
}
