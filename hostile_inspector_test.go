package asynq_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// queueless are names of queues that there are none of, the ones that no queue can have among them.
func queueless() []string {
	return append(append([]string{notUTF8, "}", "}x", longName}, blankNames...), unusualNames...)
}

// noTask calls f with each queue that there is none of, and with each ID that the queue has no task of.
func (h *hostile) noTask(f func(queue, id string) error) {
	h.t.Helper()
	for _, name := range queueless() {
		h.refused(f(name, "pending"), nil, "queue")
		h.refused(f("default", name), asynq.ErrTaskNotFound)
	}
	h.refused(f("no queue", "pending"), asynq.ErrQueueNotFound)
}

// noQueue calls f with each queue that there is none of.
func (h *hostile) noQueue(f func(queue string) error) {
	h.t.Helper()
	for _, name := range queueless() {
		h.refused(f(name), nil, "queue")
	}
	h.refused(f("no queue"), asynq.ErrQueueNotFound)
}

// last is the error that a row of values ends with.
func last[T any](row iter.Seq2[T, error]) (err error) {
	for _, err = range row {
	}
	return err
}

// after drops the first result.
func after[T any](_ T, err error) error { return err }

var hostileInspector = map[string]func(h *hostile){
	"NewInspector": func(h *hostile) {
		h.panics("RedisConnOpt is nil", func() { asynq.NewInspector(nil) })
	},
	"NewInspectorFromRedisClient": func(h *hostile) {
		h.panics("returned nil", func() { asynq.NewInspectorFromRedisClient(nil) })
	},
	"Inspector.Close": func(h *hostile) {
		h.refused(h.inspect.Close(), nil, "shared Redis connection")
		i := asynq.NewInspector(h.opt())
		h.taken(i.Close())
		h.refused(after(i.Queues()), nil, "closed")
	},
	"Inspector.WithContext": func(h *hostile) {
		h.taken(after(h.inspect.WithContext(noContext).Queues()))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		h.refused(after(h.inspect.WithContext(ctx).Queues()), context.Canceled)
	},
	"Inspector.WithMemorySamples": func(h *hostile) {
		for _, n := range []int{math.MinInt, -1, 0, math.MaxInt} {
			h.taken(after(h.inspect.WithMemorySamples(n).GetQueueInfo("default")))
		}
	},
	"Inspector.Queues": func(h *hostile) { h.taken(after(h.inspect.Queues())) },
	"Inspector.GetQueueInfo": func(h *hostile) {
		h.noQueue(func(queue string) error { return after(h.inspect.GetQueueInfo(queue)) })
	},
	"Inspector.TaskStates": func(h *hostile) {
		h.refused(h.inspect.TaskStates(noContext, asynq.TaskRef{Queue: "default", ID: "pending"})[0].Err, nil, "ctx must not be nil")
		h.want(len(h.inspect.TaskStates(context.Background())) == 0, "there are results of no tasks")
		for _, name := range queueless() {
			h.refused(h.inspect.TaskStates(context.Background(), asynq.TaskRef{Queue: name, ID: "pending"})[0].Err, asynq.ErrTaskNotFound)
			h.refused(h.inspect.TaskStates(context.Background(), asynq.TaskRef{Queue: "default", ID: name})[0].Err, asynq.ErrTaskNotFound)
		}
	},
	"Inspector.QueueInfos": func(h *hostile) {
		h.refused(after(h.inspect.QueueInfos(noContext)), nil, "ctx must not be nil")
		h.noQueue(func(queue string) error {
			infos, err := h.inspect.QueueInfos(context.Background(), "default", queue, queue)
			h.taken(err)
			h.want(len(infos) == 3 && infos[0].Err == nil && infos[2].Queue == queue, "the results are %+v", infos)
			return infos[1].Err
		})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		h.refused(after(h.inspect.QueueInfos(ctx)), context.Canceled)
	},
	"Inspector.GetTaskInfo": func(h *hostile) {
		h.noTask(func(queue, id string) error { return after(h.inspect.GetTaskInfo(queue, id)) })
	},
	"Inspector.History": func(h *hostile) {
		h.noQueue(func(queue string) error { return after(h.inspect.History(queue, 1)) })
		for _, n := range []int{math.MinInt, -1, 0, 100_001, math.MaxInt} {
			h.refused(after(h.inspect.History("default", n)), nil, "must be from 1 to 100000")
		}
		days, err := h.inspect.History("default", 100_000)
		h.taken(err)
		h.want(len(days) == 100_000, "there are %d days", len(days))
	},
	"Inspector.Groups": func(h *hostile) {
		h.noQueue(func(queue string) error { return after(h.inspect.Groups(queue)) })
	},
	"Inspector.PauseQueue": func(h *hostile) {
		for _, queue := range append(blankNames, "}") {
			h.refused(h.inspect.PauseQueue(queue), nil, "queue name")
		}
		for _, queue := range unusualNames {
			h.taken(h.inspect.PauseQueue(queue))
			h.refused(h.inspect.PauseQueue(queue), nil, "is already paused")
			h.taken(h.inspect.UnpauseQueue(queue))
		}
	},
	"Inspector.UnpauseQueue": func(h *hostile) {
		for _, queue := range queueless() {
			h.refused(h.inspect.UnpauseQueue(queue), nil, "queue")
		}
	},
	"Inspector.DeleteQueue": func(h *hostile) {
		for _, force := range []bool{true, false} {
			h.noQueue(func(queue string) error { return h.inspect.DeleteQueue(queue, force) })
		}
		h.refused(h.inspect.DeleteQueue("default", false), asynq.ErrQueueNotEmpty)
	},
	"Inspector.RunTask": func(h *hostile) {
		h.noTask(h.inspect.RunTask)
		h.refused(h.inspect.RunTask("default", "pending"), nil, "is pending already")
	},
	"Inspector.ArchiveTask": func(h *hostile) { h.noTask(h.inspect.ArchiveTask) },
	"Inspector.DeleteTask":  func(h *hostile) { h.noTask(h.inspect.DeleteTask) },
	"Inspector.Reschedule": func(h *hostile) {
		h.noTask(func(queue, id string) error { return h.inspect.Reschedule(context.Background(), queue, id, time.Now()) })
		h.refused(h.inspect.Reschedule(noContext, "default", "later", time.Now()), nil, "ctx must not be nil")
		info := h.enqueue("moved", asynq.ProcessIn(time.Hour), asynq.Queue("moved"))
		for at, want := range map[time.Time]int64{yearZero: 0, {}: 0, endOfTime: endOfTime.Unix(), time.Unix(-1<<62, 1): 0} {
			h.taken(h.inspect.Reschedule(context.Background(), "moved", "moved", at))
			found, err := h.inspect.GetTaskInfo("moved", info.ID)
			h.taken(err)
			h.want(math.Abs(float64(found.NextProcessAt.Unix())-float64(want)) <= 2048, "%v is %v", at, found.NextProcessAt)
		}
		h.taken(h.inspect.DeleteQueue("moved", true))
	},
	"Inspector.UpdateTaskPayload": func(h *hostile) {
		h.noTask(func(queue, id string) error { return h.inspect.UpdateTaskPayload(queue, id, nil) })
		h.refused(h.inspect.UpdateTaskPayload("default", "pending", []byte("new")), nil, "is not scheduled")
		h.taken(h.inspect.UpdateTaskPayload("default", "later", nil))
	},
	"Inspector.ReplaceTaskPayload": func(h *hostile) {
		ctx := context.Background()
		h.noTask(func(queue, id string) error { return h.inspect.ReplaceTaskPayload(ctx, queue, id, nil, nil) })
		h.refused(h.inspect.ReplaceTaskPayload(noContext, "default", "later", nil, nil), nil, "ctx must not be nil")
		h.refused(h.inspect.ReplaceTaskPayload(ctx, "default", "pending", nil, []byte("new")), nil, "is not scheduled")
		h.taken(h.inspect.UpdateTaskPayload("default", "later", nil))
		h.refused(h.inspect.ReplaceTaskPayload(ctx, "default", "later", []byte("old"), []byte("new")), asynq.ErrTaskChanged)
		h.taken(h.inspect.ReplaceTaskPayload(ctx, "default", "later", []byte{}, nil))
	},
	"Inspector.CancelProcessing": func(h *hostile) {
		for _, id := range append(queueless(), "pending") {
			h.taken(h.inspect.CancelProcessing(id))
		}
	},
	"Inspector.CancelAndArchive": func(h *hostile) { h.cancel(h.inspect.CancelAndArchive) },
	"Inspector.CancelAndDelete":  func(h *hostile) { h.cancel(h.inspect.CancelAndDelete) },
	"Inspector.Servers":          func(h *hostile) { h.taken(after(h.inspect.Servers())) },
	"Inspector.SchedulerEntries": func(h *hostile) { h.taken(after(h.inspect.SchedulerEntries())) },
	"Inspector.ListSchedulerEnqueueEvents": func(h *hostile) {
		for _, entry := range queueless() {
			events, err := h.inspect.ListSchedulerEnqueueEvents(entry, asynq.Page(math.MaxInt), asynq.PageSize(math.MaxInt))
			h.taken(err)
			h.want(len(events) == 0, "%d events of no entry", len(events))
		}
	},
	"Inspector.RunSchedulerEntry": func(h *hostile) {
		for _, entry := range queueless() {
			h.refused(after(h.inspect.RunSchedulerEntry(context.Background(), entry)), asynq.ErrSchedulerEntryNotFound)
		}
		h.refused(after(h.inspect.RunSchedulerEntry(noContext, "x")), nil, "ctx must not be nil")
	},
	"Inspector.ForgetSchedulers": func(h *hostile) {
		h.taken(h.inspect.ForgetSchedulers(context.Background(), ""))
		for _, name := range queueless() {
			h.taken(h.inspect.ForgetSchedulers(context.Background(), name, append(queueless(), name)...))
		}
		h.refused(h.inspect.ForgetSchedulers(noContext, "g"), nil, "ctx must not be nil")
	},
	"Inspector.ClusterKeySlot": func(h *hostile) { h.noCluster(func(q string) error { return after(h.inspect.ClusterKeySlot(q)) }) },
	"Inspector.ClusterNodes":   func(h *hostile) { h.noCluster(func(q string) error { return after(h.inspect.ClusterNodes(q)) }) },
	"Inspector.Diagnose": func(h *hostile) {
		h.refused(last(h.inspect.Diagnose(noContext, asynq.DiagnoseOptions{})), nil, "ctx must not be nil")
		for _, queue := range append(blankNames, "}") {
			h.refused(last(h.inspect.Diagnose(context.Background(), asynq.DiagnoseOptions{Queues: []string{queue}, Repair: true})), nil, "queue name")
		}
		for f, err := range h.inspect.Diagnose(context.Background(), asynq.DiagnoseOptions{Queues: append(unusualNames, notUTF8), Repair: true}) {
			h.taken(err)
			h.want(f == nil, "there is nothing to find, but %v", f)
		}
		h.taken(last(h.inspect.Diagnose(context.Background(), asynq.DiagnoseOptions{})))
	},
	"Finding.String": func(h *hostile) { h.want((&asynq.Finding{}).String() != "", "there is always something to say") },
	"TaskState.String": func(h *hostile) {
		h.want(asynq.TaskState(math.MinInt).String() != "" && asynq.TaskState(99).String() != "", "there is a text")
	},
}

func (h *hostile) cancel(cancel func(ctx context.Context, id string) error) {
	h.t.Helper()
	for _, id := range append(queueless(), "pending") {
		h.taken(cancel(context.Background(), id))
	}
	h.refused(cancel(noContext, "pending"), nil, "ctx must not be nil")
}

// noCluster calls what only a Cluster has; a miniredis plays one.
func (h *hostile) noCluster(f func(queue string) error) {
	h.t.Helper()
	for _, queue := range queueless() {
		if err := f(queue); !h.IsMini() {
			h.refused(err, nil, "cluster")
		}
	}
}

var hostileBulk = map[string]func(h *hostile){
	"Inspector.RunAllScheduledTasks":       all((*asynq.Inspector).RunAllScheduledTasks),
	"Inspector.RunAllRetryTasks":           all((*asynq.Inspector).RunAllRetryTasks),
	"Inspector.RunAllArchivedTasks":        all((*asynq.Inspector).RunAllArchivedTasks),
	"Inspector.ArchiveAllPendingTasks":     all((*asynq.Inspector).ArchiveAllPendingTasks),
	"Inspector.ArchiveAllScheduledTasks":   all((*asynq.Inspector).ArchiveAllScheduledTasks),
	"Inspector.ArchiveAllRetryTasks":       all((*asynq.Inspector).ArchiveAllRetryTasks),
	"Inspector.DeleteAllPendingTasks":      all((*asynq.Inspector).DeleteAllPendingTasks),
	"Inspector.DeleteAllScheduledTasks":    all((*asynq.Inspector).DeleteAllScheduledTasks),
	"Inspector.DeleteAllRetryTasks":        all((*asynq.Inspector).DeleteAllRetryTasks),
	"Inspector.DeleteAllArchivedTasks":     all((*asynq.Inspector).DeleteAllArchivedTasks),
	"Inspector.DeleteAllCompletedTasks":    all((*asynq.Inspector).DeleteAllCompletedTasks),
	"Inspector.RunAllAggregatingTasks":     allOfGroup((*asynq.Inspector).RunAllAggregatingTasks),
	"Inspector.ArchiveAllAggregatingTasks": allOfGroup((*asynq.Inspector).ArchiveAllAggregatingTasks),
	"Inspector.DeleteAllAggregatingTasks":  allOfGroup((*asynq.Inspector).DeleteAllAggregatingTasks),
	"Inspector.RunTasks":                   matching((*asynq.Inspector).RunTasks, asynq.TaskStatePending, asynq.TaskStateActive),
	"Inspector.ArchiveTasks":               matching((*asynq.Inspector).ArchiveTasks, asynq.TaskStateArchived, asynq.TaskStateCompleted),
	"Inspector.DeleteTasks":                matching((*asynq.Inspector).DeleteTasks, asynq.TaskStateActive),
}

func all(change func(i *asynq.Inspector, queue string) (int, error)) func(h *hostile) {
	return func(h *hostile) {
		h.t.Helper()
		h.noQueue(func(queue string) error { return after(change(h.inspect, queue)) })
	}
}

func allOfGroup(change func(i *asynq.Inspector, queue, group string) (int, error)) func(h *hostile) {
	return func(h *hostile) {
		h.t.Helper()
		h.noQueue(func(queue string) error { return after(change(h.inspect, queue, "g")) })
		h.refused(after(change(h.inspect, "default", "")), nil, "group must not be empty")
		for _, group := range queueless() {
			if group == "" {
				continue
			}
			n, err := change(h.inspect, "default", group)
			h.taken(err)
			h.want(n == 0, "%d tasks were changed of group %.50q", n, group)
		}
	}
}

// matching tries a change of filtered tasks, which those of some states are not for.
func matching(
	change func(i *asynq.Inspector, ctx context.Context, queue string, state asynq.TaskState, filter asynq.TaskFilter) (int, error),
	unfit ...asynq.TaskState,
) func(h *hostile) {
	return func(h *hostile) {
		h.t.Helper()
		ctx := context.Background()
		h.noQueue(func(queue string) error {
			return after(change(h.inspect, ctx, queue, asynq.TaskStateScheduled, asynq.TaskFilter{}))
		})
		for _, state := range append(unfit, 0, -1, 8, math.MaxInt, math.MinInt) {
			h.refused(after(change(h.inspect, ctx, "default", state, asynq.TaskFilter{})), nil)
		}
		h.refused(after(change(h.inspect, noContext, "default", asynq.TaskStateScheduled, asynq.TaskFilter{})), nil, "ctx must not be nil")
		h.refused(after(change(h.inspect, ctx, "default", asynq.TaskStateScheduled, asynq.TaskFilter{Group: "g"})), nil, "TaskFilter.Group")
		for _, filter := range hostileFilters {
			n, err := change(h.inspect, ctx, "default", asynq.TaskStateScheduled, filter)
			h.taken(err)
			h.want(n == 0, "%d tasks were changed under %+.200v", n, filter)
		}
		for _, group := range queueless() {
			if group == "" { // all groups
				continue
			}
			n, err := change(h.inspect, ctx, "default", asynq.TaskStateAggregating, asynq.TaskFilter{Group: group})
			h.taken(err)
			h.want(n == 0, "%d tasks were changed of group %.50q", n, group)
		}
	}
}

// hostileFilters admit none of the tasks.
var hostileFilters = []asynq.TaskFilter{
	{OlderThan: longest}, {YoungerThan: mostNegtive}, {OlderThan: longest, YoungerThan: mostNegtive, MaxScan: math.MinInt},
	{Type: notUTF8}, {Type: hugeName + "*"}, {Type: "\x00*"}, {Error: hugeName}, {Payload: notUTF8, MaxScan: math.MaxInt},
}

var hostileLists = map[string]func(h *hostile){
	"Inspector.ListPendingTasks":   list((*asynq.Inspector).ListPendingTasks, 1),
	"Inspector.ListActiveTasks":    list((*asynq.Inspector).ListActiveTasks, 0),
	"Inspector.ListScheduledTasks": list((*asynq.Inspector).ListScheduledTasks, 1),
	"Inspector.ListRetryTasks":     list((*asynq.Inspector).ListRetryTasks, 0),
	"Inspector.ListArchivedTasks":  list((*asynq.Inspector).ListArchivedTasks, 0),
	"Inspector.ListCompletedTasks": list((*asynq.Inspector).ListCompletedTasks, 0),
	"Inspector.ListAggregatingTasks": func(h *hostile) {
		list(func(i *asynq.Inspector, queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
			return i.ListAggregatingTasks(queue, "g", opts...)
		}, 1)(h)
		for _, group := range queueless() {
			tasks, err := h.inspect.ListAggregatingTasks("default", group)
			h.taken(err)
			h.want(len(tasks) == 0, "%d tasks of group %.50q", len(tasks), group)
		}
	},
	"Page": func(h *hostile) {
		for _, n := range []int{math.MinInt, -1, 0} {
			tasks, err := h.inspect.ListPendingTasks("default", asynq.Page(n))
			h.taken(err)
			h.want(len(tasks) == 1, "page %d is the first one", n)
		}
		for _, n := range []int{2, math.MaxInt32, math.MaxInt} {
			tasks, err := h.inspect.ListPendingTasks("default", asynq.Page(n))
			h.taken(err)
			h.want(len(tasks) == 0, "page %d is empty", n)
		}
	},
	"PageSize": func(h *hostile) {
		for n, want := range map[int]int{math.MinInt: 0, -1: 0, 0: 0, 1: 1, math.MaxInt32: 1, math.MaxInt: 1} {
			tasks, err := h.inspect.ListPendingTasks("default", asynq.PageSize(n))
			h.taken(err)
			h.want(len(tasks) == want, "a page of size %d has %d tasks", n, len(tasks))
			tasks, err = h.inspect.ListPendingTasks("default", asynq.PageSize(n), asynq.Page(math.MaxInt))
			h.taken(err)
			h.want(len(tasks) == 0, "the last page of size %d has %d tasks", n, len(tasks))
		}
	},
	"Inspector.TasksAfter": func(h *hostile) {
		ctx, all := context.Background(), asynq.TaskFilter{}
		h.noQueue(func(queue string) error {
			return after(h.inspect.TasksAfter(ctx, queue, asynq.TaskStateActive, all, "", 1))
		})
		for _, cursor := range []string{"x", "\x00", "{}", strings.Repeat("A", 100_000)} {
			h.refused(after(h.inspect.TasksAfter(ctx, "default", asynq.TaskStatePending, all, cursor, 1)), asynq.ErrCursor, "cursor")
		}
		for _, n := range []int{0, -1, 1001, math.MinInt, math.MaxInt} {
			h.refused(after(h.inspect.TasksAfter(ctx, "default", asynq.TaskStatePending, all, "", n)), nil, "1,000")
		}
		h.refused(after(h.inspect.TasksAfter(ctx, "default", 0, all, "", 1)), nil, "is not a task state")
		h.refused(after(h.inspect.TasksAfter(ctx, "default", asynq.TaskStatePending, asynq.TaskFilter{Group: "g"}, "", 1)), nil, "TaskFilter.Group")
		h.refused(after(h.inspect.TasksAfter(noContext, "default", asynq.TaskStatePending, all, "", 1)), nil, "ctx must not be nil")
	},
	"Inspector.Tasks": func(h *hostile) {
		ctx := context.Background()
		states := []asynq.TaskState{
			asynq.TaskStatePending, asynq.TaskStateActive, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateArchived,
			asynq.TaskStateCompleted, asynq.TaskStateAggregating,
		}
		for _, state := range states {
			h.noQueue(func(queue string) error { return last(h.inspect.Tasks(ctx, queue, state, asynq.TaskFilter{})) })
			for _, filter := range hostileFilters {
				for task, err := range h.inspect.Tasks(ctx, "default", state, filter) {
					h.taken(err)
					h.t.Errorf("%v passes %+.200v", task, filter)
				}
			}
		}
		for _, state := range []asynq.TaskState{0, -1, 8, math.MaxInt, math.MinInt} {
			h.refused(last(h.inspect.Tasks(ctx, "default", state, asynq.TaskFilter{})), nil, "is not a task state")
		}
		h.refused(last(h.inspect.Tasks(noContext, "default", asynq.TaskStatePending, asynq.TaskFilter{})), nil, "ctx must not be nil")
		h.refused(last(h.inspect.Tasks(ctx, "default", asynq.TaskStatePending, asynq.TaskFilter{Group: "g"})), nil, "TaskFilter.Group")
	},
}

// list tries a list that has so many tasks.
func list(tasks func(i *asynq.Inspector, queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error), n int) func(h *hostile) {
	return func(h *hostile) {
		h.t.Helper()
		h.noQueue(func(queue string) error {
			return after(tasks(h.inspect, queue, asynq.Page(math.MaxInt), asynq.PageSize(math.MaxInt)))
		})
		found, err := tasks(h.inspect, "default", nil, "no option", errors.New("none either"))
		h.taken(err)
		h.want(len(found) == n, "%d tasks are listed, want %d", len(found), n)
	}
}
