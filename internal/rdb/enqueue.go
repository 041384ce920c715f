package rdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
)

// NewTask is a task to create. Enqueue sets Err.
type NewTask struct {
	ID        string
	RandomID  bool   // no task has had the ID
	Early     uint16 // milliseconds before ProcessAt when the task is due, if the broker stores them
	Queue     string
	Message   []byte // encoded
	Lock      string // key of the uniqueness lock; empty: not unique
	LockTTL   int64  // seconds
	ProcessAt int64  // unix seconds; 0: now
	Group     string // name of the group to enter when due; empty: none
	Tick      *Tick  // of a scheduler, that the task is for; nil: none
	Mode      *Mode  // what the call does depending on earlier ones; nil: nothing

	// Err is nil, ErrTaskIDConflict, ErrDuplicateTask, or the error of the call; of a tick also
	// ErrTickOver or ErrTickLate.
	Err error
}

// Due returns a time as scripts take it, in unix seconds: a number of milliseconds before at, if
// the broker stores them, else at.
func (b *Broker) Due(at int64, early uint16) any {
	if early == 0 || !b.MillisecondTimes {
		return at
	}
	return fmt.Sprintf("%d.%03d", at-1, 1000-early)
}

// minOnceTTL is the least TTL of an idempotency key in seconds, so that a call that is repeated
// after a lost reply finds its own task.
const minOnceTTL = 120

// The name of a queue is added to the set of queues repeatedly, because the set is in another slot
// than the queue, and another process may delete the queue.
const (
	registerEvery = 30 * time.Second
	registerRetry = time.Second            // after an error
	registerLater = 700 * time.Millisecond // after a task was added to an empty collection
	maxListing    = 500 * time.Millisecond // that Enqueue waits for the first time, on a Cluster
)

// Enqueue creates tasks and sets the Err of each. Pending tasks of a queue are created in order,
// and so are scheduled tasks and tasks in groups. If Err is not one of the declared errors, the
// task may or may not exist: no reply arrived within the retries of go-redis and the RetryBudget. A
// repeated call that created tasks returns its first result; one that created none is evaluated
// again.
func (b *Broker) Enqueue(ctx context.Context, tasks ...*NewTask) {
	for len(tasks) > 0 {
		tasks = tasks[b.enqueueBatches(ctx, tasks):]
	}
}

// creation is a call that creates tasks of one queue.
type creation struct {
	queue  *script.Queue
	script *script.Script
	tasks  []*NewTask
	bytes  int // of the messages
	first  int // index of the first task
	tick   *Tick
	from   *script.Sequence // nil for a tick, and for tasks with idempotency keys
	call   *script.Call
}

// enqueueBatches creates as many tasks as fit into a pipeline, and returns their number.
func (b *Broker) enqueueBatches(ctx context.Context, tasks []*NewTask) int {
	batches, n := b.batches(tasks)
	now := time.Now()
	calls := make([]*script.Call, len(batches))
	var unreachable error
	var listing []<-chan struct{}
	for i := range batches {
		in := &batches[i]
		if in.tick == nil && in.script != createOnceScript { // a repeated call finds its own tasks
			in.from = in.queue.AcquireSequence()
			in.from.Next(now)
		}
		in.call = in.newCall(b)
		calls[i] = in.call
		if unreachable == nil {
			var listed <-chan struct{}
			if listed, unreachable = b.register(ctx, in.queue, now.UnixNano()); listed != nil {
				listing = append(listing, listed)
			}
		}
	}
	switch {
	case unreachable != nil:
		for _, c := range calls {
			c.Err = unreachable
		}
	case b.RetryBudget == 0:
		b.Run(ctx, calls...)
	default:
		b.RunRetrying(ctx, b.RetryBudget, calls)
	}
	var later []*NewTask
	for i := range batches {
		in := &batches[i]
		if in.from != nil {
			in.queue.ReleaseSequence(ctx, in.from)
		}
		if in.setErrors() {
			b.created(in.queue, now.UnixNano())
		}
		later = append(later, in.deferred()...)
	}
	awaitListed(ctx, listing)
	b.Enqueue(ctx, later...)
	return n
}

// awaitListed waits until the first names of queues have been added, so that callers find the
// queues of their tasks listed. The shard of the set may be down, so it waits for a limited time.
func awaitListed(ctx context.Context, listing []<-chan struct{}) {
	if len(listing) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxListing)
	defer cancel()
	for _, listed := range listing {
		select {
		case <-listed:
		case <-ctx.Done():
			return
		}
	}
}

// batches divides tasks among calls until a pipeline is full. It returns the number of tasks in
// these calls.
func (b *Broker) batches(tasks []*NewTask) (batches []creation, n int) {
	bytes := 0
	for n, t := range tasks {
		if bytes += len(t.Message); n == script.MaxPipeline*script.MaxBatch || bytes > script.MaxPipeline*script.MaxBatchBytes && n > 0 {
			return batches, n
		}
		q, s := b.Queue(t.Queue), enqueueScript
		switch {
		case t.Mode != nil:
			s = t.Mode.script()
		case t.ProcessAt > 0 || t.Group != "" || t.Tick != nil:
			s = createScript
		}
		i := len(batches) - 1 // the last one with this script and queue is not full
		for i >= 0 && (batches[i].queue != q || batches[i].script != s || batches[i].tick != nil) {
			i--
		}
		if i < 0 || t.Tick != nil || batches[i].isFull(t) {
			i = len(batches)
			batches = append(batches, creation{queue: q, script: s, tick: t.Tick, first: n})
		}
		in := &batches[i]
		if next := in.first + len(in.tasks); next == n {
			in.tasks = tasks[in.first : n+1 : n+1]
		} else {
			in.tasks = append(in.tasks, t)
		}
		in.bytes += len(t.Message)
	}
	return batches, len(tasks)
}

// isFull reports whether another task belongs into the next call.
func (c *creation) isFull(t *NewTask) bool {
	return len(c.tasks) == script.MaxBatch || c.bytes+len(t.Message) > script.MaxBatchBytes ||
		c.script == enqueueModeScript && c.isFullOfModes(t)
}

// notTick is the deadline in calls that create no task of a tick.
const notTick = -1

// newCall returns the call.
func (c *creation) newCall(b *Broker) *script.Call {
	call, q := script.NewCall(c.script, 11+4*len(c.tasks)), c.queue
	call.Queue = q
	switch c.script {
	case enqueueScript:
		call.Key(q.Pending, q.Marker)
	case enqueueModeScript:
		return c.addModes(b, call)
	default:
		call.Key(q.Pending, q.Marker, q.Scheduled, q.Groups, q.GroupsDue)
	}
	if c.script == createOnceScript {
		return c.addKeyed(b, call)
	}
	if c.tick != nil {
		call.Key(q.Keys.Tick(c.tick.Entry))
	} else {
		call.Key(c.from.Record)
	}
	for _, t := range c.tasks {
		call.Key(q.Keys.Task(t.ID))
	}
	if c.tick != nil {
		call.Arg(c.tick.At, q.TaskPrefixLen, q.GroupPrefix, c.tick.Deadline, script.Seconds(groupTTL))
	} else if call.Arg(c.from.Number, q.TaskPrefixLen); c.script == createScript {
		call.Arg(q.GroupPrefix, notTick, 0)
	} else {
		call.Arg(script.Flag(!slices.ContainsFunc(c.tasks, func(t *NewTask) bool { return !t.RandomID })))
	}
	for _, t := range c.tasks {
		call.Arg(t.Message)
		if c.script == createScript {
			call.Arg(b.Due(t.ProcessAt, t.Early), t.Group)
		}
	}
	for i, t := range c.tasks {
		if t.Lock != "" {
			call.Arg(i+1, t.Lock, max(t.LockTTL, 1)) // Redis rejects a TTL of 0, after the task is written
		}
	}
	return call
}

// addKeyed adds tasks with idempotency keys to a call.
func (c *creation) addKeyed(b *Broker, call *script.Call) *script.Call {
	for _, t := range c.tasks {
		call.Key(c.queue.Keys.Task(t.ID), c.queue.Keys.IdempotencyKey(t.Mode.Key))
	}
	call.Arg(c.queue.TaskPrefix, c.queue.GroupPrefix)
	for _, t := range c.tasks {
		call.Arg(t.ID, t.Message, b.Due(t.ProcessAt, t.Early), t.Group, t.Lock, max(t.LockTTL, 1), max(t.Mode.TTL, minOnceTTL))
	}
	return call
}

// setErrors sets the errors of the tasks. It reports whether their collection was empty before.
func (c *creation) setErrors() (first bool) {
	switch c.script {
	case createOnceScript:
		return c.setFirstIDs()
	case enqueueModeScript:
		return c.setModeResults()
	}
	r := c.call.ReadCodes(len(c.tasks))
	if err := r.Err(); err != nil {
		for _, t := range c.tasks {
			t.Err = err
		}
		return false
	}
	for _, t := range c.tasks {
		code := r.Code()
		switch {
		case c.tick != nil && code == script.CodeStale:
			t.Err = ErrTickOver
		case c.tick != nil && code == script.CodeLost:
			t.Err = ErrTickLate
		default:
			t.Err = code.Err()
		}
		first = first || code == script.CodeFirst
	}
	return first
}

// setFirstIDs is setErrors for tasks with idempotency keys.
func (c *creation) setFirstIDs() (first bool) {
	r := c.call.Read()
	for _, t := range c.tasks {
		code, id := r.Code(), r.Text()
		if t.Err = r.Err(); t.Err == nil {
			t.Err, t.Mode.FirstID, t.Mode.Repeated = code.Err(), id, id != t.ID // a repeated call finds its own task
		}
		first = first || code == script.CodeFirst
	}
	return first
}

// Holders returns the IDs of the tasks that hold the locks of tasks, in order. An ID is empty if no
// task holds the lock any more, or if it could not be read.
func (b *Broker) Holders(ctx context.Context, tasks []*NewTask) []string {
	holders := make([]string, 0, len(tasks))
	for page := range slices.Chunk(tasks, script.MaxBatch) {
		cmds, _ := b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error { // the errors are the commands'
			for _, t := range page {
				pipe.Get(ctx, t.Lock)
			}
			return nil
		})
		for _, cmd := range cmds {
			holders = append(holders, cmd.(*redis.StringCmd).Val())
		}
	}
	return holders
}

// register adds the queue's name to the set of queues when due. It returns an error only if there
// was no reply: then the caller skips the creation, which would time out as well. If Redis rejects
// the name, tasks are created and processed anyway, and register retries soon.
//
// On a Cluster, the shard of the set may be down while that of the queue is up, so the name is
// added in the background. The first time, register returns a channel that is closed afterwards.
func (b *Broker) register(ctx context.Context, q *script.Queue, now int64) (listed <-chan struct{}, err error) {
	last := q.Registered.Load()
	if now-last < int64(registerEvery) || !q.Registered.CompareAndSwap(last, now) {
		return nil, nil
	}
	add := func() error {
		err := b.Client().SAdd(ctx, b.Namespace().Queues(), q.Keys.Name).Err()
		if err != nil {
			q.Registered.Store(now - int64(registerEvery-registerRetry))
		}
		return err
	}
	if b.Cluster() != nil && b.Later != nil {
		added := make(chan struct{})
		b.Later(0, func() {
			defer close(added)
			_ = add() // the next call retries
		})
		if last == 0 {
			listed = added
		}
		return listed, nil
	}
	if err := add(); err != nil && !script.Refused(err) && b.RetryBudget == 0 {
		return nil, err
	}
	return nil, nil
}

// created records that a call that began at that time created a task in an empty collection.
// Another process may have deleted the queue after its name was registered, so the name is
// registered again shortly after, unless the queue no longer exists by then.
func (b *Broker) created(q *script.Queue, began int64) {
	known := func() bool { return q.Registered.Load() >= began }
	if b.Later == nil || known() || !q.Registering.CompareAndSwap(false, true) {
		return
	}
	b.Later(registerLater, func() {
		q.Registering.Store(false)
		ctx := context.Background()
		if known() || b.Client().Exists(ctx, q.ContentKeys()...).Val() == 0 {
			return
		}
		_ = b.RegisterQueues(ctx, []string{q.Keys.Name}) // the next such task retries
	})
}
