package rdb

import (
	"context"
	"fmt"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// Due says what a look at the tasks of a queue that wait for their time found.
type Due struct {
	Queue   string
	Moved   int           // tasks whose time had come
	Dropped int           // IDs that no such task had
	More    bool          // others are due already
	Next    time.Duration // until the next one is due; negative: there is none
	Err     error
}

// Forward moves the tasks of the queues whose time has come, at most 500 a queue and state, to pending or to their group. In queues that
// are fetched InOrder, those that are to be tried again go to the front. One queue's error leaves the others alone.
func (b *Broker) Forward(ctx context.Context, queues []string, inOrder map[string]bool) []Due {
	calls := make([]*call, 0, 2*len(queues))
	for _, name := range queues {
		q := b.queues.get(name)
		for _, from := range []struct {
			key   any
			state wire.State
		}{{q.scheduled, wire.StateScheduled}, {q.retry, wire.StateRetry}} {
			calls = append(calls, newCall(forwardScript, 5+5).
				key(from.key, q.pending, q.groups, q.groupsDue, q.marker).
				arg(q.taskPrefix, q.groupPrefix, from.state.String(), maxBatch, flag(from.state == wire.StateRetry && inOrder[name])))
		}
	}
	b.run(ctx, calls...)
	due := make([]Due, len(queues))
	for i, name := range queues {
		d := &due[i]
		d.Queue, d.Next = name, -1
		for _, c := range calls[2*i : 2*i+2] {
			reply, err := c.ints(3)
			if err != nil {
				d.Err = err
				continue
			}
			next := milliseconds(reply[2])
			if next >= 0 && (d.Next < 0 || next < d.Next) {
				d.Next = next
			}
			d.Moved += int(reply[0] - reply[1])
			d.Dropped += int(reply[1])
			d.More = d.More || next == 0
		}
	}
	return due
}

// Delayed reports whether each queue has tasks that wait for their time. It is the cheapest look there is.
func (b *Broker) Delayed(ctx context.Context, queues []string) (bool, error) {
	keys := make([]string, 0, 2*len(queues))
	for _, name := range queues {
		k := b.queues.get(name).keys
		keys = append(keys, k.Scheduled(), k.Retry())
	}
	return b.anyExists(ctx, keys...)
}

// anyExists reports whether one of the keys of a lane exists: one command, where a script is one for each that it runs. Idle servers
// look often.
func (b *Broker) anyExists(ctx context.Context, keys ...string) (bool, error) {
	n, err := b.client.Exists(ctx, keys...).Result()
	if err != nil {
		return false, fmt.Errorf("rdb: looking for tasks: %w", err)
	}
	return n > 0, nil
}
