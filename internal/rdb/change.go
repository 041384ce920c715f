package rdb

import (
	"context"
	"fmt"

	"github.com/asynq-go/asynq/internal/wire"
)

// change is a transition that is asked for from outside, of tasks that nobody works on.
type change struct {
	script *script
	queue  *queue
	from   wire.State // that the IDs were found in; 0: they were given
	group  string     // where from is StateAggregating
	set    string     // key of the group or aggregation set that is to be emptied, whatever its tasks say of their group
	at     int64      // reschedule: unix seconds

	before func(context.Context) error // called before each page of a collection, if set
}

// RunTasks moves tasks that are scheduled, in retry, archived or completed to pending, or back to their group if they have one, and
// those that wait in a group to pending. What is first in ids runs first. The answers stand in the order of the IDs: CodeOK,
// CodeAlready (a second mention), CodeGone, CodeActive, CodeStaged, CodeUnfit (pending already), CodeBroken (what is under the key of
// the task's group is no group), and with an error CodeUnknown for the tasks that it keeps from being told.
//
// The IDs may be any number: a script call has at most 500, and fewer where they must be searched for in a long list.
func (b *Broker) RunTasks(ctx context.Context, queue string, ids []string) ([]Code, error) {
	return b.change(ctx, &change{script: runTasksScript, queue: b.queues.get(queue)}, ids)
}

// ArchiveTasks moves tasks that are pending, scheduled, in retry or waiting in a group to the archive, and trims it. It answers as
// RunTasks does; CodeUnfit says that a task is archived already or completed.
func (b *Broker) ArchiveTasks(ctx context.Context, queue string, ids []string) ([]Code, error) {
	return b.change(ctx, &change{script: archiveTasksScript, queue: b.queues.get(queue)}, ids)
}

// DeleteTasks deletes tasks in any state but active, with their locks. It answers as RunTasks does.
func (b *Broker) DeleteTasks(ctx context.Context, queue string, ids []string) ([]Code, error) {
	return b.change(ctx, &change{script: deleteTasksScript, queue: b.queues.get(queue)}, ids)
}

// RunTasksIn is RunTasks of tasks that were found in a state, and of a group if one is given: CodeLost says that a task is in another
// state now, and was left alone.
func (b *Broker) RunTasksIn(ctx context.Context, queue string, from wire.State, group string, ids []string) ([]Code, error) {
	return b.change(ctx, &change{script: runTasksScript, queue: b.queues.get(queue), from: from, group: group}, ids)
}

// ArchiveTasksIn is ArchiveTasks of tasks that were found in a state, as RunTasksIn.
func (b *Broker) ArchiveTasksIn(ctx context.Context, queue string, from wire.State, group string, ids []string) ([]Code, error) {
	return b.change(ctx, &change{script: archiveTasksScript, queue: b.queues.get(queue), from: from, group: group}, ids)
}

// DeleteTasksIn is DeleteTasks of tasks that were found in a state, as RunTasksIn.
func (b *Broker) DeleteTasksIn(ctx context.Context, queue string, from wire.State, group string, ids []string) ([]Code, error) {
	return b.change(ctx, &change{script: deleteTasksScript, queue: b.queues.get(queue), from: from, group: group}, ids)
}

// RescheduleTasks gives tasks another time, in unix seconds: those in retry stay there, all others are scheduled. It answers as
// RunTasks does.
func (b *Broker) RescheduleTasks(ctx context.Context, queue string, ids []string, at int64) ([]Code, error) {
	return b.change(ctx, &change{script: rescheduleTasksScript, queue: b.queues.get(queue), at: at}, ids)
}

// change makes the transition of the tasks, in calls of a bounded size.
func (b *Broker) change(ctx context.Context, ch *change, ids []string) ([]Code, error) {
	codes := make([]Code, len(ids))
	for i := range codes {
		codes[i] = CodeUnknown
	}
	from := b.senders.take()
	defer b.senders.put(from)
	for start := 0; start < len(ids); start += maxBatch {
		end := min(start+maxBatch, len(ids))
		if err := b.changeSome(ctx, ch, from, ids[start:end], codes[start:end]); err != nil {
			return codes, err
		}
	}
	return codes, nil
}

// changeSome makes the transition of at most 500 tasks. Those that a call had no time for go into the next one: in between Redis serves
// others.
func (b *Broker) changeSome(ctx context.Context, ch *change, from *sender, ids []string, codes []Code) error {
	left := make([]int, len(ids))
	for i := range left {
		left[i] = i
	}
	for {
		some := make([]string, len(left))
		for i, at := range left {
			some[i] = ids[at]
		}
		from.seq++
		c := ch.call(some, from, b.archiveSize)
		b.run(ctx, c)
		answers, err := c.codes(len(some))
		if err != nil {
			return err
		}
		var again []int
		for i, code := range answers {
			if code == CodeLater {
				again = append(again, left[i])
			} else {
				codes[left[i]] = code
			}
		}
		if len(again) == 0 {
			return nil
		}
		if len(again) == len(left) {
			return fmt.Errorf("rdb: %s: the script puts all tasks off", ch.script.name) // a defect of ours; else an endless loop
		}
		left = again
	}
}

// call makes the call for these tasks.
func (ch *change) call(ids []string, from *sender, archiveSize int) *call {
	q := ch.queue
	c := newCall(ch.script, 17+2*len(ids)).key(q.pending, q.scheduled, q.retry, q.archived)
	if ch.script != archiveTasksScript {
		c.key(q.completed)
	}
	c.key(q.groups)
	if ch.script == runTasksScript {
		c.key(q.groupsDue)
	}
	if ch.script == runTasksScript || ch.script == rescheduleTasksScript {
		c.key(q.marker)
	}
	c.key(from.record(q, 0))
	for _, id := range ids {
		c.key(q.keys.Task(id))
	}
	c.arg(q.groupPrefix, from.seq)
	if ch.script == rescheduleTasksScript {
		c.arg(ch.at)
	} else {
		state := ""
		if ch.from != 0 {
			state = ch.from.String()
		}
		c.arg(state, ch.group)
	}
	switch ch.script {
	case archiveTasksScript:
		c.arg(q.taskPrefix, archiveSize, int64(archiveAge.Seconds()))
	case deleteTasksScript:
		c.arg(ch.set)
	}
	for _, id := range ids {
		c.arg(id)
	}
	return c
}
