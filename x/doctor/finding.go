package doctor

import (
	"context"
	"fmt"

	"github.com/asynq-go/asynq/internal/script"
)

// Finding is a broken invariant. If one slot has all keys involved, a script has confirmed it.
type Finding struct {
	Queue    string // empty for a flow without tasks
	TaskID   string // empty if the finding is not about a task
	Key      string // the key that is invalid or incomplete
	Kind     Kind
	Detail   string // the problem, a sentence without a full stop
	Repair   string // the repair, an imperative without a full stop; empty if there is no automatic one
	Repaired bool   // whether the repair was made

	Flow string // ID of the flow that the finding is about, or empty
	Node string // a node of the flow; empty if the finding is about all of it
}

// String formats the finding as one line.
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

// Kind names a broken invariant.
//
//	kind                     problem                                       repair
//	active-without-lease     an active task without a lease, which would   a lease of 30 s: a running worker extends it, or the
//	                         never be recovered                            task is recovered as after a crash
//	lease-without-active     a lease of a task that is not active          the lease is removed
//	orphan-task              a task that is in no collection               back to the collection of its state: pending; scheduled
//	                                                                       and retry, due now; archived; completed; its group; an
//	                                                                       active one with a lease as above
//	orphan-lock              a uniqueness lock whose holder does not       deleted
//	                         exist or does not reference it
//	dangling-id              an ID in a collection without a task, or      the ID is removed
//	                         with a task of another state or group
//	in-two-collections       the same, and the ID is also in its own       removed from the wrong collection; a list keeps the
//	                         collection; or it is in a list twice          entry that is fetched first
//	invalid-state            a state that does not exist                   the state of the collection that holds the task; the
//	                                                                       task is archived if none does
//	unreadable-message       the message of a task that has not run        archived
//	                         cannot be decoded
//	missing-group-name       a group with tasks that aggregators cannot    the name is added to the set of groups
//	                         find
//	empty-group-name         the name of a group without tasks             the name is removed
//	missing-aggregation-set  staged tasks that aggregators cannot find     the set is listed, and its tasks return to their group
//	stale-aggregation-set    a listed aggregation set without tasks        the set is removed from the list
//	missing-place            a held task without a place in its            due now: servers sort it into its partition again
//	                         partition, which would wait for a day
//	stale-place              a place in a partition for a task that is     the place is removed
//	                         not held there
//	missing-partition        a partition with held tasks that is neither   it is ready again
//	                         ready nor blocked, so servers miss it
//	unserved-partitions      tasks that have been held for a minute, and   none: configure QueueConfig.Partitions, or run them with
//	                         no running server of the queue has            Inspector.RunAllScheduledTasks, which also runs
//	                         partitions: they wait for up to a day         scheduled tasks
//	unregistered-queue       a queue with tasks that is not in the set     the name is added to the set of queues
//	                         of queues
//	flow-stuck               a flow that runs, but no server will           servers check it at once; tasks that a failover has
//	                         continue it                                   lost are created again
//	                         a flow that has been blocked for an hour      none: flow.Inspector.Retry or Skip
//	                         a batch that has been open for a day, and     none: close it, or cancel the flow
//	                         whose tasks have ended
//	flow-orphan              tasks of a flow that have not ended, and the   none: they run, but nothing starts after them
//	                         flow does not exist
//	wrong-type               a key of the wrong type                       none: inspect it, and delete or rename it
//	unhandled-type           waiting tasks of a type that no running       none: start a server that handles it, or delete them
//	                         server of the queue handles
type Kind string

// The kinds of findings. The table at Kind explains them.
const (
	ActiveWithoutLease    Kind = "active-without-lease"
	LeaseWithoutActive    Kind = "lease-without-active"
	OrphanTask            Kind = "orphan-task"
	OrphanLock            Kind = "orphan-lock"
	DanglingID            Kind = "dangling-id"
	InTwoCollections      Kind = "in-two-collections"
	InvalidState          Kind = "invalid-state"
	UnreadableMessage     Kind = "unreadable-message"
	MissingGroupName      Kind = "missing-group-name"
	EmptyGroupName        Kind = "empty-group-name"
	MissingAggregationSet Kind = "missing-aggregation-set"
	StaleAggregationSet   Kind = "stale-aggregation-set"
	MissingPlace          Kind = "missing-place"
	StalePlace            Kind = "stale-place"
	MissingPartition      Kind = "missing-partition"
	UnservedPartitions    Kind = "unserved-partitions"
	UnregisteredQueue     Kind = "unregistered-queue"
	WrongType             Kind = "wrong-type"
	UnhandledType         Kind = "unhandled-type"
	FlowStuck             Kind = "flow-stuck"
	FlowOrphan            Kind = "flow-orphan"
)

// sound is the result of a script for a suspect that is not broken.
const sound = "sound"

// findings has the texts of the other results, which lua/lib/findings.lua explains. Those with
// verbs, and empty ones, depend on the suspect.
var findings = map[string]Finding{
	"dangling": {
		Kind: DanglingID, Detail: "the collection contains the ID, but the task does not exist", Repair: "remove the ID from the collection",
	},
	"misplaced": {
		Kind: DanglingID, Detail: "the collection contains the ID of a task with another state or group",
		Repair: "remove the ID from the collection",
	},
	"twice": {
		Kind: InTwoCollections, Detail: "the list contains the ID more than once",
		Repair: "keep the entry that is fetched first and remove the others",
	},
	"orphan": {Kind: OrphanTask, Detail: "its state is %q, but it is not in that collection"},
	"unleased": {
		Kind: ActiveWithoutLease, Detail: "it is active but has no lease",
		Repair: "add a lease; if no worker extends it, the task is recovered when it expires",
	},
	"unreadable": {Kind: UnreadableMessage, Repair: "archive it"},
	"stateless": {
		Kind: InvalidState, Detail: "its state %.40q is not a task state",
		Repair: "set the state of its collection, or archive it if it is in none",
	},
	"wrong type": {Kind: WrongType, Detail: "the key of a task must be a hash"},
	"orphan lock": {
		Kind: OrphanLock, Detail: "the lock's holder does not exist or does not reference the lock", Repair: "delete the lock",
	},
	"unnamed": {
		Kind: MissingGroupName, Detail: "group %[1]q has tasks, but the set of groups does not contain it",
		Repair: "add its name to the set of groups",
	},
	"empty name": {Kind: EmptyGroupName, Detail: "group %[1]q has no tasks", Repair: "remove its name from the set of groups"},
	"unlisted": {
		Kind:   MissingAggregationSet,
		Detail: "%[2]s has tasks of group %[3]q, but the list of aggregation sets does not contain it",
		Repair: "add it to the list of aggregation sets; its tasks return to their group",
	},
	"placeless": {
		Kind: MissingPlace, Detail: "it is held, but has no place in its partition",
		Repair: "make it due now; servers sort it into its partition again",
	},
	"stale place": {
		Kind: StalePlace, Detail: "a partition has a place for the task, which is not held there", Repair: "remove the place",
	},
	"unserved": {
		Kind: MissingPartition, Detail: "partition %.200q has held tasks, but is neither ready nor blocked", Repair: "make it ready again",
	},
	"empty set": {Kind: StaleAggregationSet, Detail: "%[2]s has no tasks", Repair: "remove it from the list of aggregation sets"},
}

// result is a script's result for one suspect.
type result struct {
	finding  string
	repaired int // 0: not repaired
}

// describe returns the finding of a result, nil if the suspect is sound.
func (r result) describe(key, id string) *Finding {
	f, found := findings[r.finding]
	if !found {
		return nil
	}
	f.Key, f.TaskID, f.Repaired = key, id, r.repaired > 0
	return &f
}

// send sends a call with a result for each of n suspects.
func (d *diagnosis) send(ctx context.Context, c *script.Call, n int) ([]result, error) {
	d.conn.Run(ctx, c)
	r := c.Read()
	results := make([]result, n)
	for i := range results {
		results[i] = result{finding: r.Text(), repaired: int(r.Int())}
		if _, known := findings[results[i].finding]; !known && results[i].finding != sound {
			r.Fail()
		}
	}
	return results, r.Err()
}
