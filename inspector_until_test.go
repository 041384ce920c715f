package asynq_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
)

// inspectorCalls are all methods of an Inspector that ask Redis: those that take no context, on a view that has one.
func inspectorCalls(i *asynq.Inspector, ctx context.Context) map[string]func() error { //nolint:revive // As WithContext takes them.
	const q, id = "default", "t"
	v := i.WithContext(ctx)
	all := asynq.TaskFilter{}
	calls := map[string]func() error{
		"CancelAndArchive":           func() error { return i.CancelAndArchive(ctx, id) },
		"CancelAndDelete":            func() error { return i.CancelAndDelete(ctx, id) },
		"CancelProcessing":           func() error { return v.CancelProcessing(id) },
		"ClusterKeySlot":             func() error { return after(v.ClusterKeySlot(q)) },
		"ClusterNodes":               func() error { return after(v.ClusterNodes(q)) },
		"DeleteQueue":                func() error { return v.DeleteQueue(q, true) },
		"Diagnose":                   func() error { return last(i.Diagnose(ctx, asynq.DiagnoseOptions{})) },
		"ExportTasks":                func() error { return last(i.ExportTasks(ctx, q, asynq.TaskStatePending, all)) },
		"Tasks":                      func() error { return last(i.Tasks(ctx, q, asynq.TaskStatePending, all)) },
		"RunTasks":                   func() error { return after(i.RunTasks(ctx, q, asynq.TaskStateRetry, all)) },
		"ArchiveTasks":               func() error { return after(i.ArchiveTasks(ctx, q, asynq.TaskStatePending, all)) },
		"DeleteTasks":                func() error { return after(i.DeleteTasks(ctx, q, asynq.TaskStatePending, all)) },
		"TasksAfter":                 func() error { return after(i.TasksAfter(ctx, q, asynq.TaskStatePending, all, "", 1)) },
		"GetQueueInfo":               func() error { return after(v.GetQueueInfo(q)) },
		"QueueInfos":                 func() error { return after(i.QueueInfos(ctx)) },
		"TaskStates":                 func() error { return i.TaskStates(ctx, asynq.TaskRef{Queue: q, ID: id})[0].Err },
		"GetTaskInfo":                func() error { return after(v.GetTaskInfo(q, id)) },
		"Groups":                     func() error { return after(v.Groups(q)) },
		"History":                    func() error { return after(v.History(q, 1)) },
		"ListSchedulerEnqueueEvents": func() error { return after(v.ListSchedulerEnqueueEvents("e")) },
		"PauseQueue":                 func() error { return v.PauseQueue(q) },
		"UnpauseQueue":               func() error { return v.UnpauseQueue(q) },
		"Queues":                     func() error { return after(v.Queues()) },
		"Reschedule":                 func() error { return i.Reschedule(ctx, q, id, time.Now()) },
		"RunSchedulerEntry":          func() error { return after(i.RunSchedulerEntry(ctx, "e")) },
		"SchedulerEntries":           func() error { return after(v.SchedulerEntries()) },
		"Servers":                    func() error { return after(v.Servers()) },
		"UpdateTaskPayload":          func() error { return v.UpdateTaskPayload(q, id, nil) },
		"ReplaceTaskPayload":         func() error { return i.ReplaceTaskPayload(ctx, q, id, nil, nil) },
		"ForgetSchedulers":           func() error { return i.ForgetSchedulers(ctx, "g", "e") },
		"ListAggregatingTasks":       func() error { return after(v.ListAggregatingTasks(q, "g")) },
		"ImportTasks": func() error {
			errs, err := i.ImportTasks(ctx, q, asynq.ImportOptions{Name: "x"}, []*asynq.TaskRecord{{ID: "i", Type: "t", State: asynq.TaskStatePending}})
			if len(errs) != 1 || !errors.Is(errs[0], err) {
				return errors.Join(errs...)
			}
			return err
		},
	}
	// The others take a queue, and perhaps an ID or a group.
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

// Where Redis is silent, each call ends when its context does, long before the connection's patience.
func TestInspectorCallsEndWithTheirContext(t *testing.T) {
	everywhere(t, func(s *site) {
		s.enqueue("t")
		proxy, opt := s.proxy()
		i := asynq.NewInspector(opt)
		s.t.Cleanup(func() { _ = i.Close() })
		if _, err := i.Queues(); err != nil {
			s.t.Fatal(err)
		}
		proxy.Blackhole()
		ctx, cancel := context.WithCancel(context.Background())
		calls := inspectorCalls(i, ctx)
		var all sync.WaitGroup
		for name, call := range calls {
			all.Go(func() {
				began := time.Now()
				if err := call(); !errors.Is(err, context.Canceled) {
					s.t.Errorf("%s: %v", name, err)
				}
				if took := time.Since(began); took > 4*time.Second {
					s.t.Errorf("%s took %v", name, took)
				}
			})
		}
		time.AfterFunc(100*time.Millisecond, cancel)
		all.Wait()
		proxy.Cut() // what is on its way never comes to Redis
		if len(calls) < 45 {
			s.t.Errorf("only %d methods", len(calls))
		}
	})
}

// A diagnosis goes on as far as the loop over it, and no further.
func TestDiagnoseEndsWithItsLoop(t *testing.T) {
	everywhere(t, func(s *site) {
		s.AllowViolations()
		for _, id := range []string{"a", "b", "c"} {
			s.redis.LPush(context.Background(), "asynq:{default}:pending", id)
		}
		s.redis.SAdd(context.Background(), "asynq:queues", "default")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		found := 0
		for f, err := range s.inspector().Diagnose(ctx, asynq.DiagnoseOptions{}) {
			if found++; err != nil || f.Kind != asynq.FindingDanglingID {
				s.t.Fatalf("found %v, error %v", f, err)
			}
			if found == 2 {
				break
			}
		}
		if found != 2 {
			s.t.Errorf("found %d", found)
		}
		want := errors.New("enough")
		within, enough := context.WithCancelCause(context.Background())
		defer enough(nil)
		var errs []error
		for _, err := range s.inspector().Diagnose(within, asynq.DiagnoseOptions{}) {
			enough(want)
			if err != nil {
				errs = append(errs, err)
			}
		}
		if len(errs) != 1 || !errors.Is(errs[0], want) {
			s.t.Errorf("errors %v", errs)
		}
	})
}

// Errors name this package, and not those below it.
func TestInspectorErrorsAreOfThisPackage(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	i := asynq.NewInspector(asynq.RedisClientOpt{Addr: server.Addr(), MaxRetries: -1})
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
