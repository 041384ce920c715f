package asynq

import (
	"context"
	"fmt"
	"iter"

	"github.com/asynq-go/asynq/internal/rdb"
)

// DiagnoseOptions says what Inspector.Diagnose looks at, and whether it mends what it finds.
type DiagnoseOptions struct {
	Queues []string // empty: all that there are, also those that no list names
	Repair bool
}

// Finding is something in Redis that is not as every process on it expects.
type Finding struct {
	Queue    string
	TaskID   string // empty: it is about no task
	Key      string // the key that is wrong, or that something is missing from
	Kind     FindingKind
	Detail   string // what is wrong
	Repair   string // what mends it; empty: nothing that a program could do
	Repaired bool   // that was done
}

// String is the finding as one line.
func (f *Finding) String() string {
	line := string(f.Kind) + ": " + f.Key
	if f.TaskID != "" {
		line += fmt.Sprintf(": task %q", f.TaskID)
	}
	line += ": " + f.Detail
	if f.Repaired {
		line += " (repaired: " + f.Repair + ")"
	}
	return line
}

// FindingKind says what is wrong.
//
//	kind                     what is wrong                                 what Repair does
//	active-without-lease     no recoverer would ever see the task          a lease of 30 s: a living worker extends it, or the
//	                                                                       task is recovered as from a crash when it ends
//	lease-without-active     a lease of a task that is not active          struck out
//	orphan-task              a task that no collection holds               back to the collection of its state: pending; scheduled
//	                                                                       and retry, due now; archived; completed; its group; an
//	                                                                       active one with a lease as above
//	orphan-lock              a uniqueness lock whose holder is gone, or    deleted
//	                         does not know of the lock
//	dangling-id              a collection's ID that has no task, or one    struck out
//	                         whose state or group is another
//	in-two-collections       the same, and the ID is also where it         struck out of the wrong collection; a list keeps the
//	                         belongs; or it is in a list twice             entry that is taken first
//	invalid-state            a state that there is none of                 that of the collection that holds the task; if none
//	                                                                       does, it is set aside in the archive
//	unreadable-message       a task that is yet to run cannot be read      set aside in the archive
//	missing-group-name       a group with tasks that no aggregator sees    the name is put into the set of groups
//	empty-group-name         a name of a group without tasks               struck out
//	missing-aggregation-set  tasks staged where no aggregator looks        listed, due to be taken back
//	stale-aggregation-set    an aggregation set without tasks is listed    struck out
//	unregistered-queue       a queue with tasks that no list names         its name is put into the set of all queues
//	wrong-type               a key of another type than it must have       nothing: look at it, and delete or rename it
type FindingKind string

// The kinds of findings. The table at FindingKind explains them.
const (
	FindingActiveWithoutLease    FindingKind = "active-without-lease"
	FindingLeaseWithoutActive    FindingKind = "lease-without-active"
	FindingOrphanTask            FindingKind = "orphan-task"
	FindingOrphanLock            FindingKind = "orphan-lock"
	FindingDanglingID            FindingKind = "dangling-id"
	FindingInTwoCollections      FindingKind = "in-two-collections"
	FindingInvalidState          FindingKind = "invalid-state"
	FindingUnreadableMessage     FindingKind = "unreadable-message"
	FindingMissingGroupName      FindingKind = "missing-group-name"
	FindingEmptyGroupName        FindingKind = "empty-group-name"
	FindingMissingAggregationSet FindingKind = "missing-aggregation-set"
	FindingStaleAggregationSet   FindingKind = "stale-aggregation-set"
	FindingUnregisteredQueue     FindingKind = "unregistered-queue"
	FindingWrongType             FindingKind = "wrong-type"
)

// Diagnose looks for what is broken in Redis, and with opts.Repair mends it. It may run while servers and clients are at work, also
// those of other libraries on the same keys: what it reports is confirmed by a script that sees the task at one moment, and the
// same script mends it. Repairs lose nothing that can still run.
//
// Two findings may have the same cause: a task whose ID is in the wrong collection, and so not in the right one, is both a
// dangling-id and an orphan-task. A repair whose reply was lost on the way is made, and not reported.
//
// An error comes with a nil finding, and says what could not be looked at: a queue, or a node of a Cluster. The diagnosis then goes on
// with the rest. It ends when ctx does, with its cause as the last error, or with the loop over it.
//
// It takes Redis about one short command for each ID in a collection and five for each task, no script more than about 2 ms, and
// the caller's memory eight bytes for each ID in pending and active. There are three exceptions, in which a script passes over a
// whole list, at about 10 to 25 ms for a million IDs: where an ID is in it twice, once for each; where IDs are struck out of its
// middle, once for up to 200; and where a pending task that the list lacks has no pending_since, once for each.
func (i *Inspector) Diagnose(ctx context.Context, opts DiagnoseOptions) iter.Seq2[*Finding, error] {
	return func(yield func(*Finding, error) bool) {
		if ctx == nil {
			yield(nil, errNilContext)
			return
		}
		for _, queue := range opts.Queues {
			if err := validateQueueName(queue); err != nil {
				yield(nil, err)
				return
			}
		}
		for f, err := range untilEach(ctx, i.broker.Diagnose(ctx, rdb.Diagnosis{Queues: opts.Queues, Repair: opts.Repair})) {
			var out *Finding
			if err != nil {
				err = brokerError(err)
			} else {
				out = &Finding{
					Queue: f.Queue, TaskID: f.TaskID, Key: f.Key, Kind: FindingKind(f.Kind),
					Detail: f.Detail, Repair: f.Repair, Repaired: f.Repaired,
				}
			}
			if !yield(out, err) {
				return
			}
		}
	}
}
