package rdb

import (
	"context"
	"time"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Due is the result of Forward for one queue.
type Due struct {
	Queue   string
	Moved   int           // number of due tasks moved
	Dropped int           // IDs without such a task
	More    bool          // more tasks are due
	Next    time.Duration // time until the next task is due; negative: none
	Err     error
}

// Forward moves due tasks of the queues, at most 500 per queue and state, to pending or to their
// group. In queues in inOrder, retried tasks go to the front. An error of one queue does not affect
// the others.
func (b *Broker) Forward(ctx context.Context, queues []string, inOrder map[string]bool) []Due {
	calls := make([]*script.Call, 0, 2*len(queues))
	for _, name := range queues {
		q := b.Queue(name)
		for _, from := range []struct {
			key   any
			state wire.State
		}{{q.Scheduled, wire.StateScheduled}, {q.Retry, wire.StateRetry}} {
			calls = append(calls, script.NewCall(forwardScript, 5+5).
				Key(from.key, q.Pending, q.Groups, q.GroupsDue, q.Marker).
				Arg(q.TaskPrefix, q.GroupPrefix, from.state.String(), script.MaxBatch, script.Flag(from.state == wire.StateRetry && inOrder[name])))
		}
	}
	b.Run(ctx, calls...)
	due := make([]Due, len(queues))
	for i, name := range queues {
		d := &due[i]
		d.Queue, d.Next = name, -1
		for _, c := range calls[2*i : 2*i+2] {
			r := c.Read()
			moved, dropped, next := int(r.Int()), int(r.Int()), script.Milliseconds(r.Int())
			if err := r.Err(); err != nil {
				d.Err = err
				continue
			}
			if next >= 0 && (d.Next < 0 || next < d.Next) {
				d.Next = next
			}
			d.Moved += moved - dropped
			d.Dropped += dropped
			d.More = d.More || next == 0
		}
	}
	return due
}

// Purge deletes at most n (and 500) tasks of a queue that are no longer kept, and returns their
// number: completed tasks whose retention has expired, or archived tasks that exceed the limits of
// the archive, oldest first.
func (b *Broker) Purge(ctx context.Context, queue string, state wire.State, n int) (int, error) {
	q := b.Queue(queue)
	deleted, _, err := b.purge(ctx, q, wire.CollectionKey(q.Keys, state, ""), state, n)
	return int(deleted), err
}

// purge deletes at most n (and 500) tasks in a set that are no longer kept.
func (b *Broker) purge(ctx context.Context, q *script.Queue, set string, state wire.State, n int) (deleted, left int64, err error) {
	archive := b.ArchiveLimits(q.Keys.Name)
	c := script.NewCall(purgeScript, 2+5).Key(set, q.ConsumedSets).
		Arg(q.TaskPrefix, state.String(), min(n, script.MaxBatch), archive.Tasks, archive.Seconds())
	b.Run(ctx, c)
	r := c.Read()
	deleted, left = r.Int(), r.Int()
	return deleted, left, r.Err()
}
