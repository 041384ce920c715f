package rdb

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// GroupRule says when the tasks of a group are to be aggregated.
type GroupRule struct {
	Grace    time.Duration // after its newest task
	MaxDelay time.Duration // after its oldest task; 0: as long as others come
	MaxSize  int           // tasks in one aggregation at most, and enough of them to wait no longer; 0: any number
}

// setTimeout is for how long nobody but the holder touches an aggregation set. Existing processes set as much.
const setTimeout = 2 * time.Minute

// maxStaged bounds the groups that one call looks at, and the sets that it makes.
const maxStaged = 100

// StagedSet is tasks that were taken out of a group, to be aggregated into one.
type StagedSet struct {
	Queue string
	Group string
	Key   string
	Size  int
	Tasks []StagedTask // by ReadSets

	Err error // the last call of ReadSets for it did not go through
}

// StagedTask is one task of a set.
type StagedTask struct {
	ID      string
	Message []byte // nil: no such task is aggregating
}

// Stage takes the tasks of groups that are due into sets, at most 100 of them. next is how long it is until a group is due;
// negative: there is none, as far as is known (see SweepGroups).
func (b *Broker) Stage(ctx context.Context, queue string, rule GroupRule) (sets []*StagedSet, next time.Duration, err error) {
	q := b.queues.get(queue)
	name := uuid.NewString()
	c := newCall(stageScript, 3+7).key(q.groupsDue, q.groups, q.aggregationSets).
		arg(q.groupPrefix, name[:len(name)-3], seconds(rule.Grace), seconds(rule.MaxDelay), rule.MaxSize, seconds(setTimeout), maxStaged)
	c.once = true // repeated, it would stage other groups, and the first ones would be forgotten
	b.run(ctx, c)
	if c.err != nil {
		return nil, 0, fmt.Errorf("rdb: %s: %w", c.script.name, c.err)
	}
	reply, ok := c.reply.([]any)
	if !ok || len(reply)%3 != 1 {
		return nil, 0, c.malformed()
	}
	ms, ok := reply[0].(int64)
	if !ok {
		return nil, 0, c.malformed()
	}
	for i := 1; i < len(reply); i += 3 {
		group, ok1 := reply[i].(string)
		key, ok2 := reply[i+1].(string)
		size, ok3 := reply[i+2].(int64)
		if !ok1 || !ok2 || !ok3 {
			return nil, 0, c.malformed()
		}
		sets = append(sets, &StagedSet{Queue: queue, Group: group, Key: key, Size: int(size)})
	}
	return sets, milliseconds(ms), nil
}

// ReadSets reads the tasks of sets of one queue, in as many calls as their sizes ask for.
func (b *Broker) ReadSets(ctx context.Context, queue string, sets []*StagedSet) {
	q := b.queues.get(queue)
	for len(sets) > 0 {
		c := newCall(readSetsScript, 2+3*len(sets))
		args := make([]any, 0, 2*len(sets))
		var asked []*StagedSet
		budget := maxBatch
		for _, s := range sets {
			n := min(s.Size-len(s.Tasks), budget)
			if n <= 0 && len(asked) > 0 {
				break
			}
			budget -= n
			c.key(s.Key)
			args = append(args, len(s.Tasks), n)
			asked = append(asked, s)
		}
		c.arg(q.taskPrefix, maxBatchBytes).arg(args...)
		b.run(ctx, c)
		if err := c.readInto(asked); err != nil {
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

// readInto adds the tasks that a call of read_sets.lua brought to their sets.
func (c *call) readInto(sets []*StagedSet) error {
	if c.err != nil {
		return fmt.Errorf("rdb: %s: %w", c.script.name, c.err)
	}
	reply, ok := c.reply.([]any)
	if !ok || len(reply) != len(sets) {
		return c.malformed()
	}
	for i, s := range sets {
		tasks, ok := reply[i].([]any)
		if !ok || len(tasks)%2 != 0 {
			return c.malformed()
		}
		if i == 0 && len(tasks) == 0 {
			s.Size = len(s.Tasks) // the set is smaller than it was: it fell back to its group
		}
		for j := 0; j < len(tasks); j += 2 {
			t := StagedTask{}
			t.ID, _ = tasks[j].(string)
			if msg, ok := tasks[j+1].(string); ok {
				t.Message = []byte(msg)
			}
			s.Tasks = append(s.Tasks, t)
		}
	}
	return nil
}

// HandOver makes a task in place of those of a set, and says afterwards whether it did.
type HandOver struct {
	Set  *StagedSet
	Task NewTask

	Code Code // CodeOK, CodeConflict, CodeDuplicate; CodeLost: the tasks were handed over, or are back in their group
	Err  error
}

// spentTTL is how long a queue that was deleted by another library's process keeps what PurgeSpent would delete.
const spentTTL = 24 * time.Hour

// HandOver makes the tasks that sets of one queue were aggregated into, and deletes the tasks that they were made of, in one
// transition for each set, of which each is named once.
func (b *Broker) HandOver(ctx context.Context, queue string, items []*HandOver) {
	q := b.queues.get(queue)
	for len(items) > 0 {
		n, tasks, bytes := 0, 0, 0
		for n < len(items) && n < maxStaged && (n == 0 || tasks+items[n].Set.Size <= maxBatch && bytes+len(items[n].Task.Message) <= maxBatchBytes) {
			tasks += items[n].Set.Size
			bytes += len(items[n].Task.Message)
			n++
		}
		part := items[:n]
		items = items[n:]
		b.handOver(ctx, q, part)
		if n > 1 && Refused(part[0].Err) {
			for i := range part { // one of them meets a key of another type: the others must not wait for somebody to mend it
				b.handOver(ctx, q, part[i:i+1])
			}
		}
	}
}

func (b *Broker) handOver(ctx context.Context, q *queue, items []*HandOver) {
	c := newCall(handOverScript, 7+3+8*len(items)).
		key(q.aggregationSets, q.spentSets, q.pending, q.marker, q.scheduled, q.groups, q.groupsDue)
	for _, h := range items {
		c.key(h.Set.Key, q.keys.Task(h.Task.ID))
	}
	c.arg(q.taskPrefix, q.groupPrefix, seconds(spentTTL))
	for _, h := range items {
		c.arg(h.Task.ID, h.Task.Message, h.Task.Lock, max(h.Task.LockTTL, 1), h.Task.ProcessAt, h.Task.Group)
	}
	b.run(ctx, c)
	codes, err := c.codes(len(items))
	for i, h := range items {
		if h.Err = err; err == nil {
			h.Code = codes[i]
		}
	}
}

// PurgeSpent deletes the tasks of sets that were too large for HandOver to do it, at most 500 of them. It reports whether there
// are more.
func (b *Broker) PurgeSpent(ctx context.Context, queue string) (more bool, err error) {
	q := b.queues.get(queue)
	sets, err := b.client.ZRange(ctx, q.keys.SpentSets(), 0, 1).Result()
	if err != nil {
		return false, fmt.Errorf("rdb: looking for spent sets: %w", err)
	}
	if len(sets) == 0 {
		return false, nil
	}
	c := newCall(purgeSpentScript, 4).key(q.spentSets, sets[0]).arg(q.taskPrefix, maxBatch)
	b.run(ctx, c)
	left, err := c.int()
	return err == nil && (left > 0 || len(sets) > 1), err
}

// SetAsideStaged puts a task of a set that cannot be read into the archive.
func (b *Broker) SetAsideStaged(ctx context.Context, set *StagedSet, id string) error {
	q := b.queues.get(set.Queue)
	c := newCall(setAsideStagedScript, 3+4).key(set.Key, q.archived, q.keys.Task(id)).
		arg(id, q.taskPrefix, b.archiveSize, int64(archiveAge.Seconds()))
	b.run(ctx, c)
	_, err := c.int()
	return err
}
