package wire

import (
	"crypto/md5" //nolint:gosec // The wire format fixes MD5 as the digest of a payload; nothing is secured by it.
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// DefaultNamespace is the first part of every key where the user chose no other.
const DefaultNamespace Namespace = "asynq"

// Namespace is the first part of every key. Two namespaces on one Redis see nothing of each other.
type Namespace string

// Queues is the key of the SET with the names of all queues.
func (n Namespace) Queues() string { return string(n) + ":queues" }

// Servers is the key of the ZSET of the living servers' keys, scored by expiry in unix seconds.
func (n Namespace) Servers() string { return string(n) + ":servers" }

// Workers is the key of the ZSET of the living servers' worker keys, scored by expiry in unix seconds.
func (n Namespace) Workers() string { return string(n) + ":workers" }

// Schedulers is the key of the ZSET of the living schedulers' keys, scored by expiry in unix seconds.
func (n Namespace) Schedulers() string { return string(n) + ":schedulers" }

// Cancel is the pub/sub channel on which the ID of a task to cancel is published.
func (n Namespace) Cancel() string { return string(n) + ":cancel" }

// Server is the key of one server's ServerInfo.
func (n Namespace) Server(p Process) string { return string(n) + ":servers:{" + p.String() + "}" }

// ServerWorkers is the key of the HASH with one server's WorkerInfo per task ID.
func (n Namespace) ServerWorkers(p Process) string {
	return string(n) + ":workers:{" + p.String() + "}"
}

// Scheduler is the key of the LIST of one scheduler's SchedulerEntries.
func (n Namespace) Scheduler(p Process) string {
	return string(n) + ":schedulers:{" + p.String() + "}"
}

// SchedulerHistory is the key of the ZSET of the SchedulerEnqueueEvents of the entry with this ID, scored by when it
// enqueued in unix seconds.
func (n Namespace) SchedulerHistory(entryID string) string {
	return string(n) + ":scheduler_history:" + entryID
}

// SchedulerCreations is the key of the HASH that belongs to a key of Scheduler, in the same slot: all that the entries are made from,
// by entry ID, because SchedulerEntry has no fields for some of it. Ours alone, so it has a TTL.
func SchedulerCreations(scheduler string) string { return scheduler + ":creations" }

// SchedulerGroup is the key of the HASH that says which scheduler of a group leads. Ours alone, so it has a TTL.
func (n Namespace) SchedulerGroup(group string) string {
	return string(n) + ":scheduler_groups:{" + group + "}"
}

// Queue returns the keys of one queue.
func (n Namespace) Queue(name string) Queue {
	return Queue{Name: name, prefix: string(n) + ":{" + name + "}:"}
}

// Queue spells the keys of one queue. They share a hash tag, so that all of them live in one slot of a cluster.
type Queue struct {
	Name   string
	prefix string
}

// Prefix is what all keys of the queue begin with.
func (q Queue) Prefix() string { return q.prefix }

// Pending is the LIST of the IDs that wait for a worker: added on the left, taken from the right.
func (q Queue) Pending() string { return q.prefix + "pending" }

// Active is the LIST of the IDs in process.
func (q Queue) Active() string { return q.prefix + "active" }

// Lease is the ZSET of the IDs in process, scored by the end of their lease in unix seconds.
func (q Queue) Lease() string { return q.prefix + "lease" }

// Scheduled is the ZSET of the IDs to process later, scored by that time in unix seconds.
func (q Queue) Scheduled() string { return q.prefix + "scheduled" }

// Retry is the ZSET of the IDs to process again, scored by that time in unix seconds.
func (q Queue) Retry() string { return q.prefix + "retry" }

// Archived is the ZSET of the IDs that are kept but not processed, scored by when they came there in unix seconds.
func (q Queue) Archived() string { return q.prefix + "archived" }

// Completed is the ZSET of the finished IDs that are kept, scored by when they may go in unix seconds.
func (q Queue) Completed() string { return q.prefix + "completed" }

// Paused is the STRING that exists while the queue is paused; its value is since when in unix seconds.
func (q Queue) Paused() string { return q.prefix + "paused" }

// Groups is the SET of the names of the groups that hold tasks.
func (q Queue) Groups() string { return q.prefix + "groups" }

// GroupPrefix followed by a group's name is the key of that group.
func (q Queue) GroupPrefix() string { return q.prefix + "g:" }

// Group is the ZSET of the IDs in a group, scored by when they were added in unix seconds.
func (q Queue) Group(name string) string { return q.GroupPrefix() + name }

// AggregationSets is the ZSET of the keys of the sets in aggregation, scored by when they are reclaimed in unix seconds.
func (q Queue) AggregationSets() string { return q.prefix + "aggregation_sets" }

// AggregationSet is the ZSET of the tasks staged for one aggregation of a group.
func (q Queue) AggregationSet(group, id string) string { return q.Group(group) + ":" + id }

// Processed is the count of all attempts ever made.
func (q Queue) Processed() string { return q.prefix + "processed" }

// Failed is the count of all failed attempts ever made.
func (q Queue) Failed() string { return q.prefix + "failed" }

// ProcessedOn is the count of the attempts made on the UTC day of t.
func (q Queue) ProcessedOn(t time.Time) string { return q.prefix + "processed:" + day(t) }

// FailedOn is the count of the failed attempts made on the UTC day of t.
func (q Queue) FailedOn(t time.Time) string { return q.prefix + "failed:" + day(t) }

// TaskPrefix followed by an ID is the key of that task.
func (q Queue) TaskPrefix() string { return q.prefix + "t:" }

// Task is the HASH that holds a task.
func (q Queue) Task(id string) string { return q.prefix + "t:" + id }

// UniquePrefix is what the keys of all locks begin with.
func (q Queue) UniquePrefix() string { return q.prefix + "unique:" }

// Unique is the lock that a task with this type and payload holds while it must stay the only one. A nil payload is told
// from an empty one: the key of the first ends after the type.
func (q Queue) Unique(typename string, payload []byte) string {
	if payload == nil {
		return q.UniquePrefix() + typename + ":"
	}
	sum := md5.Sum(payload) //nolint:gosec // See the import.
	return q.UniquePrefix() + typename + ":" + hex.EncodeToString(sum[:])
}

// Marker is the LIST that holds one element when a task may wait in the queue and no idle server has been told yet: idle
// servers block on it. Ours alone, so it has a TTL.
func (q Queue) Marker() string { return q.prefix + "marker" }

// Rouse is the LIST with which a server ends its own wait for markers. Ours alone, so it has a TTL.
func (q Queue) Rouse(process string) string { return q.prefix + "rouse:" + process }

// Answer is the STRING with the answer of a sender's last call, by which a repeated call is recognised. Ours alone, so it has a TTL.
func (q Queue) Answer(sender string) string { return q.prefix + "answer:" + sender }

// GroupsDue is the ZSET of the names of groups, scored by when an aggregator is to look at them in unix seconds. Ours alone, so it has
// a TTL; groups that it lacks are found by a sweep.
func (q Queue) GroupsDue() string { return q.prefix + "groups_due" }

// GroupsSwept is the STRING that exists for as long as no sweep is due. Ours alone, so it has a TTL.
func (q Queue) GroupsSwept() string { return q.prefix + "groups_swept" }

// SpentSets is the ZSET of the keys of aggregation sets whose tasks were aggregated and are being deleted, scored by since when in
// unix seconds. Ours alone, so it has a TTL, and so have the sets from then on.
func (q Queue) SpentSets() string { return q.prefix + "spent_sets" }

// GroupOf tells the group of the aggregation set under a key. It reports false where the key is that of no set of the queue.
func GroupOf(q Queue, set string) (group string, ok bool) {
	rest, ok := strings.CutPrefix(set, q.GroupPrefix())
	i := strings.LastIndexByte(rest, ':')
	if !ok || i < 0 {
		return "", false
	}
	return rest[:i], true
}

// Tick is the STRING with the last tick of a scheduler entry whose tasks go into the queue, and what became of it. Ours alone, so it
// has a TTL.
func (q Queue) Tick(entryID string) string { return q.prefix + "tick:" + entryID }

// Import is the STRING with a bit for each task of the import of this name that was made. Ours alone, so it has a TTL.
func (q Queue) Import(name string) string { return q.prefix + "import:" + name }

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Process names a server or a scheduler among all processes on the same Redis.
type Process struct {
	Host string
	PID  int
	ID   string
}

// String is the name as it stands in keys: host:pid:id.
func (p Process) String() string { return p.Host + ":" + strconv.Itoa(p.PID) + ":" + p.ID }
