package rdb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// sweep looks through the names of all keys for those of the queue that no collection leads to, and deletes what they hold: records of
// answers and the like, locks and tasks that others left behind, groups without a name. What is in use stays: tasks may come meanwhile.
func (r *removal) sweep(ctx context.Context) error {
	node, err := r.node(ctx)
	if err != nil {
		return fmt.Errorf("rdb: looking for the queue's shard: %w", err)
	}
	k := r.queue.keys
	pattern := escapeGlob(strings.TrimSuffix(k.Pending(), "pending")) + "*"
	for cursor := uint64(0); ; {
		keys, next, err := node.Scan(ctx, cursor, pattern, checkPage).Result()
		if err != nil {
			return fmt.Errorf("rdb: listing keys: %w", err)
		}
		for page := range slices.Chunk(keys, maxBatch) {
			if err := r.sweepKeys(ctx, page); err != nil {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// node is the server that has the queue's keys.
func (r *removal) node(ctx context.Context) (redis.Cmdable, error) {
	if cluster, ok := r.client.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, r.queue.keys.Pending())
	}
	return r.client, nil
}

// sweepKeys deletes what some keys of the queue hold, if no collection leads to them.
func (r *removal) sweepKeys(ctx context.Context, keys []string) error {
	k := r.queue.keys
	lock := strings.TrimSuffix(k.Unique("", nil), ":")
	var tasks, own []string
	locks := newCall(sweepLocksScript, len(keys)+1)
	for _, key := range keys {
		switch {
		case strings.HasPrefix(key, k.TaskPrefix()):
			tasks = append(tasks, key)
		case strings.HasPrefix(key, lock):
			locks.key(key)
		case strings.HasPrefix(key, k.Answer("")), strings.HasPrefix(key, k.Rouse("")), strings.HasPrefix(key, k.Tick("")),
			strings.HasPrefix(key, k.Import("")):
			own = append(own, key)
		case strings.HasPrefix(key, k.GroupPrefix()) && r.force:
			if err := r.sweepGroup(ctx, key); err != nil {
				return err
			}
		case strings.HasPrefix(key, k.GroupPrefix()):
			return ErrQueueNonempty
		}
	}
	if err := r.sweepTasks(ctx, tasks); err != nil {
		return err
	}
	if locks.keys > 0 {
		r.run(ctx, locks.arg(r.queue.taskPrefix))
		if _, err := locks.int(); err != nil {
			return err
		}
	}
	if len(own) > 0 {
		if err := r.client.Unlink(ctx, own...).Err(); err != nil {
			return fmt.Errorf("rdb: deleting keys: %w", err)
		}
	}
	return nil
}

// sweepGroup deletes the tasks of a group, or of an aggregation set, that has no name.
func (r *removal) sweepGroup(ctx context.Context, key string) error {
	k := r.queue.keys
	return r.empty(ctx, &change{from: wire.StateAggregating, group: strings.TrimPrefix(key, k.GroupPrefix()), set: key})
}

// sweepTasks deletes those tasks that are in no collection.
func (r *removal) sweepTasks(ctx context.Context, tasks []string) error {
	if len(tasks) == 0 {
		return nil
	}
	q := r.queue
	c := newCall(sweepTasksScript, 8+2*len(tasks)).
		key(q.pending, q.active, q.scheduled, q.retry, q.archived, q.completed, q.keys.AggregationSets())
	for _, key := range tasks {
		c.key(key)
	}
	c.arg(q.groupPrefix)
	for _, key := range tasks {
		c.arg(strings.TrimPrefix(key, q.keys.TaskPrefix()))
	}
	r.run(ctx, c)
	_, err := c.codes(len(tasks))
	return err
}
