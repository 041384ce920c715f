package apiv2

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

// pages follows the cursors of a list and returns all IDs in order.
func (s *site) pages(path string) (ids []string, calls int) {
	s.t.Helper()
	for cursor := ""; ; calls++ {
		if calls > 1000 {
			s.t.Fatal("there is no end of pages")
		}
		var list TaskList
		s.want(200, "GET", path+cursor, "").into(&list)
		for _, task := range list.Items {
			ids = append(ids, task.Queue+"/"+task.ID)
		}
		if list.Complete != (list.Next == nil) {
			s.t.Errorf("complete %v, next %v", list.Complete, list.Next)
		}
		if list.Next == nil {
			return ids, calls + 1
		}
		cursor = "&cursor=" + url.QueryEscape(*list.Next)
	}
}

func TestSearch(t *testing.T) {
	s := newSite(t, nil)
	s.many(30, "mail", "a")
	s.many(70, "mail", "b", asynq.ProcessIn(time.Hour))
	s.many(20, "low/x", "c", asynq.Group("g"))
	s.many(5, "low/x", "d", asynq.ProcessIn(time.Hour))
	for _, tc := range []struct {
		query string
		want  int
		calls int
	}{
		{"/tasks?limit=7", 125, 18},
		{"/tasks?limit=500", 125, 1},
		{"/tasks?limit=500&max_scan=10", 125, 13},
		{"/tasks?filter=type:b&limit=50", 70, 2},
		{"/tasks?filter=type:none&max_scan=50", 0, 3},
		{"/tasks?filter=queue:mail+state:pending&limit=500", 30, 1},
		{"/tasks?queue=mail&limit=500", 100, 1},
		{"/tasks?queue=mail&queue=low/x&state=scheduled,pending&limit=500", 105, 1},
		{"/tasks?group=g&limit=6", 20, 4},
		{"/queues/low%2Fx/tasks?limit=500", 25, 1},
		{"/queues/low%2Fx/tasks?state=scheduled&limit=2", 5, 3},
		{"/queues/low%2Fx/tasks?state=retry&limit=2", 0, 1},
	} {
		ids, calls := s.pages(tc.query)
		slices.Sort(ids)
		if n := len(slices.Compact(ids)); n != tc.want || len(ids) != tc.want || calls > tc.calls {
			t.Errorf("%s: %d tasks, %d different, in %d calls, want %d in %d", tc.query, len(ids), n, calls, tc.want, tc.calls)
		}
	}
	s.want(404, "GET", "/queues/none/tasks", "")
	for _, query := range []string{
		"cursor=x", "filter=tpye:x", "limit=0", "limit=501", "limit=x", "state=asleep", "group=g&state=retry", "limit=1&limit=2",
	} {
		s.want(400, "GET", "/tasks?"+query, "")
	}
	var list TaskList
	s.want(200, "GET", "/tasks?limit=1", "").into(&list)
	s.want(400, "GET", "/tasks?limit=1&filter=type:a&cursor="+*list.Next, "")
}

// Between two pages, the tasks of the first one are deleted and new ones are added.
func TestPagesStayInStep(t *testing.T) {
	for _, state := range []string{"pending", "scheduled"} {
		t.Run(state, func(t *testing.T) {
			s := newSite(t, nil)
			var opts []asynq.Option
			if state == "scheduled" {
				opts = append(opts, asynq.ProcessIn(time.Hour))
			}
			s.many(60, "default", "old", opts...)
			seen := make(map[string]bool)
			cursor := ""
			for n := 0; ; n++ {
				var list TaskList
				s.want(200, "GET", "/queues/default/tasks?limit=10&state="+state+cursor, "").into(&list)
				for _, task := range list.Items {
					if seen[task.ID] {
						t.Errorf("%s is on two pages", task.ID)
					}
					seen[task.ID] = true
					s.want(204, "DELETE", taskURL("default", task.ID), "")
				}
				if list.Next == nil {
					break
				}
				cursor = "&cursor=" + *list.Next
				if n < 5 {
					s.enqueue("new", "", append(opts, asynq.TaskID(fmt.Sprint("new", n)))...)
				}
			}
			for n := range 60 {
				if id := fmt.Sprintf("old-%03d", n); !seen[id] {
					t.Errorf("%s is on no page", id)
				}
			}
		})
	}
}

func TestOneBrokenQueueLeavesTheOthers(t *testing.T) {
	s := newSite(t, nil)
	s.many(3, "good", "a")
	s.many(3, "broken", "b")
	s.redis.Del("asynq:{broken}:pending")
	if err := s.redis.Set("asynq:{broken}:pending", "x"); err != nil {
		t.Fatal(err)
	}
	var list TaskList
	s.want(200, "GET", "/tasks", "").into(&list)
	if len(list.Items) != 3 || len(list.Errors) != 1 || list.Errors[0].Queue != "broken" {
		t.Errorf("%+v", list)
	}
	var queues QueueList
	s.want(200, "GET", "/queues", "").into(&queues)
	if len(queues.Items) != 2 || queues.Items[0].Error == "" || queues.Items[1].Tasks.Pending != 3 {
		t.Errorf("%+v", queues)
	}
	s.want(503, "GET", "/queues/broken/tasks", "")
}

func TestLongErrorsAndPayloadsAreCut(t *testing.T) {
	s := newSite(t, nil)
	s.enqueue("x", strings.Repeat("€", 1000), asynq.TaskID("x"), asynq.MaxRetry(3))
	failed := make(chan struct{})
	s.serve(func(context.Context, *asynq.Task) error {
		defer close(failed)
		return errors.New(strings.Repeat("no ", 3000))
	})
	<-failed
	var list TaskList
	proctest.Eventually(t, "the failure to be settled", func() bool {
		s.want(200, "GET", "/tasks?state=retry", "").into(&list)
		return len(list.Items) == 1
	})
	task := list.Items[0]
	if len(task.LastError) != 4096 || !task.LastErrorTruncated || !task.Payload.Truncated || task.Payload.Size != 3000 ||
		len(task.Payload.Value) != 1023+2 {
		t.Errorf("%d bytes of error, payload %+v", len(task.LastError), task.Payload)
	}
	var groups Grouped[ErrorGroup]
	s.want(200, "GET", "/errors", "").into(&groups)
	if len(groups.Items) != 1 || groups.Items[0].Count != 1 || groups.Items[0].Example.ID != "x" || !groups.Complete {
		t.Errorf("%+v", groups)
	}
}

func TestErrorsAreGrouped(t *testing.T) {
	s := newSite(t, nil)
	s.many(3, "mail", "a", asynq.MaxRetry(0))
	s.serve(func(_ context.Context, task *asynq.Task) error {
		return fmt.Errorf("user %d: no such row %s", rand.Int(), task.ResultWriter().TaskID())
	})
	var groups Grouped[ErrorGroup]
	proctest.Eventually(t, "the failures to be settled", func() bool {
		groups = Grouped[ErrorGroup]{}
		s.want(200, "GET", "/errors", "").into(&groups)
		return groups.Scanned == 3
	})
	if len(groups.Items) != 1 || groups.Items[0].Count != 3 || groups.Items[0].Kind != asynq.ErrorKind(groups.Items[0].Error) {
		t.Errorf("%+v", groups)
	}
}

// The API returns the same kinds of errors as the pages, with the same IDs.
func TestErrorsAreThoseOfThePages(t *testing.T) {
	s := newSite(t, nil)
	s.failed("large", 300, asynq.TaskStateRetry, "mail", "user %d is gone")
	s.failed("large", 2, asynq.TaskStateArchived, "image", "user %d is gone")
	s.failed("small", 3, asynq.TaskStateRetry, "mail", "user %d is gone")
	s.failed("small", 1, asynq.TaskStateArchived, "mail", "no room")
	seen := survey.New(survey.Config{Inspector: s.inspector})
	defer seen.Close()
	pages, err := seen.Tasks(t.Context())
	if err != nil || !pages.Whole {
		t.Fatalf("%+v, %v", pages, err)
	}
	var groups Grouped[ErrorGroup]
	s.want(200, "GET", "/errors", "").into(&groups)
	if len(groups.Items) != 2 || groups.Scanned != 306 || !groups.Complete {
		t.Fatalf("%+v", groups)
	}
	for n, g := range groups.Items {
		if f := pages.Failures[n]; g.ID != f.ID || g.Count != f.N || g.Kind != f.Kind || len(g.Types) != len(f.Types) || g.Types[0].Name != f.Types[0].Name || !g.LastAt.Equal(f.Last) || g.Example.ID != f.Tasks[0].ID {
			t.Errorf("the API has %+v, the page %+v", g, f)
		}
	}
	if g := groups.Items[0]; g.Count != 305 || !slices.Equal(g.Queues, []Counted{{"large", 302}, {"small", 3}}) || !slices.Equal(g.States, []Counted{{"retry", 303}, {"archived", 2}}) ||
		!slices.Equal(g.Types, []Counted{{"mail", 303}, {"image", 2}}) {
		t.Errorf("%+v", g)
	}
	for query, want := range map[string]string{
		"filter=type:image": "2 of 306 true", "queue=small": "3+1 of 4 true", "state=archived": "2+1 of 3 true", "filter=error:room&queue=small": "1 of 4 true",
		"max_scan=20": "19+1 of 20 false", // small places completely
	} {
		var groups Grouped[ErrorGroup]
		s.want(200, "GET", "/errors?"+query, "").into(&groups)
		var counts []string
		for _, g := range groups.Items {
			counts = append(counts, fmt.Sprint(g.Count))
		}
		if got := fmt.Sprintf("%s of %d %v", strings.Join(counts, "+"), groups.Scanned, groups.Complete); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	s.want(400, "GET", "/errors?state=pending", "")
}

// failed creates failed tasks with an error text, which may contain their number.
func (s *site) failed(queue string, n int, state asynq.TaskState, typename, text string) {
	s.t.Helper()
	var all []*asynq.TaskRecord
	for i := range n {
		r := &asynq.TaskRecord{
			ID: fmt.Sprint(typename, state, i), Type: typename, State: state, LastErr: text, MaxRetry: 5, Retried: 1, Number: int64(i),
			LastFailedAt: time.Now().Add(-time.Duration(i) * time.Minute), At: time.Now().Add(time.Hour),
		}
		if strings.Contains(text, "%d") {
			r.LastErr = fmt.Sprintf(text, i)
		}
		all = append(all, r)
	}
	errs, err := s.inspector.ImportTasks(s.t.Context(), queue, asynq.ImportOptions{IdempotencyKey: fmt.Sprint(queue, typename, text, state)}, all)
	if err := errors.Join(append(errs, err)...); err != nil {
		s.t.Fatal(err)
	}
}

// Tasks after a full page are counted by the next page.
func TestScannedCountsEachTaskOnce(t *testing.T) {
	s := newSite(t, nil)
	for range 40 {
		s.enqueue("a", "n")
	}
	scanned, found := 0, 0
	for path := "/tasks?limit=7&filter=payload:n"; path != ""; {
		var list TaskList
		s.want(200, "GET", path, "").into(&list)
		scanned, found, path = scanned+list.Scanned, found+len(list.Items), ""
		if list.Next != nil {
			path = "/tasks?limit=7&filter=payload:n&cursor=" + *list.Next
		}
	}
	if scanned != 40 || found != 40 {
		t.Errorf("%d scanned at, %d found", scanned, found)
	}
}

func TestTypesAreCounted(t *testing.T) {
	s := newSite(t, nil)
	s.many(30, "mail", "a")
	s.many(10, "low", "b", asynq.ProcessIn(time.Hour))
	var groups Grouped[TypeGroup]
	s.want(200, "GET", "/types", "").into(&groups)
	if len(groups.Items) != 2 || groups.Items[0].Type != "a" || groups.Items[0].Count != 30 || groups.Items[1].States["scheduled"] != 10 {
		t.Errorf("%+v", groups)
	}
	s.want(200, "GET", "/types?max_scan=15", "").into(&groups)
	if groups.Complete || groups.Scanned != 15 {
		t.Errorf("%+v", groups)
	}
}

func TestQueues(t *testing.T) {
	polled := &poller{}
	s := newSite(t, func(c *Config) { c.Poller = polled })
	s.many(3, "mail", "a")
	s.many(2, "low", "b", asynq.ProcessIn(time.Hour))
	var list QueueList
	s.want(200, "GET", "/queues?filter=pending>0", "").into(&list)
	if len(list.Items) != 1 || list.Items[0].Queue != "mail" || list.Items[0].Tasks.Pending != 3 || list.Items[0].Rate != nil {
		t.Errorf("%+v", list)
	}
	s.want(400, "GET", "/queues?filter=color:red", "")
	polled.snapshot = &poll.Snapshot{
		At: time.Now(),
		Queues: []poll.Queue{
			{Name: "mail", Info: &asynq.QueueInfo{Queue: "mail", Pending: 9}, Rate: poll.Rate{Known: true, Processed: 1.5}},
			{Name: "bad", Err: errors.New("gone")},
		},
		Redis:  poll.Redis{Version: "7.0", Nodes: []poll.Node{{}}},
		Health: health.Report{Causes: []health.Cause{{Severity: health.Warning, Queues: []string{"mail"}, Kind: "slow", Title: "slow"}, {Severity: health.Notice, Kind: "x"}}},
	}
	s.want(200, "GET", "/queues", "").into(&list)
	if len(list.Items) != 2 || list.Items[0].Tasks.Pending != 9 || list.Items[0].Rate.Processed != 1.5 || len(list.Items[0].Health) != 1 ||
		list.Items[1].Error != "gone" {
		t.Errorf("%+v", list)
	}
	var health Health
	s.want(200, "GET", "/health", "").into(&health)
	if health.Status != "warning" || len(health.Causes) != 2 {
		t.Errorf("%+v", health)
	}
	polled.snapshot.Err = errors.New("silent")
	s.want(200, "GET", "/health", "").into(&health)
	if health.Status != "trouble" || health.Redis != "silent" {
		t.Errorf("%+v", health)
	}
	s.want(200, "GET", "/redis", "") // the last known state
	polled.snapshot.Redis = poll.Redis{}
	if problem := s.want(503, "GET", "/redis", ""); !strings.Contains(string(problem.body), "silent") {
		t.Errorf("%s", problem.body)
	}

	var q Queue
	for _, paused := range []bool{true, true, false, false} {
		s.want(200, "PATCH", "/queues/mail", fmt.Sprintf(`{"paused":%v}`, paused)).into(&q)
		if info, err := s.inspector.GetQueueInfo("mail"); err != nil || info.Paused != paused || q.Paused != paused {
			t.Errorf("paused %v: %+v, error %v", paused, info, err)
		}
	}
	if len(s.gate.log) != 2 || polled.wakes != 2 {
		t.Errorf("%d changes are logged, the poller was woken %d times", len(s.gate.log), polled.wakes)
	}
	s.want(422, "PATCH", "/queues/mail", `{}`)
	s.want(404, "PATCH", "/queues/none", `{"paused":true}`)
	s.want(409, "DELETE", "/queues/mail", "")
	s.want(204, "DELETE", "/queues/mail?force=true", "")
	s.want(404, "DELETE", "/queues/mail", "")
	s.want(200, "GET", "/queues/low/history?days=90", "")
	s.want(400, "GET", "/queues/low/history?days=91", "")
}
