package apiv1_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
)

func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	s := newSite(t, miniredis.RunT(t).Addr())
	s.enqueue("t", nil, asynq.TaskID("a"))
	for _, r := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{http.MethodGet, "/", 404, ""},
		{http.MethodGet, "/nope", 404, ""},
		{http.MethodGet, "/queues/", 404, ""},
		{http.MethodGet, "/queues//pending_tasks", 404, ""},
		{http.MethodGet, "/queues/default/aggregating_tasks", 404, ""},
		{http.MethodGet, "/queues/default/paused_tasks", 404, ""},
		{http.MethodPost, "/queues/default/pending_tasks:run_all", 404, ""},
		{http.MethodPost, "/queues/default/completed_tasks:archive_all", 404, ""},
		{http.MethodDelete, "/queues/default/active_tasks:delete_all", 404, ""},
		{http.MethodGet, "/queues/%20/pending_tasks", 404, ""},
		{http.MethodPost, "/queues/%7Dx:pause", 404, ""},
		{http.MethodPut, "/queues", 405, "GET, HEAD"},
		{http.MethodPut, "/queues/default/pending_tasks/", 404, ""}, // IDs are not empty
		{http.MethodPost, "/queues/default", 405, "DELETE, GET, HEAD"},
		{http.MethodGet, "/queues/default:pause", 404, ""}, // no queue has this name
		{http.MethodDelete, "/queues/default:pause", 404, ""},
		{http.MethodPut, "/queues/default:pause", 405, "DELETE, GET, HEAD, POST"},
		{http.MethodPost, "/queues/default/pending_tasks/a:run", 405, "DELETE"},
		{http.MethodPost, "/queues/default/scheduled_tasks/a%3Arun", 405, "DELETE"},
		{http.MethodPost, "/queues/default/pending_tasks:delete_all", 405, "DELETE"},
		{http.MethodDelete, "/queues/default/active_tasks/a", 404, ""},
		{http.MethodPost, "/queues/default/active_tasks/a:archive", 404, ""},
	} {
		s.want(r.status, r.method, r.path, "")
		response, _ := s.call(r.method, r.path, "")
		if allow := response.Header.Get("Allow"); allow != r.allow {
			t.Errorf("%s %s: Allow is %q, want %q", r.method, r.path, allow, r.allow)
		}
	}
	if response, body := s.call(http.MethodHead, "/queues", ""); response.StatusCode != http.StatusOK || len(body) != 0 || response.ContentLength < 100 {
		t.Errorf("HEAD: %s, %d bytes, %d announced", response.Status, len(body), response.ContentLength)
	}
	if response, _ := s.call(http.MethodOptions, "/queues/default", ""); response.StatusCode != http.StatusNoContent || response.Header.Get("Allow") != "DELETE, GET, HEAD" {
		t.Errorf("OPTIONS: %s %v", response.Status, response.Header)
	}
	if n := s.ids("/queues/default/pending_tasks"); !slices.Equal(n, []string{"a"}) {
		t.Errorf("left are %q", n)
	}
}

// Names may contain slashes, quotes, line breaks, dots, and the text of verbs.
func TestNames(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, addr string) {
		s := newSite(t, addr)
		const queue, group = "q/ü:pause?", "g:1/%2F\n"
		ids := []string{
			"a/b", `"quoted"`, "line\nbreak", "..", ".", "a:run", "a:run:archive", ":delete_all", "100%", "%2F", "q?x=1#y", "a b+c", "ü", `<script>`,
			"pending_tasks:delete_all",
		}
		at := "/queues/" + url.PathEscape(queue)
		for _, id := range ids {
			s.enqueue("t", nil, asynq.TaskID(id), asynq.Queue(queue))
			s.enqueue("t", nil, asynq.TaskID("g"+id), asynq.Queue(queue), asynq.Group(group))
		}
		for _, id := range ids {
			escaped := strings.ReplaceAll(url.PathEscape(id), ".", "%2E")
			if got := get[struct{ ID, Queue string }](s, at+"/tasks/"+escaped); got.ID != id || got.Queue != queue {
				t.Errorf("asked for %q, got %v", id, got)
			}
			s.want(http.StatusNoContent, http.MethodPost, at+"/pending_tasks/"+escaped+":archive", "")
			s.want(http.StatusConflict, http.MethodPost, at+"/pending_tasks/"+escaped+":archive", "")
			s.want(http.StatusNoContent, http.MethodPost, at+"/archived_tasks/"+escaped+":run", "")
			s.want(http.StatusNoContent, http.MethodDelete, at+"/pending_tasks/"+escaped, "")
			s.want(http.StatusNotFound, http.MethodDelete, at+"/pending_tasks/"+escaped, "")
			s.want(http.StatusNoContent, http.MethodPost, at+"/groups/"+url.PathEscape(group)+"/aggregating_tasks/g"+escaped+":archive", "")
			_, done := s.gate.asked()
			if len(done) != 6 || done[0] != (access.Action{Verb: access.TaskArchive, Queue: queue, TaskID: id}) || done[5].Group != group || done[5].TaskID != "g"+id {
				t.Errorf("told of %v", done)
			}
		}
		if left := s.ids(at + "/archived_tasks?size=100"); len(left) != len(ids) {
			t.Errorf("archived are %q", left)
		}
		s.want(http.StatusNoContent, http.MethodPost, at+":pause", "")
		if !get[struct{ Current struct{ Paused bool } }](s, at).Current.Paused {
			t.Error("the queue is not paused")
		}
	})
}

func TestPages(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, addr string) {
		s := newSite(t, addr)
		for _, id := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
			s.enqueue("t", nil, asynq.TaskID(id))
		}
		const list = "/queues/default/pending_tasks"
		for query, want := range map[string]string{
			"": "abcdefghijklmnopqrst", "?page=2": "uvwxyz", "?size=3&page=2": "def", "?size=1000": "abcdefghijklmnopqrstuvwxyz", "?page=99": "",
			"?page=2147483647&size=1000": "", "?size=&page=": "abcdefghijklmnopqrst",
		} {
			if got := strings.Join(s.ids(list+query), ""); got != want {
				t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
		for _, query := range []string{"?size=0", "?size=1001", "?size=x", "?size=1e3", "?page=0", "?page=-1", "?page=99999999999999999999"} {
			s.want(http.StatusBadRequest, http.MethodGet, list+query, "")
			s.want(http.StatusBadRequest, http.MethodGet, "/scheduler_entries/x/enqueue_events"+query, "")
		}
		for _, path := range []string{"/queues/none", "/queues/none/pending_tasks", "/queues/none/groups", "/queues/none/groups/g/aggregating_tasks", "/queues/none/tasks/a", "/queues/default/tasks/none"} {
			s.want(http.StatusNotFound, http.MethodGet, path, "")
		}
		if got := s.ids("/queues/default/groups/none/aggregating_tasks"); len(got) != 0 {
			t.Errorf("a group that is not there has %q", got)
		}
	})
}
