package rdb

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// Finding is a broken invariant that a diagnosis found. What can be judged in one slot was confirmed by one script.
type Finding struct {
	Queue    string
	TaskID   string // empty: it is about no task
	Key      string // the key that is wrong, or that something is missing from
	Kind     FindingKind
	Detail   string // what is wrong, a plain sentence without a full stop
	Repair   string // what mends it, likewise; empty: nothing that a program could do
	Repaired bool
}

// FindingKind says which invariant is broken.
type FindingKind string

// The kinds; the public package explains them.
const (
	ActiveWithoutLease    FindingKind = "active-without-lease"
	LeaseWithoutActive    FindingKind = "lease-without-active"
	OrphanTask            FindingKind = "orphan-task"
	OrphanLock            FindingKind = "orphan-lock"
	DanglingID            FindingKind = "dangling-id"
	InTwoCollections      FindingKind = "in-two-collections"
	InvalidState          FindingKind = "invalid-state"
	UnreadableMessage     FindingKind = "unreadable-message"
	MissingGroupName      FindingKind = "missing-group-name"
	EmptyGroupName        FindingKind = "empty-group-name"
	MissingAggregationSet FindingKind = "missing-aggregation-set"
	StaleAggregationSet   FindingKind = "stale-aggregation-set"
	UnregisteredQueue     FindingKind = "unregistered-queue"
	WrongType             FindingKind = "wrong-type"
)

// Diagnosis says what Diagnose looks at, and whether it mends what it finds.
type Diagnosis struct {
	Queues []string // empty: all
	Repair bool
}

// What a diagnosis reads from Redis at a time, and confirms with one script call.
const (
	doctorPage     = 200
	doctorListPage = 1000
	doctorConfirm  = 100
)

// doctorLease is how long the lease is that an active task without one is given. A worker that lives extends it; if there is none, the
// recoverer takes the task back when it ends.
const doctorLease = 30 * time.Second

// doctor makes one diagnosis.
//
// Plain reads find suspects. They are not made at one moment, so a suspect says nothing yet: each is judged by a script, which
// also mends it. Every transition is one script too, so that it never sees a task on its way.
type doctor struct {
	b      *Broker
	keep   func(queue string) bool
	repair bool
	yield  func(*Finding, error) bool

	queues map[string]*doctorQueue
	seed   maphash.Seed
	told   map[uint64]struct{} // what was found already: SCAN may return a key twice
}

// doctorQueue is a queue under diagnosis.
type doctorQueue struct {
	*queue
	broken map[string]bool // keys of another type than they must have

	pendingIDs, activeIDs idSet
	deferred              []suspect // tasks in pending state that pendingIDs lacks

	registered bool
	sample     string // a key that says that there are tasks
	failed     bool   // it was told why; the diagnosis goes on with the other queues
}

// errDoctorStopped ends a diagnosis of which nobody wants to hear more.
var errDoctorStopped = errors.New("rdb: stopped")

// Diagnose looks for broken invariants, and mends them if it is told to. An error with a nil finding says that a queue, or a
// part of the keys, could not be looked at to the end; the diagnosis goes on with the others until ctx ends.
//
// Servers may be at work. It reads in pages, in about one command for each ID in a collection and five for each task, and keeps eight
// bytes of each ID in pending and active in memory.
func (b *Broker) Diagnose(ctx context.Context, d Diagnosis) iter.Seq2[*Finding, error] {
	return func(yield func(*Finding, error) bool) {
		doc := &doctor{
			b: b, repair: d.Repair, yield: yield, queues: make(map[string]*doctorQueue),
			seed: maphash.MakeSeed(), told: make(map[uint64]struct{}),
			keep: func(queue string) bool { return len(d.Queues) == 0 || slices.Contains(d.Queues, queue) },
		}
		if err := doc.run(ctx, d.Queues); err != nil && !errors.Is(err, errDoctorStopped) {
			yield(nil, err)
		}
	}
}

func (d *doctor) run(ctx context.Context, only []string) error {
	names, err := d.b.Queues(ctx)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if !d.keep(name) {
			continue
		}
		if _, err := d.open(ctx, name, true); err != nil {
			return err
		}
	}
	if err := d.scan(ctx, only); err != nil {
		return err
	}
	for _, q := range d.queues {
		err := d.resolve(ctx, q)
		if err == nil && !q.registered {
			err = d.confirmUnregistered(ctx, q)
		}
		if err := d.tolerate(ctx, q, err); err != nil {
			return err
		}
	}
	return nil
}

// open returns a queue, whose collections are looked through when it is met for the first time.
func (d *doctor) open(ctx context.Context, name string, registered bool) (*doctorQueue, error) {
	if q, ok := d.queues[name]; ok {
		return q, nil
	}
	q := &doctorQueue{
		queue: d.b.queues.get(name), broken: make(map[string]bool), registered: registered,
		pendingIDs: idSet{seed: d.seed}, activeIDs: idSet{seed: d.seed},
	}
	d.queues[name] = q
	return q, d.tolerate(ctx, q, d.lookThrough(ctx, q))
}

// lookThrough judges a queue's keys of a fixed name.
func (d *doctor) lookThrough(ctx context.Context, q *doctorQueue) error {
	k := q.keys
	fixed := []string{
		k.Pending(), k.Active(), k.Lease(), k.Scheduled(), k.Retry(), k.Archived(), k.Completed(), k.Groups(), k.AggregationSets(),
		k.Paused(), k.Processed(), k.Failed(), k.Marker(), k.GroupsDue(), k.SpentSets(),
	}
	if err := d.checkTypes(ctx, q, fixed); err != nil {
		return err
	}
	var err error
	if q.pendingIDs, err = d.checkList(ctx, q, k.Pending(), wire.StatePending); err != nil {
		return err
	}
	if q.activeIDs, err = d.checkList(ctx, q, k.Active(), wire.StateActive); err != nil {
		return err
	}
	for key, state := range map[string]wire.State{
		k.Lease(): wire.StateActive, k.Scheduled(): wire.StateScheduled, k.Retry(): wire.StateRetry,
		k.Archived(): wire.StateArchived, k.Completed(): wire.StateCompleted,
	} {
		if _, err := d.checkMembers(ctx, q, key, state, ""); err != nil {
			return err
		}
	}
	return d.checkGroupNames(ctx, q)
}

// checkTypes reports keys of another type than their name says.
func (d *doctor) checkTypes(ctx context.Context, q *doctorQueue, keys []string) error {
	types := make([]*redis.StatusCmd, len(keys))
	_, err := d.b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, key := range keys {
			types[i] = pipe.Type(ctx, key)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rdb: types of keys: %w", err)
	}
	for i, key := range keys {
		want, _ := kindOf(q.keys, key)
		if typ := types[i].Val(); typ != "none" && typ != want.typ {
			q.broken[key] = true
			if err := d.found(q, wrongType(key, "", typ, want.typ)); err != nil {
				return err
			}
		}
	}
	return nil
}

func wrongType(key, id, is, must string) *Finding {
	return &Finding{Key: key, TaskID: id, Kind: WrongType, Detail: fmt.Sprintf("its type is %s and must be %s", is, must)}
}

// tolerate takes note of what kept a queue from being looked at. It returns an error only if the diagnosis cannot go on.
func (d *doctor) tolerate(ctx context.Context, q *doctorQueue, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errDoctorStopped):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	q.failed = true
	if !d.yield(nil, fmt.Errorf("queue %q: %w", q.keys.Name, err)) {
		return errDoctorStopped
	}
	return nil
}

// found reports a finding, unless it was reported before.
func (d *doctor) found(q *doctorQueue, f *Finding) error {
	f.Queue = q.keys.Name
	hash := maphash.String(d.seed, strings.Join([]string{string(f.Kind), f.Queue, f.Key, f.TaskID, f.Detail}, "\x00"))
	if _, told := d.told[hash]; told && !f.Repaired {
		return nil
	}
	d.told[hash] = struct{}{}
	if !d.yield(f, nil) {
		return errDoctorStopped
	}
	return nil
}

// confirmUnregistered reports a queue that has tasks and is not in the set of all queues. The set is in another slot, so that no script
// can look at both: a queue that is made or removed right now is told by asking before and after.
func (d *doctor) confirmUnregistered(ctx context.Context, q *doctorQueue) error {
	k := q.keys
	if q.sample == "" {
		return nil
	}
	if known, err := d.b.QueueExists(ctx, k.Name); err != nil || known {
		return err
	}
	some, err := d.b.anyExists(ctx, k.Pending(), k.Active(), k.Scheduled(), k.Retry(), k.Archived(), k.Completed(), q.sample)
	if err != nil || !some {
		return err
	}
	if known, err := d.b.QueueExists(ctx, k.Name); err != nil || known {
		return err
	}
	f := &Finding{
		Key: d.b.queues.namespace.Queues(), Kind: UnregisteredQueue,
		Detail: "the queue has tasks, and the set of all queues lacks its name", Repair: "its name is put into the set of all queues",
	}
	if d.repair {
		if err := d.b.client.SAdd(ctx, d.b.queues.namespace.Queues(), k.Name).Err(); err != nil {
			return fmt.Errorf("rdb: registering a queue: %w", err)
		}
		f.Repaired = true
	}
	return d.found(q, f)
}
