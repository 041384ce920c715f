package inspect

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// bulkPage is the number of tasks changed per call, which takes Redis about a millisecond.
const bulkPage = 250

// ChangeAll changes all tasks of a queue in the state From, and of the group if that is
// StateAggregating, oldest first. It removes IDs without a task.
//
// It ends even if clients keep adding tasks. In a sorted set it changes the tasks up to the highest
// score at the start, in order of score, also those added meanwhile. In pending it changes as many
// tasks as there were. If scores are not insertion times, it scans at most twice the initial number
// of tasks and 500 more, so some may remain if clients add tasks as fast.
func (b *Inspector) ChangeAll(ctx context.Context, ch Change) error {
	from := collection{key: wire.CollectionKey(b.Keys(ch.Queue), ch.From, ch.Group), state: ch.From}
	left, err := from.measure(ctx, b.Client())
	for stay := int64(0); err == nil && left > 0; {
		var ids []string
		if ids, err = from.oldest(ctx, b.Client(), stay, min(left, bulkPage)); err != nil || len(ids) == 0 {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		var codes []script.Code
		codes, err = b.Change(ctx, ch, ids)
		for _, code := range codes {
			switch code {
			case script.CodeOK, script.CodeAlready, script.CodeGone, script.CodeLost:
			default: // it remains in the collection
				stay++
			}
		}
		left -= int64(len(ids))
	}
	return err
}

// collection is a collection of tasks that ChangeAll changes.
type collection struct {
	key     string
	state   wire.State
	highest float64 // score at the start, in a sorted set
}

// measure returns the maximum number of entries to read.
func (c *collection) measure(ctx context.Context, client redis.UniversalClient) (left int64, err error) {
	pipe := client.Pipeline()
	if c.state == wire.StatePending {
		size := pipe.LLen(ctx, c.key)
		_, err = pipe.Exec(ctx)
		left = size.Val()
	} else {
		size, highest := pipe.ZCard(ctx, c.key), pipe.ZRangeWithScores(ctx, c.key, -1, -1)
		_, err = pipe.Exec(ctx)
		if left = 2*size.Val() + script.MaxBatch; c.state == wire.StateAggregating || c.state == wire.StateArchived {
			left = math.MaxInt64 // scored by insertion time: only tasks of the current second are added before the highest
		}
		if last := highest.Val(); len(last) > 0 {
			c.highest = last[0].Score
		} else {
			left = 0
		}
	}
	if err != nil {
		return 0, fmt.Errorf("inspect: counting tasks: %w", err)
	}
	return left, nil
}

// oldest returns the n oldest entries after skipping some.
func (c *collection) oldest(ctx context.Context, client redis.UniversalClient, skip, n int64) (ids []string, err error) {
	if c.state == wire.StatePending {
		ids, err = client.LRange(ctx, c.key, -skip-n, -skip-1).Result()
		slices.Reverse(ids) // the rightmost first: each LREM finds its ID at the end
		seen := make(map[string]bool, len(ids))
		ids = slices.DeleteFunc(ids, func(id string) bool { // a later page removes duplicates
			again := seen[id]
			seen[id] = true
			return again
		})
	} else {
		var entries []redis.Z
		entries, err = client.ZRangeWithScores(ctx, c.key, skip, skip+n-1).Result()
		for _, e := range entries {
			if e.Score <= c.highest {
				ids = append(ids, e.Member.(string))
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("inspect: listing tasks: %w", err)
	}
	return ids, nil
}
