package ui

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/filter"
	"github.com/asynq-go/asynq/x/web/internal/survey"
	"github.com/asynq-go/asynq/x/web/internal/trend"
)

func TestErrorsAreGrouped(t *testing.T) {
	s := newSite(t)
	s.put("a", failedTask("mail", "user 1 is gone"), failedTask("mail", "user 2 is gone"), failedTask("image", "user 3 is gone"))
	dead := archivedTask("mail", "user 4 is gone")
	s.put("b", dead, failedTask("mail", "no such order"))
	s.read()
	page := s.get("/errors")
	rows := page.rows()
	if len(rows) != 2 || !strings.HasPrefix(rows[0], "user # is gone mail · image · a · b 4 3 1 ") {
		t.Fatalf("rows %q", rows)
	}
	if h := page.text("p"); !strings.Contains(h, "2 kinds of errors in 5 tasks") {
		t.Errorf("it says %q", h)
	}
	for name, c := range map[string]struct {
		query []string
		want  []string
	}{
		"queue":     {[]string{"queue", "b"}, []string{"user # is gone mail · image · a · b 1 0 1", "no such order mail · b 1 1 0"}},
		"type":      {[]string{"type", "image"}, []string{"user # is gone mail · image · a · b 1 1 0"}},
		"text":      {[]string{"text", "USER 4"}, []string{"user # is gone mail · image · a · b 4 3 1"}},
		"none":      {[]string{"text", "<none>"}, nil},
		"sorted":    {[]string{"sort", "error", "queue", "b"}, []string{"no such order", "user # is gone"}},
		"turned":    {[]string{"sort", "error", "up", "1", "queue", "b"}, []string{"user # is gone", "no such order"}},
		"sorted by": {[]string{"sort", "colour", "type", "image"}, []string{"user # is gone mail · image · a · b 1 1 0"}},
	} {
		got := s.get("/errors", c.query...).rows()
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The page of a kind has the failed attempts that servers recorded, of one queue or of all.
func TestErrorHasAttempts(t *testing.T) {
	s := newSite(t)
	s.attempts("mail", "a", 7)
	s.attempts("low", "b", 3)
	s.put("old", failedTask("mail", "no such order"))
	s.read()
	id := survey.Identify("dial tcp 192.0.2.3:80: connection refused")
	for want, query := range map[string][]string{"3": {"id", id}, "2": {"id", id, "queue", "mail"}} {
		got := s.get("/error", query...).text("main")
		if !regexp.MustCompile("Failed attempts " + want + ` since (now|[0-9]+s ago) ?, last (now|[0-9]+s ago) ?\(by minute\), in 48 hours`).MatchString(got) {
			t.Errorf("%q: %s", query, got)
		}
	}
	if got := s.get("/error", "id", survey.Identify("no such order")).text("main"); strings.Contains(got, "Failed attempts") {
		t.Errorf("a kind without recorded attempts: %s", got)
	}
	s.redis.SetError("LOADING")
	s.ui.trends = trend.New(s.inspector) // nothing is cached
	if got := s.get("/error", "id", id).text("main"); !strings.Contains(got, "Failed attempts unknown") || !strings.Contains(got, "LOADING") {
		t.Errorf("without Redis: %s", got)
	}
}

func TestManyErrorsArePaged(t *testing.T) {
	s := newSite(t)
	var tasks []*asynq.TaskRecord
	for n := range 120 {
		tasks = append(tasks, failedTask("mail", "no "+strings.Repeat("x", n+1)))
	}
	s.put("q", tasks...)
	s.read()
	seen := map[string]bool{}
	for _, page := range []struct{ n, rows int }{{1, 50}, {2, 50}, {3, 20}, {9, 20}} {
		list := s.get("/errors", "page", fmt.Sprint(page.n))
		if rows := list.rows(); len(rows) != page.rows {
			t.Errorf("page %d has %d rows", page.n, len(rows))
		}
		for _, link := range list.links("/error") {
			seen[link.Query().Get("id")] = true
		}
	}
	if len(seen) != 120 {
		t.Errorf("%d rows on all pages", len(seen))
	}
	for _, wrong := range []string{"0", "-1", "x", "99999999999999999999"} {
		if a := s.ask("/errors?page=" + wrong); a.status != http.StatusUnprocessableEntity {
			t.Errorf("page %s: status %d", wrong, a.status)
		}
	}
}

func TestOneKindOfError(t *testing.T) {
	s := newSite(t)
	const stack = "panic: no user 7\n\ngoroutine 1 [running]:\nmain.send()\n\t/app/main.go:1\n"
	s.put("a", failedTask("mail", stack), failedTask("mail", strings.ReplaceAll(stack, "7", "8")))
	s.put("b", failedTask("mail", stack))
	s.read()
	id := survey.Identify(stack)
	page := s.get("/error", "id", id)
	if h := page.text("h1"); h != "panic: no user #" {
		t.Errorf("its heading is %q", h)
	}
	if text := page.text("main"); strings.Contains(text, "By task type") {
		t.Error("it lists the types of a kind that has one")
	}
	if text := page.text("pre"); !strings.Contains(text, "panic: no user 7") || !strings.Contains(text, "goroutine 1 [running]") {
		t.Errorf("texts %q", text)
	}
	if n := len(page.links("/task")); n != 3 {
		t.Errorf("%d links to tasks", n)
	}
	for _, do := range []string{"run", "archive", "delete"} {
		if !page.does(do) {
			t.Errorf("there is no button to %s", do)
		}
	}
	search := page.search()
	f, err := filter.Parse(search)
	if err != nil {
		t.Fatalf("the filter %q: %v", search, err)
	}
	found, _ := s.inspector.ListRetryTasks("b")
	if !f.Match(found[0]) || !strings.Contains(search, "no user") {
		t.Errorf("the filter %q does not find the task", search)
	}
	if n := len(s.get("/error", "id", id, "queue", "b").links("/task")); n != 1 {
		t.Errorf("%d links to tasks of one queue", n)
	}
	if a := s.ask("/error?id=none"); a.status != http.StatusNotFound {
		t.Errorf("of none: status %d", a.status)
	}
	s.gate.refuse = "task."
	if page := s.get("/error", "id", id); page.does("run") || page.does("archive") || page.does("delete") {
		t.Error("it offers what is refused")
	}
	if a := s.post("/error", "id", id, "do", "delete", "confirm", "delete"); a.status != http.StatusForbidden || len(s.gate.log()) != 0 {
		t.Errorf("refused: status %d, done %q", a.status, s.gate.log())
	}
}

// The page of a kind has the numbers of tasks by type, of the selected queue or of all.
func TestTypesOfAKindOfError(t *testing.T) {
	s := newSite(t)
	s.put("a", failedTask("mail", "user 1 is gone"), failedTask("image", "user 2 is gone"), archivedTask("mail", "user 3 is gone"))
	s.put("b", failedTask("report", "user 4 is gone"))
	s.read()
	id := survey.Identify("user 1 is gone")
	for queue, want := range map[string]string{"": "mail 1 1 image 1 0 report 1 0", "a": "mail 1 1 image 1 0"} {
		if text := s.get("/error", "id", id, "queue", queue).text("main"); !strings.Contains(text, "By task type Task type Retry Archived "+want+" By queue") {
			t.Errorf("queue %q: %q has no %q", queue, text, want)
		}
	}
}

// The examples of a queue's errors count only the tasks of that queue, and add up to the number on
// the page.
func TestExamplesOfOneQueue(t *testing.T) {
	s := newSite(t)
	s.put("a", failedTask("mail", "user 1 is gone"), failedTask("mail", "user 1 is gone"), failedTask("mail", "user 2 is gone"))
	s.put("b", failedTask("mail", "user 1 is gone"), failedTask("mail", "user 3 is gone"))
	s.read()
	id := survey.Identify("user 1 is gone")
	for queue, want := range map[string]string{
		"":  "3 tasks: user 1 is gone 1 task: user 2 is gone 1 task: user 3 is gone",
		"a": "2 tasks: user 1 is gone 1 task: user 2 is gone",
		"b": "1 task: user 1 is gone 1 task: user 3 is gone",
	} {
		if got := s.get("/error", "id", id, "queue", queue).text(".texts"); got != want {
			t.Errorf("queue %q has the examples %q, want %q", queue, got, want)
		}
	}
}

func TestTasksOfAKindOfErrorAreChanged(t *testing.T) {
	s := newSite(t)
	for _, queue := range []string{"a", "b"} {
		dead := archivedTask("mail", "user 3 is gone")
		s.put(queue, failedTask("mail", "user 1 is gone"), failedTask("mail", "user 2 is gone"), dead, failedTask("image", "user 4 is gone"), failedTask("mail", "no"))
	}
	s.read()
	id := survey.Identify("user 1 is gone")
	size := func(queue string) string {
		info, err := s.inspector.GetQueueInfo(queue)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("pending %d retry %d archived %d", info.Pending, info.Retry, info.Archived)
	}

	a := s.post("/error", "id", id, "do", "delete")
	if a.status != http.StatusOK || a.text("h1") != "Delete 8 tasks with this error?" || size("a") != "pending 0 retry 4 archived 1" {
		t.Fatalf("it asks %q, %s", a.text("h1"), size("a"))
	}
	if a := s.post("/error", "id", id, "do", "delete", "confirm", "yes"); a.status != http.StatusUnprocessableEntity || size("a") != "pending 0 retry 4 archived 1" {
		t.Errorf("a wrong answer: status %d, %s", a.status, size("a"))
	}
	if a := s.post("/error", "id", id, "queue", "a", "do", "archive", "confirm", "yes"); a.status != http.StatusSeeOther || size("a") != "pending 0 retry 1 archived 4" || size("b") != "pending 0 retry 4 archived 1" {
		t.Errorf("status %d, %s, %s", a.status, size("a"), size("b"))
	}
	proctest.Eventually(s, "the survey to see it", func() bool { return survey.Sum(s.read().Failure(id).Shares, "a", asynq.TaskStateArchived) == 4 })
	if a := s.post("/error", "id", id, "do", "run", "confirm", "yes"); a.status != http.StatusSeeOther || a.header.Get("Location") != root+"/error?id="+id {
		t.Errorf("status %d, to %s", a.status, a.header.Get("Location"))
	}
	if size("a") != "pending 4 retry 1 archived 0" || size("b") != "pending 4 retry 1 archived 0" {
		t.Errorf("%s, %s", size("a"), size("b"))
	}
	log := s.gate.log()
	if len(log) != 4 || log[0] != `task.archive queue=a state=retry n=3 ok=true` {
		t.Errorf("done: %q", log)
	}
	proctest.Eventually(s, "the survey to see it", func() bool { return s.read().Failure(id) == nil })
	if a := s.post("/error", "id", id, "do", "run", "confirm", "yes"); a.status != http.StatusSeeOther || len(s.gate.log()) != 4 {
		t.Errorf("none left: status %d, done %q", a.status, s.gate.log())
	}
	if a := s.post("/error", "id", id, "do", "paint"); a.status != http.StatusUnprocessableEntity {
		t.Errorf("paint: status %d", a.status)
	}
}

func TestHostileErrors(t *testing.T) {
	s := newSite(t)
	for n, text := range hostile {
		known := strings.ToValidUTF8(text, "?") // messages are valid UTF-8
		task := failedTask("type "+known, known)
		task.ID = fmt.Sprint(n, known)
		s.put(known, task)
	}
	for _, f := range s.read().Failures {
		page := s.get("/error", "id", f.ID, "queue", f.Tasks[0].Queue)
		link := page.links("/task")
		if len(link) != 1 || link[0].Query().Get("id") != f.Tasks[0].ID || link[0].Query().Get("queue") != f.Tasks[0].Queue {
			t.Errorf("of %q: links to tasks %v", f.Kind, link)
		}
		search := page.search()
		if _, err := filter.Parse(search); err != nil {
			t.Errorf("the filter %q: %v", search, err)
		}
		s.get("/type", "type", f.Types[0].Name)
		if a := s.post("/error", "id", f.ID, "do", "delete"); a.status != http.StatusOK {
			t.Errorf("of %q: asked, status %d", f.Kind, a.status)
		}
	}
	kinds := make(map[string]bool)
	for _, text := range hostile {
		kinds[asynq.ErrorKind(strings.ToValidUTF8(text, "?"))] = true
	}
	if rows := s.get("/errors").rows(); len(rows) != len(kinds) {
		t.Errorf("%d rows of %d kinds", len(rows), len(kinds))
	}
	for _, name := range hostile {
		if rows := s.get("/errors", "queue", strings.ToValidUTF8(name, "?")).rows(); len(rows) != 1 {
			t.Errorf("queue %q: %d rows", name, len(rows))
		}
		s.get("/errors", "text", name, "type", name)
		s.get("/types", "name", name)
		s.get("/groups", "name", name, "queue", name)
	}
}

func TestEmptyPages(t *testing.T) {
	s := newSite(t)
	s.read()
	for path, want := range map[string]string{"/errors": "No task has failed.", "/types": "No tasks.", "/groups": "No group contains tasks."} {
		if text := s.get(path).text("main"); !strings.Contains(text, want) {
			t.Errorf("%s says %q", path, text)
		}
	}
	s.redis.SetError("LOADING Redis is loading")
	s.survey.Stale()
	proctest.Eventually(s, "the error to be reported", func() bool {
		return strings.Contains(s.get("/errors").text("main"), "Redis returned an error: LOADING Redis is loading.")
	})
	proctest.Eventually(s, "the error to be reported", func() bool {
		return strings.Contains(s.get("/groups").text("main"), "Redis returned an error: LOADING Redis is loading.")
	})
}

// Without data, no page claims that there is nothing.
func TestPagesWithoutData(t *testing.T) {
	s := newSite(t)
	s.redis.SetError("LOADING Redis is loading")
	for _, path := range []string{"/errors", "/types", "/groups"} {
		proctest.Eventually(s, "the error to be reported", func() bool {
			return strings.Contains(s.get(path).text("main"), "Redis returned an error: LOADING Redis is loading.")
		})
		if text := s.get(path).text("main"); regexp.MustCompile(`\b(0|[Nn]o) (kinds|types?|groups?|tasks?)\b`).MatchString(text) {
			t.Errorf("%s says %q", path, text)
		}
	}
}
