package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// suspect is a task whose place in its partition seems wrong, or a partition.
type suspect struct {
	id     string // empty: a partition
	member string // the place, or the key of the partition; empty: the task has none
}

// placeDigits is the length of the number in a place: <partition key> NUL <number> <ID>.
const placeDigits = 16

// checkPlaces checks the places of held tasks, and that servers look at their partitions.
func (d *diagnosis) checkPlaces(ctx context.Context, q *queue) error {
	k := q.Keys
	for _, key := range []string{k.HeldTasks(), k.ReadyPartitions(), k.BlockedPartitions()} {
		if q.broken[key] {
			return nil
		}
	}
	last := ""
	for from := "-"; ; {
		members, err := d.conn.Client().ZRangeByLex(ctx, k.HeldTasks(), &redis.ZRangeBy{Min: from, Max: "+", Count: listPageSize}).Result()
		if err != nil {
			return fmt.Errorf("reading the places of held tasks: %w", err)
		}
		for page := range slices.Chunk(members, pageSize) {
			if last, err = d.checkPlacePage(ctx, q, page, last); err != nil {
				return err
			}
		}
		if len(members) < listPageSize {
			return nil
		}
		from = "(" + members[len(members)-1]
	}
}

// checkPlacePage checks some places, and their partitions but the last one that was checked before.
// It returns the key of the last partition.
func (d *diagnosis) checkPlacePage(ctx context.Context, q *queue, members []string, last string) (string, error) {
	fields, ids := make([]*redis.SliceCmd, len(members)), make([]string, len(members))
	type lane struct {
		key            string
		ready, blocked *redis.FloatCmd
	}
	var lanes []lane
	err := d.read(ctx, "held tasks", func(pipe redis.Pipeliner) {
		for i, member := range members {
			key, rest, ok := strings.Cut(member, "\x00")
			if !ok || len(rest) <= placeDigits {
				continue // no server has written it
			}
			ids[i] = rest[placeDigits:]
			fields[i] = pipe.HMGet(ctx, q.Keys.Task(ids[i]), wire.FieldState, wire.FieldHeld)
			if key != last || len(lanes) == 0 {
				last = key
				lanes = append(lanes, lane{key, pipe.ZScore(ctx, q.Keys.ReadyPartitions(), key), pipe.ZScore(ctx, q.Keys.BlockedPartitions(), key)})
			}
		}
	})
	if err != nil {
		return last, err
	}
	var suspects []suspect
	for i, member := range members {
		if fields[i] == nil {
			continue
		}
		f, _ := fields[i].Result()
		if len(f) != 2 || f[0] != wire.StateScheduled.String() || f[1] != strings.TrimSuffix(member, ids[i]) {
			suspects = append(suspects, suspect{ids[i], member})
		}
	}
	for _, l := range lanes {
		if l.ready.Err() != nil && l.blocked.Err() != nil {
			suspects = append(suspects, suspect{"", l.key})
		}
	}
	return last, d.confirmPartitions(ctx, q, suspects)
}

// confirmPartitions checks suspects again and reports those that are broken.
func (d *diagnosis) confirmPartitions(ctx context.Context, q *queue, suspects []suspect) error {
	k := q.Keys
	for page := range slices.Chunk(suspects, maxConfirm) {
		c := script.NewCall(diagnosePartitionsScript, 7+3*len(page)).
			Key(k.HeldTasks(), k.ReadyPartitions(), k.BlockedPartitions(), k.PartitionClock(), q.Scheduled, q.Marker)
		for _, s := range page {
			c.Key(k.Task(s.id))
		}
		c.Arg(script.Flag(d.repair))
		for _, s := range page {
			c.Arg(s.id, s.member)
		}
		results, err := d.send(ctx, c, len(page))
		if err != nil {
			return err
		}
		for i, r := range results {
			key := k.HeldTasks()
			if page[i].id == "" {
				key = k.ReadyPartitions()
			}
			f := r.describe(key, page[i].id)
			if f == nil {
				continue
			}
			if page[i].id == "" {
				f.Detail = fmt.Sprintf(f.Detail, page[i].member)
			}
			if err := d.report(q, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// minHeld is how long a task must have been held before its queue is reported as unserved: servers
// that start are published within that time.
const minHeld = time.Minute

// checkPartitionsServed reports queues with held tasks whose running servers have no partitions of
// it. Queues without a running server are not reported.
func (d *diagnosis) checkPartitionsServed(ctx context.Context, i *asynq.Inspector) error {
	servers, err := i.WithContext(ctx).Servers()
	if err != nil {
		return err
	}
	served := make(map[string]bool)
	for _, s := range servers {
		for queue := range s.Partitions { // it may be paused, or stop
			served[queue] = true
		}
		for queue := range s.Queues {
			if s.Status == "active" && !served[queue] {
				served[queue] = false
			}
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(served)) {
		if served[queue] || !d.keep(queue) {
			continue
		}
		q, known := d.queues[queue]
		if !known || q.broken[q.Keys.HeldTasks()] || q.broken[q.Keys.RunningTasks()] || q.broken[q.Keys.BlockedPartitions()] ||
			q.broken[q.Keys.PartitionSettings()] {
			continue
		}
		if err := d.reportError(ctx, q, d.checkUnserved(ctx, i, q)); err != nil {
			return err
		}
	}
	return nil
}

// checkUnserved reports a queue without servers that have partitions of it, if tasks are held.
func (d *diagnosis) checkUnserved(ctx context.Context, i *asynq.Inspector, q *queue) error {
	for p, err := range i.Partitions(ctx, q.Keys.Name) {
		switch {
		case errors.Is(err, asynq.ErrQueueNotFound):
			return nil
		case err != nil:
			return err
		case p.Held == 0 || p.Latency < minHeld:
			continue
		}
		n, err := d.conn.Client().ZCard(ctx, q.Keys.HeldTasks()).Result()
		if err != nil {
			return fmt.Errorf("counting held tasks: %w", err)
		}
		return d.report(q, &Finding{
			Key: q.Keys.HeldTasks(), Kind: UnservedPartitions,
			Detail: fmt.Sprintf("the queue has %d held tasks, but no running server of it has partitions: they wait for up to a day", n),
		})
	}
	return nil
}
