package rdb

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// NewTask is a task to be made, and after Enqueue what became of it.
type NewTask struct {
	ID        string
	Queue     string
	Message   []byte // encoded
	Lock      string // key of the uniqueness lock; empty: not unique
	LockTTL   int64  // seconds
	ProcessAt int64  // unix seconds; 0: at once
	Group     string // name of the group to wait in, once its time has come; empty: none

	// Err is nil, ErrTaskIDConflict, ErrDuplicateTask, or what kept the call from going through.
	Err error
}

// A queue's name is put into the set of all queues again after this time: the set lives in another slot than the queue, and a
// queue may be removed and come back.
const (
	publishEvery = 30 * time.Second
	publishRetry = time.Second // where it failed
)

// maxPipeline bounds the script calls of one pipeline, and so the memory that they take.
const maxPipeline = 8

// Enqueue makes tasks, and leaves the result of each in its Err. Those of one queue that are to be processed at once are made in
// their order, and so are those for later, and those in groups. A task whose Err is no declared one may or may not
// exist: the network ate the answer more often than go-redis repeats a call, and for longer than Patience. A repeated call that made tasks is recognised,
// and answered as the first one was; one that made none is judged anew.
func (b *Broker) Enqueue(ctx context.Context, tasks ...*NewTask) {
	for len(tasks) > 0 {
		tasks = tasks[b.enqueueSome(ctx, tasks):]
	}
}

// enqueueSome makes as many tasks as fit into a pipeline and returns how many.
func (b *Broker) enqueueSome(ctx context.Context, tasks []*NewTask) int {
	type target struct {
		queue  *queue
		script *script
	}
	type batch struct {
		to    target
		call  *call
		tasks []*NewTask
		bytes int
	}
	var batches []*batch
	open := make(map[target]*batch, 1)
	n := 0
	for _, t := range tasks {
		to := target{b.queues.get(t.Queue), enqueueScript}
		switch {
		case t.ProcessAt > 0:
			to.script = scheduleScript
		case t.Group != "":
			to.script = groupScript
		}
		in := open[to]
		if in == nil || len(in.tasks) == maxBatch || in.bytes+len(t.Message) > maxBatchBytes && len(in.tasks) > 0 {
			if len(batches) == maxPipeline {
				break
			}
			in = &batch{to: to}
			open[to] = in
			batches = append(batches, in)
		}
		in.tasks = append(in.tasks, t)
		in.bytes += len(t.Message)
		n++
	}

	from := b.senders.take()
	defer b.senders.put(from)
	from.seq++
	calls := make([]*call, len(batches))
	for i, in := range batches {
		in.call = newCreation(in.to.script, in.to.queue, in.tasks, from.record(in.to.queue, i), from.seq)
		calls[i] = in.call
		b.publish(ctx, in.to.queue)
	}
	b.insist(ctx, calls)
	for _, in := range batches {
		codes, err := in.call.codes(len(in.tasks))
		for i, t := range in.tasks {
			if err != nil {
				t.Err = err
			} else {
				t.Err = codes[i].Err()
			}
		}
	}
	return n
}

// newCreation makes the call of enqueue.lua, schedule.lua or group.lua.
func newCreation(s *script, q *queue, tasks []*NewTask, record string, seq uint64) *call {
	c := newCall(s, 5+5*len(tasks))
	c.queue = q
	switch s {
	case enqueueScript:
		c.key(q.pending, q.marker, record)
	case scheduleScript:
		c.key(q.scheduled, q.marker, record)
	case groupScript:
		c.key(q.groups, q.groupsDue, record)
	}
	for _, t := range tasks {
		c.key(q.keys.Task(t.ID))
		if s == groupScript {
			c.key(q.keys.Group(t.Group))
		}
	}
	c.arg(seq, q.taskPrefixLen)
	for _, t := range tasks {
		c.arg(t.Message)
		switch s {
		case scheduleScript:
			c.arg(t.ProcessAt, t.Group)
		case groupScript:
			c.arg(t.Group)
		}
	}
	for i, t := range tasks {
		if t.Lock != "" {
			c.arg(i+1, t.Lock, max(t.LockTTL, 1)) // Redis refuses a TTL of 0, and would do so after the task was written
		}
	}
	return c
}

// publish puts the queue's name into the set of all queues, now and then. That it fails keeps no task from being enqueued and
// processed; it is tried again soon.
func (b *Broker) publish(ctx context.Context, q *queue) {
	now := b.now().UnixNano()
	last := q.published.Load()
	if now-last < int64(publishEvery) || !q.published.CompareAndSwap(last, now) {
		return
	}
	add := func() {
		if err := b.client.SAdd(ctx, b.queues.namespace.Queues(), q.keys.Name).Err(); err != nil {
			q.published.Store(now - int64(publishEvery-publishRetry))
		}
	}
	if _, cluster := b.client.(*redis.ClusterClient); cluster && b.Background != nil {
		b.Background(add) // the set may be on a shard that is down, and the queue on one that is not
	} else {
		add()
	}
}
