package ui

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func TestTaskShowsItsBytes(t *testing.T) {
	s := newSite(t, func(c *Config) {
		c.PayloadText = func(typename string, _ []byte) (string, bool) {
			if typename == "panic" {
				panic("no")
			}
			return "made of " + typename, typename == "own"
		}
	})
	const exact = `{"id":12345678901234567890,"f":1.10,"id":0}`
	s.enqueue(asynq.NewTaskWithHeaders("a", []byte(exact), map[string]string{"trace": "t-1"}), asynq.TaskID("json"))
	s.enqueue(asynq.NewTask("own", []byte("\x01\x02")), asynq.TaskID("own"))
	s.enqueue(asynq.NewTask("panic", []byte("a\u202eb\x07 and more of that")), asynq.TaskID("panic"))
	s.enqueue(asynq.NewTask("large", []byte(`["`+strings.Repeat("x", 3<<20)+`"]`)), asynq.TaskID("large"))
	s.enqueue(asynq.NewTask("none", nil), asynq.TaskID("none"))
	show := func(path string) string {
		a := s.get("/task?queue=default&id=" + path)
		pre := a.all("pre", "id", "payload-bytes")
		if len(pre) == 0 {
			return a.text("section", "aria-labelledby", "payload")
		}
		return inner(pre[0])
	}
	for path, want := range map[string]string{
		"json":         "{\n  \"id\": 12345678901234567890,\n  \"f\": 1.10,\n  \"id\": 0\n}",
		"json&as=text": exact,
		"own":          "made of own",
		"own&as=hex":   "00000000  01 02                                             |..|\n",
		"own&as=json":  "made of own", // it is not JSON
		"panic":        `a\u202eb␇ and more of that`,
		"none":         "Payload The task has no payload.",
	} {
		if got := show(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if a := s.get("/task?queue=default&id=json"); !strings.Contains(a.text("main"), "trace t-1") {
		t.Errorf("headers: %s", a.text("main"))
	}
	if got := show("large"); len(got) > 40<<10 {
		t.Errorf("a large payload: %d bytes", len(got))
	}
	if got := show("large&all=payload"); len(got) < 1<<20 || len(got) > 3<<20 {
		t.Errorf("more of a large payload: %d bytes", len(got))
	}
	a := s.get("/download?queue=default&id=large&of=payload")
	if len(a.body) != 3<<20+4 || a.header.Get("Content-Type") != "application/octet-stream" || a.header.Get("Content-Disposition") != `attachment; filename=large-payload.json` {
		t.Errorf("%d bytes, %v", len(a.body), a.header)
	}
	for path, code := range map[string]int{
		"/task": 422, "/task?queue=none&id=x": 404, "/task?queue=default&id=x": 404, "/download?queue=default&id=x": 404, "/edit?queue=default&id=json": 409,
	} {
		if a := s.ask(path); a.status != code {
			t.Errorf("%s answers %d, want %d", path, a.status, code)
		}
	}
}

func TestTaskTellsItsError(t *testing.T) {
	s := newSite(t)
	dead := archivedTask("a", "it \"broke\" <b>\ngoroutine 1:\n\tmain.go:7")
	s.put("default", dead)
	s.look()
	a := s.get("/task", "queue", "default", "id", dead.ID)
	card := a.text("section", "aria-labelledby", "error")
	if !strings.Contains(card, `it "broke" <b>`) || !strings.Contains(a.text("details"), "main.go:7") {
		t.Errorf("%s", card)
	}
	for _, n := range a.all("a") {
		if inner(n) == "Tasks with this error" {
			if found := s.get(attr(n, "href")); len(found.ids()) != 1 {
				t.Errorf("tasks with this error: %s", found.text("main"))
			}
			return
		}
	}
	t.Error("there is no link to tasks with this error")
}

func TestTaskIsChanged(t *testing.T) {
	s := newSite(t)
	s.enqueue(asynq.NewTask("a", nil), asynq.TaskID("x"), asynq.ProcessIn(time.Hour))
	do := func(pairs ...string) *answer {
		values := url.Values{"queue": {"default"}, "id": {"x"}}
		for i := 0; i < len(pairs); i += 2 {
			values.Set(pairs[i], pairs[i+1])
		}
		return s.postForm("/task", values)
	}
	state := func() asynq.TaskState { return s.find("default", "x").State }
	for _, step := range []struct {
		pairs []string
		said  string
		state asynq.TaskState
	}{
		{[]string{"do", "run"}, "Task moved to pending", asynq.TaskStatePending},
		{[]string{"do", "run"}, "pending", asynq.TaskStatePending},
		{[]string{"do", "cancel"}, "The task is pending. Only active tasks", asynq.TaskStatePending},
		{[]string{"do", "archive"}, "Task archived", asynq.TaskStateArchived},
		{[]string{"do", "reschedule", "in", "soon"}, "“soon” is not a duration", asynq.TaskStateArchived},
		{[]string{"do", "reschedule", "at", "tomorrow"}, "“tomorrow” is not a time", asynq.TaskStateArchived},
		{[]string{"do", "reschedule", "in", "1d2h"}, "The task runs in 1d 2h.", asynq.TaskStateScheduled},
		{[]string{"do", "reschedule", "at", "2099-12-31T23:59:01"}, "The task runs at 2099-12-31 23:59:01 UTC.", asynq.TaskStateScheduled},
	} {
		a := s.follow(do(step.pairs...))
		if said := a.text("div", "id", "said"); !strings.Contains(said, step.said) || state() != step.state {
			t.Errorf("%q: %q, now %v", step.pairs, said, state())
		}
	}
	if at := s.find("default", "x").NextProcessAt; !at.Equal(time.Date(2099, 12, 31, 23, 59, 1, 0, time.UTC)) {
		t.Errorf("it runs at %v", at)
	}
	if got := s.gate.log(); got[0] != "task.run queue=default state=scheduled task=x n=1 ok=true" || got[1] != "task.run queue=default state=pending task=x n=1 ok=false" || len(got) != 5 {
		t.Errorf("log: %q", got)
	}
	if a := do("do", "paint"); a.status != 422 {
		t.Errorf("painted: %d", a.status)
	}
	asked := do("do", "delete")
	if asked.text("h1") != "Delete task x?" {
		t.Fatalf("%s", asked.text("main"))
	}
	gone := s.follow(s.submit(asked.form("/task")))
	if said := gone.text("div", "id", "said"); said != "Task deleted." {
		t.Errorf("%q", said)
	}
	if a := do("do", "run"); a.status != 404 {
		t.Errorf("run when it is gone: %d", a.status)
	}
}

func TestActiveTask(t *testing.T) {
	s := newSite(t)
	began, ended := make(chan struct{}), make(chan struct{})
	srv := asynq.NewServer(s.opt, asynq.Config{Concurrency: 1, Logger: asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))})
	if err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		if err := asynq.SetProgress(ctx, 0.456, "456 of <1000>"); err != nil {
			t.Error(err)
		}
		close(began)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	s.enqueue(asynq.NewTask("a", nil), asynq.TaskID("x"))
	<-began
	a := s.get("/task?queue=default&id=x")
	for _, button := range a.all("button", "name", "do") {
		if v := attr(button, "value"); !strings.HasPrefix(v, "cancel") {
			t.Errorf("an active task can be %s", v)
		}
	}
	progress := func() string { return s.get("/task?queue=default&id=x").text("section", "aria-labelledby", "progress") }
	for wait := time.Now().Add(time.Minute); !strings.Contains(progress(), "45% 456 of <1000>"); time.Sleep(time.Millisecond) {
		if time.Now().After(wait) {
			t.Fatalf("progress: %s", progress())
		}
	}
	if a := s.get("/tasks?queue=default&state=active"); len(a.ids()) != 1 {
		t.Errorf("active: %s", a.text("main"))
	}
	asked := s.postForm("/task", url.Values{"queue": {"default"}, "id": {"x"}, "do": {"cancel-delete"}})
	if asked.text("h1") != "Cancel and delete task x?" {
		t.Fatalf("%s", asked.text("main"))
	}
	if a := s.submit(asked.form("/task")); a.status != 303 { // to the task, which may be deleted by then
		t.Fatalf("status %d: %s", a.status, a.text("main"))
	}
	<-ended
	if got := s.gate.log(); len(got) != 1 || got[0] != "task.cancel queue=default state=active task=x n=1 ok=true" {
		t.Errorf("log: %q", got)
	}
}

func TestEnqueueByHand(t *testing.T) {
	s := newSite(t)
	form := url.Values{
		"type": {"email:welcome"}, "queue": {"mail"}, "payload": {"{\r\n \"n\": 12345678901234567890}"}, "encoding": {"json"}, "id": {"mine"},
		"headers": {"trace: t-1\r\n\"a: b\": \"c\\nd\"\r\n"}, "max_retry": {"3"}, "timeout": {"1m30s"}, "deadline": {"2099-01-01T00:00"},
		"retention": {"1d"}, "process_in": {"2h"}, "unique": {"1h"},
	}
	a := s.follow(s.postForm("/enqueue", form))
	if said := a.text("div", "id", "said"); said != "The task is scheduled in queue mail. View task" {
		t.Errorf("%q", said)
	}
	info := s.find("mail", "mine")
	if string(info.Payload) != "{\n \"n\": 12345678901234567890}" || info.MaxRetry != 3 || info.Timeout != 90*time.Second || info.Retention != 24*time.Hour ||
		info.Deadline.Year() != 2099 || !maps.Equal(info.Headers, map[string]string{"trace": "t-1", "a: b": "c\nd"}) || info.State != asynq.TaskStateScheduled {
		t.Errorf("%+v", info)
	}
	if got := s.gate.log(); len(got) != 1 || got[0] != "task.enqueue queue=mail task=mine n=1 ok=true" {
		t.Errorf("log: %q", got)
	}
	wrong := func(name, value, want string) {
		t.Helper()
		f := maps.Clone(form)
		f.Set("id", "")
		f.Del("unique")
		f[name] = []string{value}
		a := s.postForm("/enqueue", f)
		if a.status != 422 || !strings.Contains(a.text("main"), want) {
			t.Errorf("%s %q: %d, want %q: %s", name, value, a.status, want, a.text("main"))
		}
	}
	wrong("type", " ", "A type is required")
	wrong("queue", "}x", "Must not begin with }")
	wrong("queue", "\xff", "Must be UTF-8")
	wrong("payload", "{\n\"a\" 1}", "Not valid JSON at line 2, character 5")
	wrong("encoding", "morse", "Unknown encoding")
	wrong("headers", "no colon", "write one header per line")
	wrong("max_retry", "-1", "whole number, 0 or more")
	wrong("timeout", "soon", "Not a duration")
	wrong("deadline", "soon", "Not a time")
	wrong("process_at", "2099-01-01T00:00", "Set either “Run in” or “Run at”, not both.")
	wrong("unique", "0s", "Must be greater than zero")
	wrong("unique", "1h", "holds the uniqueness lock")
	wrong("id", "mine", "has a task with this ID")
	if n := s.size("mail"); n != 1 {
		t.Errorf("%d tasks", n)
	}
	b64 := url.Values{"type": {"b"}, "payload": {"AP8\r\n="}, "encoding": {"base64"}, "id": {"b"}, "queue": {"mail"}, "again": {"yes"}}
	if a := s.follow(s.postForm("/enqueue", b64)); len(a.all("input", "name", "type", "value", "b")) != 1 {
		t.Errorf("another one: %s", a.text("main"))
	}
	if got := s.find("mail", "b").Payload; string(got) != "\x00\xff" {
		t.Errorf("%q", got)
	}
}

// TestCopiesAreExact submits forms like browsers do.
func TestCopiesAreExact(t *testing.T) {
	s := newSite(t)
	for n, payload := range []string{
		"", `{"n":12345678901234567890}`, "\n\nleading lines", "line\r\nends\r", "\x00\x01\xff", "tab\there ", " {\n}\n", "<b>&amp;</textarea>", "\ufeffmark", "\u2028",
	} {
		id := fmt.Sprint("t", n)
		headers := map[string]string{"plain": "value", " spaces ": " x ", "a:b": "", "": "empty", "quo\"te": "\"", "lines": "a\nb\r", "bidi": "\u202e"} //nolint:gocritic // Names may have spaces.
		s.enqueue(asynq.NewTaskWithHeaders("a", []byte(payload), headers), asynq.TaskID(id), asynq.Retention(90*time.Minute), asynq.ProcessIn(time.Hour))
		form := s.get("/enqueue", "queue", "default", "from", id)
		if len(form.all("textarea")) != 2 {
			t.Fatalf("%q: %s", payload, form.text("main"))
		}
		s.follow(s.submit(form.form("/enqueue"), "id", id+"-copy"))
		got, want := s.find("default", id+"-copy"), s.find("default", id)
		if string(got.Payload) != payload || !maps.Equal(got.Headers, headers) || got.Retention != want.Retention || got.MaxRetry != want.MaxRetry || got.Timeout != want.Timeout {
			t.Errorf("%q has the copy %+v", payload, got)
		}
		edit := s.get("/edit", "queue", "default", "id", id)
		s.follow(s.submit(edit.form("/edit")))
		if got := s.find("default", id); string(got.Payload) != payload {
			t.Errorf("%q becomes %q", payload, got.Payload)
		}
	}
}

func TestEditPayload(t *testing.T) {
	s := newSite(t)
	s.enqueue(asynq.NewTask("a", []byte(`{"a":[1.0,2]}`)), asynq.TaskID("x"), asynq.ProcessIn(time.Hour))
	a := s.get("/edit?queue=default&id=x")
	a = s.submit(a.form("/edit"), "tidy", "indent")
	if got := strings.TrimSpace(inner(a.one("textarea"))); got != "{\n  \"a\": [\n    1.0,\n    2\n  ]\n}" {
		t.Errorf("indented: %q", got)
	}
	a = s.submit(a.form("/edit"), "tidy", "compact")
	if got := strings.TrimSpace(inner(a.one("textarea"))); got != `{"a":[1.0,2]}` {
		t.Errorf("compact: %q", got)
	}
	bad := s.submit(a.form("/edit"), "payload", `{"a":`)
	if bad.status != 422 || !strings.Contains(bad.text("main"), "Not valid JSON at line 1") || strings.TrimSpace(inner(bad.one("textarea"))) != `{"a":` {
		t.Errorf("%d: %s", bad.status, bad.text("main"))
	}
	s.follow(s.submit(a.form("/edit"), "payload", `{"a":3}`))
	if got := s.find("default", "x").Payload; string(got) != `{"a":3}` {
		t.Errorf("%q", got)
	}
	if got := s.gate.log(); len(got) != 1 || got[0] != "task.edit queue=default task=x n=1 ok=true" {
		t.Errorf("log: %q", got)
	}
	if err := s.inspector.RunTask("default", "x"); err != nil {
		t.Fatal(err)
	}
	if a := s.postForm("/edit", url.Values{"queue": {"default"}, "id": {"x"}, "payload": {"1"}, "encoding": {"json"}}); a.status != 422 {
		t.Errorf("of a pending task: %d", a.status)
	}
}

// The timeline says when a task with ExpiresIn expires.
func TestTaskShowsItsExpiry(t *testing.T) {
	s := newSite(t)
	s.enqueue(asynq.NewTask("a", nil), asynq.TaskID("limited"), asynq.ExpiresIn(time.Hour))
	s.enqueue(asynq.NewTask("a", nil), asynq.TaskID("unlimited"))
	limited, err := s.inspector.GetTaskInfo("default", "limited")
	if err != nil {
		t.Fatal(err)
	}
	timeline := func(id string) string {
		return s.get("/task", "queue", "default", "id", id).text("section", "aria-labelledby", "times")
	}
	if got, at := timeline("limited"), limited.ExpiresAt.UTC().Format(time.DateTime); !strings.Contains(got, "Expires") || !strings.Contains(got, at) {
		t.Errorf("the timeline is %q, want that the task expires at %s", got, at)
	}
	if got := timeline("unlimited"); strings.Contains(got, "Expires") {
		t.Errorf("without ExpiresIn, the timeline is %q", got)
	}
}

func TestTaskShowsFailedAttempts(t *testing.T) {
	s := newSite(t)
	dead := archivedTask("a", "the last")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	dead.Attempts = []asynq.AttemptInfo{
		{Ended: at, Kind: asynq.AttemptLeaseExpired, Err: "the first"},
		{Started: at, Ended: at.Add(1500 * time.Millisecond), Kind: asynq.AttemptPanicked, Server: "host<1>:2", Err: "panic: <no>\ngoroutine 1:"},
	}
	s.put("default", dead)
	s.look()
	a := s.get("/task", "queue", "default", "id", dead.ID)
	text := a.text("section", "aria-labelledby", "attempts")
	second, first := strings.Index(text, "panic: <no>"), strings.Index(text, "the first")
	if second < 0 || first < second {
		t.Errorf("the newest is not first: %s", text)
	}
	for _, want := range []string{"panicked", "after 1.5s on host<1>:2", "2026-01-02 03:04:06", "goroutine 1:", "lease expired", "start unknown"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing: %s", want, text)
		}
	}
	if got := s.get("/task", "queue", "default", "id", dead.ID); len(got.all("section", "aria-labelledby", "progress")) != 0 {
		t.Error("a task without progress shows some")
	}
}
