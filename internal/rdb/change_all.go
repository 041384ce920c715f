package rdb

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// bulkPage is how many tasks of a collection are changed at a time. A call of that size takes Redis about a millisecond.
const bulkPage = 250

// RunAllTasks has all tasks of a queue run that are in a state (scheduled, retry, archived or completed; aggregating: in the group), the
// oldest first, and returns how many.
//
// It ends although others go on adding tasks. Of a sorted set it takes what is up to the highest score at the start, in the order of
// the scores, so that it misses nothing that was there; what comes into this range meanwhile it may take too. Of pending it takes as
// many as there were, those first that wait longest. Where the scores do not say when tasks came, it looks at no more than twice as
// many as there were at the start, and 500 more: if others add tasks to the range about as fast as it takes them, some that were there
// may be left. IDs without a task there are dropped. After an error the count is that of the tasks that are known to be moved.
func (b *Broker) RunAllTasks(ctx context.Context, queue string, from wire.State, group string) (int, error) {
	return b.changeAll(ctx, &change{script: runTasksScript, queue: b.queues.get(queue), from: from, group: group})
}

// ArchiveAllTasks moves all tasks of a queue that are in a state (pending, scheduled or retry; aggregating: in the group) to the archive,
// which keeps the newest 10,000, and returns how many it moved. It ends as RunAllTasks does.
func (b *Broker) ArchiveAllTasks(ctx context.Context, queue string, from wire.State, group string) (int, error) {
	return b.changeAll(ctx, &change{script: archiveTasksScript, queue: b.queues.get(queue), from: from, group: group})
}

// DeleteAllTasks deletes all tasks of a queue that are in a state (any but active; aggregating: in the group), with their locks, and
// returns how many. It ends as RunAllTasks does.
func (b *Broker) DeleteAllTasks(ctx context.Context, queue string, from wire.State, group string) (int, error) {
	return b.changeAll(ctx, &change{script: deleteTasksScript, queue: b.queues.get(queue), from: from, group: group})
}

// collection is the key that the tasks of the change are in.
func (ch *change) collection() string {
	if ch.set != "" {
		return ch.set
	}
	return collectionOf(ch.queue.keys, ch.from, ch.group)
}

func (b *Broker) changeAll(ctx context.Context, ch *change) (int, error) {
	if ch.from == wire.StatePending {
		return b.changeList(ctx, ch)
	}
	return b.changeSet(ctx, ch)
}

// changeList makes the transition of the tasks in pending, from the right, where they have waited longest.
func (b *Broker) changeList(ctx context.Context, ch *change) (changed int, err error) {
	key := ch.collection()
	left, err := b.client.LLen(ctx, key).Result()
	if err != nil {
		return 0, fmt.Errorf("rdb: counting tasks: %w", err)
	}
	stay := int64(0)
	for left > 0 {
		n := min(left, bulkPage)
		ids, err := b.client.LRange(ctx, key, -stay-n, -stay-1).Result()
		if err != nil {
			return changed, fmt.Errorf("rdb: listing tasks: %w", err)
		}
		if len(ids) == 0 {
			break
		}
		slices.Reverse(ids) // the rightmost first: each LREM finds its ID at the end
		ids = distinct(ids) // a second mention is looked at again, and dropped then
		codes, err := b.changePage(ctx, ch, ids)
		changed += count(codes)
		if err != nil {
			return changed, err
		}
		for _, code := range codes {
			if stays(code) {
				stay++
			}
		}
		left -= int64(len(ids))
	}
	return changed, nil
}

// changeSet makes the transition of the tasks in a sorted set, in the order of their scores. Those that stay in it are passed over.
func (b *Broker) changeSet(ctx context.Context, ch *change) (changed int, err error) {
	key := ch.collection()
	pipe := b.client.Pipeline()
	size, highest := pipe.ZCard(ctx, key), pipe.ZRangeWithScores(ctx, key, -1, -1)
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, fmt.Errorf("rdb: counting tasks: %w", err)
	}
	if len(highest.Val()) == 0 {
		return 0, nil
	}
	page := &redis.ZRangeBy{Min: "-inf", Max: score(highest.Val()[0].Score), Count: bulkPage}
	bound := 2*size.Val() + maxBatch
	if ch.from == wire.StateAggregating || ch.from == wire.StateArchived {
		bound = math.MaxInt64 // scored by when they came: only this very second's are added before the highest
	}
	for left := bound; left > 0; left -= page.Count {
		entries, err := b.client.ZRangeByScoreWithScores(ctx, key, page).Result()
		if err != nil {
			return changed, fmt.Errorf("rdb: listing tasks: %w", err)
		}
		if len(entries) == 0 {
			break
		}
		ids := make([]string, len(entries))
		for i, e := range entries {
			ids[i] = e.Member.(string)
		}
		codes, err := b.changePage(ctx, ch, ids)
		changed += count(codes)
		if err != nil {
			return changed, err
		}
		last := entries[len(entries)-1].Score
		if lowest := score(last); lowest != page.Min {
			page.Min, page.Offset = lowest, 0
		}
		for i, code := range codes {
			if stays(code) && entries[i].Score == last {
				page.Offset++
			}
		}
	}
	return changed, nil
}

// changePage makes the transition of tasks that are about to be looked at together.
func (b *Broker) changePage(ctx context.Context, ch *change, ids []string) ([]Code, error) {
	if ch.before != nil {
		if err := ch.before(ctx); err != nil {
			return nil, err
		}
	}
	return b.change(ctx, ch, ids)
}

// score spells a score as an argument.
func score(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "+inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// count returns how many tasks a change changed.
func count(codes []Code) (n int) {
	for _, code := range codes {
		if code == CodeOK {
			n++
		}
	}
	return n
}

// distinct returns the IDs without second mentions.
func distinct(ids []string) []string {
	seen := make(map[string]bool, len(ids))
	return slices.DeleteFunc(ids, func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
}

// stays reports whether a change left an ID where it was found.
func stays(code Code) bool {
	switch code {
	case CodeOK, CodeAlready, CodeGone, CodeLost:
		return false
	default:
		return true
	}
}
