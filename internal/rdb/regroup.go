package rdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/asynq-go/asynq/internal/wire"
)

// ExtendSets keeps sets of one queue from falling back to their groups for two more minutes.
func (b *Broker) ExtendSets(ctx context.Context, queue string, keys []string) error {
	q := b.queues.get(queue)
	for len(keys) > 0 {
		part := keys[:min(len(keys), maxBatch)]
		keys = keys[len(part):]
		c := newCall(extendSetsScript, 2+len(part)).key(q.aggregationSets).arg(seconds(setTimeout))
		for _, key := range part {
			c.arg(key)
		}
		b.run(ctx, c)
		if _, err := c.int(); err != nil {
			return err
		}
	}
	return nil
}

// Regroup puts the tasks of sets of one queue that are the caller's own back into their groups.
func (b *Broker) Regroup(ctx context.Context, queue string, sets []*StagedSet) error {
	keys := make([]string, len(sets))
	for i, s := range sets {
		keys[i] = s.Key
	}
	_, err := b.regroup(ctx, queue, keys, true)
	return err
}

// RegroupStale puts tasks of sets whose holder has given no sign of life for two minutes back into their groups: at most 500 of
// them. It reports whether there are more.
func (b *Broker) RegroupStale(ctx context.Context, queue string) (more bool, err error) {
	keys, err := b.client.ZRange(ctx, b.queues.get(queue).keys.AggregationSets(), 0, maxStaged-1).Result()
	if err != nil {
		return false, fmt.Errorf("rdb: looking for aggregation sets: %w", err)
	}
	return b.regroup(ctx, queue, keys, false)
}

// regroup empties sets of all their tasks if they are the caller's own, else of at most 500 where they are stale.
func (b *Broker) regroup(ctx context.Context, queue string, keys []string, own bool) (more bool, err error) {
	for len(keys) > 0 {
		part := keys[:min(len(keys), maxStaged)]
		keys = keys[len(part):]
		left, err := b.regroupSome(ctx, queue, part, own)
		if Refused(err) && len(part) > 1 {
			// A key of another type is among them: the others must not wait for somebody to mend it.
			for _, key := range part {
				alone, failed := b.regroup(ctx, queue, []string{key}, own)
				more, err = more || alone, errors.Join(err, failed)
			}
			return more, err
		}
		if err != nil {
			return false, err
		}
		if !own {
			return len(left) > 0, nil
		}
		keys = append(keys, left...)
	}
	return false, nil
}

// regroupSome makes one call. It returns the keys of the sets that hold tasks still, and whose time was over.
func (b *Broker) regroupSome(ctx context.Context, queue string, keys []string, own bool) (left []string, err error) {
	q := b.queues.get(queue)
	c := newCall(regroupScript, 3+1+4*len(keys)).key(q.aggregationSets, q.groups, q.groupsDue)
	names := make([]any, 0, len(keys))
	next := make([]string, 0, len(keys))
	for _, key := range keys {
		group, ok := wire.GroupOf(q.keys, key)
		if !ok {
			continue // no set of this queue: whatever it is, it is not ours to touch
		}
		names = append(names, group)
		next = append(next, q.keys.AggregationSet(group, uuid.NewString()))
		c.key(key, q.keys.Group(group), next[len(next)-1])
	}
	if len(names) == 0 {
		return nil, nil
	}
	b.run(ctx, c.arg(flag(own)).arg(names...))
	counts, err := c.ints(len(names))
	if err != nil {
		return nil, err
	}
	for i, n := range counts {
		if n > 0 {
			left = append(left, next[i])
		}
	}
	return left, nil
}

// SweepGroups looks at the names of all groups of a queue, and lets Stage look at those that the index lacks, because another
// library's processes filled them, or that it has for later than the rule allows. Of all servers one does so in each interval.
func (b *Broker) SweepGroups(ctx context.Context, queue string, rule GroupRule, interval time.Duration) error {
	q := b.queues.get(queue)
	mine, err := b.client.SetNX(ctx, q.keys.GroupsSwept(), 1, interval).Result()
	if err != nil || !mine {
		return wrapSweep(err)
	}
	within := seconds(rule.Grace)
	if rule.MaxDelay > 0 {
		within = min(within, seconds(rule.MaxDelay))
	}
	for cursor := uint64(0); ; {
		names, next, err := b.client.SScan(ctx, q.keys.Groups(), cursor, "", maxBatch/2).Result()
		if err != nil {
			return wrapSweep(err)
		}
		for len(names) > 0 {
			part := names[:min(len(names), maxBatch)]
			names = names[len(part):]
			c := newCall(indexGroupsScript, 1+3+len(part)).key(q.groupsDue).arg(q.groupPrefix, within+1, rule.MaxSize)
			for _, name := range part {
				c.arg(name)
			}
			b.run(ctx, c)
			if _, err := c.int(); err != nil {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

func wrapSweep(err error) error {
	if err != nil {
		return fmt.Errorf("rdb: looking for groups: %w", err)
	}
	return nil
}

// Grouped reports whether a queue of the lane has groups, or sets of tasks that were taken out of them. It is the cheapest look there is.
func (b *Broker) Grouped(ctx context.Context, queues []string) (bool, error) {
	keys := make([]string, 0, 4*len(queues))
	for _, name := range queues {
		k := b.queues.get(name).keys
		keys = append(keys, k.GroupsDue(), k.Groups(), k.AggregationSets(), k.SpentSets())
	}
	return b.anyExists(ctx, keys...)
}
