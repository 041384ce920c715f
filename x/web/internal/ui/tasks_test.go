package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"context"
	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

func (s *site) scheduled(n int) {
	s.Helper()
	for i := range n {
		s.enqueue(asynq.NewTask([]string{"even", "odd"}[i%2], []byte(fmt.Sprint(i))), asynq.Queue("mail"), asynq.TaskID(fmt.Sprint("t", i)), asynq.ProcessIn(time.Duration(i+60)*time.Minute))
	}
}

func TestTasksByPages(t *testing.T) {
	s := newSite(t)
	s.scheduled(105)
	a := s.get("/tasks", "queue", "mail", "state", "scheduled")
	if len(a.ids()) != 50 || a.ids()[0] != "t0" || !strings.Contains(a.text("nav", "class", "pages"), "Page 1 of 3") {
		t.Fatalf("%d: %s", a.status, a.text("main"))
	}
	a = s.get(attr(a.one("a", "rel", "next"), "href"))
	a = s.get(attr(a.one("a", "rel", "next"), "href"))
	if got := a.ids(); len(got) != 5 || got[4] != "t104" || len(a.all("a", "rel", "next")) != 0 {
		t.Errorf("the last page: %q", got)
	}
	a = s.get(attr(a.one("a", "rel", "prev"), "href"))
	if got := a.ids(); len(got) != 50 || got[0] != "t50" {
		t.Errorf("the page before: %q", got)
	}
	if a := s.get("/tasks", "queue", "mail", "state", "scheduled", "page", "900", "size", "200"); len(a.ids()) != 105 {
		t.Errorf("%d tasks on a page of 200", len(a.ids()))
	}
	for path, code := range map[string]int{
		"/tasks":                           422,
		"/tasks?queue=none":                404,
		"/tasks?queue=mail&state=done":     422,
		"/tasks?queue=mail&cursor=%00bad":  422,
		"/tasks?queue=mail&state=archived": 200,
	} {
		if a := s.ask(path); a.status != code {
			t.Errorf("%s answers %d, want %d: %s", path, a.status, code, a.text("main"))
		}
	}
}

func TestTasksByFilter(t *testing.T) {
	s := newSite(t)
	s.scheduled(65)
	var ids []string
	for a := s.get("/tasks", "queue", "mail", "state", "scheduled", "filter", "type:odd"); ; {
		ids = append(ids, a.ids()...)
		next := a.all("a", "rel", "next")
		if len(next) == 0 {
			break
		}
		a = s.get(attr(next[0], "href"))
	}
	slices.Sort(ids)
	if len(ids) != 32 || len(slices.Compact(ids)) != 32 {
		t.Errorf("found %q", ids)
	}
	a := s.ask("/tasks", "queue", "mail", "state", "scheduled", "filter", `type:odd tpye:x`)
	if marks := inner(a.one("pre", "class", "marks")); a.status != 422 || marks != "type:odd tpye:x\n         ^" || !strings.Contains(a.text("div", "id", "wrong"), "Unknown field tpye") {
		t.Errorf("%d: %q", a.status, marks)
	}
	if value := attr(a.all("input", "name", "filter")[1], "value"); value != "type:odd tpye:x" {
		t.Errorf("the filter has become %q", value)
	}
}

func TestTasksOfEachState(t *testing.T) {
	s := newSite(t)
	s.enqueue(asynq.NewTask("a", nil), asynq.Group("g1"), asynq.TaskID("in1"))
	s.enqueue(asynq.NewTask("a", nil), asynq.Group("g2"), asynq.TaskID("in2"))
	s.enqueue(asynq.NewTask("b", []byte(`{"n":12345678901234567890}`)), asynq.TaskID("wait"))
	dead := archivedTask("c", "it broke\nand here is why")
	s.put("other", dead)
	if got := s.get("/tasks", "queue", "default", "state", "aggregating").ids(); len(got) != 2 {
		t.Errorf("of all groups: %q", got)
	}
	if got := s.get("/tasks", "queue", "default", "state", "aggregating", "group", "g2").ids(); len(got) != 1 || got[0] != "in2" {
		t.Errorf("of one group: %q", got)
	}
	if a := s.get("/tasks", "queue", "default", "state", "pending"); !strings.Contains(a.text("table"), "12345678901234567890") {
		t.Errorf("pending: %s", a.text("table"))
	}
	if a := s.get("/tasks", "queue", "other", "state", "archived"); !strings.Contains(a.text("table"), "it broke and here is why") || a.ids()[0] != dead.ID {
		t.Errorf("archived: %s", a.text("table"))
	}
	if a := s.get("/tasks", "queue", "other", "state", "retry"); !strings.Contains(a.text("main"), "No retry tasks.") {
		t.Errorf("none: %s", a.text("main"))
	}
}

func TestPickedTasksAreChanged(t *testing.T) {
	s := newSite(t)
	s.scheduled(10)
	list := s.get("/tasks", "queue", "mail", "state", "scheduled")
	form := list.all("form", "class", "selectable")[0]

	a := s.follow(s.submit(form, "do", "run"))
	if !strings.Contains(a.text("div", "id", "said"), "No task is selected.") {
		t.Errorf("none: %s", a.text("main"))
	}
	a = s.follow(s.submit(form, "do", "run", "id", "t3"))
	if said := a.text("div", "id", "said"); said != "1 task moved to pending." {
		t.Errorf("run: %q", said)
	}
	if got := s.gate.log(); !slices.Equal(got, []string{"task.run queue=mail state=scheduled n=1 ok=true"}) {
		t.Errorf("log: %q", got)
	}
	a = s.follow(s.submit(form, "do", "archive", "id", "none"))
	if said := a.text("div", "id", "said"); !strings.Contains(said, "0 tasks archived. 1 failed: Task not found") {
		t.Errorf("archive: %q", said)
	}
	if a = s.get("/operation", "id", s.bulk.List()[0].ID); !strings.Contains(a.text("table"), "none Task not found") {
		t.Errorf("its operation: %s", a.text("main"))
	}

	a = s.submit(form, "do", "delete", "id", "t4")
	if a.status != http.StatusOK || a.text("h1") != "Delete 1 task?" {
		t.Fatalf("delete: %d %s", a.status, a.text("main"))
	}
	if n := s.size("mail"); n != 10 {
		t.Errorf("%d tasks before the answer", n)
	}
	a = s.follow(s.submit(a.form("/tasks")))
	if said := a.text("div", "id", "said"); said != "1 task deleted." || s.size("mail") != 9 {
		t.Errorf("delete: %q", said)
	}
}

func TestAllThatMatchAreChanged(t *testing.T) {
	s := newSite(t)
	s.scheduled(20)
	form := url.Values{"queue": {"mail"}, "state": {"scheduled"}, "filter": {"type:odd"}, "all": {"delete"}}
	a := s.postForm("/tasks", form)
	if !strings.Contains(a.text("h1"), "Delete 10 tasks?") || !strings.Contains(a.text("main"), "All scheduled tasks in queue mail matching: type:odd.") {
		t.Fatalf("%d: %s", a.status, a.text("main"))
	}
	if wrong := s.submit(a.form("/tasks"), "confirm", "11"); wrong.status != 422 || s.size("mail") != 20 {
		t.Errorf("a wrong number: %d %s", wrong.status, wrong.text("main"))
	}
	s.follow(s.submit(a.form("/tasks"), "confirm", "10"))
	id := s.bulk.List()[0].ID
	if op, _ := s.bulk.Wait(t.Context(), id); op.Changed != 10 || s.size("mail") != 10 {
		t.Errorf("%+v", op)
	}
	a = s.get("/operation", "id", id)
	if !strings.Contains(a.text("main"), "10 tasks changed") || len(a.all("div", "hx-trigger", "every 700ms")) != 0 {
		t.Errorf("the operation: %s", a.text("main"))
	}
	if a = s.get("/operations"); !strings.Contains(a.text("table"), "Delete all scheduled tasks of mail matching type:odd") {
		t.Errorf("operations: %s", a.text("main"))
	}
	if a := s.postForm("/tasks", form); a.text("h1") != "Nothing to change" {
		t.Errorf("again: %s", a.text("main"))
	}
	if a := s.ask("/operation", "id", "none"); a.status != 404 {
		t.Errorf("an unknown operation: %d", a.status)
	}
	if a := s.follow(s.postForm("/operation", url.Values{"id": {id}})); !strings.Contains(a.text("div", "id", "said"), "already ended") {
		t.Errorf("canceled late: %s", a.text("main"))
	}
	for _, all := range []string{"paint", ""} {
		if a := s.postForm("/tasks", url.Values{"queue": {"mail"}, "state": {"scheduled"}, "all": {all}}); a.status != 422 {
			t.Errorf("%q: %d", all, a.status)
		}
	}
}

func TestNothingIsOfferedThatIsRefused(t *testing.T) {
	s := newSite(t)
	s.scheduled(1)
	s.gate.refuse = "task."
	for _, path := range []string{"/tasks?queue=mail&state=scheduled", "/task?queue=mail&id=t0", "/search?filter=t0"} {
		a := s.get(path)
		for _, n := range append(a.all("button"), a.all("input", "type", "checkbox")...) {
			if name := attr(n, "name"); name == "do" || name == "all" || name == "id" {
				t.Errorf("%s offers %s", path, attr(n, "value"))
			}
		}
		if len(a.all("form", "action", root+"/task")) > 1 {
			t.Errorf("%s offers to reschedule", path)
		}
		if strings.Contains(a.text("main"), "Clone") || strings.Contains(a.text("main"), "Edit") {
			t.Errorf("%s: %s", path, a.text("main"))
		}
	}
	for path, form := range map[string]url.Values{
		"/tasks":   {"queue": {"mail"}, "id": {"t0"}, "do": {"run"}},
		"/task":    {"queue": {"mail"}, "id": {"t0"}, "do": {"delete"}, "confirm": {"yes"}},
		"/edit":    {"queue": {"mail"}, "id": {"t0"}},
		"/enqueue": {"type": {"x"}, "encoding": {"text"}},
	} {
		if a := s.postForm(path, form); a.status != http.StatusForbidden {
			t.Errorf("%s answers %d", path, a.status)
		}
	}
	for _, path := range []string{"/edit?queue=mail&id=t0", "/enqueue"} {
		if a := s.ask(path); a.status != http.StatusForbidden {
			t.Errorf("%s answers %d", path, a.status)
		}
	}
	if info := s.find("mail", "t0"); info.State != asynq.TaskStateScheduled || len(s.gate.log()) != 0 {
		t.Errorf("%+v", info)
	}
}

func TestHostileNames(t *testing.T) {
	s := newSite(t)
	for n, name := range hostile {
		queue := fmt.Sprintf("q%d %s", n, name)
		s.enqueue(asynq.NewTaskWithHeaders(name, []byte(name), map[string]string{name: name}), asynq.Queue(queue), asynq.TaskID(name), asynq.ProcessIn(time.Hour))
		s.enqueue(asynq.NewTask(name, []byte(name)), asynq.Queue(queue), asynq.Group(name))
	}
	s.look()
	for n, name := range hostile {
		queue := fmt.Sprintf("q%d %s", n, name)
		list := s.get("/tasks", "queue", queue, "state", "scheduled")
		if got := list.ids(); len(got) != 1 || got[0] != keep(name) {
			t.Errorf("%q is listed as %q", name, got)
		}
		if links := list.links("/task"); len(links) == 0 {
			t.Errorf("no link leads to %q", name)
		} else if task := s.get(links[0].String()); len(task.all("h2", "id", "payload")) != 1 {
			t.Errorf("%q: %s", name, task.text("main"))
		}
		group := s.get("/tasks", "queue", queue, "state", "aggregating", "group", name)
		if len(group.ids()) != 1 {
			t.Errorf("the group %q has %q", name, group.ids())
		}
		s.get("/enqueue", "queue", queue, "from", name)
		s.get("/edit", "queue", queue, "id", name)
		s.ask("/search", "filter", name, "queue", queue) // some are not valid filters
		asked := s.submit(list.all("form", "class", "selectable")[0], "do", "delete", "id", name)
		gone := s.follow(s.submit(asked.form("/tasks")))
		if said := gone.text("div", "id", "said"); said != "1 task deleted." {
			t.Errorf("%q: %q", name, said)
		}
		s.get("/operations")
		s.ask("/task", "queue", queue, "id", name)
	}
}

func TestTaskPagesAreAsTheSettingsSay(t *testing.T) {
	s := newSite(t)
	for n := range 25 {
		s.enqueue(asynq.NewTask("kind", []byte(`{"a":1}`)), asynq.TaskID(fmt.Sprint("t", n)))
	}
	list := func(pairs ...string) int { return len(s.get("/tasks", append(pairs, "queue", "default")...).ids()) }
	if n := list(); n != 25 {
		t.Errorf("%d rows at first", n)
	}
	s.postForm("/settings", url.Values{"size": {"20"}, "payload": {"hex"}})
	if n := list(); n != 20 {
		t.Errorf("%d rows of 20", n)
	}
	if n := list("size", "50"); n != 25 {
		t.Errorf("%d rows where the address has another size", n)
	}
	next := s.get("/tasks", "queue", "default").one("a", "rel", "next")
	if link := attr(next, "href"); strings.Contains(link, "size") || len(s.get(link).ids()) != 5 {
		t.Errorf("the next page is %s", link)
	}
	if a := s.get("/task?queue=default&id=t1"); !strings.Contains(a.text("pre"), "7b 22 61 22") {
		t.Errorf("the payload is shown as %q", a.text("pre"))
	}
	if a := s.get("/task?queue=default&id=t1&as=json"); strings.Contains(a.text("pre"), "7b 22") {
		t.Errorf("the payload is shown as %q where JSON is asked for", a.text("pre"))
	}
}

func TestTypesThatTasksHaveAreSuggested(t *testing.T) {
	s := newSite(t)
	s.enqueue(asynq.NewTask("seldom:seen", nil))
	if a := s.get("/enqueue"); len(a.all("option", "value", "seldom:seen")) != 1 {
		t.Errorf("suggested: %s", a.body)
	}
}

func TestOnlyWhatDestroysIsRed(t *testing.T) {
	s := newSite(t)
	for range 3 {
		s.enqueue(asynq.NewTask("a", nil), asynq.ProcessIn(time.Hour))
	}
	for do, red := range map[string]bool{"run": false, "archive": false, "delete": true} {
		a := s.postForm("/tasks", url.Values{"queue": {"default"}, "state": {"scheduled"}, "all": {do}})
		buttons := a.all("button", "class", "button danger solid")
		if (len(buttons) == 1) != red || a.status != http.StatusOK {
			t.Errorf("%s: %d: %d red buttons: %s", do, a.status, len(buttons), a.text("main"))
		}
	}
}

// A change that must fail cannot be confirmed: the button is disabled, with the reason above it.
func TestActiveTasksCannotBeDeleted(t *testing.T) {
	s := newSite(t)
	receiver := asynq.NewReceiver(s.opt, asynq.ReceiverConfig{Queues: map[string]int{"q": 1}})
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(receiver.Shutdown)
	s.enqueue(asynq.NewTask("a", nil), asynq.Queue("q"), asynq.TaskID("active"))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	leases, err := receiver.Receive(ctx, 1, "q")
	if err != nil || len(leases) != 1 {
		t.Fatal(leases, err)
	}
	s.enqueue(asynq.NewTask("a", nil), asynq.Queue("q"), asynq.TaskID("pending"))
	s.look()
	confirmable := func(a *answer, why string) bool {
		t.Helper()
		buttons := within(a.one("#question"), "button")
		if len(buttons) != 1 {
			t.Fatalf("%d buttons: %s", len(buttons), a.text("#question"))
		}
		_, disabled := attribute(buttons[0], "disabled")
		if disabled != (why != "") || !strings.Contains(a.text("#question"), why) {
			t.Errorf("disabled %v: %s", disabled, a.text("#question"))
		}
		return !disabled
	}
	confirmable(s.post("/queue", "queue", "q", "do", "delete"), "1 task is active. Pause the queue")
	confirmable(s.post("/tasks", "queue", "q", "do", "delete", "id", "active"), "Active tasks cannot be deleted. Cancel them first.")
	confirmable(s.post("/tasks", "queue", "q", "do", "delete", "id", "active", "id", "pending"), "1 of these tasks is active")
	if !confirmable(s.post("/tasks", "queue", "q", "do", "delete", "id", "pending"), "") {
		t.Error("a pending task cannot be deleted")
	}
	if err := leases[0].Complete(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if !confirmable(s.post("/queue", "queue", "q", "do", "delete"), "") {
		t.Error("a queue without active tasks cannot be deleted")
	}
}

// All suggestions of the search are valid filters with existing fields.
func TestSearchSuggestions(t *testing.T) {
	s := newSite(t)
	s.enqueue(asynq.NewTask(`mail "x"`, nil))
	s.read()
	page := s.get("/search")
	var all []string
	for _, u := range page.links("/search") {
		if f := u.Query().Get("filter"); f != "" {
			all = append(all, f)
		}
	}
	if !slices.Contains(all, `type:"mail \"x\""`) {
		t.Errorf("the type of the tasks that there are is not suggested: %q", all)
	}
	for _, input := range page.all("input", "name", "filter") {
		example := attr(input, "placeholder")
		_, after, found := strings.Cut(example, ": ID, text, ")
		if !found {
			after = example
		}
		all = append(all, strings.ReplaceAll(after, ",", ""))
	}
	for _, option := range within(page.one("#terms"), "option") {
		term := attr(option, "value")
		if !slices.ContainsFunc([]string{"1", "10m", "active"}, func(value string) bool { _, err := filter.Parse(term + value); return err == nil }) {
			t.Errorf("%s is suggested, and takes no value", term)
		}
	}
	for _, text := range all {
		if _, err := filter.Parse(text); err != nil || strings.Contains(text, "user_id") {
			t.Errorf("%s is suggested: %v", text, err)
		}
	}
	// Invalid filters can be searched for as text.
	wrong := s.ask("/search", "filter", `email:welcome (`)
	if !wrong.leads("/search", "filter", `"email:welcome ("`) {
		t.Errorf("no way to search for the text: %s", wrong.text("#wrong"))
	}
}

// Archiving more tasks than the archive keeps shows how many tasks are deleted, and requires
// consent.
func TestFullArchiveAsks(t *testing.T) {
	s := newSite(t)
	var old []*asynq.TaskRecord
	for range asynq.ArchiveMaxTasks - 1 {
		old = append(old, archivedTask("old", "no"))
	}
	s.put("mail", old...)
	for _, id := range []string{"a", "b", "c"} {
		s.enqueue(asynq.NewTask("new", nil), asynq.Queue("mail"), asynq.TaskID(id))
	}
	s.put("mail", &asynq.TaskRecord{ID: "r", State: asynq.TaskStateRetry, Type: "new", LastErr: "gone", Retried: 1, MaxRetry: 3, LastFailedAt: time.Now()})
	s.look()
	asked := func(a *answer, tasks string) {
		t.Helper()
		if !strings.Contains(a.text("#question"), "keeps the newest 10,000 tasks: "+tasks+" will be deleted, oldest first") ||
			len(a.all("input", "type", "checkbox", "name", "discard_oldest")) != 1 || s.size("mail") != 10_003 {
			t.Fatalf("it asks %s of %d tasks", a.text("#question"), s.size("mail"))
		}
	}
	all := []string{"queue", "mail", "state", "pending", "all", "archive", "count", "3"}
	asked(s.post("/tasks", all...), "2 archived tasks")
	asked(s.post("/tasks", append(all, "confirm", "3")...), "2 archived tasks") // without the checkbox
	asked(s.post("/tasks", "queue", "mail", "state", "pending", "do", "archive", "id", "a", "id", "b"), "1 archived task")
	s.read()
	id := survey.Identify("gone")
	s.post("/task", "queue", "mail", "id", "a", "do", "archive") // there is room for one task
	if got := s.find("mail", "a").State; got != asynq.TaskStateArchived {
		t.Fatalf("the task is %v", got)
	}
	asked(s.post("/task", "queue", "mail", "id", "b", "do", "archive"), "1 archived task")
	asked(s.post("/error", "id", id, "do", "archive", "confirm", "yes"), "1 archived task")

	s.post("/task", "queue", "mail", "id", "b", "do", "archive", "discard_oldest", "yes", "confirm", "yes")
	if got := s.find("mail", "b").State; got != asynq.TaskStateArchived || s.size("mail") != 10_002 {
		t.Errorf("the task is %v, of %d", got, s.size("mail"))
	}
	a := s.follow(s.post("/tasks", "queue", "mail", "state", "pending", "do", "archive", "id", "c", "discard_oldest", "yes", "confirm", "yes"))
	if said := a.text("#said"); said != "1 task archived. 1 task deleted from the full archive." {
		t.Errorf("picked: %q", said)
	}
	a = s.follow(s.post("/error", "id", id, "do", "archive", "confirm", "yes", "discard_oldest", "yes"))
	if said := a.text("#said"); said != "1 task archived. 1 task deleted from the full archive." {
		t.Errorf("by error: %q", said)
	}
}
