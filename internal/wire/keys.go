package wire

import (
	"crypto/md5" //nolint:gosec // The wire format fixes MD5 as the digest of a payload; nothing is secured by it.
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DefaultNamespace is the namespace if the user sets none.
const DefaultNamespace Namespace = "asynq"

// Namespace is the first part of every key. Namespaces on the same Redis do not see each other.
type Namespace string

// Queues is the key of the SET of queue names.
func (n Namespace) Queues() string { return string(n) + ":queues" }

// Servers is the key of the ZSET of the keys of live servers, scored by their expiry in Unix
// seconds.
func (n Namespace) Servers() string { return string(n) + ":servers" }

// Workers is the key of the ZSET of the worker keys of live servers, scored by their expiry in Unix
// seconds.
func (n Namespace) Workers() string { return string(n) + ":workers" }

// Schedulers is the key of the ZSET of the keys of live schedulers, scored by their expiry in Unix
// seconds.
func (n Namespace) Schedulers() string { return string(n) + ":schedulers" }

// Cancel is the pub/sub channel for cancellations: see CancelMessage.
func (n Namespace) Cancel() string { return string(n) + ":cancel" }

// Wake is the pub/sub channel that announces, on a Cluster, the keys of markers that were set.
func (n Namespace) Wake() string { return string(n) + ":wake" }

// Server is the key of the STRING with the ServerInfo of a server.
func (n Namespace) Server(p Process) string { return string(n) + ":servers:{" + p.String() + "}" }

// ServerPoller is the key of a STRING in the slot of a key of Server. It holds the Poller of a
// ServerInfo that stands for a worker that polls for tasks. An extension; it has a TTL.
func ServerPoller(server string) string { return server + ":poller" }

// ServerPatterns is the key of a STRING in the slot of a key of Server: the patterns of the types
// that the server handles, see EncodePatterns. It does not exist if the server does not know them.
// An extension; it has a TTL.
func ServerPatterns(server string) string { return server + ":patterns" }

// ServerPartitionsKey is the key of a STRING in the slot of a key of Server: its ServerPartitions.
// It does not exist if no queue of the server has partitions. An extension; it has a TTL.
func ServerPartitionsKey(server string) string { return server + ":partitions" }

// ServerControlKey is the key of a STRING in the slot of a key of Server: its ServerControl. It
// does not exist for processes that know no commands. An extension; it has a TTL.
func ServerControlKey(server string) string { return server + ":control" }

// ServerCommands is the key of a LIST in the slot of a key of Server: the ServerCommands that the
// server has not executed, oldest first. An extension; it has a TTL.
func ServerCommands(server string) string { return server + ":commands" }

// ServerReplies is the key of a HASH in the slot of a key of Server: the error of each executed
// command by its ID, "" if there was none. An extension; it has a TTL.
func ServerReplies(server string) string { return server + ":replies" }

// ServerWorkers is the key of the HASH of a server's WorkerInfo by task ID. If tasks of several
// queues have the same ID, see WorkerField.
func (n Namespace) ServerWorkers(p Process) string {
	return string(n) + ":workers:{" + p.String() + "}"
}

// WorkerField returns the field of a task in ServerWorkers if another task has its ID as the field.
// Other libraries only read the values.
func WorkerField(id, queue string) string { return id + "\x00" + queue }

// Scheduler is the key of the LIST of a scheduler's SchedulerEntry messages.
func (n Namespace) Scheduler(p Process) string {
	return string(n) + ":schedulers:{" + p.String() + "}"
}

// SchedulerHistory is the key of the ZSET of an entry's SchedulerEnqueueEvent messages, scored by
// the time of the enqueue in Unix seconds.
func (n Namespace) SchedulerHistory(entryID string) string {
	return string(n) + ":scheduler_history:" + entryID
}

// SchedulerCreations is the key of a HASH in the slot of a key of Scheduler: the SchedulerCreation
// of each entry, by entry ID. It exists because SchedulerEntry lacks some fields. An extension; it
// has a TTL.
func SchedulerCreations(scheduler string) string { return scheduler + ":creations" }

// SchedulerGroup is the key of the HASH with the leader of a scheduler group. An extension; it has
// a TTL.
func (n Namespace) SchedulerGroup(group string) string {
	return string(n) + ":scheduler_groups:{" + group + "}"
}

// HealthMutes is the key of the HASH of muted causes: the Mute of each, by the ID of the cause. An
// extension; it has a TTL.
func (n Namespace) HealthMutes() string { return string(n) + ":health_mutes" }

// SchedulerPauses is the key of the HASH of paused scheduler entries: the start of each pause in
// Unix seconds, by the pause ID of the entry (see SchedulerCreation). An extension without a TTL: a
// pause lasts until it is ended.
func (n Namespace) SchedulerPauses() string { return string(n) + ":scheduler_pauses" }

// ValidateQueueName returns an error if name is not a valid name of a queue.
func ValidateQueueName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return errors.New("queue name must not be empty")
	case SpreadsKeys(name):
		return fmt.Errorf("queue name %q must not begin with a closing brace", name)
	}
	return nil
}

// SpreadsKeys reports whether the keys of a queue with this name would be spread over the slots of
// a cluster: keys contain the name in braces, and Redis ignores an empty {}.
func SpreadsKeys(name string) bool { return strings.HasPrefix(name, "}") }

// Queue returns the keys of a queue.
func (n Namespace) Queue(name string) Queue {
	return Queue{Name: name, prefix: string(n) + ":{" + name + "}:"}
}

// Queue has the keys of one queue. They share a hash tag, and so one slot of a Cluster.
type Queue struct {
	Name   string
	prefix string
}

// Prefix is the prefix of all keys of the queue.
func (q Queue) Prefix() string { return q.prefix }

// Pending is the LIST of the IDs of pending tasks. Tasks enter on the left and leave on the right.
func (q Queue) Pending() string { return q.prefix + "pending" }

// Active is the LIST of the IDs of active tasks.
func (q Queue) Active() string { return q.prefix + "active" }

// Lease is the ZSET of the IDs of active tasks, scored by the expiry of their lease in Unix
// seconds.
func (q Queue) Lease() string { return q.prefix + "lease" }

// Scheduled is the ZSET of the IDs of scheduled tasks, scored by when they are due in Unix seconds.
func (q Queue) Scheduled() string { return q.prefix + "scheduled" }

// Retry is the ZSET of the IDs of tasks to retry, scored by when they are due in Unix seconds.
func (q Queue) Retry() string { return q.prefix + "retry" }

// Archived is the ZSET of the IDs of archived tasks, scored by when they were archived in Unix
// seconds.
func (q Queue) Archived() string { return q.prefix + "archived" }

// Completed is the ZSET of the IDs of completed tasks, scored by when they expire in Unix seconds.
func (q Queue) Completed() string { return q.prefix + "completed" }

// Paused is a STRING that exists while the queue is paused. Its value is the start of the pause in
// Unix seconds.
func (q Queue) Paused() string { return q.prefix + "paused" }

// Groups is the SET of the names of groups that have tasks.
func (q Queue) Groups() string { return q.prefix + "groups" }

// GroupPrefix is the prefix of the keys of groups. The name of the group follows.
func (q Queue) GroupPrefix() string { return q.prefix + "g:" }

// Group is the ZSET of the IDs of a group's tasks, scored by when they were added in Unix seconds.
func (q Queue) Group(name string) string { return q.GroupPrefix() + name }

// AggregationSets is the ZSET of the keys of staged sets, scored by their deadline in Unix seconds.
func (q Queue) AggregationSets() string { return q.prefix + "aggregation_sets" }

// AggregationSet is the ZSET of the IDs of the tasks staged for one aggregation of a group.
func (q Queue) AggregationSet(group, id string) string { return q.Group(group) + ":" + id }

// Processed is the counter of all attempts.
func (q Queue) Processed() string { return q.prefix + "processed" }

// Failed is the counter of all failed attempts.
func (q Queue) Failed() string { return q.prefix + "failed" }

// ProcessedOn is the counter of the attempts on the UTC day of t.
func (q Queue) ProcessedOn(t time.Time) string { return q.prefix + "processed:" + day(t) }

// FailedOn is the counter of the failed attempts on the UTC day of t.
func (q Queue) FailedOn(t time.Time) string { return q.prefix + "failed:" + day(t) }

// TaskPrefix is the prefix of the keys of tasks. The ID follows.
func (q Queue) TaskPrefix() string { return q.prefix + "t:" }

// Task is the HASH of a task.
func (q Queue) Task(id string) string { return q.prefix + "t:" + id }

// UniquePrefix is the prefix of the keys of all unique locks.
func (q Queue) UniquePrefix() string { return q.prefix + "unique:" }

// Unique is the STRING that is the unique lock of a task with this type and payload. A nil payload
// differs from an empty one: its key ends after the type.
func (q Queue) Unique(typename string, payload []byte) string {
	if payload == nil {
		return q.UniquePrefix() + typename + ":"
	}
	sum := md5.Sum(payload) //nolint:gosec // See the import.
	return q.UniquePrefix() + typename + ":" + hex.EncodeToString(sum[:])
}

// UniqueKey is the STRING that is the unique lock of tasks with a key of their own. No type and
// payload have the same lock: that of Unique ends with a colon, or with a colon and a digest.
func (q Queue) UniqueKey(key string) string { return q.UniquePrefix() + key + ":key" }

// ThrottleLock is the STRING that is the unique lock of the folded task of a throttle. It differs
// from all locks of Unique and UniqueKey.
func (q Queue) ThrottleLock(key string) string { return q.UniquePrefix() + key + ":throttle" }

// Throttle is the STRING with the end of the window of a throttle in Unix milliseconds, a space,
// and the ID of the task that began the window. An extension; it has a TTL.
func (q Queue) Throttle(key string) string { return q.prefix + "throttle:" + key }

// Marker is the wake marker: a LIST that has one element if the queue may have a task that no idle
// server has noticed. Idle servers block on it. An extension; it has a TTL.
func (q Queue) Marker() string { return q.prefix + "marker" }

// Unblock is the LIST with which a server ends its own wait for markers. An extension; it has a
// TTL.
func (q Queue) Unblock(process string) string { return q.prefix + "unblock:" + process }

// IdempotencyRecord is the STRING with the reply to a client's last call, which a repeated call
// returns. An extension; it has a TTL.
func (q Queue) IdempotencyRecord(caller string) string { return q.prefix + "answer:" + caller }

// IdempotencyKey is the STRING with the ID of the first task with an idempotency key. An extension;
// it has a TTL.
func (q Queue) IdempotencyKey(key string) string { return q.prefix + "once:" + key }

// GroupsDue is the ZSET of group names, scored by when an aggregator must check them in Unix
// seconds. An extension; it has a TTL. A sweep finds groups that are missing from it.
func (q Queue) GroupsDue() string { return q.prefix + "groups_due" }

// GroupsSwept is a STRING that exists until the next sweep is due. An extension; it has a TTL.
func (q Queue) GroupsSwept() string { return q.prefix + "groups_swept" }

// ConsumedSets is the ZSET of the keys of consumed aggregation sets whose tasks are being deleted,
// scored by when they were consumed in Unix seconds. An extension; it has a TTL, and so do the sets
// once they are in it.
func (q Queue) ConsumedSets() string { return q.prefix + "spent_sets" }

// ArchiveLimits is the STRING with the ArchiveLimits of the queue, if its servers configure other
// limits than the default. An extension; it has a TTL.
func (q Queue) ArchiveLimits() string { return q.prefix + "archive_limits" }

// HeldTasks is the ZSET of the tasks that partitions hold back, in lanes: members are a partition
// key, a NUL byte, a sequence number of 16 digits and the ID, with equal scores. An extension; it
// has a TTL.
func (q Queue) HeldTasks() string { return q.prefix + "partitions:held" }

// ReadyPartitions is the ZSET of partitions with held tasks, scored by their virtual time. An
// extension; it has a TTL.
func (q Queue) ReadyPartitions() string { return q.prefix + "partitions:ready" }

// BlockedPartitions is the ZSET of partitions with held tasks that a limit blocks, scored by when
// to check it in Unix milliseconds; +inf if the partition is paused. An extension; it has a TTL.
func (q Queue) BlockedPartitions() string { return q.prefix + "partitions:blocked" }

// RunningTasks is the ZSET of the active tasks of partitions: members are a partition key, a NUL
// byte and the ID, with equal scores. An extension; it has a TTL.
func (q Queue) RunningTasks() string { return q.prefix + "partitions:running" }

// PartitionRates is the ZSET of partitions with a rate, scored by the theoretical arrival time of
// their next task in Unix microseconds. An extension; it has a TTL.
func (q Queue) PartitionRates() string { return q.prefix + "partitions:rates" }

// PartitionClock is the HASH with the virtual time of a queue with partitions, its last sequence
// number, and the virtual times of blocked partitions. An extension; it has a TTL.
func (q Queue) PartitionClock() string { return q.prefix + "partitions:clock" }

// PartitionSettings is the HASH of the settings of single partitions, by key. An extension without
// a TTL: they last until they are removed.
func (q Queue) PartitionSettings() string { return q.prefix + "partitions:settings" }

// GroupOf returns the group of an aggregation set, given its key. ok is false if the key is not
// that of a set of the queue.
func GroupOf(q Queue, set string) (group string, ok bool) {
	rest, ok := strings.CutPrefix(set, q.GroupPrefix())
	i := strings.LastIndexByte(rest, ':')
	if !ok || i < 0 {
		return "", false
	}
	return rest[:i], true
}

// Tick is the STRING with the last tick of a scheduler entry that enqueues to the queue, and its
// outcome. An extension; it has a TTL.
func (q Queue) Tick(entryID string) string { return q.prefix + "tick:" + entryID }

// Import is the STRING with one bit for each imported task of the import with this name. An
// extension; it has a TTL.
func (q Queue) Import(name string) string { return q.prefix + "import:" + name }

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Process identifies a server or a scheduler among all processes on the same Redis.
type Process struct {
	Host string
	PID  int
	ID   string
}

// String returns host:pid:id, as in keys.
func (p Process) String() string { return p.Host + ":" + strconv.Itoa(p.PID) + ":" + p.ID }

// ParseProcess returns the process of a key of Server or Scheduler; set is Servers or Schedulers.
// The ID of a worker that polls a Receiver has a colon.
func ParseProcess(set, key string) (Process, bool) {
	text, ok := strings.CutPrefix(key, set+":{")
	if !ok {
		return Process{}, false
	}
	if text, ok = strings.CutSuffix(text, "}"); !ok {
		return Process{}, false
	}
	parts := strings.Split(text, ":")
	for n := 1; n < len(parts)-1; n++ {
		if pid, err := strconv.Atoi(parts[n]); err == nil {
			return Process{Host: strings.Join(parts[:n], ":"), PID: pid, ID: strings.Join(parts[n+1:], ":")}, true
		}
	}
	return Process{}, false
}
