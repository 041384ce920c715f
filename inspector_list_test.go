package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// infoIDs are the IDs of tasks, in their order.
func infoIDs(tasks []*asynq.TaskInfo) []string {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return ids
}

func TestInspectorPages(t *testing.T) {
	everywhere(t, func(s *site) {
		s.enqueueMany(40)
		i := s.inspector()
		ids := make([]string, 40)
		for n := range ids {
			ids[n] = fmt.Sprint("t", n)
		}
		for name, tc := range map[string]struct {
			opts []asynq.ListOption
			want []string
		}{
			"by default":        {nil, ids[:30]},
			"the second":        {[]asynq.ListOption{asynq.Page(2)}, ids[30:]},
			"of another size":   {[]asynq.ListOption{asynq.PageSize(7), asynq.Page(3)}, ids[14:21]},
			"the last one":      {[]asynq.ListOption{asynq.PageSize(15), asynq.Page(3)}, ids[30:]},
			"beyond":            {[]asynq.ListOption{asynq.Page(3)}, nil},
			"far beyond":        {[]asynq.ListOption{asynq.Page(math.MaxInt), asynq.PageSize(math.MaxInt)}, nil},
			"huge":              {[]asynq.ListOption{asynq.PageSize(math.MaxInt)}, ids},
			"number 0":          {[]asynq.ListOption{asynq.Page(0)}, ids[:30]},
			"number -3":         {[]asynq.ListOption{asynq.Page(-3), asynq.PageSize(2)}, ids[:2]},
			"of no size":        {[]asynq.ListOption{asynq.PageSize(0)}, nil},
			"of a size below 0": {[]asynq.ListOption{asynq.PageSize(-5)}, nil},
			"the last wins":     {[]asynq.ListOption{asynq.PageSize(1), asynq.PageSize(3), nil, "odd"}, ids[:3]},
		} {
			got, err := i.ListPendingTasks("default", tc.opts...)
			if err != nil || !slices.Equal(infoIDs(got), tc.want) {
				s.t.Errorf("the page %s: %v, error %v", name, infoIDs(got), err)
			}
		}
	})
}

// Every list has the tasks of its state, and tells of each what GetTaskInfo tells.
func TestInspectorLists(t *testing.T) {
	everywhere(t, func(s *site) {
		i := s.inspector()
		running, release := make(chan struct{}, 10), make(chan struct{})
		s.serve(asynq.Config{Concurrency: 1}, func(_ context.Context, task *asynq.Task) error {
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
		s.t.Cleanup(func() { close(release) })
		s.enqueue("completed", asynq.Retention(time.Hour))
		s.enqueue("archived")
		s.enqueue("retry")
		s.enqueue("active", asynq.Timeout(time.Minute))
		<-running
		s.enqueue("pending")
		s.enqueue("scheduled", asynq.ProcessIn(time.Hour))
		s.enqueue("aggregating", asynq.Group("g"))
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
				s.t.Errorf("%s: %v, error %v", name, got, err)
				continue
			}
			want, err := i.GetTaskInfo("default", name)
			if err != nil {
				s.t.Fatal(err)
			}
			if name == "pending" { // to be processed now, which goes on
				want.NextProcessAt = got[0].NextProcessAt
			}
			if a, b := fmt.Sprintf("%+v", *want), fmt.Sprintf("%+v", *got[0]); a != b {
				s.t.Errorf("%s: listed %s\nlooked up %s", name, b, a)
			}
			if _, err := list("none"); !errors.Is(err, asynq.ErrQueueNotFound) {
				s.t.Errorf("%s of no queue: %v", name, err)
			}
			yielded := 0
			for task, err := range i.Tasks(context.Background(), "default", got[0].State, asynq.TaskFilter{}) {
				if yielded++; err != nil || task.ID != name {
					s.t.Errorf("%s: yielded %+v, error %v", name, task, err)
				}
			}
			if yielded != 1 {
				s.t.Errorf("%s: yielded %d tasks", name, yielded)
			}
		}
		if got, err := i.ListAggregatingTasks("default", "h"); err != nil || len(got) != 0 {
			s.t.Errorf("of no group: %v, error %v", got, err)
		}
	})
}

// A queue in which somebody else has been is listed all the same.
func TestGuarantee07LookingAtWhatCannotBeRead(t *testing.T) {
	everywhere(t, func(s *site) {
		s.AllowViolations()
		ctx, i := context.Background(), s.inspector()
		s.enqueue("fine")
		s.redis.HSet(ctx, s.queue.Task("bad"), "state", "pending", "msg", "\xff", "result", "r")
		s.redis.RPush(ctx, s.queue.Pending(), "bad", "missing")
		got, err := i.ListPendingTasks("default")
		if err != nil || !slices.Equal(infoIDs(got), []string{"bad", "fine"}) || got[0].Queue != "default" || string(got[0].Result) != "r" {
			s.t.Errorf("listed %v, error %v", got, err)
		}
		s.redis.Set(ctx, s.queue.Retry(), "no set", 0)
		if _, err := i.GetQueueInfo("default"); err == nil || !strings.Contains(err.Error(), s.queue.Retry()) {
			s.t.Errorf("info: %v", err)
		}
	})
}

func TestInspectorQueueInfo(t *testing.T) {
	everywhere(t, func(s *site) {
		i := s.inspector()
		s.enqueueMany(3)
		s.enqueue("s", asynq.ProcessIn(time.Hour))
		s.enqueue("g1", asynq.Group("g"))
		s.enqueue("g2", asynq.Group("h"))
		since := time.Now().Add(-time.Minute)
		s.redis.HSet(context.Background(), s.queue.Task("t0"), "pending_since", since.UnixNano())
		if err := i.PauseQueue("default"); err != nil {
			s.t.Error(err)
		}
		info, err := i.GetQueueInfo("default")
		if err != nil {
			s.t.Fatal(err)
		}
		if info.Queue != "default" || info.Size != 6 || info.Pending != 3 || info.Scheduled != 1 || info.Aggregating != 2 ||
			info.Groups != 2 || !info.Paused || info.MemoryUsage < 500 || info.Latency.Round(10*time.Second) != time.Minute ||
			time.Since(info.Timestamp).Abs() > time.Minute {
			s.t.Errorf("%+v", info)
		}
		for _, n := range []int{0, -1} {
			if info, err := i.WithMemorySamples(n).GetQueueInfo("default"); err != nil || info.MemoryUsage != 0 || info.Size != 6 {
				s.t.Errorf("%d samples: %+v, error %v", n, info, err)
			}
		}
		groups, err := i.Groups("default")
		if err != nil || len(groups) != 2 || *groups[0] != (asynq.GroupInfo{Group: "g", Size: 1, Oldest: groups[0].Oldest}) {
			s.t.Errorf("groups %v, error %v", groups, err)
		}
		if age := time.Since(groups[0].Oldest); age.Abs() > time.Minute {
			s.t.Errorf("the first task of the group came into it %v ago", age)
		}
		days, err := i.History("default", 3)
		if err != nil || len(days) != 3 || days[0].Queue != "default" || !days[1].Date.Before(days[0].Date) {
			s.t.Errorf("history %v, error %v", days, err)
		}
		for _, n := range []int{0, -1} {
			if _, err := i.History("default", n); err == nil {
				s.t.Errorf("no error for %d days", n)
			}
		}
		_, infoErr := i.GetQueueInfo("none")
		_, groupErr := i.Groups("none")
		_, historyErr := i.History("none", 1)
		for _, err := range []error{infoErr, groupErr, historyErr} {
			if !errors.Is(err, asynq.ErrQueueNotFound) {
				s.t.Errorf("of no queue: %v", err)
			}
		}
	})
}

func TestInspectorServers(t *testing.T) {
	everywhere(t, func(s *site) {
		running, release := make(chan struct{}, 10), make(chan struct{})
		s.serve(asynq.Config{Concurrency: 3, StrictPriority: true, Queues: map[string]int{"default": 2}}, func(context.Context, *asynq.Task) error {
			running <- struct{}{}
			<-release
			return nil
		})
		s.t.Cleanup(func() { close(release) })
		s.enqueue("a")
		<-running
		i := s.inspector()
		s.eventually(func() bool {
			servers, err := i.Servers()
			if err != nil {
				s.t.Fatal(err)
			}
			return len(servers) == 1 && servers[0].Concurrency == 3 && servers[0].StrictPriority && servers[0].Queues["default"] == 2 &&
				servers[0].Status == "active" && len(servers[0].ActiveWorkers) == 1 && servers[0].ActiveWorkers[0].TaskID == "a"
		}, "no server tells of its worker")
		count := func(filter asynq.TaskFilter) (n int) {
			for _, err := range i.Tasks(context.Background(), "default", asynq.TaskStateActive, filter) {
				if n++; err != nil {
					s.t.Error(err)
				}
			}
			return n
		}
		if count(asynq.TaskFilter{YoungerThan: time.Minute}) != 1 || count(asynq.TaskFilter{OlderThan: time.Minute}) != 0 {
			s.t.Error("the age of an active task is not that of its attempt")
		}
	})
}

func TestInspectorTaskFilter(t *testing.T) {
	everywhere(t, func(s *site) {
		i, ctx := s.inspector(), context.Background()
		b := rdb.New(s.redis, "")
		var ids []string
		for n := range 250 {
			m := redistest.Message("default", fmt.Sprint("t", n))
			m.Type = fmt.Sprint("type:", n%10)
			m.Payload = fmt.Appendf(nil, "payload %d.", n)
			m.LastErr = fmt.Sprintf("error %d.", n)
			task := &rdb.NewTask{ID: m.ID, Queue: "default", Message: redistest.Encode(s.t, m), ProcessAt: time.Now().Add(time.Hour).Unix()}
			if b.Enqueue(ctx, task); task.Err != nil {
				s.t.Fatal(task.Err)
			}
			s.redis.ZAdd(ctx, s.queue.Scheduled(), redis.Z{Score: float64(time.Now().Add(time.Duration(n-200) * time.Minute).Unix()), Member: m.ID})
			ids = append(ids, m.ID)
		}
		for name, tc := range map[string]struct {
			filter asynq.TaskFilter
			want   []string
			err    error
		}{
			"all":                 {asynq.TaskFilter{}, ids, nil},
			"a type":              {asynq.TaskFilter{Type: "type:7", MaxScan: 250}, every(ids, 7), nil},
			"a type's prefix":     {asynq.TaskFilter{Type: "type:*", MaxScan: 300}, ids, nil},
			"any type":            {asynq.TaskFilter{Type: "*"}, ids, nil},
			"no type":             {asynq.TaskFilter{Type: "type:"}, nil, nil},
			"an error":            {asynq.TaskFilter{Error: "error 42."}, ids[42:43], nil},
			"a payload":           {asynq.TaskFilter{Payload: "payload 249."}, ids[249:], nil},
			"both":                {asynq.TaskFilter{Payload: "payload 249.", Error: "error 248."}, nil, nil},
			"overdue by an hour":  {asynq.TaskFilter{OlderThan: time.Hour - 30*time.Second}, ids[:141], nil},
			"the younger ones":    {asynq.TaskFilter{YoungerThan: time.Hour - 30*time.Second}, ids[141:], nil},
			"those between":       {asynq.TaskFilter{OlderThan: 30 * time.Second, YoungerThan: 90 * time.Second}, ids[199:200], nil},
			"the first":           {asynq.TaskFilter{MaxScan: 1}, ids[:1], asynq.ErrScanLimit},
			"all but one":         {asynq.TaskFilter{MaxScan: 249}, ids[:249], asynq.ErrScanLimit},
			"looking at too few":  {asynq.TaskFilter{MaxScan: 200, Payload: "payload 249."}, nil, asynq.ErrScanLimit},
			"of a group, in vain": {asynq.TaskFilter{Group: "g"}, nil, nil},
		} {
			var got []string
			var last error
			for task, err := range i.Tasks(ctx, "default", asynq.TaskStateScheduled, tc.filter) {
				if last != nil {
					s.t.Errorf("%s: an error was not the last pair", name)
				}
				if last = err; err == nil {
					got = append(got, task.ID)
				}
			}
			if tc.filter.Group != "" { // only for aggregating tasks
				if last == nil {
					s.t.Errorf("%s: no error", name)
				}
				continue
			}
			if !slices.Equal(got, tc.want) || !errors.Is(last, tc.err) {
				s.t.Errorf("%s: %d tasks, want %d, error %v", name, len(got), len(tc.want), last)
			}
		}
	})
}

// every returns each tenth ID from the n-th on.
func every(ids []string, n int) (some []string) {
	for ; n < len(ids); n += 10 {
		some = append(some, ids[n])
	}
	return some
}

func TestInspectorTasksEnds(t *testing.T) {
	everywhere(t, func(s *site) {
		i := s.inspector()
		s.enqueueMany(10)
		tasks := i.Tasks(context.Background(), "default", asynq.TaskStatePending, asynq.TaskFilter{})
		for range 2 { // it begins anew each time
			n := 0
			for _, err := range tasks {
				if n++; err != nil {
					s.t.Error(err)
				}
				if n == 3 {
					break
				}
			}
		}
		failing := func(ctx context.Context, queue string, state asynq.TaskState) (last error) {
			for task, err := range i.Tasks(ctx, queue, state, asynq.TaskFilter{}) {
				if last = err; task != nil {
					s.t.Errorf("yielded %v", task)
				}
			}
			return last
		}
		ended, end := context.WithCancel(context.Background())
		end()
		if err := failing(ended, "default", asynq.TaskStatePending); !errors.Is(err, context.Canceled) {
			s.t.Errorf("with a context that has ended: %v", err)
		}
		if err := failing(context.Background(), "none", asynq.TaskStatePending); !errors.Is(err, asynq.ErrQueueNotFound) {
			s.t.Errorf("of no queue: %v", err)
		}
		if err := failing(context.Background(), "default", 99); err == nil {
			s.t.Error("no error for a state that is none")
		}
		if err := failing(context.Background(), "default", asynq.TaskStateRetry); err != nil {
			s.t.Errorf("where there are none: %v", err)
		}
	})
}
