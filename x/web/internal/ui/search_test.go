package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func TestSearchThroughAllQueues(t *testing.T) {
	s := newSite(t)
	want := map[string]bool{}
	for q := range 3 {
		for i := range 70 {
			info := s.enqueue(asynq.NewTask([]string{"even", "odd"}[i%2], nil), asynq.Queue(fmt.Sprint("q", q)), asynq.ProcessIn(time.Duration(i%3)*time.Hour))
			if i%2 == 1 {
				want[url.Values{"queue": {info.Queue}, "id": {info.ID}}.Encode()] = true
			}
		}
	}
	s.look()
	parts := 0
	a := s.get("/search", "filter", "type:odd")
	for ; ; parts++ {
		for _, id := range a.ids() {
			if !want[id] {
				t.Errorf("%s is found, or found again", id)
			}
			delete(want, id)
		}
		next := a.all("nav", "id", "more")[0].FirstChild.NextSibling
		if next == nil || next.Data != "a" {
			break
		}
		a = s.get(attr(next, "href"))
	}
	if len(want) > 0 || parts != 2 || !strings.Contains(a.text("div", "id", "progress"), "105 found · searched 210 of 210 tasks · done") {
		t.Errorf("%d are missing after %d parts: %s", len(want), parts, a.text("div", "id", "progress"))
	}
	if a := s.get("/search", "filter", "type:odd", "queue", "q1", "state", "pending"); len(a.ids()) != 12 {
		t.Errorf("in one queue and state: %d", len(a.ids()))
	}
	for path, code := range map[string]int{
		"/search": 200, "/search?filter=": 200, "/search?filter=tpye:x": 422, "/search?state=done": 422, "/search?filter=x&cursor=abc": 422, "/search?queue=none": 200,
	} {
		if a := s.ask(path); a.status != code {
			t.Errorf("%s answers %d, want %d: %s", path, a.status, code, a.text("main"))
		}
	}
}

func TestSearchFindsIDsAtOnce(t *testing.T) {
	s := newSite(t)
	s.enqueue(asynq.NewTask("a", nil), asynq.Queue("q1"), asynq.TaskID("order 7"))
	s.enqueue(asynq.NewTask("a", nil), asynq.Queue("q2"), asynq.TaskID("order 7"))
	s.enqueue(asynq.NewTask("order 7 of", nil), asynq.Queue("q2"))
	s.look()
	if a := s.get("/search", "filter", `id:"order 7"`); len(a.ids()) != 2 || strings.Contains(a.text("main"), "searched") {
		t.Errorf("by its ID: %q, %s", a.ids(), a.text("div", "id", "progress"))
	}
	a := s.get("/search", "filter", `"order 7"`)
	if got := a.ids(); len(got) != 3 || !strings.Contains(got[2], "q2") || !strings.Contains(a.text("div", "id", "progress"), "3 tasks with this ID") && !strings.Contains(a.text("div", "id", "progress"), "2 tasks with this ID") {
		t.Errorf("by a text: %q, %s", got, a.text("div", "id", "progress"))
	}
	if a := s.get("/search", "filter", `id:none`); len(a.ids()) != 0 {
		t.Errorf("%q", a.ids())
	}
}

func TestHitsAreChanged(t *testing.T) {
	s := newSite(t)
	for _, queue := range []string{"q1", "q2"} {
		s.enqueue(asynq.NewTask("a", nil), asynq.Queue(queue), asynq.TaskID("x"), asynq.ProcessIn(time.Hour))
		s.enqueue(asynq.NewTask("a", nil), asynq.Queue(queue), asynq.TaskID("y"))
	}
	s.look()
	a := s.get("/search", "filter", "type:a")
	ids := a.ids()
	slices.Sort(ids)
	values := url.Values{"mixed": {"yes"}, "do": {"archive"}, "id": ids[:3], "back": {root + "/search?filter=type%3Aa"}}
	said := s.follow(s.postForm("/tasks", values))
	if text := said.text("div", "id", "said"); text != "3 tasks archived." {
		t.Errorf("%q", text)
	}
	asked := s.postForm("/tasks", url.Values{"filter": {"type:a"}, "all": {"delete"}})
	if !strings.Contains(asked.text("h1"), "Delete 4 tasks?") {
		t.Fatalf("%d: %s", asked.status, asked.text("main"))
	}
	s.follow(s.submit(asked.form("/tasks"), "confirm", "4"))
	for _, op := range s.bulk.List() {
		if _, ok := s.bulk.Wait(t.Context(), op.ID); !ok {
			t.Fatal(op)
		}
	}
	if n := s.size("q1") + s.size("q2"); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
	if a := s.postForm("/tasks", url.Values{"mixed": {"yes"}, "do": {"run"}, "id": {"%zz"}}); a.status != http.StatusUnprocessableEntity {
		t.Errorf("a broken pick: %d", a.status)
	}
}

func redactSecrets(_, _ string, data []byte) []byte {
	return []byte(strings.ReplaceAll(string(data), "secret", "***"))
}

func TestWhatIsRedactedIsNowhere(t *testing.T) {
	s := newSite(t, func(c *Config) { c.Redact = redactSecrets })
	s.enqueue(asynq.NewTask("a", []byte(`{"k":"secret"}`)), asynq.TaskID("x"), asynq.ProcessIn(time.Hour))
	s.look()
	for path, code := range map[string]int{
		"/tasks?queue=default&state=scheduled": 200, "/task?queue=default&id=x": 200, "/task?queue=default&id=x&as=hex": 200,
		"/download?queue=default&id=x&of=payload": 200, "/edit?queue=default&id=x": 403, "/enqueue?queue=default&from=x": 403, "/search?filter=type:a": 200,
	} {
		a := s.ask(path)
		if a.status != code || strings.Contains(a.body, "secret") || strings.Contains(a.body, "73 65 63 72 65 74") {
			t.Errorf("%s: %d: %s", path, a.status, a.text("main"))
		}
	}
	if a := s.postForm("/edit", url.Values{"queue": {"default"}, "id": {"x"}, "payload": {"y"}, "encoding": {"text"}}); a.status != 403 {
		t.Errorf("edited: %d", a.status)
	}
	for filter, n := range map[string]int{"payload:secret": 0, `payload:"***"`: 1} {
		if a := s.get("/search", "filter", filter); len(a.ids()) != n {
			t.Errorf("%s finds %q", filter, a.ids())
		}
		if a := s.get("/tasks", "queue", "default", "state", "scheduled", "filter", filter); len(a.ids()) != n {
			t.Errorf("%s lists %q", filter, a.ids())
		}
	}
}
