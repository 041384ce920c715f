package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/testenv"
)

func TestInspectorPages(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.EnqueueMany(40)
		i := env.Inspector()
		ids := make([]string, 40)
		for n := range ids {
			ids[n] = fmt.Sprint("t", n)
		}
		for name, tc := range map[string]struct {
			opts []asynq.ListOption
			want []string
		}{
			"default":                     {nil, ids[:30]},
			"second page":                 {[]asynq.ListOption{asynq.Page(2)}, ids[30:]},
			"other size":                  {[]asynq.ListOption{asynq.PageSize(7), asynq.Page(3)}, ids[14:21]},
			"last page":                   {[]asynq.ListOption{asynq.PageSize(15), asynq.Page(3)}, ids[30:]},
			"beyond the end":              {[]asynq.ListOption{asynq.Page(3)}, nil},
			"far beyond":                  {[]asynq.ListOption{asynq.Page(math.MaxInt), asynq.PageSize(math.MaxInt)}, nil},
			"huge size":                   {[]asynq.ListOption{asynq.PageSize(math.MaxInt)}, ids},
			"page 0":                      {[]asynq.ListOption{asynq.Page(0)}, ids[:30]},
			"page -3":                     {[]asynq.ListOption{asynq.Page(-3), asynq.PageSize(2)}, ids[:2]},
			"size 0":                      {[]asynq.ListOption{asynq.PageSize(0)}, ids},
			"negative size":               {[]asynq.ListOption{asynq.PageSize(-5)}, ids},
			"all, page ignored":           {[]asynq.ListOption{asynq.PageSize(-1), asynq.Page(2)}, ids},
			"newest first without effect": {[]asynq.ListOption{asynq.PageSize(2), asynq.NewestFirst()}, ids[:2]},
			"last option wins":            {[]asynq.ListOption{asynq.PageSize(1), asynq.PageSize(3), nil, "odd"}, ids[:3]},
		} {
			got, err := i.ListPendingTasks("default", tc.opts...)
			if err != nil || !slices.Equal(testenv.TaskIDs(got), tc.want) {
				env.T.Errorf("%s: %v, error %v", name, testenv.TaskIDs(got), err)
			}
		}
	})
}

// PageSize(0) returns all tasks in order, with several calls, although other clients change the
// list concurrently.
func TestInspectorListsAll(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const n = 1300
		env.EnqueueMany(n)
		i := env.Inspector()
		var others sync.WaitGroup
		stop := make(chan struct{})
		others.Go(func() { // tasks are added and deleted continuously
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprint("other", k)
				env.Enqueue(id)
				if err := i.DeleteTask("default", id); err != nil {
					env.T.Error(err)
				}
			}
		})
		for range 3 {
			got, err := i.ListPendingTasks("default", asynq.PageSize(0))
			ids := slices.DeleteFunc(testenv.TaskIDs(got), func(id string) bool { return strings.HasPrefix(id, "other") })
			if err != nil || len(ids) != n || ids[0] != "t0" || ids[n-1] != fmt.Sprint("t", n-1) {
				env.T.Errorf("listed %d of %d tasks, error %v", len(ids), n, err)
			}
		}
		close(stop)
		others.Wait()
	})
}

// Lists have the order of the reference library. Tasks and ListTasks have the documented order, or
// its reverse.
func TestInspectorOrders(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		env.EnqueueMany(6)
		for n, id := range []string{"t0", "t1", "t2"} {
			if err := i.ArchiveTask("default", id); err != nil {
				env.T.Fatal(err)
			}
			env.RDB.ZIncrBy(ctx, env.Queue.Archived(), float64(n), id)
		}
		for n := range 3 {
			env.Enqueue(fmt.Sprint("s", n), asynq.ProcessIn(time.Duration(n+1)*time.Hour))
			env.Enqueue(fmt.Sprint("g", n), asynq.Group("g"))
		}
		archived := []string{"t2", "t1", "t0"}
		for _, o := range []struct {
			opt  asynq.ListOption
			want []string
		}{{nil, []string{"t0", "t1", "t2"}}, {asynq.NewestFirst(), archived}} {
			for _, size := range []int{30, 0} {
				if got, err := i.ListArchivedTasks("default", o.opt, asynq.PageSize(size)); err != nil || !slices.Equal(testenv.TaskIDs(got), o.want) {
					env.T.Errorf("archived, pages of %d: %v, error %v; want %v", size, testenv.TaskIDs(got), err, o.want)
				}
			}
		}
		for state, want := range map[asynq.TaskState][]string{
			asynq.TaskStatePending: {"t3", "t4", "t5"}, asynq.TaskStateArchived: archived, asynq.TaskStateScheduled: {"s0", "s1", "s2"},
			asynq.TaskStateAggregating: {"g0", "g1", "g2"},
		} {
			for _, reverse := range []bool{false, true} {
				filter := asynq.TaskFilter{Reverse: reverse}
				var got []string
				for task, err := range i.Tasks(ctx, "default", state, filter) {
					if err != nil {
						env.T.Fatal(err)
					}
					got = append(got, task.ID)
				}
				paged, _ := pagesOf(env, state, filter, 1)
				if !slices.Equal(got, want) || !slices.Equal(paged, want) {
					env.T.Errorf("%v, reverse %v: %v, in pages %v; want %v", state, reverse, got, paged, want)
				}
				slices.Reverse(want)
			}
			first, err := i.ListTasks(ctx, "default", state, asynq.ListTasksOptions{Limit: 1})
			if err != nil {
				env.T.Fatal(err)
			}
			reversed := asynq.ListTasksOptions{Filter: asynq.TaskFilter{Reverse: true}, Cursor: first.Next}
			if _, err := i.ListTasks(ctx, "default", state, reversed); !errors.Is(err, asynq.ErrCursor) {
				env.T.Errorf("%v: cursor of the other direction: error %v", state, err)
			}
		}
	})
}

// Every list returns the tasks of its state, with the same fields as GetTaskInfo.
func TestInspectorLists(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		i := env.Inspector()
		running, release := make(chan struct{}, 10), make(chan struct{})
		env.Serve(asynq.Config{Concurrency: 1}, func(_ context.Context, task *asynq.Task) error {
			switch task.Type() {
			case "completed":
				_, _ = task.ResultWriter().Write([]byte("done"))
				return nil
			case "archived":
				return fmt.Errorf("no: %w", asynq.SkipRetry)
			case "retry":
				return asynq.RetryAfter(time.Hour)
			default:
				running <- struct{}{}
				<-release
				return nil
			}
		})
		env.T.Cleanup(func() { close(release) })
		env.Enqueue("completed", asynq.Retention(time.Hour))
		env.Enqueue("archived")
		env.Enqueue("retry")
		env.Enqueue("active", asynq.Timeout(time.Minute))
		<-running
		env.Enqueue("pending")
		env.Enqueue("scheduled", asynq.ProcessIn(time.Hour))
		env.Enqueue("aggregating", asynq.Group("g"))
		lists := map[string]func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
			"active": i.ListActiveTasks, "pending": i.ListPendingTasks, "scheduled": i.ListScheduledTasks, "retry": i.ListRetryTasks,
			"archived": i.ListArchivedTasks, "completed": i.ListCompletedTasks,
			"aggregating": func(queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
				return i.ListAggregatingTasks(queue, "g", opts...)
			},
		}
		for name, list := range lists {
			got, err := list("default")
			if err != nil || len(got) != 1 || got[0].ID != name || got[0].State.String() != name {
				env.T.Errorf("%s: %v, error %v", name, got, err)
				continue
			}
			want, err := i.GetTaskInfo("default", name)
			if err != nil {
				env.T.Fatal(err)
			}
			if name == "pending" { // is now
				want.NextProcessAt = got[0].NextProcessAt
			}
			want.Age = got[0].Age // until now
			if a, b := fmt.Sprintf("%+v", *want), fmt.Sprintf("%+v", *got[0]); a != b {
				env.T.Errorf("%s: listed %s\nlooked up %s", name, b, a)
			}
			if _, err := list("none"); !errors.Is(err, asynq.ErrQueueNotFound) {
				env.T.Errorf("%s of a missing queue: %v", name, err)
			}
			yielded := 0
			for task, err := range i.Tasks(context.Background(), "default", got[0].State, asynq.TaskFilter{}) {
				if yielded++; err != nil || task.ID != name {
					env.T.Errorf("%s: yielded %+v, error %v", name, task, err)
				}
			}
			if yielded != 1 {
				env.T.Errorf("%s: yielded %d tasks", name, yielded)
			}
		}
		if got, err := i.ListAggregatingTasks("default", "h"); err != nil || len(got) != 0 {
			env.T.Errorf("missing group: %v, error %v", got, err)
		}
	})
}

func TestInspectorQueueInfo(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		i := env.Inspector()
		env.EnqueueMany(3)
		env.Enqueue("s", asynq.ProcessIn(time.Hour))
		env.Enqueue("g1", asynq.Group("g"))
		env.Enqueue("g2", asynq.Group("h"))
		since := time.Now().Add(-time.Minute)
		env.RDB.HSet(context.Background(), env.Queue.Task("t0"), "pending_since", since.UnixNano())
		if err := i.PauseQueue("default"); err != nil {
			env.T.Error(err)
		}
		info, err := i.GetQueueInfo("default")
		if err != nil {
			env.T.Fatal(err)
		}
		if info.Queue != "default" || info.Size != 6 || info.Pending != 3 || info.Scheduled != 1 || info.Aggregating != 2 ||
			info.Groups != 2 || !info.Paused || info.MemoryUsage < 500 || info.Latency.Round(10*time.Second) != time.Minute ||
			time.Since(info.Timestamp).Abs() > time.Minute {
			env.T.Errorf("%+v", info)
		}
		for _, n := range []int{0, -1} {
			if info, err := i.WithMemorySamples(n).GetQueueInfo("default"); err != nil || info.MemoryUsage != 0 || info.Size != 6 {
				env.T.Errorf("%d samples: %+v, error %v", n, info, err)
			}
		}
		groups, err := i.Groups("default")
		if err != nil || len(groups) != 2 || *groups[0] != (asynq.GroupInfo{Group: "g", Size: 1, Oldest: groups[0].Oldest}) {
			env.T.Errorf("groups %v, error %v", groups, err)
		}
		if age := time.Since(groups[0].Oldest); age.Abs() > time.Minute {
			env.T.Errorf("the first task of the group arrived %v ago", age)
		}
		days, err := i.History("default", 3)
		if err != nil || len(days) != 3 || days[0].Queue != "default" || !days[1].Date.Before(days[0].Date) {
			env.T.Errorf("history %v, error %v", days, err)
		}
		for _, n := range []int{0, -1} {
			if _, err := i.History("default", n); err == nil {
				env.T.Errorf("no error for %d days", n)
			}
		}
		_, infoErr := i.GetQueueInfo("none")
		if groups, err := i.Groups("none"); groups != nil || err != nil {
			env.T.Errorf("missing queue: groups %v, error %v", groups, err)
		}
		_, historyErr := i.History("none", 1)
		for _, err := range []error{infoErr, historyErr} {
			if !errors.Is(err, asynq.ErrQueueNotFound) {
				env.T.Errorf("missing queue: %v", err)
			}
		}
	})
}

func TestInspectorServers(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		running, release := make(chan struct{}, 10), make(chan struct{})
		env.Serve(asynq.Config{Concurrency: 3, StrictPriority: true, Queues: map[string]int{"default": 2}}, func(context.Context, *asynq.Task) error {
			running <- struct{}{}
			<-release
			return nil
		})
		env.T.Cleanup(func() { close(release) })
		env.Enqueue("a")
		<-running
		i := env.Inspector()
		env.Eventually(func() bool {
			servers, err := i.Servers()
			if err != nil {
				env.T.Fatal(err)
			}
			return len(servers) == 1 && servers[0].Concurrency == 3 && servers[0].StrictPriority && servers[0].Queues["default"] == 2 &&
				servers[0].Status == "active" && len(servers[0].ActiveWorkers) == 1 && servers[0].ActiveWorkers[0].TaskID == "a"
		}, "the server to list its active task")
		count := func(filter asynq.TaskFilter) (n int) {
			for _, err := range i.Tasks(context.Background(), "default", asynq.TaskStateActive, filter) {
				if n++; err != nil {
					env.T.Error(err)
				}
			}
			return n
		}
		if count(asynq.TaskFilter{MaxAge: time.Minute}) != 1 || count(asynq.TaskFilter{MinAge: time.Minute}) != 0 {
			env.T.Error("the age of an active task is not the age of its attempt")
		}
	})
}

func TestInspectorTaskFilter(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		i, ctx := env.Inspector(), context.Background()
		b := rdb.New(env.RDB, "")
		var ids []string
		for n := range 250 {
			m := redistest.Message("default", fmt.Sprint("t", n))
			m.Type = fmt.Sprint("type:", n%10)
			m.Payload = fmt.Appendf(nil, "payload %d.", n)
			m.LastErr = fmt.Sprintf("error %d.", n)
			task := &rdb.NewTask{ID: m.ID, Queue: "default", Message: redistest.Encode(env.T, m), ProcessAt: time.Now().Add(time.Hour).Unix()}
			if b.Enqueue(ctx, task); task.Err != nil {
				env.T.Fatal(task.Err)
			}
			env.RDB.ZAdd(ctx, env.Queue.Scheduled(), redis.Z{Score: float64(time.Now().Add(time.Duration(n-200) * time.Minute).Unix()), Member: m.ID})
			ids = append(ids, m.ID)
		}
		for name, tc := range map[string]struct {
			filter asynq.TaskFilter
			want   []string
			err    error
		}{
			"all":                       {asynq.TaskFilter{}, ids, nil},
			"type":                      {asynq.TaskFilter{Type: "type:7", MaxScan: 250}, every(ids, 7), nil},
			"prefix of a type":          {asynq.TaskFilter{Type: "type:*", MaxScan: 300}, ids, nil},
			"any type":                  {asynq.TaskFilter{Type: "*"}, ids, nil},
			"other type":                {asynq.TaskFilter{Type: "type:"}, nil, nil},
			"error":                     {asynq.TaskFilter{ErrorContains: "error 42."}, ids[42:43], nil},
			"payload":                   {asynq.TaskFilter{PayloadContains: "payload 249."}, ids[249:], nil},
			"both":                      {asynq.TaskFilter{PayloadContains: "payload 249.", ErrorContains: "error 248."}, nil, nil},
			"overdue by an hour":        {asynq.TaskFilter{MinAge: time.Hour - 30*time.Second}, ids[:141], nil},
			"younger":                   {asynq.TaskFilter{MaxAge: time.Hour - 30*time.Second}, ids[141:], nil},
			"age range":                 {asynq.TaskFilter{MinAge: 30 * time.Second, MaxAge: 90 * time.Second}, ids[199:200], nil},
			"scan limit 1":              {asynq.TaskFilter{MaxScan: 1}, ids[:1], asynq.ErrScanLimit},
			"scan limit 249":            {asynq.TaskFilter{MaxScan: 249}, ids[:249], asynq.ErrScanLimit},
			"no match within the limit": {asynq.TaskFilter{MaxScan: 200, PayloadContains: "payload 249."}, nil, asynq.ErrScanLimit},
			"group without effect":      {asynq.TaskFilter{Group: "g"}, nil, nil},
		} {
			var got []string
			var last error
			for task, err := range i.Tasks(ctx, "default", asynq.TaskStateScheduled, tc.filter) {
				if last != nil {
					env.T.Errorf("%s: yielded more after an error", name)
				}
				if last = err; err == nil {
					got = append(got, task.ID)
				}
			}
			if tc.filter.Group != "" { // valid only for aggregating tasks
				if last == nil {
					env.T.Errorf("%s: no error", name)
				}
				continue
			}
			if !slices.Equal(got, tc.want) || !errors.Is(last, tc.err) {
				env.T.Errorf("%s: %d tasks, want %d, error %v", name, len(got), len(tc.want), last)
			}
		}
	})
}

// TaskInfo.Age is the age that TaskFilter.MinAge and MaxAge bound.
func TestTaskInfoAge(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		i := env.Inspector()
		for _, info := range []*asynq.TaskInfo{env.Enqueue("pending"), env.Enqueue("scheduled", asynq.ProcessIn(time.Hour))} {
			if info.Age != 0 {
				env.T.Errorf("%+v", info)
			}
		}
		for id, between := range map[string][2]time.Duration{"pending": {0, time.Minute}, "scheduled": {-time.Hour - time.Minute, -time.Hour + time.Minute}} {
			info, err := i.GetTaskInfo("default", id)
			if err != nil || info.Age < between[0] || info.Age > between[1] || info.Age == 0 {
				env.T.Errorf("%s: age %v, error %v", id, info.Age, err)
			}
		}
	})
}

// every returns every tenth ID, starting at index n.
func every(ids []string, n int) (some []string) {
	for ; n < len(ids); n += 10 {
		some = append(some, ids[n])
	}
	return some
}

func TestInspectorTasksStops(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		i := env.Inspector()
		env.EnqueueMany(10)
		tasks := i.Tasks(context.Background(), "default", asynq.TaskStatePending, asynq.TaskFilter{})
		for range 2 { // each loop starts again
			n := 0
			for _, err := range tasks {
				if n++; err != nil {
					env.T.Error(err)
				}
				if n == 3 {
					break
				}
			}
		}
		failing := func(ctx context.Context, queue string, state asynq.TaskState) (last error) {
			for task, err := range i.Tasks(ctx, queue, state, asynq.TaskFilter{}) {
				if last = err; task != nil {
					env.T.Errorf("yielded %v", task)
				}
			}
			return last
		}
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		if err := failing(canceled, "default", asynq.TaskStatePending); !errors.Is(err, context.Canceled) {
			env.T.Errorf("canceled context: %v", err)
		}
		if err := failing(context.Background(), "none", asynq.TaskStatePending); !errors.Is(err, asynq.ErrQueueNotFound) {
			env.T.Errorf("missing queue: %v", err)
		}
		if err := failing(context.Background(), "default", 99); err == nil {
			env.T.Error("no error for an invalid state")
		}
		if err := failing(context.Background(), "default", asynq.TaskStateRetry); err != nil {
			env.T.Errorf("state without tasks: %v", err)
		}
	})
}

// pagesOf returns the IDs on all pages and the number of pages.
func pagesOf(env *testenv.Env, state asynq.TaskState, filter asynq.TaskFilter, n int) (ids []string, pages int) {
	env.T.Helper()
	for cursor := ""; pages == 0 || cursor != ""; pages++ {
		page, err := env.Inspector().ListTasks(context.Background(), "default", state, asynq.ListTasksOptions{Filter: filter, Cursor: cursor, Limit: n})
		if err != nil {
			env.T.Fatal(err)
		}
		if len(page.Tasks) > n {
			env.T.Errorf("a page of size %d has %d tasks", n, len(page.Tasks))
		}
		ids, cursor = append(ids, testenv.TaskIDs(page.Tasks)...), page.Next
	}
	return ids, pages
}

func TestInspectorListTasks(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.EnqueueMany(40)
		enqueueLater(env, 700)
		for _, tc := range []struct {
			state   asynq.TaskState
			filter  asynq.TaskFilter
			n       int
			want, p int // tasks, pages
		}{
			{asynq.TaskStatePending, asynq.TaskFilter{}, 7, 40, 6},
			{asynq.TaskStatePending, asynq.TaskFilter{}, 40, 40, 1},
			{asynq.TaskStatePending, asynq.TaskFilter{MaxScan: 11}, 1000, 40, 4},
			{asynq.TaskStateScheduled, asynq.TaskFilter{}, 300, 700, 3},
			{asynq.TaskStateScheduled, asynq.TaskFilter{Type: "later:3"}, 30, 70, 3},
			{asynq.TaskStateScheduled, asynq.TaskFilter{Type: "none", MaxScan: 250}, 30, 0, 4},
			{asynq.TaskStateRetry, asynq.TaskFilter{}, 10, 0, 1},
		} {
			var want []string
			for task, err := range env.Inspector().Tasks(context.Background(), "default", tc.state, asynq.TaskFilter{Type: tc.filter.Type}) {
				if err != nil {
					env.T.Fatal(err)
				}
				want = append(want, task.ID)
			}
			got, pages := pagesOf(env, tc.state, tc.filter, tc.n)
			if len(got) != tc.want || !slices.Equal(got, want) || pages != tc.p {
				env.T.Errorf("%v, %d per page: %d pages with %v, want %d with %v", tc.state, tc.n, pages, got, tc.p, want)
			}
		}
	})
}

func TestInspectorListTasksRejects(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.EnqueueMany(3)
		ctx, i := context.Background(), env.Inspector()
		page, err := i.ListTasks(ctx, "default", asynq.TaskStatePending, asynq.ListTasksOptions{Limit: 1})
		if err != nil || page.Next == "" {
			env.T.Fatal(page, err)
		}
		for _, cursor := range []string{"x", "!", "bnVsbA", "eyJuIjotMX0", "eyJzIjoiKCJ9"} {
			if _, err := i.ListTasks(ctx, "default", asynq.TaskStatePending, asynq.ListTasksOptions{Cursor: cursor}); !errors.Is(err, asynq.ErrCursor) {
				env.T.Errorf("cursor %q: %v", cursor, err)
			}
		}
		if _, err := i.ListTasks(ctx, "default", asynq.TaskStateRetry, asynq.ListTasksOptions{Cursor: page.Next}); !errors.Is(err, asynq.ErrCursor) {
			env.T.Errorf("cursor of another state: %v", err)
		}
		if _, err := i.ListTasks(ctx, "none", asynq.TaskStateRetry, asynq.ListTasksOptions{Limit: 1}); !errors.Is(err, asynq.ErrQueueNotFound) {
			env.T.Errorf("missing queue: %v", err)
		}
		for _, n := range []int{-1, 1001} {
			if _, err := i.ListTasks(ctx, "default", asynq.TaskStatePending, asynq.ListTasksOptions{Limit: n}); err == nil {
				env.T.Errorf("no error for a page of %d tasks", n)
			}
		}
	})
}

// enqueueLater schedules n tasks of ten types.
func enqueueLater(env *testenv.Env, n int) {
	env.T.Helper()
	tasks := make([]*asynq.Task, n)
	for i := range tasks {
		tasks[i] = asynq.NewTask(fmt.Sprint("later:", i%10), nil, asynq.TaskID(fmt.Sprint("s", i)), asynq.ProcessIn(time.Hour))
	}
	for i, r := range env.Client.BatchEnqueueContext(context.Background(), tasks) {
		if r.Err != nil {
			env.T.Fatalf("enqueue task %d: %v", i, r.Err)
		}
	}
}

func TestInspectorTaskStates(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		env.Enqueue("a")
		env.Enqueue("b", asynq.Queue("other"), asynq.ProcessIn(time.Hour))
		refs := []asynq.TaskRef{{"other", "b"}, {"default", "none"}, {"nowhere", "a"}, {"default", "a"}}
		got := i.TaskStates(ctx, refs...)
		if got[0].State != asynq.TaskStateScheduled || got[3].State != asynq.TaskStatePending || got[0].Err != nil || got[3].Err != nil {
			env.T.Errorf("states: %+v", got)
		}
		for _, n := range []int{1, 2} {
			if !errors.Is(got[n].Err, asynq.ErrTaskNotFound) || got[n].State != 0 {
				env.T.Errorf("missing task: %+v", got[n])
			}
		}
		if got := i.TaskStates(ctx); len(got) != 0 {
			env.T.Errorf("without refs: %+v", got)
		}
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		for _, r := range i.TaskStates(canceled, refs...) {
			if !errors.Is(r.Err, context.Canceled) || r.State != 0 {
				env.T.Errorf("canceled context: %+v", r)
			}
		}
		for _, r := range i.TaskStates(nil, refs...) { //nolint:staticcheck // A nil context is what is tested.
			if r.Err == nil {
				env.T.Error("no error with a nil context")
			}
		}
	})
}
