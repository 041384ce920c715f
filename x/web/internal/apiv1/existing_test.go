package apiv1_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/apiv1"
)

// Each route returns the fields of the existing server, with values of the same types.
func TestShapes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, addr string) {
		prometheus := newPrometheus(t, nil)
		s := newSite(t, addr, func(c *apiv1.Config) { c.PrometheusAddress = prometheus.URL })
		s.seed(addr)
		entries := get[struct {
			Entries []struct{ ID, Spec string }
		}](s, "/scheduler_entries").Entries
		every := ""
		for _, e := range entries {
			if e.Spec == "@every 1s" {
				every = e.ID
			}
		}
		ids := func(id string) string { return fmt.Sprintf(`{"task_ids":["none",%q]}`, id) }
		type request struct{ method, path, body string }
		one := func(path string) []request { return []request{{http.MethodGet, path, ""}} }
		checks := []struct {
			route    string
			requests []request
		}{
			{"GET /queues", one("/queues")},
			{"GET /queues/{queue}", one("/queues/work")},
			{"GET /queue_stats", one("/queue_stats")},
			{"GET active_tasks", append(one("/queues/work/active_tasks"), one("/queues/lost/active_tasks")...)},
			{"GET pending_tasks", one("/queues/default/pending_tasks")},
			{"GET scheduled_tasks", one("/queues/default/scheduled_tasks")},
			{"GET retry_tasks", one("/queues/work/retry_tasks")},
			{"GET archived_tasks", append(one("/queues/work/archived_tasks"), one("/queues/default/archived_tasks")...)},
			{"GET completed_tasks", one("/queues/work/completed_tasks")},
			{"GET groups", append(one("/queues/default/groups"), one("/queues/work/groups")...)},
			{"GET aggregating_tasks", one("/queues/default/groups/" + url.PathEscape("g/2 \n") + "/aggregating_tasks")},
			{"GET /queues/{queue}/tasks/{id}", append(append(append(append(append(
				one("/queues/work/tasks/act1"), one("/queues/work/tasks/r1")...), one("/queues/work/tasks/c1")...),
				one("/queues/default/tasks/p3")...), one("/queues/default/tasks/s1")...), one("/queues/default/tasks/g1")...)},
			{"GET /servers", one("/servers")},
			{"GET /scheduler_entries", one("/scheduler_entries")},
			{"GET enqueue_events", one("/scheduler_entries/" + url.PathEscape(every) + "/enqueue_events")},
			{"GET /redis_info", one("/redis_info")},
			{"GET /metrics", one("/metrics?duration=3600&queues=work,default")},
			{"POST :batch_archive", []request{{http.MethodPost, "/queues/default/pending_tasks:batch_archive", ids("p2")}}},
			{"POST :batch_run", []request{{http.MethodPost, "/queues/default/archived_tasks:batch_run", ids("p2")}}},
			{"POST :batch_delete", []request{{http.MethodPost, "/queues/default/pending_tasks:batch_delete", ids("p2")}}},
			{"POST :batch_cancel", []request{{http.MethodPost, "/queues/work/active_tasks:batch_cancel", `{"task_ids":["act1"]}`}}},
			{"POST :archive_all", []request{{http.MethodPost, "/queues/default/groups/g1/aggregating_tasks:archive_all", ""}}},
			{"POST :run_all", []request{{http.MethodPost, "/queues/default/scheduled_tasks:run_all", ""}}},
			{"DELETE :delete_all", []request{{http.MethodDelete, "/queues/work/completed_tasks:delete_all", ""}}},
		}
		checkValues(s)
		known := knownShapes(t)
		for _, c := range checks {
			var answers [][]byte
			for _, r := range c.requests {
				answers = append(answers, s.want(http.StatusOK, r.method, r.path, r.body))
			}
			if known[c.route] == nil {
				t.Errorf("%s: not known", c.route)
				continue
			}
			for _, d := range compare(t, known[c.route], answers...) {
				t.Errorf("%s: %s", c.route, d)
			}
			delete(known, c.route)
		}
		for route := range known {
			if route[0] != '=' {
				t.Errorf("%s: the gate was not called", route)
			}
		}
	})
}

// checkValues checks some values of the seed.
func checkValues(s *site) {
	t := s.t
	t.Helper()
	type row struct {
		ID, Payload, Result, State string
		StartTime                  string `json:"start_time"`
		Deadline                   string
		IsOrphaned                 bool   `json:"is_orphaned"`
		TTL                        int    `json:"ttl_seconds"`
		LastError                  string `json:"error_message"`
		LastFailedAt               string `json:"last_failed_at"`
		CompletedAt                string `json:"completed_at"`
		NextProcessAt              string `json:"next_process_at"`
		Group                      string
	}
	list := func(path string) []row { return get[struct{ Tasks []row }](s, path).Tasks }
	near := func(text string, want time.Time) bool {
		got, err := time.Parse(time.RFC3339, text)
		return err == nil && got.Sub(want).Abs() < time.Minute
	}
	now, large := time.Now(), string(jsonWithLargeNumber)
	for _, r := range list("/queues/work/active_tasks") {
		if r.IsOrphaned || !near(r.StartTime, now) || !near(r.Deadline, now.Add(time.Hour)) {
			t.Errorf("active: %+v", r)
		}
	}
	if r := list("/queues/lost/active_tasks")[0]; !r.IsOrphaned || r.Payload != "lost" {
		t.Errorf("orphan: %+v", r)
	}
	if r := list("/queues/work/completed_tasks")[0]; !near(r.CompletedAt, now) || r.TTL < 3540 || r.TTL > 3600 || r.Result != large || r.Payload != large {
		t.Errorf("completed: %+v", r)
	}
	if r := list("/queues/work/retry_tasks")[0]; !near(r.NextProcessAt, now.Add(time.Hour)) || r.LastError != "unexpected EOF" {
		t.Errorf("retry: %+v", r)
	}
	if r := list("/queues/work/archived_tasks")[0]; !near(r.LastFailedAt, now) || r.LastError == "" {
		t.Errorf("archived: %+v", r)
	}
	if r := list("/queues/default/archived_tasks")[0]; r.LastFailedAt != "0001-01-01T00:00:00Z" {
		t.Errorf("archived by hand: %+v", r)
	}
	if r := list("/queues/default/groups/g1/aggregating_tasks")[0]; r.ID != "g1" || r.Group != "g1" {
		t.Errorf("in a group: %+v", r)
	}
	if r := get[row](s, "/queues/work/tasks/r1"); r.State != "retry" || !near(r.LastFailedAt, now) || r.CompletedAt != "" || r.TTL != 0 {
		t.Errorf("details: %+v", r)
	}
	q := get[struct {
		Current struct{ Size, Active, Retry, Archived, Completed, Processed, Succeeded, Failed int }
		History []struct{ Processed, Failed int }
	}](s, "/queues/work")
	if c := q.Current; c.Size != 5 || c.Active != 2 || c.Completed != 1 || c.Processed != 3 || c.Succeeded != 1 || c.Failed != 2 || len(q.History) != 10 {
		t.Errorf("queue: %+v", q)
	}
}

// Empty lists are [], not null.
func TestEmpty(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, addr string) {
		s := newSite(t, addr)
		for path, want := range map[string]string{
			"/queues": `{"queues":[]}`, "/queue_stats": `{"stats":{}}`, "/servers": `{"servers":[]}`, "/scheduler_entries": `{"entries":[]}`,
			"/scheduler_entries/x/enqueue_events": `{"events":[]}`,
		} {
			if got := string(s.want(http.StatusOK, http.MethodGet, path, "")); got != want+"\n" {
				t.Errorf("%s: %s", path, got)
			}
		}
	})
}
