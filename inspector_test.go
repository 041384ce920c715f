package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

// Programs compare the texts of these errors, which are those of the reference library.
func TestInspectorErrorTexts(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("t", asynq.ProcessIn(time.Hour))
		i := env.Inspector()
		const noQueue, noTask, unknown = "asynq: queue not found", "asynq: task not found", `NOT_FOUND: queue "none" does not exist`
		check := func(name string, err, is error, text string, names asynq.NotFoundError) {
			env.T.Helper()
			exact := strings.HasPrefix(text, "asynq: ")
			if !errors.Is(err, is) || exact && err.Error() != text || !strings.Contains(err.Error(), text) {
				env.T.Errorf("%s: error %v; want %q", name, err, text)
			}
			var missing *asynq.NotFoundError
			if !errors.As(err, &missing) || missing.Queue != names.Queue || missing.ID != names.ID {
				env.T.Errorf("%s: NotFoundError is %+v, want task %q in queue %q", name, missing, names.ID, names.Queue)
			}
		}
		for name, call := range map[string]func(queue, id string) error{
			"GetTaskInfo": func(q, id string) error { return testenv.ErrorOf(i.GetTaskInfo(q, id)) }, "RunTask": i.RunTask,
			"ArchiveTask": i.ArchiveTask, "DeleteTask": i.DeleteTask,
			"UpdateTaskPayload": func(q, id string) error { return i.UpdateTaskPayload(q, id, nil) },
		} {
			check(name, call("none", "t"), asynq.ErrQueueNotFound, noQueue, asynq.NotFoundError{Queue: "none"})
			check(name, call("default", "x"), asynq.ErrTaskNotFound, noTask, asynq.NotFoundError{Queue: "default", ID: "x"})
		}
		checked := 0
		methods := reflect.ValueOf(i)
		for n := range methods.NumMethod() { // these methods take a queue and some of them a group
			name, f := methods.Type().Method(n).Name, methods.Method(n)
			text := ""
			switch {
			case strings.HasSuffix(name, "Tasks") && strings.Contains(name, "All"), name == "GetQueueInfo", name == "History":
				text = unknown
			case name == "ListTasks": // takes a context
				continue
			case strings.HasPrefix(name, "List") && strings.HasSuffix(name, "Tasks"):
				text = noQueue
			default:
				continue
			}
			args := []reflect.Value{reflect.ValueOf("none")}
			switch {
			case strings.Contains(name, "Aggregating"):
				args = append(args, reflect.ValueOf("g"))
			case name == "History":
				args = append(args, reflect.ValueOf(1))
			}
			err, _ := f.Call(args)[1].Interface().(error)
			check(name, err, asynq.ErrQueueNotFound, text, asynq.NotFoundError{Queue: "none"})
			checked++
		}
		if checked != 7+14+2 {
			env.T.Errorf("checked %d methods", checked)
		}
		for _, force := range []bool{false, true} {
			err := i.DeleteQueue("none", force)
			check("DeleteQueue", err, asynq.ErrQueueNotFound, `asynq: queue not found: queue="none"`, asynq.NotFoundError{Queue: "none"})
		}
		if err := i.DeleteQueue("default", false); !errors.Is(err, asynq.ErrQueueNotEmpty) || !strings.Contains(err.Error(), `queue is not empty: queue="default"`) {
			env.T.Errorf("DeleteQueue: %v", err)
		}
		for _, size := range []int{0, -1, 3} {
			events, err := i.ListSchedulerEnqueueEvents("none", asynq.PageSize(size))
			if events != nil || err != nil {
				env.T.Errorf("events %v, error %v; want none, nil", events, err)
			}
		}
		for _, err := range []error{asynq.ErrQueueNotFound, asynq.ErrTaskNotFound} {
			if strings.HasPrefix(err.Error(), "asynq: ") {
				env.T.Errorf("%v: the variable must not have the prefix of the package", err)
			}
		}
	})
}

// inspectorCalls returns calls of all methods that query Redis. Methods without a context are
// called on a view with that context.
func inspectorCalls(i *asynq.Inspector, ctx context.Context) map[string]func() error { //nolint:revive // As WithContext takes them.
	const q, id = "default", "t"
	v := i.WithContext(ctx)
	all, statsFrom := asynq.TaskFilter{}, time.Now().Add(-time.Hour)
	calls := map[string]func() error{
		"CancelAndArchive": func() error { return i.CancelAndArchive(ctx, id) },
		"CancelAndDelete":  func() error { return i.CancelAndDelete(ctx, id) },
		"CancelProcessing": func() error { return v.CancelProcessing(id) },
		"RedisNodes": func() error {
			nodes, err := i.RedisNodes(ctx)
			if len(nodes) > 0 {
				err = nodes[0].Err
			}
			return err
		},
		"Processes":      func() error { return testenv.ErrorOf(i.Processes(ctx, time.Hour)) },
		"MuteCause":      func() error { return i.MuteCause(ctx, asynq.Mute{ID: id}) },
		"UnmuteCause":    func() error { return testenv.ErrorOf(i.UnmuteCause(ctx, id)) },
		"Mutes":          func() error { return testenv.ErrorOf(i.Mutes(ctx)) },
		"ClusterKeySlot": func() error { return testenv.ErrorOf(v.ClusterKeySlot(q)) },
		"ClusterNodes":   func() error { return testenv.ErrorOf(v.ClusterNodes(q)) },
		"DeleteQueue":    func() error { return v.DeleteQueue(q, true) },
		"ExportTasks":    func() error { return testenv.LastError(i.ExportTasks(ctx, q, asynq.TaskStatePending, all)) },
		"Tasks":          func() error { return testenv.LastError(i.Tasks(ctx, q, asynq.TaskStatePending, all)) },
		"RunTasks":       func() error { return testenv.ErrorOf(i.RunTasks(ctx, q, asynq.TaskStateRetry, all)) },
		"ArchiveTasks":   func() error { return testenv.ErrorOf(i.ArchiveTasks(ctx, q, asynq.TaskStatePending, all)) },
		"DeleteTasks":    func() error { return testenv.ErrorOf(i.DeleteTasks(ctx, q, asynq.TaskStatePending, all)) },
		"ListTasks": func() error {
			return testenv.ErrorOf(i.ListTasks(ctx, q, asynq.TaskStatePending, asynq.ListTasksOptions{}))
		},
		"SetPartition":               func() error { return i.SetPartition(ctx, q, id, asynq.PartitionSettings{Weight: 2}) },
		"UpdatePartition":            func() error { return updateWeight(i, ctx, q, id) },
		"PausePartition":             func() error { return i.PausePartition(ctx, q, id) },
		"ResumePartition":            func() error { return i.ResumePartition(ctx, q, id) },
		"TaskSteps":                  func() error { return testenv.ErrorOf(i.TaskSteps(ctx, q, id)) },
		"GetPartitionInfo":           func() error { return testenv.ErrorOf(i.GetPartitionInfo(ctx, q, id)) },
		"Partitions":                 func() error { return testenv.LastError(i.Partitions(ctx, q)) },
		"PartitionSettings":          func() error { return testenv.ErrorOf(i.PartitionSettings(ctx, q)) },
		"CancelPartitionTasks":       func() error { return testenv.ErrorOf(i.CancelPartitionTasks(ctx, q, id)) },
		"DeletePartitionTasks":       func() error { return testenv.ErrorOf(i.DeletePartitionTasks(ctx, q, id)) },
		"GetQueueInfo":               func() error { return testenv.ErrorOf(v.GetQueueInfo(q)) },
		"QueueInfos":                 func() error { return testenv.ErrorOf(i.QueueInfos(ctx)) },
		"TaskStates":                 func() error { return i.TaskStates(ctx, asynq.TaskRef{Queue: q, ID: id})[0].Err },
		"GetTaskInfo":                func() error { return testenv.ErrorOf(v.GetTaskInfo(q, id)) },
		"Groups":                     func() error { return testenv.ErrorOf(v.Groups(q)) },
		"History":                    func() error { return testenv.ErrorOf(v.History(q, 1)) },
		"TypeStats":                  func() error { return testenv.ErrorOf(i.TypeStats(ctx, q, statsFrom, time.Time{})) },
		"QueueHistory":               func() error { return testenv.ErrorOf(i.QueueHistory(ctx, "", statsFrom, time.Time{})) },
		"TypeHistory":                func() error { return testenv.ErrorOf(i.TypeHistory(ctx, q, "type", statsFrom, time.Time{})) },
		"ErrorStats":                 func() error { return testenv.ErrorOf(i.ErrorStats(ctx, q, statsFrom, time.Time{})) },
		"ListSchedulerEnqueueEvents": func() error { return testenv.ErrorOf(v.ListSchedulerEnqueueEvents("e")) },
		"PauseQueue":                 func() error { return v.PauseQueue(q) },
		"UnpauseQueue":               func() error { return v.UnpauseQueue(q) },
		"Queues":                     func() error { return testenv.ErrorOf(v.Queues()) },
		"RescheduleTask":             func() error { return i.RescheduleTask(ctx, q, id, time.Now()) },
		"RunSchedulerEntry":          func() error { return testenv.ErrorOf(i.RunSchedulerEntry(ctx, "e")) },
		"SchedulerEntries":           func() error { return testenv.ErrorOf(v.SchedulerEntries()) },
		"PauseSchedulerEntry":        func() error { return i.PauseSchedulerEntry(ctx, id) },
		"ResumeSchedulerEntry":       func() error { return i.ResumeSchedulerEntry(ctx, id) },
		"QuietServer":                func() error { return i.QuietServer(ctx, id) },
		"StopServer":                 func() error { return i.StopServer(ctx, id) },
		"SetServerConcurrency":       func() error { return i.SetServerConcurrency(ctx, id, 1) },
		"PauseServerQueue":           func() error { return i.PauseServerQueue(ctx, id, q) },
		"ResumeServerQueue":          func() error { return i.ResumeServerQueue(ctx, id, q) },
		"UnhandledTypes":             func() error { return testenv.ErrorOf(i.UnhandledTypes(ctx)) },
		"Servers":                    func() error { return testenv.ErrorOf(v.Servers()) },
		"UpdateTask":                 func() error { return testenv.ErrorOf(i.UpdateTask(ctx, q, id, []byte("p"))) },
		"UpdateTaskPayload":          func() error { return v.UpdateTaskPayload(q, id, nil) },
		"CompareAndSwapTaskPayload":  func() error { return i.CompareAndSwapTaskPayload(ctx, q, id, nil, nil) },
		"DeleteSchedulerGroup":       func() error { return i.DeleteSchedulerGroup(ctx, "g") },
		"DeleteSchedulerHistory":     func() error { return i.DeleteSchedulerHistory(ctx, "e") },
		"ArchiveLimits":              func() error { return testenv.ErrorOf(i.ArchiveLimits(ctx, q)) },
		"ArchiveRoom":                func() error { return testenv.ErrorOf(i.ArchiveRoom(ctx, q)) },
		"ListAggregatingTasks":       func() error { return testenv.ErrorOf(v.ListAggregatingTasks(q, "g")) },
		"ImportTasks": func() error {
			errs, err := i.ImportTasks(ctx, q, asynq.ImportOptions{IdempotencyKey: "x"}, []*asynq.TaskRecord{{ID: "i", Type: "t", State: asynq.TaskStatePending}})
			if len(errs) != 1 || !errors.Is(errs[0], err) {
				return errors.Join(errs...)
			}
			return err
		},
	}
	// The others take a queue and some of them an ID or a group.
	view := reflect.ValueOf(v)
	for n := range view.NumMethod() {
		name, method := view.Type().Method(n).Name, view.Method(n)
		if calls[name] != nil || name == "Close" || name == "WithContext" || name == "WithMemorySamples" {
			continue
		}
		calls[name] = func() error {
			var args []reflect.Value
			for a := range method.Type().NumIn() {
				if in := method.Type().In(a); in.Kind() == reflect.String {
					args = append(args, reflect.ValueOf([]string{q, id}[a]))
				}
			}
			out := method.Call(args)
			err, _ := out[len(out)-1].Interface().(error)
			return err
		}
	}
	return calls
}

// If Redis hangs, each call returns when its context is canceled, long before the connection times
// out.
func TestInspectorCallsReturnOnCancel(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("t")
		proxy, opt := env.Proxy()
		opt.ReadTimeout = time.Minute // longer than a call may take
		i := asynq.NewInspector(opt)
		env.T.Cleanup(func() { _ = i.Close() })
		if _, err := i.Queues(); err != nil {
			env.T.Fatal(err)
		}
		proxy.Blackhole()
		ctx, cancel := context.WithCancel(context.Background())
		calls := inspectorCalls(i, ctx)
		var all sync.WaitGroup
		for name, call := range calls {
			all.Go(func() {
				start := time.Now()
				if err := call(); !errors.Is(err, context.Canceled) {
					env.T.Errorf("%s: %v", name, err)
				}
				if took := time.Since(start); took > 2*time.Second+testenv.Slack {
					env.T.Errorf("%s took %v", name, took)
				}
			})
		}
		time.AfterFunc(100*time.Millisecond, cancel)
		all.Wait()
		proxy.Cut() // commands in flight never reach Redis
		if len(calls) < 45 {
			env.T.Errorf("only %d methods", len(calls))
		}
	})
}

// Errors have the prefix of this package and do not mention internal packages.
func TestInspectorErrorPrefix(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	i := asynq.NewInspector(asynq.RedisClientOpt{Addr: server.Addr(), Params: "max_retries=-1"})
	t.Cleanup(func() { _ = i.Close() })
	if _, err := i.Queues(); err != nil {
		t.Fatal(err)
	}
	server.SetError("ERR out of order")
	for name, call := range inspectorCalls(i, t.Context()) {
		err := call()
		if err == nil || !strings.HasPrefix(err.Error(), "asynq: ") || strings.Contains(err.Error(), "rdb:") || !strings.Contains(err.Error(), "out of order") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// scriptHook calls on with the number of each script call, between its execution and the delivery
// of its reply.
type scriptHook struct {
	calls atomic.Int64
	on    func(call int)
}

func (h *scriptHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *scriptHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if strings.HasPrefix(cmd.Name(), "eval") && err == nil {
			h.on(int(h.calls.Add(1)))
		}
		return err
	}
}

func (h *scriptHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func updateWeight(i *asynq.Inspector, ctx context.Context, queue, key string) error { //nolint:revive // As WithContext takes them.
	return i.UpdatePartition(ctx, queue, key, func(s *asynq.PartitionSettings) error {
		s.Weight = 2
		return nil
	})
}

// changeCalls returns the calls that change many tasks and return their number.
func changeCalls(i *asynq.Inspector, ctx context.Context) map[string]func() (int, error) { //nolint:revive // As WithContext takes them.
	const scheduled = asynq.TaskStateScheduled
	v, filter := i.WithContext(ctx), asynq.TaskFilter{}
	return map[string]func() (int, error){
		"RunAllScheduledTasks":     func() (int, error) { return v.RunAllScheduledTasks("default") },
		"ArchiveAllScheduledTasks": func() (int, error) { return v.ArchiveAllScheduledTasks("default") },
		"DeleteAllScheduledTasks":  func() (int, error) { return v.DeleteAllScheduledTasks("default") },
		"RunTasks":                 func() (int, error) { return i.RunTasks(ctx, "default", scheduled, filter) },
		"ArchiveTasks":             func() (int, error) { return archiveTasks(i, ctx, "default", scheduled, filter) },
		"DeleteTasks":              func() (int, error) { return i.DeleteTasks(ctx, "default", scheduled, filter) },
	}
}

// newHookedInspector schedules n tasks and returns an Inspector on a separate connection with a
// hook.
func newHookedInspector(env *testenv.Env, n int, h *scriptHook) *asynq.Inspector {
	enqueueLater(env, n)
	c := redis.NewClient(&redis.Options{Addr: env.Addr, DB: env.DB})
	env.T.Cleanup(func() { _ = c.Close() })
	c.AddHook(h)
	return asynq.NewInspectorFromRedisClient(c)
}

// A call that is canceled between two script calls returns the exact number of changed tasks.
func TestCanceledChangeCounts(t *testing.T) {
	for name := range changeCalls(&asynq.Inspector{}, context.Background()) {
		t.Run(name, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				const n = 1200
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				last := 5 // including calls that scan
				if strings.Contains(name, "All") {
					last = 3
				}
				h := &scriptHook{on: func(call int) {
					if call == last {
						cancel()
					}
				}}
				i := newHookedInspector(env, n, h)
				got, err := changeCalls(i, ctx)[name]()
				left := int(env.RDB.ZCard(context.Background(), env.Queue.Scheduled()).Val())
				if got != n-left || got == 0 || got == n || !errors.Is(err, context.Canceled) {
					env.T.Errorf("changed %d tasks, error %v; %d of %d are left", got, err, left, n)
				}
			})
		})
	}
}

// A call that is canceled while Redis hangs returns soon, with the number of tasks from the replies
// that it received.
func TestCanceledChangeCountsIfRedisHangs(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const n = 1200
		ctx, cancel := context.WithCancel(context.Background())
		hang := make(chan struct{})
		defer close(hang)
		h := &scriptHook{on: func(call int) {
			if call == 3 {
				cancel()
				<-hang
			}
		}}
		i := newHookedInspector(env, n, h)
		start := time.Now()
		got, err := i.WithContext(ctx).DeleteAllScheduledTasks("default")
		if got != 500 || !errors.Is(err, context.Canceled) {
			env.T.Errorf("changed %d tasks, error %v; want 500 from two replies", got, err)
		}
		if took := time.Since(start); took > 2*time.Second+testenv.Slack {
			env.T.Errorf("the call took %v", took)
		}
	})
}

// A canceled import returns which records it has imported.
func TestCanceledImportCounts(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const n = 1000
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		h := &scriptHook{on: func(call int) {
			if call == 2 {
				cancel()
			}
		}}
		i := newHookedInspector(env, 1, h)
		records := make([]*asynq.TaskRecord, n)
		for k := range records {
			records[k] = &asynq.TaskRecord{Number: int64(k), ID: fmt.Sprint("r", k), Type: "x", State: asynq.TaskStatePending}
		}
		errs, err := i.ImportTasks(ctx, "default", asynq.ImportOptions{IdempotencyKey: "import"}, records)
		imported := 0
		for _, err := range errs {
			if err == nil {
				imported++
			} else if !errors.Is(err, context.Canceled) {
				env.T.Error(err)
			}
		}
		if there := int(env.RDB.LLen(context.Background(), env.Queue.Pending()).Val()); imported != there || imported != 500 || !errors.Is(err, context.Canceled) {
			env.T.Errorf("imported %d tasks, error %v; %d exist", imported, err, there)
		}
	})
}

func TestInspectorQueueInfos(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.AllowViolations()
		ctx, i := context.Background(), env.Inspector()
		env.EnqueueMany(2)
		env.Enqueue("b1", asynq.Queue("b"))
		env.Enqueue("broken1", asynq.Queue("broken"))
		broken := wire.DefaultNamespace.Queue("broken")
		env.RDB.Set(ctx, broken.Archived(), "not a set", 0)
		got, err := i.QueueInfos(ctx)
		if err != nil || len(got) != 3 || got[0].Queue != "b" || got[1].Queue != "broken" || got[2].Queue != "default" {
			env.T.Fatalf("%+v, error %v", got, err)
		}
		if got[1].Err == nil || got[1].Info != nil {
			env.T.Errorf("result of the broken queue: %+v", got[1])
		}
		want, err := i.GetQueueInfo("default")
		if err != nil {
			env.T.Fatal(err)
		}
		for _, info := range []*asynq.QueueInfo{want, got[2].Info} {
			info.Timestamp, info.Latency = time.Time{}, 0
		}
		if diff := cmp.Diff(want, got[2].Info); diff != "" || got[2].Err != nil || got[2].Took <= 0 {
			env.T.Errorf("result differs from GetQueueInfo (-want +got):\n%s, error %v, took %v", diff, got[2].Err, got[2].Took)
		}
		got, err = i.QueueInfos(ctx, "none", "b")
		if err != nil || len(got) != 2 || !errors.Is(got[0].Err, asynq.ErrQueueNotFound) || got[1].Info.Pending != 1 {
			env.T.Errorf("%+v, error %v", got, err)
		}
	})
}

// QueueInfo shows how long tasks are overdue in a queue that no server processes.
func TestInspectorQueueInfoOverdue(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.AllowViolations()
		ctx, i := context.Background(), env.Inspector()
		env.Enqueue("t")
		if info, err := i.GetQueueInfo("default"); err != nil || info.RetryOverdue+info.ScheduledOverdue+info.LeaseOverdue != 0 {
			env.T.Errorf("nothing is overdue: %+v, error %v", info, err)
		}
		now := info(env, i).Timestamp
		for key, ago := range map[string]time.Duration{
			env.Queue.Scheduled(): time.Minute, env.Queue.Retry(): time.Hour, env.Queue.Lease(): 2 * time.Hour,
		} {
			env.RDB.ZAdd(ctx, key,
				redis.Z{Score: float64(now.Add(-ago).Unix()), Member: "a"}, redis.Z{Score: float64(now.Add(ago).Unix()), Member: "b"})
		}
		after := info(env, i)
		for name, d := range map[string][2]time.Duration{
			"scheduled": {after.ScheduledOverdue, time.Minute},
			"retry":     {after.RetryOverdue, time.Hour},
			"lease":     {after.LeaseOverdue, 2 * time.Hour},
		} {
			if off := d[0] - d[1]; off < 0 || off > 30*time.Second {
				env.T.Errorf("%s: overdue for %v, want %v", name, d[0], d[1])
			}
		}
	})
}

// info returns the QueueInfo of the default queue.
func info(env *testenv.Env, i *asynq.Inspector) *asynq.QueueInfo {
	env.T.Helper()
	info, err := i.GetQueueInfo("default")
	if err != nil {
		env.T.Fatal(err)
	}
	return info
}

// If Redis hangs, QueueInfos returns when its context ends.
func TestInspectorQueueInfosIfRedisHangs(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("t")
		proxy, opt := env.Proxy()
		i := asynq.NewInspector(opt)
		env.T.Cleanup(func() { _ = i.Close() })
		if _, err := i.Queues(); err != nil {
			env.T.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		proxy.Blackhole()
		if _, err := i.QueueInfos(ctx); !errors.Is(err, context.DeadlineExceeded) {
			env.T.Errorf("without any reply: error %v", err)
		}
		proxy.Resume()

		ctx, cancel = context.WithCancel(context.Background())
		defer cancel()
		silence := proxy.Answer(1, "", "evalsha") // an empty reply, so that the client waits for more
		go func() {
			<-silence.Done()
			cancel()
		}()
		got, err := i.QueueInfos(ctx)
		if err != nil || len(got) != 1 || !errors.Is(got[0].Err, context.Canceled) || got[0].Took <= 0 {
			env.T.Errorf("without a reply for the queue: %+v, error %v", got, err)
		}
	})
}
