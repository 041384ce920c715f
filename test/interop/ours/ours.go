// Package ours implements the interfaces of package side with the library of its import path. The
// other package has the same source with another import path, which a test verifies.
package ours

import (
	"context"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"

	"github.com/asynq-go/asynq/test/interop/side"
)

// Library is the library.
type Library struct{ Label string }

// Name returns the name of the library.
func (l Library) Name() string { return l.Label }

// Errors returns the errors of the library.
func (Library) Errors() side.Errors {
	return side.Errors{
		Duplicate: asynq.ErrDuplicateTask, IDConflict: asynq.ErrTaskIDConflict,
		QueueNotFound: asynq.ErrQueueNotFound, QueueNotEmpty: asynq.ErrQueueNotEmpty, TaskNotFound: asynq.ErrTaskNotFound,
		SkipRetry: asynq.SkipRetry, Revoke: asynq.RevokeTask,
	}
}

// Client returns a new instance.
func (Library) Client(addr string) side.Client {
	return client{asynq.NewClient(asynq.RedisClientOpt{Addr: addr})}
}

// Server returns a new instance.
func (Library) Server(addr string, cfg side.Config) side.Server {
	c := asynq.Config{
		Concurrency:              cfg.Concurrency,
		Queues:                   make(map[string]int, len(cfg.Queues)),
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return cfg.RetryDelay },
		TaskCheckInterval:        20 * time.Millisecond,
		DelayedTaskCheckInterval: 50 * time.Millisecond,
		GroupGracePeriod:         time.Second,
		JanitorInterval:          time.Second,
		ShutdownTimeout:          5 * time.Second,
		LogLevel:                 asynq.FatalLevel,
	}
	for _, queue := range cfg.Queues {
		c.Queues[queue] = 1
	}
	if cfg.Aggregate != nil {
		c.GroupAggregator = asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
			payloads := make([][]byte, len(tasks))
			for i, t := range tasks {
				payloads[i] = t.Payload()
			}
			return newTask(cfg.Aggregate(group, payloads))
		})
	}
	return server{asynq.NewServer(asynq.RedisClientOpt{Addr: addr}, c)}
}

// Inspector returns a new instance.
func (Library) Inspector(addr string) side.Inspector {
	return inspector{asynq.NewInspector(asynq.RedisClientOpt{Addr: addr})}
}

// Scheduler returns a new instance.
func (Library) Scheduler(addr string) side.Scheduler {
	return scheduler{asynq.NewScheduler(asynq.RedisClientOpt{Addr: addr}, &asynq.SchedulerOpts{
		HeartbeatInterval: time.Second, LogLevel: asynq.FatalLevel,
	})}
}

type client struct{ *asynq.Client }

func (c client) Enqueue(t side.Task) (*side.Info, error) {
	info, err := c.Client.Enqueue(newTask(t))
	if err != nil {
		return nil, err
	}
	return newInfo(info), nil
}

func newTask(t side.Task) *asynq.Task {
	var opts []asynq.Option
	if t.ID != "" {
		opts = append(opts, asynq.TaskID(t.ID))
	}
	if t.Queue != "" {
		opts = append(opts, asynq.Queue(t.Queue))
	}
	if t.MaxRetry != 0 {
		opts = append(opts, asynq.MaxRetry(max(t.MaxRetry, 0)))
	}
	if t.Timeout != 0 {
		opts = append(opts, asynq.Timeout(t.Timeout))
	}
	if !t.Deadline.IsZero() {
		opts = append(opts, asynq.Deadline(t.Deadline))
	}
	if t.Unique != 0 {
		opts = append(opts, asynq.Unique(t.Unique))
	}
	if t.ProcessIn != 0 {
		opts = append(opts, asynq.ProcessIn(t.ProcessIn))
	}
	if t.Retention != 0 {
		opts = append(opts, asynq.Retention(t.Retention))
	}
	if t.Group != "" {
		opts = append(opts, asynq.Group(t.Group))
	}
	return asynq.NewTaskWithHeaders(t.Type, t.Payload, t.Headers, opts...)
}

type server struct{ s *asynq.Server }

func (s server) Start(h side.Handler) error { return s.s.Start(newHandler(h)) }
func (s server) Run(h side.Handler) error   { return s.s.Run(newHandler(h)) }
func (s server) Shutdown()                  { s.s.Shutdown() }

func newHandler(h side.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		j := &side.Job{Type: t.Type(), Payload: t.Payload(), Headers: t.Headers()}
		j.ID, _ = asynq.GetTaskID(ctx)
		j.Queue, _ = asynq.GetQueueName(ctx)
		j.Retried, _ = asynq.GetRetryCount(ctx)
		j.MaxRetry, _ = asynq.GetMaxRetry(ctx)
		j.WriteResult = func(data []byte) error {
			_, err := t.ResultWriter().Write(data)
			return err
		}
		return h(ctx, j)
	})
}

type scheduler struct{ s *asynq.Scheduler }

func (s scheduler) Register(spec string, t side.Task) (string, error) {
	queue := t.Queue
	t.Queue = "" // options of the task itself are not published
	return s.s.Register(spec, newTask(t), asynq.Queue(queue))
}
func (s scheduler) Start() error { return s.s.Start() }
func (s scheduler) Shutdown()    { s.s.Shutdown() }

type inspector struct{ i *asynq.Inspector }

func (i inspector) Task(queue, id string) (*side.Info, error) {
	info, err := i.i.GetTaskInfo(queue, id)
	if err != nil {
		return nil, err
	}
	return newInfo(info), nil
}

func newInfo(t *asynq.TaskInfo) *side.Info {
	return &side.Info{
		ID: t.ID, Queue: t.Queue, Type: t.Type, State: t.State.String(), LastErr: t.LastErr, Group: t.Group,
		Payload: t.Payload, Result: t.Result, Headers: t.Headers, MaxRetry: t.MaxRetry, Retried: t.Retried,
		Timeout: t.Timeout, Retention: t.Retention, Deadline: t.Deadline, LastFailedAt: t.LastFailedAt,
		NextProcessAt: t.NextProcessAt, CompletedTime: t.CompletedAt, Orphaned: t.IsOrphaned,
	}
}

func (i inspector) List(queue, state, group string) ([]*side.Info, error) {
	var tasks []*asynq.TaskInfo
	var err error
	all := asynq.PageSize(10_000)
	switch state {
	case "pending":
		tasks, err = i.i.ListPendingTasks(queue, all)
	case "active":
		tasks, err = i.i.ListActiveTasks(queue, all)
	case "scheduled":
		tasks, err = i.i.ListScheduledTasks(queue, all)
	case "retry":
		tasks, err = i.i.ListRetryTasks(queue, all)
	case "archived":
		tasks, err = i.i.ListArchivedTasks(queue, all)
	case "completed":
		tasks, err = i.i.ListCompletedTasks(queue, all)
	case "aggregating":
		tasks, err = i.i.ListAggregatingTasks(queue, group, all)
	default:
		err = noSuch("list", state)
	}
	infos := make([]*side.Info, len(tasks))
	for n, t := range tasks {
		infos[n] = newInfo(t)
	}
	return infos, err
}

func noSuch(call, state string) error {
	return fmt.Errorf("no call to %s tasks that are %s", call, state)
}

func (i inspector) Queue(queue string) (*side.QueueInfo, error) {
	q, err := i.i.GetQueueInfo(queue)
	if err != nil {
		return nil, err
	}
	return &side.QueueInfo{
		Size: q.Size, Groups: q.Groups, Pending: q.Pending, Active: q.Active, Scheduled: q.Scheduled, Retry: q.Retry,
		Archived: q.Archived, Completed: q.Completed, Aggregating: q.Aggregating, Processed: q.Processed, Failed: q.Failed,
		ProcessedTotal: q.ProcessedTotal, FailedTotal: q.FailedTotal, Paused: q.Paused,
	}, nil
}

func (i inspector) Queues() ([]string, error) { return i.i.Queues() }

func (i inspector) Groups(queue string) (map[string]int, error) {
	groups, err := i.i.Groups(queue)
	sizes := make(map[string]int, len(groups))
	for _, g := range groups {
		sizes[g.Group] = g.Size
	}
	return sizes, err
}

func (i inspector) History(queue string, days int) ([]side.Day, error) {
	stats, err := i.i.History(queue, days)
	out := make([]side.Day, len(stats))
	for n, s := range stats {
		out[n] = side.Day{Processed: s.Processed, Failed: s.Failed}
	}
	return out, err
}

func (i inspector) Run(queue, id string) error     { return i.i.RunTask(queue, id) }
func (i inspector) Archive(queue, id string) error { return i.i.ArchiveTask(queue, id) }
func (i inspector) Delete(queue, id string) error  { return i.i.DeleteTask(queue, id) }

func (i inspector) RunAll(queue, state, group string) (int, error) {
	switch state {
	case "scheduled":
		return i.i.RunAllScheduledTasks(queue)
	case "retry":
		return i.i.RunAllRetryTasks(queue)
	case "archived":
		return i.i.RunAllArchivedTasks(queue)
	case "aggregating":
		return i.i.RunAllAggregatingTasks(queue, group)
	}
	return 0, noSuch("run", state)
}

func (i inspector) ArchiveAll(queue, state, group string) (int, error) {
	switch state {
	case "pending":
		return i.i.ArchiveAllPendingTasks(queue)
	case "scheduled":
		return i.i.ArchiveAllScheduledTasks(queue)
	case "retry":
		return i.i.ArchiveAllRetryTasks(queue)
	case "aggregating":
		return i.i.ArchiveAllAggregatingTasks(queue, group)
	}
	return 0, noSuch("archive", state)
}

func (i inspector) DeleteAll(queue, state, group string) (int, error) {
	switch state {
	case "pending":
		return i.i.DeleteAllPendingTasks(queue)
	case "scheduled":
		return i.i.DeleteAllScheduledTasks(queue)
	case "retry":
		return i.i.DeleteAllRetryTasks(queue)
	case "archived":
		return i.i.DeleteAllArchivedTasks(queue)
	case "completed":
		return i.i.DeleteAllCompletedTasks(queue)
	case "aggregating":
		return i.i.DeleteAllAggregatingTasks(queue, group)
	}
	return 0, noSuch("delete", state)
}

func (i inspector) Pause(queue string) error                   { return i.i.PauseQueue(queue) }
func (i inspector) Unpause(queue string) error                 { return i.i.UnpauseQueue(queue) }
func (i inspector) DeleteQueue(queue string, force bool) error { return i.i.DeleteQueue(queue, force) }
func (i inspector) Cancel(id string) error                     { return i.i.CancelProcessing(id) }
func (i inspector) Close() error                               { return i.i.Close() }

func (i inspector) Servers() ([]side.ServerInfo, error) {
	servers, err := i.i.Servers()
	out := make([]side.ServerInfo, len(servers))
	for n, s := range servers {
		out[n] = side.ServerInfo{
			ID: s.ID, PID: s.PID, Concurrency: s.Concurrency, Queues: s.Queues, Status: s.Status,
			Workers: make(map[string]string, len(s.ActiveWorkers)),
		}
		for _, w := range s.ActiveWorkers {
			out[n].Workers[w.TaskID] = w.TaskType
		}
	}
	return out, err
}

func (i inspector) Entries() ([]side.Entry, error) {
	entries, err := i.i.SchedulerEntries()
	out := make([]side.Entry, len(entries))
	for n, e := range entries {
		out[n] = side.Entry{ID: e.ID, Spec: e.Spec, Type: e.Task.Type(), Payload: e.Task.Payload()}
		for _, opt := range e.Opts {
			out[n].Options = append(out[n].Options, opt.String())
		}
	}
	return out, err
}

func (i inspector) Events(entryID string) ([]string, error) {
	events, err := i.i.ListSchedulerEnqueueEvents(entryID)
	ids := make([]string, len(events))
	for n, e := range events {
		ids[n] = e.TaskID
	}
	return ids, err
}
