package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/test/chaos/fault"
	"github.com/asynq-go/asynq/test/chaos/history"
)

// planted is the prefix of the IDs of malformed tasks.
const planted = "planted-"

// brokenQueue is a queue whose keys sometimes have wrong types.
const brokenQueue = "broken"

// plant writes malformed data to the keys of an active queue, and keys of wrong types to a queue
// that workers serve as well.
func (b *injector) plant(ctx context.Context, f *fault.Fault) (history.Event, error) {
	e := history.Event{At: time.Now().UnixNano()}
	queue := b.queues[f.Pick%uint64(len(b.queues))]
	id := func(what string) string {
		b.planted++
		return fmt.Sprintf("%s%s-%d", planted, what, b.planted)
	}
	now := float64(time.Now().Unix())
	steps := []func(c redis.UniversalClient) error{
		func(c redis.UniversalClient) error { // pending: a missing task, an invalid message, no message
			noTask, noMessage, empty := id("nothing"), id("garbage"), id("empty")
			if err := c.HSet(ctx, queueKey(queue, "t:"+noMessage), "msg", "\xff\x00 not a message", "state", "pending").Err(); err != nil {
				return err
			}
			if err := c.HSet(ctx, queueKey(queue, "t:"+empty), "state", "pending").Err(); err != nil {
				return err
			}
			return c.LPush(ctx, queueKey(queue, "pending"), noTask, noMessage, empty, "").Err()
		},
		func(c redis.UniversalClient) error { // the same in retry, due
			noTask, noMessage := id("due"), id("due-garbage")
			if err := c.HSet(ctx, queueKey(queue, "t:"+noMessage), "msg", "\xff", "state", "retry").Err(); err != nil {
				return err
			}
			return c.ZAdd(ctx, queueKey(queue, "retry"), redis.Z{Score: now, Member: noTask}, redis.Z{Score: now, Member: noMessage}).Err()
		},
		func(c redis.UniversalClient) error { // an expired lease without a task
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
		if err := step(b.site.Client()); err != nil && !rejectsWrites(err) {
			return e, err
		}
	}
	e.Until = time.Now().UnixNano()
	return e, nil
}

// rejectsWrites reports whether Redis rejects writes, so that nothing can be planted.
func rejectsWrites(err error) bool {
	return strings.Contains(err.Error(), "OOM") || strings.Contains(err.Error(), "MISCONF")
}

// repair deletes the keys of wrong types.
func (b *injector) repair(ctx context.Context) error {
	for _, name := range []string{"pending", "active", "lease", "scheduled", "retry", "paused", "groups", "aggregation_sets", "marker"} {
		if err := b.site.Client().Del(ctx, queueKey(brokenQueue, name)).Err(); err != nil {
			return err
		}
	}
	return nil
}
