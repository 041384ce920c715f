package rdb

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// heldLock is a uniqueness lock and the task that it says holds it.
type heldLock struct {
	key, holder string
	known       *redis.StringCmd // the lock that the task knows of
}

// checkLocks judges uniqueness locks.
func (d *doctor) checkLocks(ctx context.Context, q *doctorQueue, keys []string) error {
	holders := make([]*redis.StringCmd, len(keys))
	_, err := d.b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, key := range keys {
			holders[i] = pipe.Get(ctx, key)
		}
		return nil
	})
	if ignoreRefused(err) != nil {
		return fmt.Errorf("rdb: reading locks: %w", err)
	}
	var locks []*heldLock
	for i, key := range keys {
		switch err := holders[i].Err(); {
		case err == nil:
			locks = append(locks, &heldLock{key: key, holder: holders[i].Val()})
		case errors.Is(err, redis.Nil): // it expired
		case Refused(err):
			if err := d.checkTypes(ctx, q, []string{key}); err != nil {
				return err
			}
		default:
			return fmt.Errorf("rdb: reading a lock: %w", err)
		}
	}
	if len(locks) == 0 {
		return nil
	}
	_, err = d.b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, l := range locks {
			l.known = pipe.HGet(ctx, q.keys.Task(l.holder), wire.FieldUniqueKey)
		}
		return nil
	})
	if ignoreRefused(err) != nil {
		return fmt.Errorf("rdb: reading the holders of locks: %w", err)
	}
	locks = slices.DeleteFunc(locks, func(l *heldLock) bool { return l.known.Err() == nil && l.known.Val() == l.key })
	return d.confirmLocks(ctx, q, locks)
}

// confirmLocks judges locks whose holder seems not to know of them.
func (d *doctor) confirmLocks(ctx context.Context, q *doctorQueue, locks []*heldLock) error {
	if len(locks) == 0 {
		return nil
	}
	c := newCall(diagnoseLocksScript, 1+3*len(locks))
	for _, l := range locks {
		c.key(q.keys.Task(l.holder), l.key)
	}
	c.arg(flag(d.repair))
	for _, l := range locks {
		c.arg(l.holder)
	}
	verdicts, err := d.judge(ctx, c, len(locks))
	if err != nil {
		return err
	}
	for i, v := range verdicts {
		if v.found != findingOrphanLock {
			continue
		}
		err := d.found(q, &Finding{
			Key: locks[i].key, TaskID: locks[i].holder, Kind: OrphanLock, Repaired: v.mended > 0,
			Detail: "the lock's holder does not exist, or does not know of the lock", Repair: "the lock is deleted",
		})
		if err != nil {
			return err
		}
	}
	return nil
}
