package apiv1_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web/internal/access"
)

func (s *site) wantJSON(method, path, body, want string) {
	s.t.Helper()
	var a, b any
	got := s.want(http.StatusOK, method, path, body)
	if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(want), &b) != nil || !reflect.DeepEqual(a, b) {
		s.t.Errorf("%s %s: %s, want %s", method, path, got, want)
	}
}

// wantAsked checks the calls of the gate.
func (s *site) wantAsked(allowed []access.Action, done ...access.Action) {
	s.t.Helper()
	a, d := s.gate.asked()
	if !slices.Equal(a, allowed) || !slices.Equal(d, done) {
		s.t.Errorf("asked for %+v and told of %+v, want %+v and %+v", a, d, allowed, done)
	}
}

func TestChangeAll(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, addr string) {
		s := newSite(t, addr)
		for _, id := range []string{"a", "b", "c"} {
			s.enqueue("t", nil, asynq.TaskID(id))
			s.enqueue("t", nil, asynq.TaskID("g"+id), asynq.Group("g"))
		}
		all := func(verb access.Verb, state string, count int) access.Action {
			return access.Action{Verb: verb, Queue: "default", State: state, Count: count}
		}
		s.wantJSON(http.MethodPost, "/queues/default/pending_tasks:archive_all", "", `{"archived":3}`)
		s.wantAsked([]access.Action{all(access.TaskArchive, "pending", 3)}, all(access.TaskArchive, "pending", 3))
		s.wantJSON(http.MethodPost, "/queues/default/archived_tasks:run_all", "", `{"scheduled":3}`)
		s.wantAsked([]access.Action{all(access.TaskRun, "archived", 3)}, all(access.TaskRun, "archived", 3))
		s.wantJSON(http.MethodDelete, "/queues/default/pending_tasks:delete_all", "", `{"deleted":3}`)
		s.wantAsked([]access.Action{all(access.TaskDelete, "pending", 3)}, all(access.TaskDelete, "pending", 3))
		s.wantJSON(http.MethodDelete, "/queues/default/pending_tasks:delete_all", "", `{"deleted":0}`)
		s.wantAsked([]access.Action{all(access.TaskDelete, "pending", 0)}, all(access.TaskDelete, "pending", 0))
		of := all(access.TaskArchive, "aggregating", 3)
		of.Group = "g"
		s.wantJSON(http.MethodPost, "/queues/default/groups/none/aggregating_tasks:archive_all", "", `{"archived":0}`)
		s.gate.asked()
		s.wantJSON(http.MethodPost, "/queues/default/groups/g/aggregating_tasks:archive_all", "", `{"archived":3}`)
		s.wantAsked([]access.Action{of}, of)
		for _, state := range []string{"scheduled", "retry"} {
			s.wantJSON(http.MethodPost, "/queues/default/"+state+"_tasks:run_all", "", `{"scheduled":0}`)
			s.wantJSON(http.MethodPost, "/queues/default/"+state+"_tasks:archive_all", "", `{"archived":0}`)
			s.wantJSON(http.MethodDelete, "/queues/default/"+state+"_tasks:delete_all", "", `{"deleted":0}`)
		}
		s.wantJSON(http.MethodDelete, "/queues/default/completed_tasks:delete_all", "", `{"deleted":0}`)
		s.wantJSON(http.MethodDelete, "/queues/default/archived_tasks:delete_all", "", `{"deleted":3}`)
		s.want(http.StatusNoContent, http.MethodPost, "/queues/default/active_tasks:cancel_all", "")
		s.want(http.StatusNotFound, http.MethodPost, "/queues/none/active_tasks:cancel_all", "")
		s.want(http.StatusNotFound, http.MethodPost, "/queues/none/retry_tasks:run_all", "")
		s.want(http.StatusNotFound, http.MethodDelete, "/queues/none/groups/g/aggregating_tasks:delete_all", "")
		if s.woken.Load() != 18 {
			t.Errorf("woken %d times", s.woken.Load())
		}
	})
}

func TestBatch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, addr string) {
		s := newSite(t, addr)
		for _, id := range []string{"a", "b"} {
			s.enqueue("t", nil, asynq.TaskID(id))
		}
		const pending, archived = "/queues/default/pending_tasks:", "/queues/default/archived_tasks:"
		s.wantJSON(http.MethodPost, pending+"batch_archive", `{"task_ids":["a","none","b"]}`, `{"archived_ids":["a","b"],"error_ids":["none"]}`)
		each := func(id string) access.Action {
			return access.Action{Verb: access.TaskArchive, Queue: "default", State: "pending", TaskID: id, Count: 1}
		}
		s.wantAsked([]access.Action{{Verb: access.TaskArchive, Queue: "default", State: "pending", Count: 3}}, each("a"), each("none"), each("b"))
		s.wantJSON(http.MethodPost, archived+"batch_run", `{"task_ids":["b"]}`, `{"pending_ids":["b"],"error_ids":[]}`)
		s.wantJSON(http.MethodPost, archived+"batch_run", `{"task_ids":["b"]}`, `{"pending_ids":[],"error_ids":["b"]}`)
		s.wantJSON(http.MethodPost, pending+"batch_delete", `{"task_ids":["b","a","b"]}`, `{"deleted_ids":["b","a"],"failed_ids":["b"]}`)
		s.wantJSON(http.MethodPost, pending+"batch_delete", `{}`, `{"deleted_ids":[],"failed_ids":[]}`)
		s.wantJSON(http.MethodPost, "/queues/default/active_tasks:batch_cancel", `{"task_ids":["none"]}`, `{"canceled_ids":[],"error_ids":["none"]}`)
		s.gate.asked()
		for body, status := range map[string]int{
			"": 400, "x": 400, "[]": 400, `{"task_ids":"a"}`: 400, `{"task_ids":[1]}`: 400, `{"task_ids":[]}{}`: 400, `{"task_ids":["a"],"x":1}`: 400,
			`{"task_ids":["` + strings.Repeat("a", 5<<20) + `"]}`:      413,
			`{"task_ids":["a"` + strings.Repeat(`,"a"`, 10_000) + `]}`: 400,
		} {
			s.want(status, http.MethodPost, pending+"batch_delete", body)
		}
		s.wantAsked(nil)
		s.want(http.StatusNotFound, http.MethodPost, "/queues/none/pending_tasks:batch_delete", `{"task_ids":["a"]}`)
	})
}

// A batch that fails half-way returns the changes made so far.
func TestBatchCutShort(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	s := newSite(t, mini.Addr())
	for _, id := range []string{"a", "b", "c"} {
		s.enqueue("t", nil, asynq.TaskID(id))
	}
	s.gate.onDone = mini.Close
	s.wantJSON(http.MethodPost, "/queues/default/pending_tasks:batch_delete", `{"task_ids":["a","b","c"]}`, `{"deleted_ids":["a"],"failed_ids":["b","c"]}`)
	if len(s.gate.errs) != 2 || s.gate.errs[0] != nil || s.gate.errs[1] == nil {
		t.Errorf("told of %v", s.gate.errs)
	}
}

// A handler's context ends when its task is canceled, one by one and all at once.
func TestCancel(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, addr string) {
		s := newSite(t, addr)
		started, ended := make(chan string), make(chan string)
		server := asynq.NewServer(asynq.RedisClientOpt{Addr: addr}, asynq.Config{Concurrency: 4, Queues: map[string]int{"work": 1}, Logger: quiet()})
		if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			id, _ := asynq.GetTaskID(ctx)
			started <- id
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), asynq.ErrTaskCanceled) {
				t.Errorf("the context of %s ended with %v", id, context.Cause(ctx))
			}
			ended <- id
			return asynq.SkipRetry
		})); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
		proctest.Eventually(t, "the server to listen for cancellations", func() bool {
			const channel = "asynq:cancel"
			return s.redis.PubSubNumSub(t.Context(), channel).Val()[channel] == 1
		})
		for _, id := range []string{"one", "two", "all"} {
			s.enqueue("t", nil, asynq.TaskID(id), asynq.Queue("work"))
			if got := <-started; got != id {
				t.Fatalf("%s started", got)
			}
			s.enqueue("t", nil, asynq.TaskID(id)) // with the same ID, in another queue
			s.want(http.StatusConflict, http.MethodPost, "/queues/default/active_tasks/"+id+":cancel", "")
			s.want(http.StatusNotFound, http.MethodPost, "/queues/work/active_tasks/none:cancel", "")
			switch id {
			case "one":
				s.want(http.StatusConflict, http.MethodDelete, "/queues/work/pending_tasks/one", "")
				s.want(http.StatusNoContent, http.MethodPost, "/queues/work/active_tasks/one:cancel", "")
			case "two":
				s.wantJSON(http.MethodPost, "/queues/work/active_tasks:batch_cancel", `{"task_ids":["none","two"]}`, `{"canceled_ids":["two"],"error_ids":["none"]}`)
			default:
				s.want(http.StatusNoContent, http.MethodPost, "/queues/work/active_tasks:cancel_all", "")
			}
			if got := <-ended; got != id {
				t.Fatalf("%s ended", got)
			}
		}
	})
}

func TestQueueChanges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, addr string) {
		s := newSite(t, addr)
		s.enqueue("t", nil, asynq.TaskID("a"))
		s.want(http.StatusNoContent, http.MethodPost, "/queues/default:pause", "")
		s.want(http.StatusConflict, http.MethodPost, "/queues/default:pause", "")
		s.want(http.StatusNoContent, http.MethodPost, "/queues/default:resume", "")
		s.want(http.StatusConflict, http.MethodPost, "/queues/default:resume", "")
		s.want(http.StatusBadRequest, http.MethodDelete, "/queues/default", "")
		s.want(http.StatusNoContent, http.MethodDelete, "/queues/default/pending_tasks/a", "")
		s.want(http.StatusNoContent, http.MethodDelete, "/queues/default", "")
		s.want(http.StatusNotFound, http.MethodDelete, "/queues/default", "")
		of := func(verb access.Verb) access.Action { return access.Action{Verb: verb, Queue: "default"} }
		_, done := s.gate.asked()
		if done[0] != of(access.QueuePause) || done[2] != of(access.QueueResume) || done[4] != of(access.QueueDelete) {
			t.Errorf("told of %v", done)
		}
	})
}

// Without permission, nothing is returned and nothing is changed.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, miniredis.RunT(t).Addr())
	s.enqueue("t", nil, asynq.TaskID("a"))
	s.gate.refuse = true
	for _, path := range []string{
		"/queues", "/queues/default", "/queue_stats", "/queues/default/pending_tasks", "/queues/default/groups", "/queues/default/groups/g/aggregating_tasks",
		"/queues/default/tasks/a", "/servers", "/scheduler_entries", "/scheduler_entries/e/enqueue_events", "/redis_info", "/metrics",
	} {
		if response, body := s.call(http.MethodGet, path, ""); response.StatusCode != http.StatusForbidden || len(body) != 0 {
			t.Errorf("%s: %s %s", path, response.Status, body)
		}
	}
	if len(s.gate.views) != 12 || s.gate.views[6] != (access.Action{Verb: access.View, Queue: "default", TaskID: "a"}) {
		t.Errorf("asked for %v", s.gate.views)
	}
	for _, r := range [][2]string{
		{http.MethodDelete, "/queues/default"},
		{http.MethodPost, "/queues/default:pause"},
		{http.MethodDelete, "/queues/default/pending_tasks/a"},
		{http.MethodDelete, "/queues/default/pending_tasks:delete_all"},
		{http.MethodPost, "/queues/default/pending_tasks:batch_delete"},
	} {
		if response, _ := s.call(r[0], r[1], `{"task_ids":["a"]}`); response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", r, response.Status)
		}
	}
	if _, done := s.gate.asked(); len(done) != 0 || s.woken.Load() != 0 {
		t.Errorf("told of %v", done)
	}
	if _, err := s.inspector.GetTaskInfo("default", "a"); err != nil {
		t.Error(err)
	}
}
