package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// QueueStats are the sizes and counters of a queue at one moment.
type QueueStats struct {
	Sizes          map[wire.State]int // scheduled: without Held
	Held           int                // scheduled tasks that partitions hold back
	Groups         int
	Paused         bool
	ProcessedToday int64
	FailedToday    int64
	ProcessedTotal int64
	FailedTotal    int64
	Oldest         time.Time // when the oldest pending task became pending; zero if none or unknown
	Now            time.Time // by Redis's clock

	// The first times in these collections, zero where they are empty: when a task is due, and when
	// a lease ends.
	NextScheduled, NextRetry, NextLease time.Time

	Archive wire.ArchiveLimits
}

// maxGroups bounds the groups and aggregation sets that one call counts.
const maxGroups = 500

// Stats counts the tasks of queues in few round trips, those of each at one moment. If a queue has
// more than 500 groups and aggregation sets, it counts the aggregating tasks page by page. An error
// of one queue does not affect the others.
func (b *Inspector) Stats(ctx context.Context, names []string) ([]*QueueStats, []error) {
	stats, errs, calls := make([]*QueueStats, len(names)), make([]error, len(names)), make([]*script.Call, len(names))
	for i, name := range names {
		calls[i] = b.statsCall(b.Queue(name))
	}
	b.runAll(ctx, calls)
	for i, name := range names {
		stats[i], errs[i] = b.readStats(ctx, b.Queue(name), calls[i])
	}
	return stats, errs
}

// runAll runs calls with short replies, 100 in a pipeline.
func (b *Inspector) runAll(ctx context.Context, calls []*script.Call) {
	for page := range slices.Chunk(calls, 100) {
		b.Run(ctx, page...)
	}
}

func (b *Inspector) statsCall(q *script.Queue) *script.Call {
	today := q.Today(time.Now())
	return script.NewCall(queueStatsScript, 16+3).
		Key(q.Pending, q.Active, q.Scheduled, q.Retry, q.Archived, q.Completed, q.Groups, q.AggregationSets, q.Paused).
		Key(q.Processed, q.Failed, today.Processed, today.Failed, q.Lease, q.Keys.ArchiveLimits(), q.Keys.HeldTasks()).
		Arg(q.TaskPrefix, q.GroupPrefix, maxGroups)
}

func (b *Inspector) readStats(ctx context.Context, q *script.Queue, c *script.Call) (*QueueStats, error) {
	s, err := b.readQueueStats(c)
	if err == nil && s.Sizes[wire.StateAggregating] < 0 {
		s.Sizes[wire.StateAggregating], err = b.countGrouped(ctx, q)
	}
	if err != nil {
		return nil, b.explain(ctx, q, err)
	}
	return s, nil
}

func (b *Inspector) readQueueStats(c *script.Call) (*QueueStats, error) {
	r := c.Read()
	s := &QueueStats{Sizes: make(map[wire.State]int)}
	for _, state := range []wire.State{
		wire.StatePending, wire.StateActive, wire.StateScheduled, wire.StateRetry, wire.StateArchived, wire.StateCompleted,
	} {
		s.Sizes[state] = int(r.Int())
	}
	s.Groups = int(r.Int())
	s.Sizes[wire.StateAggregating] = int(r.Int())
	s.Paused = r.Bool()
	for _, counter := range []*int64{&s.ProcessedTotal, &s.FailedTotal, &s.ProcessedToday, &s.FailedToday} {
		*counter = counterValue(r.Text())
	}
	s.Now = readTime(&r)
	for _, first := range []*time.Time{&s.NextScheduled, &s.NextRetry, &s.NextLease} {
		if score, err := strconv.ParseFloat(r.Text(), 64); err == nil {
			*first = setTime(score)
		}
	}
	s.Archive = b.publishedLimits(r.Text())
	s.Held = min(int(r.Int()), s.Sizes[wire.StateScheduled])
	s.Sizes[wire.StateScheduled] -= s.Held
	for r.More() {
		// A returned task waits again, so the oldest task is not always the next.
		if at, err := nanoseconds(r.Text()); err == nil && (s.Oldest.IsZero() || at.Before(s.Oldest)) {
			s.Oldest = at
		}
	}
	return s, r.Err()
}

// counterValue decodes a counter. A missing or invalid counter is 0.
func counterValue(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// setTime is scoreTime, but the zero time for a score that no process would have set: a queue must
// not look centuries late because of it.
func setTime(score float64) time.Time {
	if !(math.Abs(score) < 1<<40) {
		return time.Time{}
	}
	return scoreTime(score)
}

// countGrouped counts the aggregating tasks in pages.
func (b *Inspector) countGrouped(ctx context.Context, q *script.Queue) (total int, err error) {
	names, sets, err := b.groupNames(ctx, q)
	if err != nil {
		return 0, err
	}
	keys := make(map[string]bool) // a set of group a:b is no group a, but may have the key of one
	for _, name := range names {
		keys[q.Keys.Group(name)] = true
	}
	for _, set := range sets {
		keys[set] = true
	}
	groups, err := b.groupSizes(ctx, slices.Collect(maps.Keys(keys)))
	for _, g := range groups {
		total += g.Size
	}
	return total, err
}

// Group is the name of a group, how many tasks it holds, and since when the first of them is in it;
// zero if that is not known.
type Group struct {
	Name   string
	Size   int
	Oldest time.Time
}

// Groups lists the groups of a queue that hold tasks, sorted by name. Tasks that are staged are not
// in their group.
func (b *Inspector) Groups(ctx context.Context, queue string) ([]Group, error) {
	q := b.Queue(queue)
	names, _, err := b.groupNames(ctx, q)
	if err != nil {
		return nil, b.explain(ctx, q, err)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = q.Keys.Group(name)
	}
	groups, err := b.groupSizes(ctx, keys)
	if err != nil {
		return nil, b.explain(ctx, q, err)
	}
	for i := range groups {
		groups[i].Name = names[i]
	}
	return slices.DeleteFunc(groups, func(g Group) bool { return g.Size == 0 }), nil // emptied since it was listed
}

// groupSizes reads groups or aggregation sets, 500 in a pipeline. It leaves out the names.
func (b *Inspector) groupSizes(ctx context.Context, keys []string) ([]Group, error) {
	groups := slices.Grow([]Group(nil), len(keys)) // nil if there are none
	type reply struct {
		size  *redis.IntCmd
		first *redis.ZSliceCmd
	}
	read := func(pipe redis.Pipeliner, key string) reply {
		return reply{pipe.ZCard(ctx, key), pipe.ZRangeWithScores(ctx, key, 0, 0)}
	}
	for i, r := range pipelined(ctx, b.Client(), maxGroups, keys, read) {
		if err := cmp.Or(r.size.Err(), r.first.Err()); redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, fmt.Errorf("inspect: the key %s must be a zset: %w", keys[i], ErrWrongType)
		} else if err != nil {
			return nil, fmt.Errorf("inspect: counting the tasks of groups: %w", err)
		}
		g := Group{Size: int(r.size.Val())}
		if z := r.first.Val(); len(z) > 0 {
			g.Oldest = setTime(z[0].Score)
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// maxSamples bounds the tasks of a state that one call of Memory samples.
const maxSamples = 100

// Memory estimates how many bytes queues with these stats take, in few round trips, from up to that
// many tasks of each state (at most 100). The cost does not depend on their sizes. The result is 0
// if Redis does not support or allow MEMORY USAGE. A queue without stats is skipped. An error of
// one queue does not affect the others.
func (b *Inspector) Memory(ctx context.Context, names []string, stats []*QueueStats, samples int) ([]int64, []error) {
	bytes, errs := make([]int64, len(names)), make([]error, len(names))
	var calls []*script.Call
	var of []int // the index in names of each call
	for i, name := range names {
		if stats[i] != nil {
			calls, of = append(calls, b.memoryCall(b.Queue(name), stats[i], samples)), append(of, i)
		}
	}
	b.runAll(ctx, calls)
	for n, i := range of {
		bytes[i], errs[i] = b.readMemory(ctx, b.Queue(names[i]), calls[n])
	}
	return bytes, errs
}

func (b *Inspector) memoryCall(q *script.Queue, s *QueueStats, samples int) *script.Call {
	return script.NewCall(queueMemoryScript, 9+4).
		Key(q.Pending, q.Active, q.Lease, q.Scheduled, q.Retry, q.Archived, q.Completed, q.Groups, q.AggregationSets).
		Arg(q.TaskPrefix, q.GroupPrefix, min(samples, maxSamples), s.Sizes[wire.StateAggregating])
}

func (b *Inspector) readMemory(ctx context.Context, q *script.Queue, c *script.Call) (int64, error) {
	r := c.Read()
	bytes, err := r.Int(), r.Err()
	if script.Refused(err) {
		if err = b.explain(ctx, q, err); !errors.Is(err, ErrWrongType) {
			err = nil
		}
	}
	return max(bytes, 0), err
}

// DailyStats are the counters of one UTC day.
type DailyStats struct {
	Day       time.Time // when it began
	Processed int64
	Failed    int64
}

// History returns the counters of the last n days, today's first. Those of days whose counters have
// expired are zero.
func (b *Inspector) History(ctx context.Context, queue string, n int) ([]DailyStats, error) {
	q := b.Queue(queue)
	days := make([]DailyStats, n)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	var keys []string
	const kept = int(script.StatsTTL/(24*time.Hour)) + 2 // the TTL begins with the last write of a day
	for i := range days {
		days[i].Day = today.AddDate(0, 0, -i)
		if i < kept {
			keys = append(keys, q.Keys.ProcessedOn(days[i].Day), q.Keys.FailedOn(days[i].Day))
		}
	}
	values, err := b.Client().MGet(ctx, keys...).Result()
	if err != nil {
		return nil, fmt.Errorf("inspect: reading counters: %w", err)
	}
	for i := range values {
		count, _ := values[i].(string)
		if i%2 == 0 {
			days[i/2].Processed = counterValue(count)
		} else {
			days[i/2].Failed = counterValue(count)
		}
	}
	return days, nil
}

// Slot asks which slot of a Cluster the keys of a queue are in.
func (b *Inspector) Slot(ctx context.Context, queue string) (int64, error) {
	slot, err := b.Client().ClusterKeySlot(ctx, b.Queue(queue).Keys.Pending()).Result()
	if err != nil {
		return 0, fmt.Errorf("inspect: looking up the slot of a queue: %w", err)
	}
	return slot, nil
}

// Nodes lists the nodes of a Cluster that serve a queue, the master first.
func (b *Inspector) Nodes(ctx context.Context, queue string) ([]redis.ClusterNode, error) {
	slot, err := b.Slot(ctx, queue)
	if err != nil {
		return nil, err
	}
	ranges, err := b.Client().ClusterSlots(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("inspect: reading the slots of the cluster: %w", err)
	}
	for _, r := range ranges {
		if int64(r.Start) <= slot && slot <= int64(r.End) {
			return r.Nodes, nil
		}
	}
	return nil, fmt.Errorf("inspect: no node of the cluster serves slot %d", slot)
}
