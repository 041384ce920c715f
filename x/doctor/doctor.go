// Package doctor finds broken invariants in the keys of github.com/asynq-go/asynq and repairs them
// while servers and clients keep running. The command asynq doctor uses it.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Options select what Diagnose checks, and whether it repairs findings.
type Options struct {
	Queues []string // empty: all, including unregistered queues, and flows without tasks
	Repair bool

	maxSearch int // entries of lists that one script call may search; 0: defaultMaxSearch
}

// What a diagnosis reads from Redis at a time, and confirms with one script call.
const (
	pageSize     = 200
	listPageSize = 1000
	maxConfirm   = 100
)

// leaseDuration is the lease given to an active task without one. A running worker extends it;
// otherwise the recoverer takes the task when it expires.
const leaseDuration = 30 * time.Second

// diagnosis is one call of Diagnose.
//
// Plain reads find suspects. They are not made at one moment, so a script confirms each suspect and
// repairs it. Every transition is also one script, so a confirmation never sees an intermediate
// state.
type diagnosis struct {
	conn      *script.Conn
	keep      func(queue string) bool
	repair    bool
	maxSearch int
	yield     func(*Finding, error) bool

	queues   map[string]*queue
	seed     maphash.Seed
	reported map[uint64]struct{} // hashes of reported findings: SCAN may return a key twice
}

// queue is a queue under diagnosis.
type queue struct {
	*script.Queue
	broken map[string]bool // keys of the wrong type

	pendingIDs, activeIDs idSet
	pendingLen            int    // as last read
	deferred              []task // tasks in pending state that pendingIDs lacks

	registered bool
	sample     string // a key that proves that there are tasks
	failed     bool   // an error was reported; the diagnosis continues with other queues
}

// errStopped ends a diagnosis when the caller's loop has ended.
var errStopped = errors.New("stopped")

// Diagnose finds broken invariants in Redis and, with o.Repair, repairs them. Servers and clients
// may keep running, including those of other libraries on the same keys: a script confirms each
// finding at one moment and repairs it atomically. Repairs lose no task that can still run.
//
// Two findings can have the same cause: a task whose ID is in the wrong collection, and so not in
// the right one, is both a dangling-id and an orphan-task. A repair whose reply was lost takes
// effect but is not reported.
//
// An error has a nil finding and names a queue or a cluster node that could not be checked. The
// diagnosis continues with the others. It ends when ctx ends, with the cause as its last error, or
// when the loop breaks. If r is invalid or the name of a queue is, it yields only that error.
//
// Each iteration connects to Redis, and closes the connection at its end. A SharedRedisClient stays
// open.
//
// It costs Redis about one short command per ID in a collection, five per task, one per flow and
// five per part of a flow that runs, no script longer than about 2 ms, and the caller eight bytes
// of memory per ID in pending and active. In three cases a script scans a whole list, which takes
// 10 to 25 ms per million IDs: if an ID is in it twice, once for each; if IDs are removed from its
// middle, once for up to 200; and if a pending task that is not in the list has no pending_since,
// once for each.
func Diagnose(ctx context.Context, r asynq.RedisConnOpt, o Options) iter.Seq2[*Finding, error] {
	return func(yield func(*Finding, error) bool) {
		d := &diagnosis{
			repair: o.Repair, maxSearch: cmp.Or(o.maxSearch, defaultMaxSearch), yield: yield,
			queues: make(map[string]*queue), seed: maphash.MakeSeed(), reported: make(map[uint64]struct{}),
			keep: func(queue string) bool { return len(o.Queues) == 0 || slices.Contains(o.Queues, queue) },
		}
		if err := d.run(ctx, r, o.Queues); err != nil && !errors.Is(err, errStopped) {
			_ = d.yieldError(err) // the diagnosis ends anyway
		}
	}
}

// yieldError yields an error and reports whether the loop continues.
func (d *diagnosis) yieldError(err error) bool { return d.yield(nil, fmt.Errorf("doctor: %w", err)) }

// run validates the arguments of Diagnose, connects and checks.
func (d *diagnosis) run(ctx context.Context, r asynq.RedisConnOpt, only []string) error {
	if ctx == nil {
		return errors.New("ctx must not be nil: pass context.Background() if there is no other")
	}
	for _, name := range only {
		if err := wire.ValidateQueueName(name); err != nil {
			return err
		}
	}
	conn, err := asynq.ConnectRedis(r)
	if err != nil {
		return err
	}
	defer conn.Close()
	d.conn = script.NewConn(script.Bounded(conn.Client), wire.Namespace(conn.Namespace))
	if err := d.check(ctx, only); err != nil {
		return err
	}
	i := asynq.NewInspector(conn.Shared())
	if err := d.checkFlows(ctx, flow.Inspect(i)); err != nil {
		return err
	}
	if err := d.checkPartitionsServed(ctx, i); err != nil {
		return err
	}
	return d.checkTypesHandled(ctx, i, only)
}

// checkTypesHandled reports types of waiting tasks that no running server of their queue handles.
func (d *diagnosis) checkTypesHandled(ctx context.Context, i *asynq.Inspector, only []string) error {
	types, err := i.UnhandledTypes(ctx, only...)
	if err != nil {
		return err
	}
	for _, t := range types {
		if !d.yield(&Finding{
			Queue: t.Queue, Key: d.conn.Keys(t.Queue).Pending(), Kind: UnhandledType,
			Detail: fmt.Sprintf("no running server handles type %q: %d of the first tasks have it", t.Type, t.Tasks),
		}, nil) {
			return errStopped
		}
	}
	return nil
}

// check checks all queues, or those named in only.
func (d *diagnosis) check(ctx context.Context, only []string) error {
	names, err := d.conn.Queues(ctx)
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
		if err := d.reportError(ctx, q, err); err != nil {
			return err
		}
	}
	return nil
}

// open returns a queue, and checks its collections on the first call.
func (d *diagnosis) open(ctx context.Context, name string, registered bool) (*queue, error) {
	if q, ok := d.queues[name]; ok {
		return q, nil
	}
	q := &queue{
		Queue: d.conn.Queue(name), broken: make(map[string]bool), registered: registered,
		pendingIDs: idSet{seed: d.seed}, activeIDs: idSet{seed: d.seed},
	}
	d.queues[name] = q
	return q, d.reportError(ctx, q, d.checkFixedKeys(ctx, q))
}

// checkFixedKeys checks the keys of a queue that have fixed names.
func (d *diagnosis) checkFixedKeys(ctx context.Context, q *queue) error {
	k := q.Keys
	fixed := []string{
		k.Pending(), k.Active(), k.Lease(), k.Scheduled(), k.Retry(), k.Archived(), k.Completed(), k.Groups(), k.AggregationSets(),
		k.Paused(), k.Processed(), k.Failed(), k.Marker(), k.GroupsDue(), k.ConsumedSets(), k.HeldTasks(), k.ReadyPartitions(),
		k.BlockedPartitions(), k.RunningTasks(), k.PartitionRates(), k.PartitionClock(), k.PartitionSettings(), k.FlowsDue(),
	}
	if err := d.checkTypes(ctx, q, fixed); err != nil {
		return err
	}
	var err error
	if q.pendingIDs, err = d.checkList(ctx, q, collection{key: k.Pending(), state: wire.StatePending}); err != nil {
		return err
	}
	q.pendingLen = len(q.pendingIDs.hashes)
	if q.activeIDs, err = d.checkList(ctx, q, collection{key: k.Active(), state: wire.StateActive}); err != nil {
		return err
	}
	for _, c := range []collection{
		{key: k.Lease(), state: wire.StateActive}, {key: k.Scheduled(), state: wire.StateScheduled}, {key: k.Retry(), state: wire.StateRetry},
		{key: k.Archived(), state: wire.StateArchived}, {key: k.Completed(), state: wire.StateCompleted},
	} {
		if _, err := d.checkSet(ctx, q, c); err != nil {
			return err
		}
	}
	if err := d.checkPlaces(ctx, q); err != nil {
		return err
	}
	return d.checkGroupNames(ctx, q)
}

// read sends the commands that add queues in one pipeline. Error replies of Redis, such as those
// for a key whose type has changed, remain in the commands; read returns other errors.
func (d *diagnosis) read(ctx context.Context, what string, add func(pipe redis.Pipeliner)) error {
	pipe := d.conn.Client().Pipeline()
	add(pipe)
	cmds, _ := pipe.Exec(ctx) // the commands have the errors
	for _, cmd := range cmds {
		if err := script.IgnoreRefused(cmd.Err()); err != nil {
			return fmt.Errorf("reading %s: %w", what, err)
		}
	}
	return nil
}

// checkTypes reports keys of the wrong type.
func (d *diagnosis) checkTypes(ctx context.Context, q *queue, keys []string) error {
	types := make([]*redis.StatusCmd, len(keys))
	err := d.read(ctx, "types of keys", func(pipe redis.Pipeliner) {
		for i, key := range keys {
			types[i] = pipe.Type(ctx, key)
		}
	})
	if err != nil {
		return err
	}
	for i, key := range keys {
		is, err := types[i].Result()
		if err != nil {
			return fmt.Errorf("type of a key: %w", err)
		}
		want, _ := wire.KeyTypeOf(q.Keys, key)
		if is == "none" || is == want.Type {
			continue
		}
		q.broken[key] = true
		err = d.report(q, &Finding{Key: key, Kind: WrongType, Detail: fmt.Sprintf("the key is a %s and must be a %s", is, want.Type)})
		if err != nil {
			return err
		}
	}
	return nil
}

// reportError reports an error of a queue. It returns an error only if the diagnosis cannot
// continue.
func (d *diagnosis) reportError(ctx context.Context, q *queue, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errStopped):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	q.failed = true
	if !d.yieldError(fmt.Errorf("queue %q: %w", q.Keys.Name, err)) {
		return errStopped
	}
	return nil
}

// report reports a finding, unless it was reported before.
func (d *diagnosis) report(q *queue, f *Finding) error {
	f.Queue = q.Keys.Name
	hash := maphash.String(d.seed, strings.Join([]string{string(f.Kind), f.Queue, f.Key, f.TaskID, f.Detail}, "\x00"))
	if _, known := d.reported[hash]; known && !f.Repaired {
		return nil
	}
	d.reported[hash] = struct{}{}
	if !d.yield(f, nil) {
		return errStopped
	}
	return nil
}

// confirmUnregistered reports a queue with tasks that the set of queues lacks. The set is in
// another slot, so no script can read both; reading it before and after excludes queues that are
// being created or deleted.
func (d *diagnosis) confirmUnregistered(ctx context.Context, q *queue) error {
	k := q.Keys
	if q.sample == "" {
		return nil
	}
	if known, err := d.conn.QueueExists(ctx, k.Name); err != nil || known {
		return err
	}
	some, err := d.conn.AnyExists(ctx, k.Pending(), k.Active(), k.Scheduled(), k.Retry(), k.Archived(), k.Completed(), q.sample)
	if err != nil || !some {
		return err
	}
	if known, err := d.conn.QueueExists(ctx, k.Name); err != nil || known {
		return err
	}
	f := &Finding{
		Key: d.conn.Namespace().Queues(), Kind: UnregisteredQueue,
		Detail: "the queue has tasks, but the set of queues does not contain it", Repair: "add the queue to the set of queues",
	}
	if d.repair {
		if err := d.conn.Client().SAdd(ctx, d.conn.Namespace().Queues(), k.Name).Err(); err != nil {
			return fmt.Errorf("registering a queue: %w", err)
		}
		f.Repaired = true
	}
	return d.report(q, f)
}
