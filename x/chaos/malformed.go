package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/x/chaos/fault"
	"github.com/asynq-go/asynq/x/chaos/history"
)

// planted is how the IDs of malformed tasks begin.
const planted = "planted-"

// brokenQueue is a queue whose keys are of wrong types now and then.
const brokenQueue = "broken"

// plant writes what no library would write straight into the keys of a queue that is at work, and keys of a wrong type into one that
// workers serve beside it.
func (b *breaker) plant(ctx context.Context, f *fault.Fault) (history.Event, error) {
	e := history.Event{At: time.Now().UnixNano()}
	queue := b.queues[f.Pick%uint64(len(b.queues))]
	id := func(what string) string {
		b.planted++
		return fmt.Sprintf("%s%s-%d", planted, what, b.planted)
	}
	now := float64(time.Now().Unix())
	steps := []func(c redis.UniversalClient) error{
		func(c redis.UniversalClient) error { // in pending: no task, not a message, no message
			noTask, noMessage, empty := id("nothing"), id("garbage"), id("empty")
			if err := c.HSet(ctx, queueKey(queue, "t:"+noMessage), "msg", "\xff\x00 not a message", "state", "pending").Err(); err != nil {
				return err
			}
			if err := c.HSet(ctx, queueKey(queue, "t:"+empty), "state", "pending").Err(); err != nil {
				return err
			}
			return c.LPush(ctx, queueKey(queue, "pending"), noTask, noMessage, empty, "").Err()
		},
		func(c redis.UniversalClient) error { // the same, due
			noTask, noMessage := id("due"), id("due-garbage")
			if err := c.HSet(ctx, queueKey(queue, "t:"+noMessage), "msg", "\xff", "state", "retry").Err(); err != nil {
				return err
			}
			return c.ZAdd(ctx, queueKey(queue, "retry"), redis.Z{Score: now, Member: noTask}, redis.Z{Score: now, Member: noMessage}).Err()
		},
		func(c redis.UniversalClient) error { // a lease of nobody, that has ended
			return c.ZAdd(ctx, queueKey(queue, "lease"), redis.Z{Score: now - 100, Member: id("lease")}).Err()
		},
		func(c redis.UniversalClient) error {
			return c.ZAdd(ctx, queueKey(queue, "completed"), redis.Z{Score: now - 100, Member: id("completed")}).Err()
		},
		func(c redis.UniversalClient) error {
			for _, name := range []string{"pending", "active", "lease", "scheduled", "retry", "paused", "groups", "aggregation_sets"} {
				if err := c.Set(ctx, queueKey(brokenQueue, name), "not what it must be", 0).Err(); err != nil {
					return err
				}
			}
			return c.Del(ctx, queueKey(brokenQueue, "paused")).Err()
		},
	}
	for _, step := range steps {
		if err := step(b.site.Client()); err != nil && !refusesWrites(err) {
			return e, err
		}
	}
	e.Until = time.Now().UnixNano()
	return e, nil
}

// refusesWrites tells whether Redis is in a state in which nothing can be planted.
func refusesWrites(err error) bool {
	return strings.Contains(err.Error(), "OOM") || strings.Contains(err.Error(), "MISCONF")
}

// mend deletes the keys of wrong types.
func (b *breaker) mend(ctx context.Context) error {
	for _, name := range []string{"pending", "active", "lease", "scheduled", "retry", "paused", "groups", "aggregation_sets", "marker"} {
		if err := b.site.Client().Del(ctx, queueKey(brokenQueue, name)).Err(); err != nil {
			return err
		}
	}
	return nil
}
