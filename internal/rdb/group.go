package rdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// GroupRule configures when the tasks of a group are aggregated.
type GroupRule struct {
	Grace    time.Duration // after its newest task
	MaxDelay time.Duration // after its oldest task; 0: no limit
	MaxSize  int           // maximum tasks per aggregation, which also makes the group due; 0: no limit
}

// setTimeout is how long an aggregation set belongs to its aggregator. Other libraries use the same
// time.
const setTimeout = 2 * time.Minute

// maxStaged limits the groups that one call checks, and the sets that it creates.
const maxStaged = 100

// StagedSet is a set of tasks staged for one aggregation.
type StagedSet struct {
	Queue string
	Group string
	Key   string
	Size  int
	Tasks []StagedTask // set by ReadSets

	Err error // the error of the last call of ReadSets
}

// StagedTask is one task of a set.
type StagedTask struct {
	ID      string
	Message []byte // nil: no such task is aggregating
}

// Stage moves the tasks of due groups into at most 100 sets. next is the time until a group is due;
// negative if no group is known to become due (see SweepGroups).
func (b *Broker) Stage(ctx context.Context, queue string, rule GroupRule) (sets []*StagedSet, next time.Duration, err error) {
	q := b.Queue(queue)
	name := uuid.NewString()
	c := script.NewCall(stageScript, 3+7).Key(q.GroupsDue, q.Groups, q.AggregationSets).
		Arg(q.GroupPrefix, name[:len(name)-3], script.Seconds(rule.Grace), script.Seconds(rule.MaxDelay), rule.MaxSize, script.Seconds(setTimeout), maxStaged)
	c.Once = true // a retry would stage other groups and lose the first ones
	b.Run(ctx, c)
	r := c.Read()
	next = script.Milliseconds(r.Int())
	for r.More() {
		sets = append(sets, &StagedSet{Queue: queue, Group: r.Text(), Key: r.Text(), Size: int(r.Int())})
	}
	if err := r.Err(); err != nil {
		return nil, 0, err
	}
	return sets, next, nil
}

// ReadSets reads the tasks of sets of one queue, in as many calls as needed.
func (b *Broker) ReadSets(ctx context.Context, queue string, sets []*StagedSet) {
	q := b.Queue(queue)
	for len(sets) > 0 {
		c := script.NewCall(readSetsScript, 2+3*len(sets))
		args := make([]any, 0, 2*len(sets))
		var asked []*StagedSet
		budget := script.MaxBatch
		for _, s := range sets {
			n := min(s.Size-len(s.Tasks), budget)
			if n <= 0 && len(asked) > 0 {
				break
			}
			budget -= n
			c.Key(s.Key)
			args = append(args, len(s.Tasks), n)
			asked = append(asked, s)
		}
		c.Arg(q.TaskPrefix, script.MaxBatchBytes).Arg(args...)
		b.Run(ctx, c)
		if err := readSets(c, asked); err != nil {
			for _, s := range sets {
				s.Err = err
			}
			return
		}
		for len(sets) > 0 && len(sets[0].Tasks) >= sets[0].Size {
			sets = sets[1:]
		}
	}
}

// readSets adds the tasks of a reply of read_sets.lua to their sets.
func readSets(c *script.Call, sets []*StagedSet) error {
	r := c.Read()
	for i, s := range sets {
		tasks := r.List()
		if i == 0 && !tasks.More() {
			s.Size = len(s.Tasks) // the set has shrunk: its tasks returned to the group
		}
		for tasks.More() {
			s.Tasks = append(s.Tasks, StagedTask{ID: tasks.Text(), Message: tasks.Bytes()})
		}
		if err := tasks.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Aggregation replaces the tasks of a set with one task, and holds the result.
type Aggregation struct {
	Set  *StagedSet
	Task NewTask

	Code script.Code // CodeOK, CodeConflict, CodeDuplicate; CodeLost: already committed, or back in the group
	Err  error
}

// consumedTTL is how long a queue that another library deletes keeps the data that PurgeConsumed
// would delete.
const consumedTTL = 24 * time.Hour

// CommitAggregations creates the aggregated tasks of sets of one queue and deletes the tasks of the
// sets, atomically for each set. Each set must be listed once.
func (b *Broker) CommitAggregations(ctx context.Context, queue string, items []*Aggregation) {
	q := b.Queue(queue)
	for len(items) > 0 {
		n, tasks, bytes := 0, 0, 0
		for n < len(items) && n < maxStaged && (n == 0 || tasks+items[n].Set.Size <= script.MaxBatch && bytes+len(items[n].Task.Message) <= script.MaxBatchBytes) {
			tasks += items[n].Set.Size
			bytes += len(items[n].Task.Message)
			n++
		}
		part := items[:n]
		items = items[n:]
		b.commitAggregations(ctx, q, part)
		if n > 1 && script.Refused(part[0].Err) {
			for i := range part { // a key of another type must not block the other sets
				b.commitAggregations(ctx, q, part[i:i+1])
			}
		}
	}
}

func (b *Broker) commitAggregations(ctx context.Context, q *script.Queue, items []*Aggregation) {
	c := script.NewCall(commitAggregationScript, 7+3+8*len(items)).
		Key(q.AggregationSets, q.ConsumedSets, q.Pending, q.Marker, q.Scheduled, q.Groups, q.GroupsDue)
	for _, h := range items {
		c.Key(h.Set.Key, q.Keys.Task(h.Task.ID))
	}
	c.Arg(q.TaskPrefix, q.GroupPrefix, script.Seconds(consumedTTL))
	for _, h := range items {
		c.Arg(h.Task.ID, h.Task.Message, h.Task.Lock, max(h.Task.LockTTL, 1), b.Due(h.Task.ProcessAt, h.Task.Early), h.Task.Group)
	}
	b.Run(ctx, c)
	codes := c.ReadCodes(len(items))
	err := codes.Err()
	for _, h := range items {
		h.Code, h.Err = codes.Code(), err
	}
}

// PurgeConsumed deletes at most 500 tasks of consumed sets, which were too large for
// CommitAggregations. It reports whether there are more.
func (b *Broker) PurgeConsumed(ctx context.Context, queue string) (more bool, err error) {
	q := b.Queue(queue)
	sets, err := b.Client().ZRange(ctx, q.Keys.ConsumedSets(), 0, 1).Result()
	if err != nil {
		return false, fmt.Errorf("rdb: looking for spent sets: %w", err)
	}
	if len(sets) == 0 {
		return false, nil
	}
	_, left, err := b.purge(ctx, q, sets[0], wire.StateAggregating, script.MaxBatch)
	return err == nil && (left > 0 || len(sets) > 1), err
}

// ArchiveInvalid archives a staged task that cannot be decoded. It reports false if the task is not
// in the set any more.
func (b *Broker) ArchiveInvalid(ctx context.Context, set *StagedSet, id string) (archived bool, err error) {
	q := b.Queue(set.Queue)
	archive := b.ArchiveLimits(set.Queue)
	c := script.NewCall(archiveInvalidScript, 3+4).Key(set.Key, q.Archived, q.Keys.Task(id)).
		Arg(id, q.TaskPrefix, archive.Tasks, archive.Seconds())
	b.Run(ctx, c)
	r := c.Read()
	code := r.Code()
	return r.Err() == nil && code == script.CodeOK, r.Err()
}

// ExtendSets extends the ownership of sets of one queue by two minutes.
func (b *Broker) ExtendSets(ctx context.Context, queue string, keys []string) error {
	q := b.Queue(queue)
	for len(keys) > 0 {
		part := keys[:min(len(keys), script.MaxBatch)]
		keys = keys[len(part):]
		c := script.NewCall(extendSetsScript, 2+len(part)).Key(q.AggregationSets).Arg(script.Seconds(setTimeout))
		// A key of another type must not block the other sets.
		for _, key := range part {
			c.Arg(key)
		}
		b.Run(ctx, c)
		if _, err := c.Int(); err != nil {
			return err
		}
	}
	return nil
}

// ReturnToGroup returns the tasks of the caller's own sets of one queue to their groups.
func (b *Broker) ReturnToGroup(ctx context.Context, queue string, sets []*StagedSet) error {
	keys := make([]string, len(sets))
	for i, s := range sets {
		keys[i] = s.Key
	}
	_, err := b.returnSets(ctx, queue, keys, true)
	return err
}

// ReturnExpiredSets returns at most 500 tasks of sets whose aggregator has not extended them for
// two minutes to their groups. It reports whether there are more.
func (b *Broker) ReturnExpiredSets(ctx context.Context, queue string) (more bool, err error) {
	keys, err := b.Client().ZRange(ctx, b.Queue(queue).Keys.AggregationSets(), 0, maxStaged-1).Result()
	if err != nil {
		return false, fmt.Errorf("rdb: looking for aggregation sets: %w", err)
	}
	return b.returnSets(ctx, queue, keys, false)
}

// returnSets empties the caller's own sets, or returns at most 500 tasks of expired ones.
func (b *Broker) returnSets(ctx context.Context, queue string, keys []string, own bool) (more bool, err error) {
	for len(keys) > 0 {
		part := keys[:min(len(keys), maxStaged)]
		keys = keys[len(part):]
		left, err := b.returnBatch(ctx, queue, part, own)
		if script.Refused(err) && len(part) > 1 {
			// A key of another type must not block the other sets.
			for _, key := range part {
				alone, failed := b.returnSets(ctx, queue, []string{key}, own)
				more, err = more || alone, errors.Join(err, failed)
			}
			return more, err
		}
		if err != nil {
			return false, err
		}
		if !own {
			return len(left) > 0, nil
		}
		keys = append(keys, left...)
	}
	return false, nil
}

// returnBatch makes one call. It returns the keys of the expired or own sets that still have tasks.
func (b *Broker) returnBatch(ctx context.Context, queue string, keys []string, own bool) (left []string, err error) {
	q := b.Queue(queue)
	c := script.NewCall(returnToGroupScript, 3+2+4*len(keys)).Key(q.AggregationSets, q.Groups, q.GroupsDue)
	names := make([]any, 0, len(keys))
	next := make([]string, 0, len(keys))
	for _, key := range keys {
		group, ok := wire.GroupOf(q.Keys, key)
		if !ok {
			continue // not a set of this queue
		}
		names = append(names, group)
		next = append(next, q.Keys.AggregationSet(group, uuid.NewString()))
		c.Key(key, q.Keys.Group(group), next[len(next)-1])
	}
	if len(names) == 0 {
		return nil, nil
	}
	b.Run(ctx, c.Arg(script.Flag(own), q.TaskPrefix).Arg(names...))
	r := c.Read()
	for _, key := range next {
		if r.Int() > 0 {
			left = append(left, key)
		}
	}
	return left, r.Err()
}

// SweepGroups scans the names of all groups of a queue, and adds those to the index that are
// missing or due too late by the rule, because processes of another library filled them. One server
// does so per interval.
func (b *Broker) SweepGroups(ctx context.Context, queue string, rule GroupRule, interval time.Duration) error {
	q := b.Queue(queue)
	mine, err := b.Client().SetNX(ctx, q.Keys.GroupsSwept(), 1, interval).Result()
	if err != nil || !mine {
		return wrapSweep(err)
	}
	within := script.Seconds(rule.Grace)
	if rule.MaxDelay > 0 {
		within = min(within, script.Seconds(rule.MaxDelay))
	}
	for cursor := uint64(0); ; {
		names, next, err := b.Client().SScan(ctx, q.Keys.Groups(), cursor, "", script.MaxBatch/2).Result()
		if err != nil {
			return wrapSweep(err)
		}
		for len(names) > 0 {
			part := names[:min(len(names), script.MaxBatch)]
			names = names[len(part):]
			c := script.NewCall(indexGroupsScript, 1+3+len(part)).Key(q.GroupsDue).Arg(q.GroupPrefix, within+1, rule.MaxSize)
			for _, name := range part {
				c.Arg(name)
			}
			b.Run(ctx, c)
			if _, err := c.Int(); err != nil {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

func wrapSweep(err error) error {
	if err != nil {
		return fmt.Errorf("rdb: looking for groups: %w", err)
	}
	return nil
}
