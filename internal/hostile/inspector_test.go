package hostile_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// missingNames returns names of queues that do not exist, including invalid names.
func missingNames() []string {
	return append(append([]string{notUTF8, "}", "}x", longName}, blankNames...), unusualNames...)
}

// withMissingTasks calls f with queues and with task IDs that do not exist, and requires an error.
func (h *hostile) withMissingTasks(f func(queue, id string) error) {
	h.T.Helper()
	for _, name := range missingNames() {
		h.wantErr(f(name, "pending"), nil, "queue")
		h.wantErr(f("default", name), asynq.ErrTaskNotFound)
	}
	h.wantErr(f("missing queue", "pending"), asynq.ErrQueueNotFound)
}

// withMissingQueues calls f with queues that do not exist, and requires an error.
func (h *hostile) withMissingQueues(f func(queue string) error) {
	h.T.Helper()
	for _, name := range missingNames() {
		h.wantErr(f(name), nil, "queue")
	}
	h.wantErr(f("missing queue"), asynq.ErrQueueNotFound)
}

var hostileInspector = map[string]func(h *hostile){
	"NewInspector": func(h *hostile) {
		h.wantPanic("RedisConnOpt is nil", func() { asynq.NewInspector(nil) })
	},
	"NewInspectorFromRedisClient": func(h *hostile) {
		h.wantPanic("returned nil", func() { asynq.NewInspectorFromRedisClient(nil) })
	},
	"Inspector.Close": func(h *hostile) {
		h.wantErr(h.inspect.Close(), nil, "shared Redis connection")
		i := asynq.NewInspector(h.Opt())
		h.noErr(i.Close())
		h.wantErr(testenv.ErrorOf(i.Queues()), nil, "closed")
	},
	"Inspector.WithContext": func(h *hostile) {
		h.noErr(testenv.ErrorOf(h.inspect.WithContext(noContext).Queues()))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		h.wantErr(testenv.ErrorOf(h.inspect.WithContext(ctx).Queues()), context.Canceled)
	},
	"Inspector.WithMemorySamples": func(h *hostile) {
		for _, n := range []int{math.MinInt, -1, 0, math.MaxInt} {
			h.noErr(testenv.ErrorOf(h.inspect.WithMemorySamples(n).GetQueueInfo("default")))
		}
	},
	"Inspector.RedisNodes": func(h *hostile) {
		h.wantErr(testenv.ErrorOf(h.inspect.RedisNodes(noContext)), nil, "ctx must not be nil")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		nodes, err := h.inspect.RedisNodes(ctx)
		h.check(err != nil || len(nodes) > 0 && errors.Is(nodes[0].Err, context.Canceled), "nodes %+v", nodes)
	},
	"Inspector.Processes": func(h *hostile) {
		h.wantErr(testenv.ErrorOf(h.inspect.Processes(noContext, 0)), nil, "ctx must not be nil")
		for _, within := range []time.Duration{math.MinInt64, -1, 0, math.MaxInt64} {
			h.noErr(testenv.ErrorOf(h.inspect.Processes(context.Background(), within)))
		}
	},
	"Inspector.MuteCause": func(h *hostile) {
		ctx := context.Background()
		h.wantErr(h.inspect.MuteCause(noContext, asynq.Mute{ID: "x"}), nil, "ctx must not be nil")
		h.wantErr(h.inspect.MuteCause(ctx, asynq.Mute{}), nil, "ID must not be empty")
		for _, text := range []string{notUTF8, strings.Repeat("x", 2000)} {
			h.wantErr(h.inspect.MuteCause(ctx, asynq.Mute{ID: text}), nil, "ID must be valid UTF-8 of up to 512 bytes")
			h.wantErr(h.inspect.MuteCause(ctx, asynq.Mute{ID: "x", By: text}), nil, "By must be")
			h.wantErr(h.inspect.MuteCause(ctx, asynq.Mute{ID: "x", Note: text}), nil, "Note must be")
		}
		h.wantErr(h.inspect.MuteCause(ctx, asynq.Mute{ID: "x", Until: time.Unix(1, 0)}), nil, "in the future")
		h.wantErr(h.inspect.MuteCause(ctx, asynq.Mute{ID: "x", Until: time.Now().AddDate(1, 0, 0)}), nil, "within 90 days")
	},
	"Inspector.UnmuteCause": func(h *hostile) {
		ctx := context.Background()
		h.wantErr(testenv.ErrorOf(h.inspect.UnmuteCause(noContext, "x")), nil, "ctx must not be nil")
		for _, ids := range [][]string{nil, {""}, {notUTF8}, blankNames, unusualNames} {
			n, err := h.inspect.UnmuteCause(ctx, ids...)
			h.noErr(err)
			h.check(n == 0, "%d were muted", n)
		}
	},
	"Inspector.Mutes": func(h *hostile) {
		h.wantErr(testenv.ErrorOf(h.inspect.Mutes(noContext)), nil, "ctx must not be nil")
		h.noErr(testenv.ErrorOf(h.inspect.Mutes(context.Background())))
	},
	"Inspector.Queues": func(h *hostile) { h.noErr(testenv.ErrorOf(h.inspect.Queues())) },
	"Inspector.GetQueueInfo": func(h *hostile) {
		h.withMissingQueues(func(queue string) error { return testenv.ErrorOf(h.inspect.GetQueueInfo(queue)) })
	},
	"Inspector.TaskStates": func(h *hostile) {
		h.wantErr(h.inspect.TaskStates(noContext, asynq.TaskRef{Queue: "default", ID: "pending"})[0].Err, nil, "ctx must not be nil")
		h.check(len(h.inspect.TaskStates(context.Background())) == 0, "results without tasks")
		for _, name := range missingNames() {
			h.wantErr(h.inspect.TaskStates(context.Background(), asynq.TaskRef{Queue: name, ID: "pending"})[0].Err, asynq.ErrTaskNotFound)
			h.wantErr(h.inspect.TaskStates(context.Background(), asynq.TaskRef{Queue: "default", ID: name})[0].Err, asynq.ErrTaskNotFound)
		}
	},
	"Inspector.QueueInfos": func(h *hostile) {
		h.wantErr(testenv.ErrorOf(h.inspect.QueueInfos(noContext)), nil, "ctx must not be nil")
		h.withMissingQueues(func(queue string) error {
			infos, err := h.inspect.QueueInfos(context.Background(), "default", queue, queue)
			h.noErr(err)
			h.check(len(infos) == 3 && infos[0].Err == nil && infos[2].Queue == queue, "results %+v", infos)
			return infos[1].Err
		})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		h.wantErr(testenv.ErrorOf(h.inspect.QueueInfos(ctx)), context.Canceled)
	},
	"Inspector.GetTaskInfo": func(h *hostile) {
		h.withMissingTasks(func(queue, id string) error { return testenv.ErrorOf(h.inspect.GetTaskInfo(queue, id)) })
	},
	"Inspector.History": func(h *hostile) {
		h.withMissingQueues(func(queue string) error { return testenv.ErrorOf(h.inspect.History(queue, 1)) })
		for _, n := range []int{math.MinInt, -1, 0, 100_001, math.MaxInt} {
			h.wantErr(testenv.ErrorOf(h.inspect.History("default", n)), nil, "must be from 1 to 100000")
		}
		days, err := h.inspect.History("default", 100_000)
		h.noErr(err)
		h.check(len(days) == 100_000, "%d days", len(days))
	},
	"Inspector.Groups": func(h *hostile) {
		for _, queue := range missingNames() {
			groups, err := h.inspect.Groups(queue)
			h.noErr(err)
			h.check(groups == nil, "groups %v, want none", groups)
		}
	},
	"Inspector.PauseQueue": func(h *hostile) {
		for _, queue := range append(blankNames, "}") {
			h.wantErr(h.inspect.PauseQueue(queue), nil, "queue name")
		}
		for _, queue := range unusualNames {
			h.noErr(h.inspect.PauseQueue(queue))
			h.wantErr(h.inspect.PauseQueue(queue), nil, "is already paused")
			h.noErr(h.inspect.UnpauseQueue(queue))
		}
	},
	"Inspector.UnpauseQueue": func(h *hostile) {
		for _, queue := range missingNames() {
			h.wantErr(h.inspect.UnpauseQueue(queue), nil, "queue")
		}
	},
	"Inspector.ArchiveLimits": func(h *hostile) {
		h.wantErr(testenv.ErrorOf(h.inspect.ArchiveLimits(noContext, "default")), nil, "ctx must not be nil")
		for _, queue := range slices.Concat(unusualNames, blankNames, []string{notUTF8, "}", longName}) {
			got, err := h.inspect.ArchiveLimits(context.Background(), queue)
			h.noErr(err)
			h.check(got.MaxTasks == asynq.ArchiveMaxTasks && got.MaxAge == 90*24*time.Hour, "limits %+v", got)
		}
	},
	"Inspector.ArchiveRoom": func(h *hostile) {
		h.wantErr(testenv.ErrorOf(h.inspect.ArchiveRoom(noContext, "default")), nil, "ctx must not be nil")
		h.withMissingQueues(func(queue string) error { return testenv.ErrorOf(h.inspect.ArchiveRoom(context.Background(), queue)) })
	},
	"NotFoundError.Error": func(h *hostile) {
		h.check((&asynq.NotFoundError{}).Error() != "", "an empty NotFoundError has no text")
	},
	"NotFoundError.Unwrap": func(h *hostile) {
		h.check((&asynq.NotFoundError{}).Unwrap() == nil, "an empty NotFoundError wraps an error")
	},
	"Inspector.DeleteQueue": func(h *hostile) {
		for _, force := range []bool{true, false} {
			h.withMissingQueues(func(queue string) error { return h.inspect.DeleteQueue(queue, force) })
		}
		h.wantErr(h.inspect.DeleteQueue("default", false), asynq.ErrQueueNotEmpty)
	},
	"Inspector.RunTask": func(h *hostile) {
		h.withMissingTasks(h.inspect.RunTask)
		h.wantErr(h.inspect.RunTask("default", "pending"), nil, "is pending already")
	},
	"Inspector.ArchiveTask": func(h *hostile) { h.withMissingTasks(h.inspect.ArchiveTask) },
	"Inspector.DeleteTask":  func(h *hostile) { h.withMissingTasks(h.inspect.DeleteTask) },
	"Inspector.RescheduleTask": func(h *hostile) {
		h.withMissingTasks(func(queue, id string) error {
			return h.inspect.RescheduleTask(context.Background(), queue, id, time.Now())
		})
		h.wantErr(h.inspect.RescheduleTask(noContext, "default", "later", time.Now()), nil, "ctx must not be nil")
		info := h.Enqueue("moved", asynq.ProcessIn(time.Hour), asynq.Queue("moved"))
		for at, want := range map[time.Time]int64{yearZero: 0, {}: 0, endOfTime: endOfTime.Unix(), time.Unix(-1<<62, 1): 0} {
			h.noErr(h.inspect.RescheduleTask(context.Background(), "moved", "moved", at))
			found, err := h.inspect.GetTaskInfo("moved", info.ID)
			h.noErr(err)
			h.check(math.Abs(float64(found.NextProcessAt.Unix())-float64(want)) <= 2048, "rescheduled to %v, NextProcessAt is %v", at, found.NextProcessAt)
		}
		h.noErr(h.inspect.DeleteQueue("moved", true))
	},
	"Inspector.UpdateTask": func(h *hostile) {
		ctx := context.Background()
		update := func(queue, id string, opts ...asynq.Option) error {
			_, err := h.inspect.UpdateTask(ctx, queue, id, nil, opts...)
			return err
		}
		h.withMissingTasks(func(queue, id string) error {
			return update(queue, id, asynq.ProcessIn(longest), asynq.Queue("nowhere"))
		})
		h.wantErr(testenv.ErrorOf(h.inspect.UpdateTask(noContext, "default", "later", nil)), nil, "ctx must not be nil")
		for _, opt := range []asynq.Option{asynq.Queue("}x"), asynq.Queue(" "), asynq.Timeout(mostNegative), oddOption{kind: 99}, asynq.TaskID("x")} {
			h.check(update("default", "later", opt) != nil, "%v is accepted", opt)
		}
		h.wantErr(update("default", "later", asynq.Queue(notUTF8)), nil, "queue is not valid UTF-8")
		h.noErr(update("default", "later"))
		info := h.Enqueue("moved", asynq.ProcessIn(time.Hour), asynq.Queue("moved"))
		for _, at := range []time.Time{yearZero, {}, endOfTime, time.Unix(-1<<62, 1)} {
			h.noErr(update("moved", info.ID, asynq.ProcessAt(at), asynq.Deadline(at), asynq.Timeout(longest), asynq.Retention(longest), asynq.MaxRetry(math.MaxInt64)))
		}
		for _, queue := range unusualNames {
			h.noErr(update("moved", info.ID, asynq.Queue(queue)))
			h.noErr(update(queue, info.ID, asynq.Queue("moved")))
			h.noErr(h.inspect.DeleteQueue(queue, true))
		}
		h.noErr(h.inspect.DeleteQueue("moved", true))
	},
	"Inspector.UpdateTaskPayload": func(h *hostile) {
		h.withMissingTasks(func(queue, id string) error { return h.inspect.UpdateTaskPayload(queue, id, nil) })
		h.wantErr(h.inspect.UpdateTaskPayload("default", "pending", []byte("new")), nil, "is not scheduled")
		h.noErr(h.inspect.UpdateTaskPayload("default", "later", nil))
	},
	"Inspector.CompareAndSwapTaskPayload": func(h *hostile) {
		ctx := context.Background()
		h.withMissingTasks(func(queue, id string) error { return h.inspect.CompareAndSwapTaskPayload(ctx, queue, id, nil, nil) })
		h.wantErr(h.inspect.CompareAndSwapTaskPayload(noContext, "default", "later", nil, nil), nil, "ctx must not be nil")
		h.wantErr(h.inspect.CompareAndSwapTaskPayload(ctx, "default", "pending", nil, []byte("new")), nil, "is not scheduled")
		h.noErr(h.inspect.UpdateTaskPayload("default", "later", nil))
		h.wantErr(h.inspect.CompareAndSwapTaskPayload(ctx, "default", "later", []byte("old"), []byte("new")), asynq.ErrTaskChanged)
		h.noErr(h.inspect.CompareAndSwapTaskPayload(ctx, "default", "later", []byte{}, nil))
	},
	"Inspector.CancelProcessing": func(h *hostile) {
		for _, id := range append(missingNames(), "pending") {
			h.noErr(h.inspect.CancelProcessing(id))
		}
	},
	"Inspector.CancelAndArchive": func(h *hostile) { h.testCancel(h.inspect.CancelAndArchive) },
	"Inspector.CancelAndDelete":  func(h *hostile) { h.testCancel(h.inspect.CancelAndDelete) },
	"Inspector.UnhandledTypes": func(h *hostile) {
		h.wantErr(testenv.ErrorOf(h.inspect.UnhandledTypes(noContext)), nil, "ctx must not be nil")
		got, err := h.inspect.UnhandledTypes(context.Background(), slices.Concat(unusualNames, blankNames, []string{notUTF8, "}", longName})...)
		h.noErr(err)
		h.check(len(got) == 0, "found %v", got)
	},
	"Inspector.Servers":          func(h *hostile) { h.noErr(testenv.ErrorOf(h.inspect.Servers())) },
	"Inspector.SchedulerEntries": func(h *hostile) { h.noErr(testenv.ErrorOf(h.inspect.SchedulerEntries())) },
	"Inspector.ListSchedulerEnqueueEvents": func(h *hostile) {
		for _, entry := range missingNames() {
			events, err := h.inspect.ListSchedulerEnqueueEvents(entry, asynq.Page(math.MaxInt), asynq.PageSize(math.MaxInt))
			h.noErr(err)
			h.check(len(events) == 0, "%d events of a missing entry", len(events))
		}
	},
	"Inspector.RunSchedulerEntry": func(h *hostile) {
		for _, entry := range missingNames() {
			h.wantErr(testenv.ErrorOf(h.inspect.RunSchedulerEntry(context.Background(), entry)), asynq.ErrSchedulerEntryNotFound)
		}
		h.wantErr(testenv.ErrorOf(h.inspect.RunSchedulerEntry(noContext, "x")), nil, "ctx must not be nil")
	},
	"Inspector.PauseSchedulerEntry":  testPauseEntry((*asynq.Inspector).PauseSchedulerEntry),
	"Inspector.ResumeSchedulerEntry": testPauseEntry((*asynq.Inspector).ResumeSchedulerEntry),
	"Inspector.QuietServer":          func(h *hostile) { h.testServerCommand((*asynq.Inspector).QuietServer) },
	"Inspector.StopServer":           func(h *hostile) { h.testServerCommand((*asynq.Inspector).StopServer) },
	"Inspector.SetServerConcurrency": func(h *hostile) {
		h.testServerCommand(func(i *asynq.Inspector, ctx context.Context, id string) error {
			return i.SetServerConcurrency(ctx, id, 1)
		})
		for _, n := range []int{math.MinInt, -1, 0, 1_000_001, math.MaxInt} {
			h.wantErr(h.inspect.SetServerConcurrency(context.Background(), "x", n), nil, "from 1 to 1,000,000")
		}
	},
	"Inspector.PauseServerQueue":  testServerQueue((*asynq.Inspector).PauseServerQueue),
	"Inspector.ResumeServerQueue": testServerQueue((*asynq.Inspector).ResumeServerQueue),
	"Inspector.DeleteSchedulerGroup": func(h *hostile) {
		for _, name := range append(missingNames(), "") {
			h.noErr(h.inspect.DeleteSchedulerGroup(context.Background(), name))
		}
		h.wantErr(h.inspect.DeleteSchedulerGroup(noContext, "g"), nil, "ctx must not be nil")
	},
	"Inspector.DeleteSchedulerHistory": func(h *hostile) {
		h.noErr(h.inspect.DeleteSchedulerHistory(context.Background()))
		h.noErr(h.inspect.DeleteSchedulerHistory(context.Background(), missingNames()...))
		h.wantErr(h.inspect.DeleteSchedulerHistory(noContext, "e"), nil, "ctx must not be nil")
	},
	"Inspector.ClusterKeySlot": func(h *hostile) {
		h.withoutCluster(func(q string) error { return testenv.ErrorOf(h.inspect.ClusterKeySlot(q)) })
	},
	"Inspector.ClusterNodes": func(h *hostile) {
		h.withoutCluster(func(q string) error { return testenv.ErrorOf(h.inspect.ClusterNodes(q)) })
	},
	"TaskState.String": func(h *hostile) {
		h.check(asynq.TaskState(math.MinInt).String() != "" && asynq.TaskState(99).String() != "", "an invalid TaskState has no text")
	},
}

// testCancel tests a cancel method with tasks that do not exist or are not active.
func (h *hostile) testCancel(cancel func(ctx context.Context, id string) error) {
	h.T.Helper()
	for _, id := range append(missingNames(), "pending") {
		h.noErr(cancel(context.Background(), id))
	}
	h.wantErr(cancel(noContext, "pending"), nil, "ctx must not be nil")
}

// withoutCluster requires an error of a call that only works on a Redis Cluster. Miniredis emulates
// one.
func (h *hostile) withoutCluster(f func(queue string) error) {
	h.T.Helper()
	for _, queue := range missingNames() {
		if err := f(queue); !h.IsMini() {
			h.wantErr(err, nil, "cluster")
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
	"Inspector.ArchiveTasks":               matching(archiveMatching, asynq.TaskStateArchived, asynq.TaskStateCompleted),
	"Inspector.DeleteTasks":                matching((*asynq.Inspector).DeleteTasks, asynq.TaskStateActive),
}

// all tests a bulk change of a queue.
func all(change func(i *asynq.Inspector, queue string) (int, error)) func(h *hostile) {
	return func(h *hostile) {
		h.T.Helper()
		h.withMissingQueues(func(queue string) error { return testenv.ErrorOf(change(h.inspect, queue)) })
	}
}

// testPauseEntry calls a method with entries that do not exist.
func testPauseEntry(set func(i *asynq.Inspector, ctx context.Context, entryID string) error) func(h *hostile) {
	return func(h *hostile) {
		h.T.Helper()
		for _, entry := range append(missingNames(), "") {
			h.wantErr(set(h.inspect, context.Background(), entry), asynq.ErrSchedulerEntryNotFound)
		}
		h.wantErr(set(h.inspect, noContext, "x"), nil, "ctx must not be nil")
	}
}

// testServerCommand calls a command with servers that do not exist.
func (h *hostile) testServerCommand(command func(i *asynq.Inspector, ctx context.Context, id string) error) {
	h.T.Helper()
	for _, id := range append(missingNames(), "", "*", "x}") {
		h.wantErr(command(h.inspect, context.Background(), id), asynq.ErrServerNotFound)
	}
	h.wantErr(command(h.inspect, noContext, "x"), nil, "ctx must not be nil")
}

// testServerQueue tests a command for a queue of a server.
func testServerQueue(command func(i *asynq.Inspector, ctx context.Context, id, queue string) error) func(h *hostile) {
	return func(h *hostile) {
		h.T.Helper()
		h.testServerCommand(func(i *asynq.Inspector, ctx context.Context, id string) error { return command(i, ctx, id, "default") })
		for _, queue := range append(blankNames, "}") {
			h.wantErr(command(h.inspect, context.Background(), "x", queue), nil, "queue name")
		}
	}
}

// allOfGroup tests a bulk change of a group.
func allOfGroup(change func(i *asynq.Inspector, queue, group string) (int, error)) func(h *hostile) {
	return func(h *hostile) {
		h.T.Helper()
		h.withMissingQueues(func(queue string) error { return testenv.ErrorOf(change(h.inspect, queue, "g")) })
		for _, group := range missingNames() {
			n, err := change(h.inspect, "default", group)
			h.noErr(err)
			h.check(n == 0, "changed %d tasks of group %.50q", n, group)
		}
	}
}

// matching tests a bulk change with filters. It must reject tasks in the given states.
func matching(
	change func(i *asynq.Inspector, ctx context.Context, queue string, state asynq.TaskState, filter asynq.TaskFilter) (int, error),
	invalid ...asynq.TaskState,
) func(h *hostile) {
	return func(h *hostile) {
		h.T.Helper()
		ctx := context.Background()
		h.withMissingQueues(func(queue string) error {
			return testenv.ErrorOf(change(h.inspect, ctx, queue, asynq.TaskStateScheduled, asynq.TaskFilter{}))
		})
		for _, state := range append(invalid, 0, -1, 8, math.MaxInt, math.MinInt) {
			h.wantErr(testenv.ErrorOf(change(h.inspect, ctx, "default", state, asynq.TaskFilter{})), nil)
		}
		h.wantErr(testenv.ErrorOf(change(h.inspect, noContext, "default", asynq.TaskStateScheduled, asynq.TaskFilter{})), nil, "ctx must not be nil")
		h.wantErr(testenv.ErrorOf(change(h.inspect, ctx, "default", asynq.TaskStateScheduled, asynq.TaskFilter{Group: "g"})), nil, "TaskFilter.Group")
		for _, filter := range hostileFilters {
			n, err := change(h.inspect, ctx, "default", asynq.TaskStateScheduled, filter)
			h.noErr(err)
			h.check(n == 0, "changed %d tasks that match %+.200v", n, filter)
		}
		for _, group := range missingNames() {
			if group == "" { // all groups
				continue
			}
			n, err := change(h.inspect, ctx, "default", asynq.TaskStateAggregating, asynq.TaskFilter{Group: group})
			h.noErr(err)
			h.check(n == 0, "changed %d tasks of group %.50q", n, group)
		}
	}
}

// hostileFilters match none of the tasks.
var hostileFilters = []asynq.TaskFilter{
	{MinAge: longest}, {MaxAge: mostNegative}, {MinAge: longest, MaxAge: mostNegative, MaxScan: math.MinInt},
	{Type: notUTF8}, {Type: hugeName + "*"}, {Type: "\x00*"}, {ErrorContains: hugeName}, {PayloadContains: notUTF8, MaxScan: math.MaxInt},
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
		for _, group := range missingNames() {
			tasks, err := h.inspect.ListAggregatingTasks("default", group)
			h.noErr(err)
			h.check(len(tasks) == 0, "listed %d tasks of group %.50q", len(tasks), group)
		}
	},
	"Page": func(h *hostile) {
		for _, n := range []int{math.MinInt, -1, 0} {
			tasks, err := h.inspect.ListPendingTasks("default", asynq.Page(n))
			h.noErr(err)
			h.check(len(tasks) == 1, "page %d is not the first page", n)
		}
		for _, n := range []int{2, math.MaxInt32, math.MaxInt} {
			tasks, err := h.inspect.ListPendingTasks("default", asynq.Page(n))
			h.noErr(err)
			h.check(len(tasks) == 0, "page %d is not empty", n)
		}
	},
	"NewestFirst": func(h *hostile) {
		tasks, err := h.inspect.ListPendingTasks("default", asynq.NewestFirst(), asynq.NewestFirst(), nil)
		h.noErr(err)
		h.check(len(tasks) == 1, "listed %d tasks, want 1", len(tasks))
	},
	"PageSize": func(h *hostile) {
		for n, want := range map[int]int{math.MinInt: 1, -1: 1, 0: 1, 1: 1, math.MaxInt32: 1, math.MaxInt: 1} {
			tasks, err := h.inspect.ListPendingTasks("default", asynq.PageSize(n))
			h.noErr(err)
			h.check(len(tasks) == want, "a page of size %d has %d tasks", n, len(tasks))
			tasks, err = h.inspect.ListPendingTasks("default", asynq.PageSize(n), asynq.Page(math.MaxInt))
			h.noErr(err)
			h.check(len(tasks) == 0 || n <= 0, "the last page of size %d has %d tasks", n, len(tasks))
		}
	},
	"Inspector.ListTasks": func(h *hostile) {
		ctx := context.Background()
		h.withMissingQueues(func(queue string) error {
			return testenv.ErrorOf(h.inspect.ListTasks(ctx, queue, asynq.TaskStateActive, asynq.ListTasksOptions{}))
		})
		for _, cursor := range []string{"x", "\x00", "{}", strings.Repeat("A", 100_000)} {
			h.wantErr(testenv.ErrorOf(h.inspect.ListTasks(ctx, "default", asynq.TaskStatePending, asynq.ListTasksOptions{Cursor: cursor})), asynq.ErrCursor, "cursor")
		}
		for _, n := range []int{-1, 1001, math.MinInt, math.MaxInt} {
			h.wantErr(testenv.ErrorOf(h.inspect.ListTasks(ctx, "default", asynq.TaskStatePending, asynq.ListTasksOptions{Limit: n})), nil, "1,000")
		}
		h.wantErr(testenv.ErrorOf(h.inspect.ListTasks(ctx, "default", 0, asynq.ListTasksOptions{})), nil, "is not a task state")
		h.wantErr(testenv.ErrorOf(h.inspect.ListTasks(ctx, "default", asynq.TaskStatePending, asynq.ListTasksOptions{Filter: asynq.TaskFilter{Group: "g"}})), nil, "TaskFilter.Group")
		h.wantErr(testenv.ErrorOf(h.inspect.ListTasks(noContext, "default", asynq.TaskStatePending, asynq.ListTasksOptions{})), nil, "ctx must not be nil")
	},
	"Inspector.Tasks": func(h *hostile) {
		ctx := context.Background()
		states := []asynq.TaskState{
			asynq.TaskStatePending, asynq.TaskStateActive, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateArchived,
			asynq.TaskStateCompleted, asynq.TaskStateAggregating,
		}
		for _, state := range states {
			h.withMissingQueues(func(queue string) error {
				return testenv.LastError(h.inspect.Tasks(ctx, queue, state, asynq.TaskFilter{}))
			})
			for _, filter := range hostileFilters {
				for task, err := range h.inspect.Tasks(ctx, "default", state, filter) {
					h.noErr(err)
					h.T.Errorf("%v matches %+.200v", task, filter)
				}
			}
		}
		for _, state := range []asynq.TaskState{0, -1, 8, math.MaxInt, math.MinInt} {
			h.wantErr(testenv.LastError(h.inspect.Tasks(ctx, "default", state, asynq.TaskFilter{})), nil, "is not a task state")
		}
		h.wantErr(testenv.LastError(h.inspect.Tasks(noContext, "default", asynq.TaskStatePending, asynq.TaskFilter{})), nil, "ctx must not be nil")
		h.wantErr(testenv.LastError(h.inspect.Tasks(ctx, "default", asynq.TaskStatePending, asynq.TaskFilter{Group: "g"})), nil, "TaskFilter.Group")
	},
}

// list tests a list method that returns n tasks.
func list(tasks func(i *asynq.Inspector, queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error), n int) func(h *hostile) {
	return func(h *hostile) {
		h.T.Helper()
		h.withMissingQueues(func(queue string) error {
			return testenv.ErrorOf(tasks(h.inspect, queue, asynq.Page(math.MaxInt), asynq.PageSize(math.MaxInt)))
		})
		found, err := tasks(h.inspect, "default", nil, "invalid option", errors.New("invalid option"))
		h.noErr(err)
		h.check(len(found) == n, "listed %d tasks, want %d", len(found), n)
	}
}

// archiveMatching is Inspector.ArchiveTasks without the number of discarded tasks.
func archiveMatching(i *asynq.Inspector, ctx context.Context, queue string, state asynq.TaskState, filter asynq.TaskFilter) (int, error) { //nolint:revive // As a method expression.
	r, err := i.ArchiveTasks(ctx, queue, state, filter)
	return r.Archived, err
}
