package rdb

import (
	"context"
	"fmt"

	"github.com/asynq-go/asynq/internal/wire"
)

// What the scripts of a diagnosis find; lua/lib/findings.lua explains the numbers.
const (
	findingSound = iota
	findingDangling
	findingStray
	findingTwice
	findingOrphan
	findingUnleased
	findingUnreadable
	findingStateless
	findingWrongType
	findingOrphanLock
	findingUnnamed
	findingEmptyName
	findingUnlisted
	findingEmptySet
)

// verdict is what a script says of one suspect.
type verdict struct {
	found  int
	mended int // 0: it is as it was
}

// judge sends a call that answers with a verdict for each of n suspects.
func (d *doctor) judge(ctx context.Context, c *call, n int) ([]verdict, error) {
	d.b.run(ctx, c)
	ints, err := c.ints(2 * n)
	if err != nil {
		return nil, err
	}
	verdicts := make([]verdict, n)
	for i := range verdicts {
		verdicts[i] = verdict{found: int(ints[2*i]), mended: int(ints[2*i+1])}
	}
	return verdicts, nil
}

// suspect is a task that seems to be broken.
type suspect struct {
	id         string
	state      string // as it was seen, like what follows
	group      string
	since      string // pending_since; or "" so that the script searches pending
	unreadable string // SHA-1 of the message if it cannot be read
	why        string // and why it cannot
	score      string // where it belongs into archived or completed
}

// confirm judges suspects and reports what is broken. listed is how many entries the lists have that may have to be searched.
func (d *doctor) confirm(ctx context.Context, q *doctorQueue, suspects []suspect, listed int64) error {
	for len(suspects) > 0 {
		part := suspects[:min(len(suspects), doctorConfirm, max(1, d.b.scanBudget/int(listed+1)))]
		suspects = suspects[len(part):]
		k := q.keys
		c := newCall(diagnoseTasksScript, 15+6*len(part)).key(q.pending, q.active, q.lease, q.scheduled, q.retry,
			q.archived, q.completed, q.groups, q.aggregationSets, q.spentSets, q.groupsDue, q.marker)
		for _, s := range part {
			c.key(k.Task(s.id))
		}
		c.arg(flag(d.repair), q.groupPrefix, seconds(doctorLease))
		for _, s := range part {
			c.arg(s.id, s.state, s.unreadable, s.score, s.since)
		}
		verdicts, err := d.judge(ctx, c, len(part))
		if err != nil {
			return err
		}
		for i, v := range verdicts {
			f := describe(k, part[i], v.found)
			if f == nil {
				continue
			}
			f.Repaired = v.mended > 0
			if err := d.found(q, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// describe puts into words what is wrong with a task; nil: nothing.
func describe(k wire.Queue, s suspect, found int) *Finding {
	f := &Finding{Key: k.Task(s.id), TaskID: s.id}
	switch found {
	case findingOrphan:
		f.Kind = OrphanTask
		f.Detail = fmt.Sprintf("its state is %q and it is in no such collection", s.state)
		f.Repair = homecoming(s)
	case findingUnleased:
		f.Kind, f.Key = ActiveWithoutLease, k.Lease()
		f.Detail = "it is active and has no lease"
		f.Repair = "it gets a lease that a living worker extends; otherwise it is recovered as from a crash when the lease ends"
	case findingUnreadable:
		f.Kind = UnreadableMessage
		f.Detail = s.why
		f.Repair = "it is set aside in the archive"
	case findingStateless:
		f.Kind = InvalidState
		f.Detail = fmt.Sprintf("its state %.40q is none that a task can have", s.state)
		f.Repair = "it gets the state of the collection that it is in; if it is in none it goes to the archive"
	case findingWrongType:
		f.Kind = WrongType
		f.Detail = "the key of a task holds no hash"
	default:
		return nil
	}
	return f
}

// homecoming says where a task goes that was in no collection.
func homecoming(s suspect) string {
	if s.unreadable != "" {
		return "it cannot be read and goes to the archive"
	}
	switch s.state {
	case wire.StateActive.String():
		return "it becomes active again with a lease, after which it is recovered as from a crash"
	case wire.StateAggregating.String():
		if s.group == "" {
			return "it has no group and goes to pending"
		}
		return "it goes back to its group"
	case wire.StateScheduled.String(), wire.StateRetry.String():
		return "it goes back to " + s.state + ", due now"
	default:
		return "it goes back to " + s.state
	}
}

// misplaced reports an ID that a collection should not hold.
func (d *doctor) misplaced(ctx context.Context, q *doctorQueue, key, id string, v verdict) error {
	f := &Finding{Key: key, TaskID: id, Kind: DanglingID, Repaired: v.mended > 0, Repair: "the ID is struck out of the collection"}
	switch v.found {
	case findingDangling:
		f.Detail = "the collection holds the ID, and there is no such task"
	case findingStray:
		f.Detail = "the collection holds the ID of a task whose state or group is another"
		if key != q.keys.Lease() {
			also, err := d.atHome(ctx, q, id)
			if err != nil {
				return err
			}
			if also {
				f.Kind = InTwoCollections
				f.Detail = "the ID is in this collection and in that of its state"
				f.Repair = "the ID stays only in the collection that its state names"
			}
		}
	default:
		return nil
	}
	if key == q.keys.Lease() {
		f.Kind = LeaseWithoutActive
		f.Detail = "there is a lease and no active task"
		f.Repair = "the lease is struck out"
	}
	return d.found(q, f)
}
