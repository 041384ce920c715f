package rdb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// closedFor is how long a removal keeps servers from taking tasks, unless it says again that it goes on.
const closedFor = 30 * time.Second

// removeRounds bounds how often a removal begins again because tasks were enqueued in between.
const removeRounds = 100

// RemoveQueue deletes a queue: everything that is in Redis under its name. With force it first deletes all tasks that it holds, in
// calls of a bounded size; the error is ErrTaskActive if one of them is being processed, and then all are left as they are. Without
// force the error is ErrQueueNonempty if it holds any.
//
// While tasks are deleted the queue is paused, so that no server takes one; if the removal fails or its process dies the pause ends by
// itself, half a minute later, and RemoveQueue may be called again. A task that is enqueued meanwhile is deleted with the others, or
// else, once the queue is gone, begins the queue anew: it is one script that finds no task and deletes what is left. Only then the
// name leaves the set of queues; where a look after that finds tasks, the name comes back. A client that enqueues later than this
// look puts the name back itself, with its first call that is 30 s or more after it last did so; until then such tasks are processed
// but not seen in the list of queues. The other order, name first, would lose the name of tasks that are there while the call fails.
func (b *Broker) RemoveQueue(ctx context.Context, queue string, force bool) error {
	r := &removal{Broker: b, queue: b.queues.get(queue), force: force}
	for range removeRounds {
		removed, err := r.round(ctx)
		if err != nil {
			return err
		}
		if removed {
			return r.forget(ctx)
		}
	}
	return fmt.Errorf("rdb: others go on enqueueing: %w", ErrQueueNonempty)
}

// removal is the removal of a queue.
type removal struct {
	*Broker
	queue *queue
	force bool
}

// round deletes all that it finds. It reports whether nothing was left.
func (r *removal) round(ctx context.Context) (bool, error) {
	for more := true; more; {
		var err error
		if more, err = r.PurgeSpent(ctx, r.queue.keys.Name); err != nil {
			return false, err
		}
	}
	if r.force {
		if err := r.purge(ctx); err != nil {
			return false, err
		}
	} else if filled, err := r.filled(ctx); err != nil {
		return false, err
	} else if filled {
		return false, ErrQueueNonempty
	}
	if err := r.sweep(ctx); err != nil {
		return false, err
	}
	k := r.queue.keys
	c := newCall(removeQueueScript, 16+2*removeDays).key(r.holders()...).
		key(k.Lease(), k.Paused(), k.Marker(), k.Processed(), k.Failed(), k.GroupsDue(), k.GroupsSwept(), k.SpentSets())
	today := r.now()
	for day := -1; day < removeDays-1; day++ { // the clocks of those that count may be a little ahead
		at := today.AddDate(0, 0, -day)
		c.key(k.ProcessedOn(at), k.FailedOn(at))
	}
	r.run(ctx, c)
	code, err := c.int()
	if err != nil {
		return false, err
	}
	if r.force && Code(code) == CodeNonempty {
		return false, nil
	}
	return Code(code) == CodeOK, Code(code).Err()
}

// removeDays is for how many days there may be counters: 90, and some for clocks that differ.
const removeDays = 94

// holders are the keys whose existence means that there is a task.
func (r *removal) holders() []any {
	q := r.queue
	return []any{q.pending, q.active, q.scheduled, q.retry, q.archived, q.completed, q.groups, q.keys.AggregationSets()}
}

// filled reports whether the queue holds a task.
func (r *removal) filled(ctx context.Context) (bool, error) {
	holders := r.holders()
	keys := make([]string, len(holders))
	for i, key := range holders {
		keys[i] = key.(string)
	}
	return r.anyExists(ctx, keys...)
}

// purge deletes all tasks of the queue.
func (r *removal) purge(ctx context.Context) error {
	if err := r.close(ctx); err != nil {
		return err
	}
	for _, state := range []wire.State{
		wire.StatePending, wire.StateScheduled, wire.StateRetry, wire.StateArchived, wire.StateCompleted,
	} {
		if err := r.empty(ctx, &change{from: state}); err != nil {
			return err
		}
	}
	if err := r.purgeGroups(ctx); err != nil {
		return err
	}
	return r.purgeSets(ctx)
}

// purgeGroups deletes all tasks that wait in groups. Each group that it empties loses its name.
func (r *removal) purgeGroups(ctx context.Context) error {
	k := r.queue.keys
	left, err := r.client.SCard(ctx, k.Groups()).Result()
	for ; err == nil && left > 0; left -= maxBatch {
		var names []string
		names, err = r.client.SRandMemberN(ctx, k.Groups(), maxBatch).Result()
		for _, name := range names {
			ch := &change{from: wire.StateAggregating, group: name, set: k.Group(name)}
			if err := r.empty(ctx, ch); err != nil {
				return err
			}
			if err := r.dropName(ctx, ch); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return fmt.Errorf("rdb: listing groups: %w", err)
	}
	return nil
}

// dropName takes the name of a group away that has no tasks, and none that a call might have found.
func (r *removal) dropName(ctx context.Context, ch *change) error {
	from := r.senders.take()
	defer r.senders.put(from)
	from.seq++
	c := ch.call(nil, from, 0)
	r.run(ctx, c)
	_, err := c.codes(0)
	return err
}

// purgeSets deletes all tasks that are staged for an aggregation.
func (r *removal) purgeSets(ctx context.Context) error {
	k := r.queue.keys
	left, err := r.client.ZCard(ctx, k.AggregationSets()).Result()
	for ; err == nil && left > 0; left -= maxBatch {
		var sets []string
		sets, err = r.client.ZRange(ctx, k.AggregationSets(), 0, maxBatch-1).Result()
		for _, set := range sets {
			if err := r.purgeSet(ctx, set); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return fmt.Errorf("rdb: listing aggregation sets: %w", err)
	}
	return nil
}

// purgeSet deletes the tasks of an aggregation set, and forgets it.
func (r *removal) purgeSet(ctx context.Context, set string) error {
	k := r.queue.keys
	if strings.HasPrefix(set, k.GroupPrefix()) { // any other is none of this queue, and may be on another shard
		if err := r.empty(ctx, &change{from: wire.StateAggregating, set: set}); err != nil {
			return err
		}
	}
	if err := r.client.ZRem(ctx, k.AggregationSets(), set).Err(); err != nil {
		return fmt.Errorf("rdb: deleting an aggregation set: %w", err)
	}
	return nil
}

// empty deletes all tasks of a collection.
func (r *removal) empty(ctx context.Context, ch *change) error {
	ch.script, ch.queue, ch.before = deleteTasksScript, r.queue, r.close
	_, err := r.changeAll(ctx, ch)
	return err
}

// close keeps servers from taking tasks for a while. The error is ErrTaskActive if one has.
func (r *removal) close(ctx context.Context) error {
	c := newCall(closeQueueScript, 2+1).key(r.queue.active, r.queue.paused).arg(int64(closedFor.Seconds()))
	r.run(ctx, c)
	code, err := c.int()
	if err != nil {
		return err
	}
	return Code(code).Err()
}

// forget takes the queue's name out of the set of queues. Where tasks have come meanwhile it puts the name back.
func (r *removal) forget(ctx context.Context) error {
	names, name := r.queues.namespace.Queues(), r.queue.keys.Name
	if err := r.client.SRem(ctx, names, name).Err(); err != nil {
		return fmt.Errorf("rdb: removing a queue's name: %w", err)
	}
	r.queue.published.Store(0)
	filled, err := r.filled(ctx)
	if err != nil || !filled {
		return err
	}
	return r.AnnounceQueues(ctx, []string{name})
}
