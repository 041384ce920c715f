package inspect

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
)

// Partition is the state of a partition at one moment.
type Partition struct {
	Key          string
	Held, Active int
	Oldest       time.Time // when its first held task became pending; zero if none or unknown
	Blocked      bool      // a limit holds its tasks
	CheckAt      time.Time // when servers check the limit; zero if it is paused
	Settings     string    // its own; "": none
	Now          time.Time // by Redis's clock
}

// maxPartitions is the number of partitions that one call reads.
const maxPartitions = 200

func (b *Inspector) partitionsCall(q *script.Queue) *script.Call {
	k := q.Keys
	return script.NewCall(partitionsScript, 4+5).
		Key(k.HeldTasks(), k.RunningTasks(), k.BlockedPartitions(), k.PartitionSettings()).Arg(q.TaskPrefix)
}

// Partitions returns the next partitions with held or active tasks, by key: those after a key, or
// the first ones if more is false. It returns none at the end.
func (b *Inspector) Partitions(ctx context.Context, queue, after string, more bool) ([]*Partition, error) {
	from := "-"
	if more {
		from = "[" + after + "\x01"
	}
	return b.readPartitions(ctx, b.partitionsCall(b.Queue(queue)).Arg(from, maxPartitions, 0, ""))
}

// Partition returns the state of a partition, whether it has tasks or not.
func (b *Inspector) Partition(ctx context.Context, queue, key string) (*Partition, error) {
	all, err := b.readPartitions(ctx, b.partitionsCall(b.Queue(queue)).Arg("-", 1, 1, key))
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func (b *Inspector) readPartitions(ctx context.Context, c *script.Call) (all []*Partition, err error) {
	b.Run(ctx, c)
	r := c.Read()
	now := readTime(&r)
	for r.More() {
		p := &Partition{Key: r.Text(), Held: int(r.Int()), Active: int(r.Int()), Now: now}
		p.Oldest, _ = nanoseconds(r.Text())
		check := r.Text()
		p.Blocked, p.Settings = check != "", r.Text()
		if ms, err := strconv.ParseFloat(check, 64); err == nil && ms < 1e15 {
			p.CheckAt = time.UnixMilli(int64(ms))
		}
		all = append(all, p)
	}
	return all, r.Err()
}

// SetPartition replaces the settings of a partition; "" removes them.
func (b *Inspector) SetPartition(ctx context.Context, queue, key, settings string) error {
	_, err := b.setPartition(ctx, queue, key, settings, 0, "")
	return err
}

// ReplacePartition replaces the settings of a partition if they are still those that the caller has
// read. It reports whether they were.
func (b *Inspector) ReplacePartition(ctx context.Context, queue, key, read, settings string) (bool, error) {
	return b.setPartition(ctx, queue, key, settings, 1, read)
}

func (b *Inspector) setPartition(ctx context.Context, queue, key, settings string, compare int, read string) (bool, error) {
	q := b.Queue(queue)
	c := script.NewCall(setPartitionScript, 3+4).
		Key(q.Keys.PartitionSettings(), q.Keys.BlockedPartitions(), q.Marker).Arg(key, settings, compare, read)
	b.Run(ctx, c)
	code, err := c.Int()
	return err == nil && script.Code(code) == script.CodeOK, err
}

// PartitionSettings returns the settings of the partitions of a queue that have their own.
func (b *Inspector) PartitionSettings(ctx context.Context, queue string) (map[string]string, error) {
	all := make(map[string]string)
	it := b.Client().HScan(ctx, b.Keys(queue).PartitionSettings(), 0, "", maxHashPage).Iterator()
	for it.Next(ctx) {
		key := it.Val()
		if !it.Next(ctx) {
			break
		}
		all[key] = it.Val()
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("inspect: reading settings of partitions: %w", err)
	}
	return all, nil
}

// maxHashPage is the approximate number of fields that one call reads.
const maxHashPage = 1000

// HeldTaskIDs returns IDs of held tasks of a partition in order, at most n, and the place of the
// last one. It begins behind a place, or with the first task if the place is "".
func (b *Inspector) HeldTaskIDs(ctx context.Context, queue, key, after string, n int) (ids []string, last string, err error) {
	return b.members(ctx, b.Keys(queue).HeldTasks(), key, after, 17, n)
}

// RunningTaskIDs returns IDs of active tasks of a partition, at most n.
func (b *Inspector) RunningTaskIDs(ctx context.Context, queue, key string, n int) ([]string, error) {
	ids, _, err := b.members(ctx, b.Keys(queue).RunningTasks(), key, "", 1, n)
	return ids, err
}

// members returns the ends of the members of a partition, from the given number of bytes behind its
// key on, and the last member. It begins behind a member, unless that is "".
func (b *Inspector) members(ctx context.Context, set, key, after string, behind, n int) (ids []string, last string, err error) {
	from := "[" + key + "\x00"
	if after != "" {
		from = "(" + after
	}
	members, err := b.Client().ZRangeByLex(ctx, set, &redis.ZRangeBy{Min: from, Max: "(" + key + "\x01", Count: int64(n)}).Result()
	if err != nil {
		return nil, "", fmt.Errorf("inspect: reading tasks of a partition: %w", err)
	}
	for _, m := range members {
		if last = m; len(m) >= len(key)+behind {
			ids = append(ids, m[len(key)+behind:])
		}
	}
	return ids, last, nil
}
