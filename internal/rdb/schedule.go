package rdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Limits of the history of a scheduler entry.
const (
	historySize = 1000
	historyTTL  = 90 * 24 * time.Hour
)

// entryChunk is the number of entries or keys per command.
const entryChunk = 200

// ScheduleEntry is an entry as a scheduler publishes it.
type ScheduleEntry struct {
	ID       string
	Entry    []byte // encoded wire.SchedulerEntry
	Creation []byte // encoded wire.SchedulerCreation, nil if not published
}

// PublishEntries replaces the published entries of a scheduler, atomically, for the duration of
// ttl.
func (b *Broker) PublishEntries(ctx context.Context, p wire.Process, entries []ScheduleEntry, ttl time.Duration) error {
	ns := b.Namespace()
	list := ns.Scheduler(p)
	creations := wire.SchedulerCreations(list)
	now := time.Now()
	_, err := b.Client().TxPipelined(ctx, func(tx redis.Pipeliner) error {
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
		_, err = b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
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

// WithdrawEntries deletes the published entries of a scheduler.
func (b *Broker) WithdrawEntries(ctx context.Context, p wire.Process) error {
	ns := b.Namespace()
	_, err := b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.ZRem(ctx, ns.Schedulers(), ns.Scheduler(p))
		pipe.Del(ctx, ns.Scheduler(p), wire.SchedulerCreations(ns.Scheduler(p)))
		return nil
	})
	if err != nil {
		return fmt.Errorf("rdb: withdrawing the scheduler's entries: %w", err)
	}
	return nil
}

// PublishedEntry is a published entry of a running scheduler.
type PublishedEntry struct {
	Entry    *wire.SchedulerEntry
	Creation []byte // encoded wire.SchedulerCreation, nil if not published
}

// SchedulerEntries returns the entries of all running schedulers: by scheduler, the most recently
// published first, each in its own order. It skips entries that cannot be decoded, and schedulers
// whose key is of another type.
func (b *Broker) SchedulerEntries(ctx context.Context) ([]PublishedEntry, error) {
	ns := b.Namespace()
	keys, err := b.Client().ZRevRangeByScore(ctx, ns.Schedulers(), &redis.ZRangeBy{
		Min: strconv.FormatInt(time.Now().Unix(), 10), Max: "+inf",
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("rdb: listing schedulers: %w", err)
	}
	var all []PublishedEntry
	for _, key := range keys {
		var list *redis.StringSliceCmd
		var creations *redis.MapStringStringCmd
		_, err := b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
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

// EnqueueEvent records that a scheduler entry enqueued a task.
type EnqueueEvent struct {
	Entry  string // ID
	TaskID string
	At     time.Time
}

// RecordEnqueues adds events to the histories of entries. Each keeps its last 1,000 events for 90
// days after the last one. A repeated event counts once.
func (b *Broker) RecordEnqueues(ctx context.Context, events ...EnqueueEvent) error {
	_, err := b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, e := range events {
			encoded, err := (&wire.SchedulerEnqueueEvent{TaskID: e.TaskID, EnqueuedAt: e.At}).Encode()
			if err != nil {
				return err
			}
			key := b.Namespace().SchedulerHistory(e.Entry)
			// Microseconds keep the events of one second in order.
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

// EnqueueEvents returns limit events of an entry, newest first, after skipping offset. It skips
// events that cannot be decoded.
func (b *Broker) EnqueueEvents(ctx context.Context, entryID string, offset, limit int) ([]*wire.SchedulerEnqueueEvent, error) {
	if limit <= 0 {
		return nil, nil
	}
	members, err := b.Client().ZRevRange(ctx, b.Namespace().SchedulerHistory(entryID), int64(offset), int64(offset+limit-1)).Result()
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

// DeleteEnqueueEvents deletes the enqueue events of entries.
func (b *Broker) DeleteEnqueueEvents(ctx context.Context, entryIDs ...string) error {
	for some := range slices.Chunk(entryIDs, 500) {
		if _, err := b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, id := range some {
				pipe.Unlink(ctx, b.Namespace().SchedulerHistory(id)) // on a Cluster, each is in another slot
			}
			return nil
		}); err != nil {
			return fmt.Errorf("rdb: deleting the histories of scheduler entries: %w", err)
		}
	}
	return nil
}

// groupTTL is the TTL of the leadership record of a scheduler group and of the tick records of its
// entries. Every renewal and every tick resets it.
const groupTTL = 30 * 24 * time.Hour

// Leadership is the state of a scheduler group. Times are unix milliseconds by the clock of Redis.
type Leadership struct {
	Leads  bool          // the caller is the leader
	Now    int64         // time of the reply
	Until  int64         // end of the leader's lease
	Began  int64         // start of the leader's term
	Vacant time.Duration // time without a leader before the term; negative if unknown
}

// AcquireLeadership acquires or renews the leadership of a scheduler group for a process, for a
// lease in whole milliseconds. The leader renews it before its lease ends. A term starts when the
// leadership is acquired, and lasts while no lease ends.
func (b *Broker) AcquireLeadership(ctx context.Context, group, process string, lease time.Duration) (Leadership, error) {
	return b.leadership(ctx, "acquire", group, process, lease)
}

// ReleaseLeadership releases the leadership of a scheduler group if the process holds it.
func (b *Broker) ReleaseLeadership(ctx context.Context, group, process string) error {
	_, err := b.leadership(ctx, "release", group, process, 0)
	return err
}

// DeleteSchedulerGroup deletes the leadership record of a scheduler group. It reports false, and
// deletes nothing, while the group has a leader.
func (b *Broker) DeleteSchedulerGroup(ctx context.Context, group string) (bool, error) {
	l, err := b.leadership(ctx, "delete", group, "", 0)
	return err == nil && l.Until == 0, err
}

func (b *Broker) leadership(ctx context.Context, verb, group, process string, lease time.Duration) (Leadership, error) {
	c := script.NewCall(leadershipScript, 1+4).Key(b.Namespace().SchedulerGroup(group)).
		Arg(verb, process, lease.Milliseconds(), script.Seconds(groupTTL))
	b.Run(ctx, c)
	r := c.Read()
	l := Leadership{Leads: r.Bool(), Now: r.Int(), Until: r.Int(), Began: r.Int(), Vacant: script.Milliseconds(r.Int())}
	return l, r.Err()
}

// The errors of a tick whose task the call has neither created nor rejected. With ErrTickLate, a
// repeated call may have done so before.
var (
	ErrTickOver = errors.New("a later tick of the entry is over already")
	ErrTickLate = errors.New("the lease of the scheduler has ended")
)

// Tick identifies a tick of a scheduler entry. Enqueue creates its task at most once, whichever
// process enqueues it and how often: a repeated tick gets its first result, also a rejection, until
// its deadline. After an error that is not declared, the tick may or may not be decided.
type Tick struct {
	Entry    string // ID
	At       int64  // unix milliseconds
	Deadline int64  // unix milliseconds by the clock of Redis after which the call does nothing
}

// TickRecord is the stored record of an entry's last decided tick, with the updates to make.
type TickRecord struct {
	Entry string // ID
	Queue string
	Seed  int64 // unix milliseconds: without a record, ticks up to this time are decided
	Over  int64 // unix milliseconds: ticks up to this time are decided in any case

	Last int64 // unix milliseconds: ticks up to this time are decided
	Made bool  // the last of them was enqueued or rejected, not only skipped
	Err  error
}

// LoadTickRecord updates and loads the tick records of entries. It sets the Err of each.
func (b *Broker) LoadTickRecord(ctx context.Context, records ...*TickRecord) {
	b.readTickRecords(ctx, records)
	var calls []*script.Call
	var behind []*TickRecord
	for _, t := range records {
		at := t.Over
		if t.Last == 0 {
			at = max(at, t.Seed)
		}
		if t.Err == nil && t.Last < at {
			skip := creation{queue: b.Queue(t.Queue), script: createScript, tick: &Tick{Entry: t.Entry, At: at}}
			calls = append(calls, skip.newCall(b))
			behind = append(behind, t)
		}
	}
	if len(calls) == 0 {
		return
	}
	b.Run(ctx, calls...)
	b.readTickRecords(ctx, behind)
	for i, t := range behind {
		if r := calls[i].Read(); r.Err() != nil {
			t.Err = r.Err()
		}
	}
}

// readTickRecords reads records, and renews their TTL. The Last of a record that does not exist, or
// that cannot be read, is 0.
func (b *Broker) readTickRecords(ctx context.Context, records []*TickRecord) {
	values := make([]*redis.StringCmd, len(records))
	_, _ = b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error { // each command has its error
		for i, t := range records {
			key := b.Queue(t.Queue).Keys.Tick(t.Entry)
			values[i] = pipe.Get(ctx, key)
			pipe.Expire(ctx, key, groupTTL)
		}
		return nil
	})
	for i, t := range records {
		t.Last, t.Made, t.Err = 0, false, nil
		value, failed := values[i].Result()
		if failed != nil && !errors.Is(failed, redis.Nil) {
			t.Err = fmt.Errorf("rdb: reading the record of a tick: %w", failed)
			continue
		}
		last, code, _ := strings.Cut(value, ":")
		if at, err := strconv.ParseInt(last, 10, 64); err == nil {
			t.Last, t.Made = at, code != strconv.Itoa(int(script.CodeStale))
		}
	}
}
