package rdb

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// Limits of what is kept of the times at which a scheduler entry enqueued its task.
const (
	historySize = 1000
	historyTTL  = 90 * 24 * time.Hour
)

// entryChunk is how many entries or keys one command carries.
const entryChunk = 200

// ScheduleEntry is an entry as a scheduler publishes it.
type ScheduleEntry struct {
	ID       string
	Entry    []byte // encoded wire.SchedulerEntry
	Creation []byte // encoded wire.SchedulerCreation, nil if the scheduler did not tell
}

// PublishEntries tells what the entries of a scheduler are, in place of those that it told before, for the length of ttl. Readers see
// either all of these or all of those.
func (b *Broker) PublishEntries(ctx context.Context, p wire.Process, entries []ScheduleEntry, ttl time.Duration) error {
	ns := b.queues.namespace
	list := ns.Scheduler(p)
	creations := wire.SchedulerCreations(list)
	now := b.now()
	_, err := b.client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.Del(ctx, list, creations)
		for chunk := range slices.Chunk(entries, entryChunk) {
			values, fields := make([]any, len(chunk)), make([]any, 0, 2*len(chunk))
			for i, e := range chunk {
				values[i] = e.Entry
				fields = append(fields, e.ID, e.Creation)
			}
			tx.RPush(ctx, list, values...)
			tx.HSet(ctx, creations, fields...)
		}
		tx.PExpire(ctx, list, ttl)
		tx.PExpire(ctx, creations, ttl)
		return nil
	})
	if err == nil {
		_, err = b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.ZRemRangeByScore(ctx, ns.Schedulers(), "-inf", "("+strconv.FormatInt(now.Unix(), 10))
			pipe.ZAdd(ctx, ns.Schedulers(), redis.Z{Score: float64(now.Add(ttl).Unix()), Member: list})
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("rdb: publishing the scheduler's entries: %w", err)
	}
	return nil
}

// WithdrawEntries deletes what a scheduler told of its entries.
func (b *Broker) WithdrawEntries(ctx context.Context, p wire.Process) error {
	ns := b.queues.namespace
	_, err := b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.ZRem(ctx, ns.Schedulers(), ns.Scheduler(p))
		pipe.Del(ctx, ns.Scheduler(p), wire.SchedulerCreations(ns.Scheduler(p)))
		return nil
	})
	if err != nil {
		return fmt.Errorf("rdb: withdrawing the scheduler's entries: %w", err)
	}
	return nil
}

// PublishedEntry is an entry that a living scheduler has told of.
type PublishedEntry struct {
	Entry    *wire.SchedulerEntry
	Creation []byte // encoded wire.SchedulerCreation, nil where the scheduler told none
}

// SchedulerEntries reads the entries of all living schedulers: scheduler by scheduler, each in its own order, the one that told of its
// entries last first. What cannot be decoded is left out, and so is a scheduler whose key is of another type.
func (b *Broker) SchedulerEntries(ctx context.Context) ([]PublishedEntry, error) {
	ns := b.queues.namespace
	keys, err := b.client.ZRevRangeByScore(ctx, ns.Schedulers(), &redis.ZRangeBy{
		Min: strconv.FormatInt(b.now().Unix(), 10), Max: "+inf",
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("rdb: listing schedulers: %w", err)
	}
	var all []PublishedEntry
	for _, key := range keys {
		var list *redis.StringSliceCmd
		var creations *redis.MapStringStringCmd
		_, err := b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			list = pipe.LRange(ctx, key, 0, -1)
			creations = pipe.HGetAll(ctx, wire.SchedulerCreations(key))
			return nil
		})
		if err != nil && !strings.HasPrefix(err.Error(), "WRONGTYPE") {
			return nil, fmt.Errorf("rdb: reading a scheduler's entries: %w", err)
		}
		for _, encoded := range list.Val() {
			entry, err := wire.DecodeSchedulerEntry([]byte(encoded))
			if err != nil {
				continue
			}
			p := PublishedEntry{Entry: entry}
			if c, ok := creations.Val()[entry.ID]; ok {
				p.Creation = []byte(c)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// EnqueueEvent tells that a scheduler entry enqueued a task.
type EnqueueEvent struct {
	Entry  string // ID
	TaskID string
	At     time.Time
}

// RecordEnqueues adds to the histories of entries, of which each keeps its last 1,000 events for 90 days after the last one. The
// same event told twice is one.
func (b *Broker) RecordEnqueues(ctx context.Context, events ...EnqueueEvent) error {
	_, err := b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, e := range events {
			encoded, err := (&wire.SchedulerEnqueueEvent{TaskID: e.TaskID, EnqueuedAt: e.At}).Encode()
			if err != nil {
				return err
			}
			key := b.queues.namespace.SchedulerHistory(e.Entry)
			// With microseconds, so that events of one second are in their order.
			pipe.ZAdd(ctx, key, redis.Z{Score: float64(e.At.UnixMicro()) / 1e6, Member: encoded})
			pipe.ZRemRangeByRank(ctx, key, 0, -historySize-1)
			pipe.Expire(ctx, key, historyTTL)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rdb: recording what a scheduler enqueued: %w", err)
	}
	return nil
}

// EnqueueEvents reads events of an entry, the newest first: limit of them, after the offset newest. What cannot be decoded is left
// out.
func (b *Broker) EnqueueEvents(ctx context.Context, entryID string, offset, limit int) ([]*wire.SchedulerEnqueueEvent, error) {
	if limit <= 0 {
		return nil, nil
	}
	members, err := b.client.ZRevRange(ctx, b.queues.namespace.SchedulerHistory(entryID), int64(offset), int64(offset+limit-1)).Result()
	if err != nil {
		return nil, fmt.Errorf("rdb: reading a scheduler entry's history: %w", err)
	}
	var events []*wire.SchedulerEnqueueEvent
	for _, m := range members {
		if e, err := wire.DecodeSchedulerEnqueueEvent([]byte(m)); err == nil {
			events = append(events, e)
		}
	}
	return events, nil
}

// ForgetEnqueues deletes the histories of entries.
func (b *Broker) ForgetEnqueues(ctx context.Context, entryIDs ...string) error {
	for some := range slices.Chunk(entryIDs, 500) {
		if _, err := b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, id := range some {
				pipe.Unlink(ctx, b.queues.namespace.SchedulerHistory(id)) // of a Cluster, each is somewhere else
			}
			return nil
		}); err != nil {
			return fmt.Errorf("rdb: deleting the histories of scheduler entries: %w", err)
		}
	}
	return nil
}
