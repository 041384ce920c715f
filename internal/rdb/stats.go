package rdb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// QueueStats are the sizes and counters of a queue at one moment.
type QueueStats struct {
	Sizes          map[wire.State]int
	Groups         int
	Paused         bool
	ProcessedToday int64
	FailedToday    int64
	ProcessedTotal int64
	FailedTotal    int64
	Oldest         time.Time // since when the oldest pending task waits; zero if there is none, or it does not tell
	Now            time.Time // by Redis's clock

	// The first times in these collections, zero where they are empty: when a task is due, and when a lease ends.
	NextScheduled, NextRetry, NextLease time.Time
}

// maxGroups bounds the groups and aggregation sets that one call counts.
const maxGroups = 500

// Stats counts what is in a queue. All is of one moment, but for the aggregating tasks where there are more than 500 groups and
// aggregation sets together: these are then counted page by page.
func (b *Broker) Stats(ctx context.Context, queue string) (*QueueStats, error) {
	q := b.queues.get(queue)
	c := b.statsCall(q)
	b.run(ctx, c)
	return b.readStats(ctx, q, c)
}

// StatsResult is what StatsOf tells of one queue: either Stats or Err is set.
type StatsResult struct {
	Stats *QueueStats
	Err   error
}

// maxStats bounds the queues that one pipeline of StatsOf asks about. The answers are short.
const maxStats = 100

// StatsOf is Stats of many queues, in as few round trips as that takes. One queue's error leaves the others alone.
func (b *Broker) StatsOf(ctx context.Context, names []string) []StatsResult {
	results := make([]StatsResult, 0, len(names))
	for page := range slices.Chunk(names, maxStats) {
		calls := make([]*call, len(page))
		for i, name := range page {
			calls[i] = b.statsCall(b.queues.get(name))
		}
		b.run(ctx, calls...)
		for i, name := range page {
			s, err := b.readStats(ctx, b.queues.get(name), calls[i])
			results = append(results, StatsResult{Stats: s, Err: err})
		}
	}
	return results
}

func (b *Broker) statsCall(q *queue) *call {
	today := q.today(b.now())
	return newCall(queueStatsScript, 14+3).
		key(q.pending, q.active, q.scheduled, q.retry, q.archived, q.completed, q.groups, q.aggregationSets, q.paused).
		key(q.processed, q.failed, today.processed, today.failed, q.lease).arg(q.taskPrefix, q.groupPrefix, maxGroups)
}

func (b *Broker) readStats(ctx context.Context, q *queue, c *call) (*QueueStats, error) {
	if c.err != nil {
		return nil, b.explain(ctx, q, fmt.Errorf("rdb: %s: %w", c.script.name, c.err))
	}
	s, err := c.stats()
	if err != nil {
		return nil, err
	}
	if s.Sizes[wire.StateAggregating] < 0 {
		if s.Sizes[wire.StateAggregating], err = b.countGrouped(ctx, q); err != nil {
			return nil, b.explain(ctx, q, err)
		}
	}
	return s, nil
}

// statsValues are those of the answer of queue_stats.lua that are always there.
const statsValues = 17

func (c *call) stats() (*QueueStats, error) {
	reply, ok := c.reply.([]any)
	if !ok || len(reply) < statsValues {
		return nil, c.malformed()
	}
	var sizes [9]int
	for i := range sizes {
		n, ok := reply[i].(int64)
		if !ok {
			return nil, c.malformed()
		}
		sizes[i] = int(n)
	}
	s := &QueueStats{Groups: sizes[6], Paused: sizes[8] == 1, Sizes: map[wire.State]int{
		wire.StatePending: sizes[0], wire.StateActive: sizes[1], wire.StateScheduled: sizes[2], wire.StateRetry: sizes[3],
		wire.StateArchived: sizes[4], wire.StateCompleted: sizes[5], wire.StateAggregating: sizes[7],
	}}
	for i, counter := range []*int64{&s.ProcessedTotal, &s.FailedTotal, &s.ProcessedToday, &s.FailedToday} {
		*counter = counterValue(reply[9+i])
	}
	var err error
	if s.Now, err = nanoseconds(reply[13]); err != nil {
		return nil, c.malformed()
	}
	for i, first := range []*time.Time{&s.NextScheduled, &s.NextRetry, &s.NextLease} {
		*first = scoreTime(reply[14+i])
	}
	for _, since := range reply[statsValues:] {
		// A task that was given back waits anew, so the oldest need not be the next.
		if at, err := nanoseconds(since); err == nil && (s.Oldest.IsZero() || at.Before(s.Oldest)) {
			s.Oldest = at
		}
	}
	return s, nil
}

// counterValue reads a counter. None, or what is no number, is 0.
func counterValue(v any) int64 {
	text, _ := v.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// scoreTime reads a score that is a time in unix seconds. None, or one that no process would have set, is the zero time.
func scoreTime(v any) time.Time {
	text, ok := v.(string)
	score, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || !(math.Abs(score) < 1<<40) {
		return time.Time{}
	}
	return time.Unix(int64(score), 0)
}

// countGrouped counts the aggregating tasks in pages.
func (b *Broker) countGrouped(ctx context.Context, q *queue) (int, error) {
	total := 0
	groups, err := b.groups(ctx, q)
	if err != nil {
		return 0, err
	}
	known := make(map[string]bool, len(groups)) // a set of group a:b is no group a, but may have the key of one
	for _, g := range groups {
		total += g.Size
		known[q.keys.Group(g.Name)] = true
	}
	var sets []string
	err = eachMember(ctx, b.client, q.keys.AggregationSets(), func(set string, _ float64) {
		if strings.HasPrefix(set, q.keys.GroupPrefix()) && !known[set] {
			known[set] = true
			sets = append(sets, set)
		}
	})
	if err != nil {
		return 0, fmt.Errorf("rdb: listing aggregation sets: %w", err)
	}
	sizes, err := b.groupSizes(ctx, sets)
	for _, set := range sizes {
		total += set.Size
	}
	return total, err
}

// Group is the name of a group, how many tasks it holds, and since when the first of them is in it; zero if that is not known.
type Group struct {
	Name   string
	Size   int
	Oldest time.Time
}

// Groups lists the groups of a queue that hold tasks, sorted by name. Tasks that are staged are not in their group.
func (b *Broker) Groups(ctx context.Context, queue string) ([]Group, error) {
	q := b.queues.get(queue)
	groups, err := b.groups(ctx, q)
	if err != nil {
		return nil, b.explain(ctx, q, err)
	}
	groups = slices.DeleteFunc(groups, func(g Group) bool { return g.Size == 0 }) // emptied since it was listed
	slices.SortFunc(groups, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return groups, nil
}

func (b *Broker) groups(ctx context.Context, q *queue) ([]Group, error) {
	var groups []Group
	var keys []string
	known := make(map[string]bool)
	err := eachName(ctx, b.client, q.keys.Groups(), func(name string) {
		if !known[name] {
			known[name] = true
			groups = append(groups, Group{Name: name})
			keys = append(keys, q.keys.Group(name))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("rdb: listing groups: %w", err)
	}
	sizes, err := b.groupSizes(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i := range groups {
		groups[i].Size, groups[i].Oldest = sizes[i].Size, sizes[i].Oldest
	}
	return groups, nil
}

// groupSizes looks at groups or aggregation sets, 500 in a call and a few calls in a pipeline. It leaves out the names.
func (b *Broker) groupSizes(ctx context.Context, keys []string) ([]Group, error) {
	groups := make([]Group, 0, len(keys))
	for part := range slices.Chunk(keys, maxPipeline*maxGroups) {
		var calls []*call
		for page := range slices.Chunk(part, maxGroups) {
			c := newCall(groupSizesScript, len(page))
			for _, key := range page {
				c.key(key)
			}
			calls = append(calls, c)
		}
		b.run(ctx, calls...)
		for _, c := range calls {
			page, err := c.groups()
			if err != nil {
				return nil, err
			}
			for _, g := range page {
				if g.Size < 0 {
					return nil, fmt.Errorf("rdb: the key %s must be a zset: %w", keys[len(groups)], ErrWrongType)
				}
				groups = append(groups, g)
			}
		}
	}
	return groups, nil
}

// groups reads the reply of group_sizes.lua.
func (c *call) groups() ([]Group, error) {
	if c.err != nil {
		return nil, fmt.Errorf("rdb: %s: %w", c.script.name, c.err)
	}
	values, ok := c.reply.([]any)
	if !ok || len(values) != 2*c.keys {
		return nil, c.malformed()
	}
	groups := make([]Group, c.keys)
	for i := range groups {
		n, ok := values[2*i].(int64)
		if !ok {
			return nil, c.malformed()
		}
		groups[i] = Group{Size: int(n), Oldest: scoreTime(values[2*i+1])}
	}
	return groups, nil
}

// maxSamples bounds the tasks of a state that one call of Memory looks at.
const maxSamples = 100

// Memory estimates how many bytes a queue with these stats takes, from up to so many tasks of each state (and 100), whatever its
// size. It returns 0 where Redis does not tell, or does not let us ask.
func (b *Broker) Memory(ctx context.Context, queue string, s *QueueStats, samples int) (int64, error) {
	q := b.queues.get(queue)
	c := newCall(queueMemoryScript, 9+4).
		key(q.pending, q.active, q.lease, q.scheduled, q.retry, q.archived, q.completed, q.groups, q.aggregationSets).
		arg(q.taskPrefix, q.groupPrefix, min(samples, maxSamples), s.Sizes[wire.StateAggregating])
	b.run(ctx, c)
	bytes, err := c.int()
	if Refused(err) {
		return 0, b.explainNothing(ctx, q, err)
	}
	return max(bytes, 0), err
}

// explainNothing keeps an error only where a key's type is its reason.
func (b *Broker) explainNothing(ctx context.Context, q *queue, err error) error {
	if err := b.explain(ctx, q, err); errors.Is(err, ErrWrongType) {
		return err
	}
	return nil
}

// DailyStats are the counters of one UTC day.
type DailyStats struct {
	Day       time.Time // when it began
	Processed int64
	Failed    int64
}

// History returns the counters of the last n days, today's first. Those of days whose counters have expired are zero.
func (b *Broker) History(ctx context.Context, queue string, n int) ([]DailyStats, error) {
	q := b.queues.get(queue)
	days := make([]DailyStats, n)
	today := b.now().UTC().Truncate(24 * time.Hour)
	var keys []string
	const kept = int(statsTTL/(24*time.Hour)) + 2 // the TTL begins with the last write of a day
	for i := range days {
		days[i].Day = today.AddDate(0, 0, -i)
		if i < kept {
			keys = append(keys, q.keys.ProcessedOn(days[i].Day), q.keys.FailedOn(days[i].Day))
		}
	}
	values, err := b.client.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, fmt.Errorf("rdb: reading counters: %w", err)
	}
	for i := range values {
		if i%2 == 0 {
			days[i/2].Processed = counterValue(values[i])
		} else {
			days[i/2].Failed = counterValue(values[i])
		}
	}
	return days, nil
}

// Slot asks which slot of a Cluster the keys of a queue are in.
func (b *Broker) Slot(ctx context.Context, queue string) (int64, error) {
	slot, err := b.client.ClusterKeySlot(ctx, b.queues.get(queue).keys.Pending()).Result()
	if err != nil {
		return 0, fmt.Errorf("rdb: asking for a queue's slot: %w", err)
	}
	return slot, nil
}

// Nodes lists the nodes of a Cluster that serve a queue, the master first.
func (b *Broker) Nodes(ctx context.Context, queue string) ([]redis.ClusterNode, error) {
	slot, err := b.Slot(ctx, queue)
	if err != nil {
		return nil, err
	}
	ranges, err := b.client.ClusterSlots(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("rdb: asking for the slots of the cluster: %w", err)
	}
	for _, r := range ranges {
		if int64(r.Start) <= slot && slot <= int64(r.End) {
			return r.Nodes, nil
		}
	}
	return nil, fmt.Errorf("rdb: no node of the cluster serves slot %d", slot)
}
