package apiv2

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func TestTaskIsShown(t *testing.T) {
	s := newSite(t, nil)
	id := "a/b \"x\"\n%2F..:run"
	s.enqueue("email", `{"n": 12345678901234567890.10, "s":"<&>"}`, asynq.TaskID(id), asynq.Queue("m/q"), asynq.ProcessIn(time.Hour),
		asynq.MaxRetry(3), asynq.Timeout(90*time.Second), asynq.Retention(time.Hour), asynq.Header("trace", "t1"))
	r := s.want(200, "GET", taskURL("m/q", id), "")
	if !strings.Contains(string(r.body), `"n":12345678901234567890.10`) {
		t.Errorf("the digits of a number have changed: %s", r.body)
	}
	var task Task
	r.into(&task)
	if task.ID != id || task.Queue != "m/q" || task.State != "scheduled" || task.Payload.Encoding != "json" || task.MaxRetry != 3 ||
		task.TimeoutSeconds != 90 || task.RetentionSeconds != 3600 || task.Headers["trace"] != "t1" || task.NextProcessAt == nil {
		t.Errorf("%s", r.body)
	}
	s.want(304, "GET", taskURL("m/q", id), "", "If-None-Match: "+r.header.Get("ETag"))
	s.want(200, "HEAD", taskURL("m/q", id), "")
	s.want(200, "GET", taskURL("m/q", id)+"?payload=base64", "").into(&task)
	if task.Payload.Encoding != "base64" || !strings.HasPrefix(string(task.Payload.Value), `"eyJu`) {
		t.Errorf("in base64: %+v", task.Payload)
	}
	var none Task
	if s.want(200, "GET", taskURL("m/q", id)+"?payload=none", "").into(&none); none.Payload != nil {
		t.Errorf("a payload that was not asked for: %+v", none.Payload)
	}
	s.want(404, "GET", taskURL("m/q", "none"), "")
	s.want(404, "GET", taskURL("none", id), "")
	s.want(400, "GET", taskURL("m/q", id)+"?payload=hex", "")
	s.want(400, "GET", taskURL("m/q", id)+"?payload_limit=-1", "")
}

func TestTaskShowsAttemptsAndProgress(t *testing.T) {
	s := newSite(t, nil)
	s.serve(func(ctx context.Context, _ *asynq.Task) error {
		if err := asynq.SetProgress(ctx, 0.25, "1 of 4"); err != nil {
			t.Error(err)
		}
		return errors.New("failed")
	})
	s.enqueue("email", "", asynq.TaskID("x"))
	var task Task
	for task.State != "retry" {
		s.want(200, "GET", taskURL("default", "x"), "").into(&task)
	}
	if a := task.Attempts; len(a) != 1 || a[0].Kind != "failed" || a[0].Error != "failed" || a[0].Server == "" || a[0].Ended.Before(*a[0].Started) {
		t.Errorf("attempts: %+v", a)
	}
	if p := task.Progress; p == nil || p.Fraction != 0.25 || p.Note != "1 of 4" || p.At.IsZero() {
		t.Errorf("progress: %+v", p)
	}
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		bytes, as       string
		limit           int
		encoding, value string
		truncated       bool
	}{
		{`{"a": 1}`, asFits, 100, "json", `{"a": 1}`, false},
		{`null`, asFits, 100, "json", `null`, false},
		{`{"a": 1}`, asFits, 4, "text", `"{\"a\""`, true},
		{"two\nlines\t€", asFits, 100, "text", `"two\nlines\t€"`, false},
		{"€€", asFits, 4, "text", `"€"`, true},
		{"\x00\xff", asFits, 100, "base64", `"AP8="`, false},
		{"\"\xff\"", asFits, 100, "base64", `"Iv8i"`, false},
		{"\x1b[31m", asFits, 100, "base64", `"G1szMW0="`, false},
		{"abc", asBase64, 2, "base64", `"YWI="`, true},
		{"", asFits, 100, "text", `""`, false},
		{"a", asFits, 0, "text", `""`, true},
	} {
		v := newValue([]byte(tc.bytes), tc.as, tc.limit)
		if v.Encoding != tc.encoding || string(v.Value) != tc.value || v.Truncated != tc.truncated || v.Size != len(tc.bytes) {
			t.Errorf("%q, limit %d: %s %s, truncated %v", tc.bytes, tc.limit, v.Encoding, v.Value, v.Truncated)
		}
		if v.Truncated {
			continue
		}
		in := Input{Encoding: v.Encoding, Value: v.Value}
		if back, err := in.bytes(""); err != nil || string(back) != tc.bytes {
			t.Errorf("%q comes back as %q, error %v", tc.bytes, back, err)
		}
	}
}

func TestRedactionAndFormatters(t *testing.T) {
	s := newSite(t, func(c *Config) {
		c.Redact = func(queue, typename string, _ []byte) []byte { return []byte(`"` + queue + " " + typename + `"`) }
		c.FormatPayload = func(_ string, payload []byte) string { return "<" + string(payload) + ">" }
	})
	s.enqueue("email", "secret", asynq.TaskID("x"), asynq.ProcessIn(time.Hour))
	for _, path := range []string{taskURL("default", "x"), "/tasks", "/tasks?payload=base64"} {
		r := s.want(200, "GET", path, "")
		if strings.Contains(string(r.body), "secret") || strings.Contains(string(r.body), "c2VjcmV0") {
			t.Errorf("%s shows what is to be redacted: %s", path, r.body)
		}
	}
	var task Task
	s.get(taskURL("default", "x")).into(&task)
	if !task.Payload.Redacted || *task.Payload.Formatted != `<"default email">` {
		t.Errorf("%+v", task.Payload)
	}
	body, _ := json.Marshal(map[string]any{"payload": task.Payload})
	s.want(422, "PATCH", taskURL("default", "x"), string(body))
	s.want(403, "PATCH", taskURL("default", "x"), `{"payload":{"value":1}}`)
	s.want(403, "POST", taskURL("default", "x")+"/clone", `{"queue":"q"}`)
	if other := newTag(t, s); other == s.get(taskURL("default", "x")).header.Get("ETag") {
		t.Error("whoever guesses the payload can find out by the tag whether it is right")
	}
}

// newTag returns the tag of another server with the same task.
func newTag(t *testing.T, s *site) string {
	t.Helper()
	info, err := s.inspector.GetTaskInfo("default", "x")
	if err != nil {
		t.Fatal(err)
	}
	return New(s.api.Config).(*api).etag(info)
}

func TestTaskIsChanged(t *testing.T) {
	s := newSite(t, nil)
	s.enqueue("email", "1", asynq.TaskID("x"), asynq.ProcessIn(time.Hour))
	url := taskURL("default", "x")
	tag := s.get(url).header.Get("ETag")
	r := s.want(200, "PATCH", url, `{"payload":{"encoding":"text","value":"new"},"next_process_at":"2040-01-01T00:00:00Z"}`, "If-Match: "+tag)
	var task Task
	if r.into(&task); string(task.Payload.Value) != `"new"` || task.NextProcessAt.Year() != 2040 {
		t.Errorf("%s", r.body)
	}
	if got := s.gate.last(); got != `task.reschedule default/x  "" 1 true` {
		t.Errorf("the log has %s", got)
	}
	s.want(412, "PATCH", url, `{"payload":{"value":1}}`, "If-Match: "+tag)
	s.want(412, "DELETE", url, "", "If-Match: "+tag)
	s.want(200, "PATCH", url, `{"payload":{"value":{"a":1.50}}}`, "If-Match: "+r.header.Get("ETag"))
	if info, err := s.inspector.GetTaskInfo("default", "x"); err != nil || string(info.Payload) != `{"a":1.50}` {
		t.Errorf("%+v, error %v", info, err)
	}
	s.want(200, "POST", url+"/archive", "")
	s.want(409, "POST", url+"/archive", "")
	s.want(409, "PATCH", url, `{"payload":{"value":1}}`)
	s.want(200, "POST", url+"/run", "")
	var p Problem
	if s.want(409, "POST", url+"/run", "").into(&p); p.Type != "urn:asynq:problem:wrong-state" {
		t.Errorf("%+v", p)
	}
	s.want(409, "POST", url+"/cancel", "")
	r = s.want(201, "POST", url+"/clone", `{"id":"y","queue":"low"}`)
	if got := r.header.Get("Location"); got != "/monitor/api/v2/queues/low/tasks/y" {
		t.Errorf("Location: %s", got)
	}
	if info, err := s.inspector.GetTaskInfo("low", "y"); err != nil || string(info.Payload) != `{"a":1.50}` || info.Type != "email" {
		t.Errorf("the clone: %+v, error %v", info, err)
	}
	s.want(204, "DELETE", url, "")
	s.want(404, "DELETE", url, "")
	s.want(404, "POST", url+"/clone", "")
}

func TestActiveTaskIsCanceled(t *testing.T) {
	s := newSite(t, nil)
	began, ended := make(chan struct{}), make(chan error, 1)
	s.enqueue("email", "1", asynq.TaskID("x"))
	s.serve(func(ctx context.Context, _ *asynq.Task) error {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	})
	<-began
	url := taskURL("default", "x")
	s.want(409, "DELETE", url, "")
	s.want(422, "POST", url+"/cancel", `{"then":"paint"}`)
	s.want(202, "POST", url+"/cancel", `{"then":"archive"}`)
	if err := <-ended; !errors.Is(err, asynq.ErrTaskCanceled) {
		t.Errorf("ended by %v", err)
	}
}

func TestEnqueue(t *testing.T) {
	s := newSite(t, nil)
	r := s.want(201, "POST", "/tasks", `{"type":"email","queue":"mail","id":"x","payload":{"value":{"n":1e400}},"headers":{"a":"b"},
		"max_retry":0,"timeout_seconds":1.5,"retention_seconds":60,"process_in_seconds":3600,"unique_seconds":10,"deadline":"2040-01-01T00:00:00Z"}`)
	info, err := s.inspector.GetTaskInfo("mail", "x")
	if err != nil || string(info.Payload) != `{"n":1e400}` || info.Headers["a"] != "b" || info.MaxRetry != 0 || info.Timeout != 2*time.Second ||
		info.Retention != time.Minute || info.State != asynq.TaskStateScheduled || info.Deadline.Year() != 2040 {
		t.Errorf("%+v, error %v, answer %s", info, err, r.body)
	}
	if got := s.gate.last(); got != `task.enqueue mail/x  "" 1 true` {
		t.Errorf("the log has %s", got)
	}
	var p Problem
	if s.want(409, "POST", "/tasks", `{"type":"email","queue":"mail","id":"x"}`).into(&p); p.Type != "urn:asynq:problem:task-id-conflict" {
		t.Errorf("the same ID again: %+v", p)
	}
	s.want(201, "POST", "/tasks", `{"type":"once","unique_seconds":60}`)
	if s.want(409, "POST", "/tasks", `{"type":"once","unique_seconds":60}`).into(&p); p.Type != "urn:asynq:problem:duplicate-task" {
		t.Errorf("the same task again: %+v", p)
	}
	s.want(201, "POST", "/tasks", `{"type":"grouped","group":"g"}`)
	for body, pointer := range map[string]string{
		`{}`:                                   "/type",
		`{"type":" "}`:                         "/type",
		`{"type":"x","queue":"}x"}`:            "/queue",
		`{"type":"x","id":" "}`:                "/id",
		`{"type":"x","max_retry":-1}`:          "/max_retry",
		`{"type":"x","max_retry":"3"}`:         "/max_retry",
		`{"type":"x","unique_seconds":0}`:      "/unique_seconds",
		`{"type":"x","timeout_seconds":1e300}`: "/timeout_seconds",
		`{"type":"x","payload":{"encoding":"base64","value":"%"}}`:                "/payload/value",
		`{"type":"x","payload":{"encoding":"text","value":1}}`:                    "/payload/value",
		`{"type":"x","payload":{"encoding":"hex","value":"00"}}`:                  "/payload/encoding",
		`{"type":"x","payload":{}}`:                                               "/payload/value",
		`{"type":"x","process_at":"2040-01-01T00:00:00Z","process_in_seconds":1}`: "/process_in_seconds",
		`{"type":"x","color":"red"}`:                                              "/color",
	} {
		if s.want(422, "POST", "/tasks", body).into(&p); len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %+v", body, p.Errors)
		}
	}
	for _, body := range []string{`{`, `{"type":"x"} {}`, `nothing`} {
		s.want(400, "POST", "/tasks", body)
	}
	s.want(400, "POST", "/tasks", "", "Content-Type: application/json")
	s.want(415, "POST", "/tasks", `{"type":"x"}`, "Content-Type: text/plain")
}

func TestEnqueueBatch(t *testing.T) {
	s := newSite(t, nil)
	var out BatchResult
	s.want(200, "POST", "/tasks:batch", `{"tasks":[{"type":"a","id":"1"},{"type":"a","id":"1"},{"type":"b","queue":"low"}]}`).into(&out)
	if out.Enqueued != 2 || out.Failed != 1 || out.Results[1].Error == nil || out.Results[1].Error.Status != 409 || out.Results[2].ID == "" {
		t.Errorf("%+v", out)
	}
	want := []string{`task.enqueue default/  "" 1 true`, `task.enqueue low/  "" 1 true`}
	if !slices.Equal(s.gate.log, want) { // one call of the gate per queue
		t.Errorf("the log has %q", s.gate.log)
	}
	var p Problem
	if s.want(422, "POST", "/tasks:batch", `{"tasks":[{"type":"a"},{"type":""}]}`).into(&p); p.Errors[0].Pointer != "/tasks/1/type" {
		t.Errorf("%+v", p)
	}
	s.want(422, "POST", "/tasks:batch", `{"tasks":[]}`)
}

func TestRequestsThatFitNoRoute(t *testing.T) {
	s := newSite(t, nil)
	for _, path := range []string{"/nothing", "/queues/", "/queues//tasks", "/queues/a/tasks/b/paint", "x", "queues", "/queues/%zz"[:8]} {
		s.want(404, "GET", path, "")
	}
	if r := s.want(405, "PUT", "/queues", "{}"); r.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("Allow: %s", r.header.Get("Allow"))
	}
	if r := s.want(204, "OPTIONS", taskURL("q", "x"), ""); r.header.Get("Allow") != "DELETE, GET, HEAD, OPTIONS, PATCH" {
		t.Errorf("Allow: %s", r.header.Get("Allow"))
	}
	s.want(406, "GET", "/queues", "", "Accept: text/html")
	s.want(406, "GET", "/queues", "", "Accept: application/json;q=0")
	s.want(200, "GET", "/queues", "", "Accept: text/html, application/*;q=0.5")
	var p Problem
	if s.want(400, "GET", "/queues?filtre=x&page=1", "").into(&p); len(p.Errors) != 2 || p.Errors[0].Parameter != "filtre" {
		t.Errorf("%+v", p)
	}
	s.gate.refuse = "task.delete"
	s.want(403, "DELETE", taskURL("q", "x"), "")
	if got := s.gate.last(); got != "" {
		t.Errorf("what was refused is logged as done: %s", got)
	}
}

func TestSilentRedis(t *testing.T) {
	s := newSite(t, nil)
	s.redis.SetError("LOADING Redis is loading the dataset in memory")
	for _, path := range []string{"/queues", "/queues/a", "/tasks", "/servers", "/schedules", taskURL("q", "x")} {
		r := s.want(http.StatusServiceUnavailable, "GET", path, "")
		if r.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
	s.want(http.StatusServiceUnavailable, "POST", "/tasks", `{"type":"x"}`)
}

func TestLargeBody(t *testing.T) {
	s := newSite(t, nil)
	r := httptest.NewRequest(http.MethodPost, prefix+"/tasks", strings.NewReader(`{"type":"`+strings.Repeat("x", 1000)+`"}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	r.Body = http.MaxBytesReader(w, r.Body, 100)
	s.api.ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "100 bytes") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// A change between reading and writing is not overwritten.
func TestPatchBetweenReadAndWrite(t *testing.T) {
	var s *site
	between := func() {}
	s = newSite(t, func(c *Config) {
		c.Redact = func(_, _ string, data []byte) []byte { // called after the payload was read
			do := between
			between = func() {}
			do()
			return data
		}
	})
	s.enqueue("email", "old", asynq.TaskID("x"), asynq.ProcessIn(time.Hour))
	url := taskURL("default", "x")
	theirs := func(payload string) func() {
		return func() {
			if err := s.inspector.UpdateTaskPayload("default", "x", []byte(payload)); err != nil {
				t.Error(err)
			}
		}
	}
	mine := `{"payload":{"encoding":"text","value":"mine"}}`
	for _, tc := range []struct {
		header string
		status int
		want   string
	}{
		{"If-Match: " + s.get(url).header.Get("ETag"), 412, "theirs 0"},
		{"If-Match: *", 200, "mine"},
		{"X-None: 1", 200, "mine"},
	} {
		between = theirs("theirs 0")
		s.want(tc.status, "PATCH", url, mine, tc.header)
		if info, err := s.inspector.GetTaskInfo("default", "x"); err != nil || string(info.Payload) != tc.want {
			t.Errorf("%s: %+v, error %v", tc.header, info, err)
		}
	}
}
