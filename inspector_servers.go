package asynq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/lifecycle"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// ServerInfo is the state of a running server, or of a worker that uses a Receiver (such as the
// queue service), as published within the last few seconds.
type ServerInfo struct {
	ID   string // unique ID of the server
	Host string // host of the server
	PID  int    // ID of its process

	// Worker is the name of a worker that uses one or several Receivers; see Receiver.ReceiveAs. It
	// is empty for a server. If the name has the form "web-1:4711", Host and PID are taken from it;
	// otherwise Host is the name and PID is 0.
	Worker string

	// LastPoll is the worker's last request for tasks. It is zero for a server.
	LastPoll time.Time

	// Concurrency, Queues and StrictPriority are those of the server's Config, as changed since by
	// SetConcurrency or SetServerConcurrency, and without the PausedQueues. For a worker, Queues
	// are the queues that it has recently received from, and Concurrency is the number of tasks
	// that it holds and requests.
	Concurrency    int
	Queues         map[string]int
	StrictPriority bool

	// PausedQueues are the queues that are paused on this server, sorted: see
	// Inspector.PauseServerQueue and Server.PauseQueue.
	PausedQueues []string

	// RemoteControl is whether the server executes commands, such as Inspector.QuietServer. It is
	// false for workers, for servers with Config.DisableRemoteControl, and for those of other
	// libraries.
	RemoteControl bool

	// Patterns are the patterns of the server's ServeMux: a type is handled if it begins with one.
	// Nil means that the types are unknown, as those of workers, of servers whose Handler is
	// neither a ServeMux nor has a method Patterns() []string, of servers with more than 1,000
	// patterns, and of other libraries. See Handles.
	Patterns []string

	// Partitions are the QueueConfig.Partitions of the server, for its queues that have them, with
	// the defaults filled in: a Weight of 1, a Burst of 1, and a Concurrency of 1 if Ordered. For a
	// worker, they are those of its Receivers.
	Partitions map[string]PartitionConfig

	Started       time.Time     // when the server started
	Status        string        // "active", or "stopped" after Server.Stop and during a shutdown
	ActiveWorkers []*WorkerInfo // active tasks, oldest first
}

// Handles reports whether the server handles tasks of a type. It is true if the types that the
// server handles are unknown (see Patterns), and false for a nil ServerInfo.
func (s *ServerInfo) Handles(typename string) bool {
	return s != nil && (s.Patterns == nil || wire.MatchesPattern(s.Patterns, typename))
}

// WorkerInfo is the state of an active task as its server publishes it.
type WorkerInfo struct {
	TaskID      string    // ID of the task
	TaskType    string    // type of the task
	TaskPayload []byte    // payload, nil if larger than 10,000 bytes; GetTaskInfo returns those
	Queue       string    // queue of the task
	Started     time.Time // when the attempt began
	Deadline    time.Time // deadline of the attempt
}

// Servers returns the running servers, oldest first. A crashed server is listed for up to ten more
// seconds. Records that cannot be decoded are skipped.
func (i *Inspector) Servers() ([]*ServerInfo, error) {
	infos, workers, err := i.inspector.Servers(i.ctx)
	if err != nil {
		return nil, brokerError(err)
	}
	var servers []*ServerInfo
	pollers := make(map[string]*ServerInfo)
	for _, s := range infos {
		info := &ServerInfo{
			ID: s.ServerID, Host: s.Host, PID: s.PID, Worker: s.Poller.Name, LastPoll: s.Poller.LastPoll, Concurrency: s.Concurrency,
			Queues: s.Queues, StrictPriority: s.StrictPriority, Started: s.StartTime, Status: s.Status,
			Patterns: s.Patterns,
		}
		if s.Control != nil {
			info.PausedQueues, info.RemoteControl = s.Control.Paused, !s.Control.Refuses
		}
		for queue, p := range s.Partitions {
			if info.Partitions == nil {
				info.Partitions = make(map[string]PartitionConfig, len(s.Partitions))
			}
			info.Partitions[queue] = partitionConfig(p)
		}
		if same := pollers[info.Worker]; same != nil {
			same.merge(info)
			continue
		}
		if info.ActiveWorkers = workersOf(workers[s.ServerID]); info.Worker != "" {
			info.ActiveWorkers = heldOnce(info.ActiveWorkers)
			info.Concurrency = max(info.Concurrency, len(info.ActiveWorkers))
			pollers[info.Worker] = info
		}
		servers = append(servers, info)
	}
	slices.SortFunc(servers, func(a, b *ServerInfo) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return servers, nil
}

// merge adds the record that another Receiver has published for the same worker.
func (s *ServerInfo) merge(other *ServerInfo) {
	if other.Started.Before(s.Started) {
		s.Started = other.Started
	}
	if other.LastPoll.After(s.LastPoll) {
		s.LastPoll = other.LastPoll
	}
	if s.Queues == nil {
		s.Queues = make(map[string]int, len(other.Queues))
	}
	for queue, weight := range other.Queues {
		s.Queues[queue] = max(s.Queues[queue], weight)
	}
	if s.Partitions == nil {
		s.Partitions = other.Partitions
	}
	maps.Copy(s.Partitions, other.Partitions)
	s.Concurrency = max(s.Concurrency, other.Concurrency)
	if s.Status != other.Status && other.Status == lifecycle.Active.String() {
		s.Status = other.Status
	}
}

// heldOnce removes duplicate entries of a task: one Receiver may have issued the lease and another
// one extended it.
func heldOnce(workers []*WorkerInfo) []*WorkerInfo {
	type task struct{ queue, id string }
	seen := make(map[task]bool, len(workers))
	return slices.DeleteFunc(workers, func(w *WorkerInfo) bool {
		t := task{w.Queue, w.TaskID}
		again := seen[t]
		seen[t] = true
		return again
	})
}

func workersOf(infos []*wire.WorkerInfo) []*WorkerInfo {
	workers := make([]*WorkerInfo, len(infos))
	for n, w := range infos {
		workers[n] = &WorkerInfo{
			TaskID: w.TaskID, TaskType: w.TaskType, TaskPayload: w.Payload, Queue: w.Queue, Started: w.StartTime, Deadline: w.Deadline,
		}
	}
	slices.SortFunc(workers, func(a, b *WorkerInfo) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Queue, b.Queue))
	})
	return workers
}

// ClusterNode is a node of a Redis Cluster.
type ClusterNode struct {
	ID   string // ID of the node in the cluster
	Addr string // address of the node as host:port
}

// ClusterKeySlot returns the hash slot of all keys of a queue. It returns an error if Redis is not
// a cluster.
func (i *Inspector) ClusterKeySlot(queue string) (int64, error) {
	slot, err := i.inspector.Slot(i.ctx, queue)
	return slot, brokerError(err)
}

// ClusterNodes returns the nodes of a Redis Cluster that serve a queue, the master first. It
// returns an error if Redis is not a cluster.
func (i *Inspector) ClusterNodes(queue string) ([]*ClusterNode, error) {
	found, err := i.inspector.Nodes(i.ctx, queue)
	return converted(found, err, func(n redis.ClusterNode) *ClusterNode { return &ClusterNode{ID: n.ID, Addr: n.Addr} })
}

// SchedulerEntry is the state of a periodic task.
type SchedulerEntry struct {
	ID   string    // ID of the entry
	Spec string    // schedule of the task
	Task *Task     // task to enqueue
	Opts []Option  // options of the task, without those that another library formats differently
	Next time.Time // when the task is enqueued next, zero if never
	Prev time.Time // when the task was last due and enqueued, zero if never

	// Paused is whether the entry is paused: see Inspector.PauseSchedulerEntry. Next is then the
	// next tick to be skipped.
	Paused bool
}

// SchedulerEnqueueEvent records that a periodic task was enqueued.
type SchedulerEnqueueEvent struct {
	TaskID     string    // ID of the task that was enqueued
	EnqueuedAt time.Time // when the task was enqueued
}

// SchedulerEntries returns the entries of all running schedulers, as last published (see
// SchedulerOpts.HeartbeatInterval). An entry of a group is listed once; entries without an ID are
// all listed.
func (i *Inspector) SchedulerEntries() ([]*SchedulerEntry, error) {
	published, err := i.broker.SchedulerEntries(i.ctx)
	if err != nil {
		return nil, brokerError(err)
	}
	paused, err := i.pausedEntries(published)
	if err != nil {
		return nil, err
	}
	var entries []*SchedulerEntry
	seen := make(map[string]bool, len(published))
	for _, p := range published {
		if p.Entry.ID != "" && seen[p.Entry.ID] {
			continue // also published by the previous leader of the group, which crashed recently
		}
		seen[p.Entry.ID] = true
		e := newSchedulerEntry(p)
		_, e.Paused = paused[pauseID(p)]
		entries = append(entries, e)
	}
	return entries, nil
}

// newSchedulerEntry describes an entry from its published record.
func newSchedulerEntry(p rdb.PublishedEntry) *SchedulerEntry {
	e := &SchedulerEntry{ID: p.Entry.ID, Spec: p.Entry.Spec, Next: p.Entry.Next, Prev: p.Entry.Prev}
	if c, err := wire.DecodeSchedulerCreation(p.Creation); err == nil {
		e.Task, e.Opts = NewTaskWithHeaders(c.Type, c.Payload, c.Headers), parseOptions(c.Options)
	} else {
		e.Task, e.Opts = NewTask(p.Entry.TaskType, p.Entry.Payload), parseOptions(p.Entry.EnqueueOptions)
	}
	return e
}

// ListSchedulerEnqueueEvents returns the enqueue events of an entry, newest first. Redis keeps the
// last 1,000 events of each entry for 90 days after the last one. The result is empty if the entry
// is unknown.
func (i *Inspector) ListSchedulerEnqueueEvents(entryID string, opts ...ListOption) ([]*SchedulerEnqueueEvent, error) {
	w := windowOf(opts)
	found, err := i.broker.EnqueueEvents(i.ctx, entryID, w.offset, w.limit)
	return converted(found, err, func(e *wire.SchedulerEnqueueEvent) *SchedulerEnqueueEvent {
		return (*SchedulerEnqueueEvent)(e)
	})
}

// RunSchedulerEntry enqueues the task of an entry now, with its options, and adds an event to the
// entry's history. The schedule of the entry does not change. It returns ErrSchedulerEntryNotFound
// (errors.Is) if no running scheduler has the entry, or an error of Client.Enqueue. If it returns
// an error and a TaskInfo, the task was enqueued, but the event was not recorded.
func (i *Inspector) RunSchedulerEntry(ctx context.Context, entryID string) (*TaskInfo, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	entries, err := i.WithContext(ctx).SchedulerEntries()
	if err != nil {
		return nil, err
	}
	n := slices.IndexFunc(entries, func(e *SchedulerEntry) bool { return e.ID == entryID })
	if n < 0 || entryID == "" {
		return nil, fmt.Errorf("asynq: %w: %q", ErrSchedulerEntryNotFound, entryID)
	}
	e, now := entries[n], time.Now()
	made, err := newCreation(e.Task, e.Opts, i.broker.Keys, now)
	if err != nil {
		return nil, err
	}
	if i.broker.Enqueue(ctx, &made.order); made.order.Err != nil {
		return nil, publicError(made.order.Err)
	}
	event := rdb.EnqueueEvent{Entry: e.ID, TaskID: made.order.ID, At: now}
	if err := i.broker.RecordEnqueues(ctx, event); err != nil {
		return made.info(), fmt.Errorf("asynq: the task is enqueued, but not in the history: %w", err)
	}
	return made.info(), nil
}

// DeleteSchedulerGroup deletes the leadership record of a scheduler group that is no longer used.
// Without a call, Redis deletes it 30 days after the group last had a leader.
//
// It does nothing if there is no such group. While a scheduler leads the group, it deletes nothing
// and returns an error: shut down the schedulers of the group first.
func (i *Inspector) DeleteSchedulerGroup(ctx context.Context, group string) error {
	if ctx == nil {
		return errNilContext
	}
	deleted, err := i.broker.DeleteSchedulerGroup(ctx, group)
	if err != nil {
		return brokerError(err)
	}
	if !deleted {
		return fmt.Errorf("asynq: a scheduler leads the group %q: shut its schedulers down first; one that crashed leads for %v at most", group, groupLease)
	}
	return nil
}

// DeleteSchedulerHistory deletes the enqueue events of scheduler entries (see
// ListSchedulerEnqueueEvents). Without a call, Redis deletes them 90 days after the last event of
// an entry. Entries without a history are ignored.
//
// The record of an entry's last tick is stored with the queue of its tasks. It is deleted with the
// queue (DeleteQueue) or after 30 days.
func (i *Inspector) DeleteSchedulerHistory(ctx context.Context, entryIDs ...string) error {
	if ctx == nil {
		return errNilContext
	}
	return brokerError(i.broker.DeleteEnqueueEvents(ctx, entryIDs...))
}

// UnhandledType is a type of waiting tasks that no running server of their queue handles.
type UnhandledType struct {
	Queue string // name of the queue
	Type  string // type of the tasks
	Tasks int    // number of such tasks among those that were sampled
}

// unhandledSample is the number of tasks of a state that UnhandledTypes reads.
const unhandledSample = 100

// UnhandledTypes returns the types of tasks that wait in the queues, or in all queues with a server
// if none is named, although no running server of the queue handles them (see ServerInfo.Handles).
// It samples the first 100 tasks of a queue that are pending, in retry, and scheduled and due. The
// result is sorted by queue, and then by the number of tasks, highest first.
//
// Queues are omitted if they have no running server, if it is not known what one of them handles,
// or if they do not exist.
func (i *Inspector) UnhandledTypes(ctx context.Context, queues ...string) ([]UnhandledType, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	servers, err := i.WithContext(ctx).Servers()
	if err != nil {
		return nil, err
	}
	handled := handledTypes(servers)
	var all []UnhandledType
	for queue, patterns := range handled {
		if patterns == nil || len(queues) > 0 && !slices.Contains(queues, queue) {
			continue
		}
		found, err := i.unhandledTypes(ctx, queue, patterns)
		if err != nil && !errors.Is(err, ErrQueueNotFound) {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b UnhandledType) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Type, b.Type))
	})
	return all, nil
}

// handledTypes returns the patterns of all active servers of each queue, nil if one of them does
// not publish its own.
func handledTypes(servers []*ServerInfo) map[string][]string {
	handled := make(map[string][]string)
	for _, s := range servers {
		if s.Status != lifecycle.Active.String() {
			continue
		}
		for queue := range s.Queues {
			known, seen := handled[queue]
			if s.Patterns == nil || seen && known == nil {
				handled[queue] = nil
			} else {
				handled[queue] = append(append(make([]string, 0, len(known)+len(s.Patterns)), known...), s.Patterns...)
			}
		}
	}
	return handled
}

// unhandledTypes returns the types of tasks of a queue that no pattern matches.
func (i *Inspector) unhandledTypes(ctx context.Context, queue string, patterns []string) ([]UnhandledType, error) {
	counts := make(map[string]int)
	for _, state := range []wire.State{wire.StatePending, wire.StateRetry, wire.StateScheduled} {
		tasks, err := i.inspector.ListTasks(ctx, queue, state, "", 0, unhandledSample, false)
		if err != nil {
			return nil, brokerError(err)
		}
		now := time.Now()
		for _, found := range tasks {
			t := listedTask(found)
			due := state != wire.StateScheduled || !t.NextProcessAt.After(now)
			if due && t.Type != "" && !wire.MatchesPattern(patterns, t.Type) { // without a type, it is unreadable
				counts[t.Type]++
			}
		}
	}
	types := make([]UnhandledType, 0, len(counts))
	for typename, n := range counts {
		types = append(types, UnhandledType{Queue: queue, Type: typename, Tasks: n})
	}
	return types, nil
}
