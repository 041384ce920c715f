package inspect

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Verb is what a Change does with tasks.
type Verb string

// The verbs.
const (
	Run        Verb = "run"        // tasks that are scheduled, in retry, archived, completed or waiting in a group
	Archive    Verb = "archive"    // tasks that are pending, scheduled, in retry, completed or waiting in a group
	Delete     Verb = "delete"     // tasks in any state but active, with their locks
	Reschedule Verb = "reschedule" // tasks in any state but active
)

// Change is a change of tasks that no worker holds.
//
// Run moves tasks to pending, or to their group if they have one and do not wait in it. Archive
// trims the archive. Reschedule leaves tasks in retry there; all others become scheduled.
type Change struct {
	Verb  Verb
	Queue string
	From  wire.State // the state in which the IDs were found; 0: any
	Group string     // their group, if From is StateAggregating
	At    int64      // Reschedule: unix seconds
	Early uint16     // as in rdb.NewTask
	Done  *Changed   // counts the changed tasks, if set
}

// Changed counts the changed tasks. It may be read during the change.
type Changed struct {
	tasks, discarded atomic.Int64
}

// Tasks returns how many tasks were changed.
func (c *Changed) Tasks() int { return int(c.tasks.Load()) }

// Discarded returns how many tasks were deleted because the archive was full.
func (c *Changed) Discarded() int { return int(c.discarded.Load()) }

// Change changes tasks in the order of ids. The result has one code per ID, in order: CodeOK,
// CodeAlready (a duplicate ID), CodeGone, CodeLost (the task has left the state), CodeActive,
// CodeStaged, CodeUnfit (pending or archived already), CodeBroken (the key of its group is of
// another type), and with an error CodeUnknown for tasks without a result.
//
// Any number of IDs is allowed: a script call has at most 500, and fewer if they must be searched
// in a long list.
func (b *Inspector) Change(ctx context.Context, ch Change, ids []string) ([]script.Code, error) {
	codes := make([]script.Code, len(ids))
	for i := range codes {
		codes[i] = script.CodeUnknown
	}
	q := b.Queue(ch.Queue)
	from := q.AcquireSequence()
	defer q.ReleaseSequence(ctx, from)
	archive := wire.DefaultArchiveLimits
	if ch.Verb == Archive {
		var err error
		if _, archive, err = b.Archived(ctx, ch.Queue); err != nil {
			return codes, err
		}
	}
	for start := 0; start < len(ids); start += script.MaxBatch {
		end := min(start+script.MaxBatch, len(ids))
		if err := b.changeBatch(ctx, &ch, archive, from, ids[start:end], codes[start:end]); err != nil {
			return codes, err
		}
	}
	return codes, nil
}

// changeBatch changes at most 500 tasks. It repeats the call for tasks that exceeded the search
// budget of a call, so that Redis serves other clients in between.
func (b *Inspector) changeBatch(
	ctx context.Context, ch *Change, archive wire.ArchiveLimits, from *script.Sequence, ids []string, codes []script.Code,
) error {
	left := make([]int, len(ids))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		from.Next(time.Now())
		c := b.changeCall(ch, archive, from, ids, left)
		c.Late = true // so that the number of changed tasks is exact
		b.Run(ctx, c)
		r := c.ReadCodes(len(left) + 2)
		if err := r.Err(); err != nil {
			return err
		}
		changed, stale := 0, false
		var again []int
		for _, at := range left {
			code := r.Code()
			switch code {
			case script.CodeLater:
				again = append(again, at)
				continue
			case script.CodeOK:
				changed++
			case script.CodeStale:
				stale = true // and so are the digits
			}
			codes[at] = code
		}
		if ch.Done != nil {
			ch.Done.tasks.Add(int64(changed))
			if !stale {
				ch.Done.discarded.Add(int64(36*r.Code() + r.Code()))
			}
		}
		if len(again) == len(left) {
			return errors.New("inspect: change: the script defers all tasks") // a bug; avoid an endless loop
		}
		left = again
	}
	return nil
}

// changeCall returns the call for the tasks with these indexes.
func (b *Inspector) changeCall(ch *Change, archive wire.ArchiveLimits, from *script.Sequence, ids []string, indexes []int) *script.Call {
	q := b.Queue(ch.Queue)
	c := script.NewCall(changeScript, 10+9+len(indexes)).
		Key(q.Pending, q.Scheduled, q.Retry, q.Archived, q.Completed, q.Groups, q.GroupsDue, q.Marker, from.Record,
			q.Keys.HeldTasks())
	for _, i := range indexes {
		c.Key(q.Keys.Task(ids[i]))
	}
	state := ""
	if ch.From != 0 {
		state = ch.From.String()
	}
	return c.Arg(string(ch.Verb), from.Number, q.TaskPrefix, q.GroupPrefix, state, ch.Group, b.broker.Due(ch.At, ch.Early),
		archive.Tasks, archive.Seconds())
}

// updateTries limits how often a message is read again after a concurrent change.
const updateTries = 10

// UpdateMessage changes the message of a scheduled task. edit may be called several times, each
// time with the current message. It returns ErrTaskGone, ErrTaskActive, ErrTaskUnfit (not
// scheduled), or the error of edit. The task keeps its lock, whatever the new message says.
func (b *Inspector) UpdateMessage(ctx context.Context, queue, id string, edit func(*wire.TaskMessage) error) error {
	q := b.Queue(queue)
	for range updateTries {
		values, err := b.Client().HMGet(ctx, q.Keys.Task(id), wire.FieldState, wire.FieldMessage).Result()
		if err != nil {
			return fmt.Errorf("inspect: reading a task: %w", err)
		}
		state, _ := values[0].(string)
		old, _ := values[1].(string)
		switch state {
		case "":
			return script.ErrTaskGone
		case wire.StateActive.String():
			return script.ErrTaskActive
		case wire.StateScheduled.String():
		default:
			return script.ErrTaskUnfit
		}
		msg, err := wire.DecodeTaskMessage([]byte(old))
		if err != nil {
			return fmt.Errorf("inspect: task %q of queue %q: %w", id, queue, err)
		}
		if err := edit(msg); err != nil {
			return err
		}
		text, err := msg.Encode()
		if err != nil {
			return fmt.Errorf("inspect: task %q of queue %q: %w", id, queue, err)
		}
		c := script.NewCall(updateMessageScript, 1+2).Key(q.Keys.Task(id)).Arg(old, text)
		b.Run(ctx, c)
		r := c.Read()
		code := r.Code()
		if err := r.Err(); err != nil {
			return err
		}
		if err := code.Err(); !errors.Is(err, script.ErrTaskChanged) {
			return err
		}
	}
	return script.ErrTaskChanged
}
