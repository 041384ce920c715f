package service_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/x/service"
)

// postEncoded posts a body with a content encoding.
func (s *env) postEncoded(encoding string, body []byte) *reply {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.server.URL+"/v1/tasks", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+all)
	req.Header.Set("Content-Encoding", encoding)
	res, err := s.server.Client().Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(res.Body); err != nil {
		s.t.Fatal(err)
	}
	return &reply{s.t, res.StatusCode, res.Header, text.Bytes()}
}

// zip compresses a text with gzip.
func zip(t *testing.T, text string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	s := newEnv(t, fakeRedis(t), func(c *service.Config) { c.Limits.MaxBody = limit })
	task := func(id, payload string) string {
		return `{"type":"email:a","id":"` + id + `","payload_text":"` + payload + `"}`
	}
	large := strings.Repeat("0123456789", limit/10)
	if body := zip(t, task("2", large)); len(body) > limit/10 {
		t.Fatalf("the bomb has %d bytes", len(body))
	}
	s.postEncoded("gzip", zip(t, task("1", "zipped"))).want(201)
	s.postEncoded("GZip", zip(t, task("1", "zipped"))).want(200)
	s.postEncoded("identity", []byte(task("1", "zipped"))).want(200)
	if got := s.call("GET", "/v1/queues/email:a/tasks/1", "").want(200).str("task", "payload_text"); got != "zipped" {
		t.Errorf("payload %q", got)
	}
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		status   int
		kind     string
		detail   string
	}{
		"bomb":      {"gzip", zip(t, task("2", large)), 413, "too-large", "the decompressed body is longer than the limit of 100000 bytes"},
		"other":     {"br", []byte("x"), 415, "unsupported-encoding", `"br" is not supported`},
		"two":       {"gzip, gzip", zip(t, "{}"), 415, "unsupported-encoding", "use gzip or none"},
		"not gzip":  {"gzip", []byte("{}"), 400, "invalid-request", "is not gzip"},
		"cut":       {"gzip", zip(t, task("3", "cut"))[:30], 400, "invalid-request", "incomplete"},
		"empty":     {"gzip", nil, 400, "invalid-request", "the body is empty"},
		"no tasks":  {"gzip", zip(t, ""), 400, "invalid-request", "the body is empty"},
		"bad texts": {"gzip", zip(t, "{\"type\":\"\xff\"}"), 400, "invalid-request", "not UTF-8"},
	} {
		r := s.postEncoded(c.encoding, c.body).problem(c.status, c.kind)
		if detail := r.str("detail"); !strings.Contains(detail, c.detail) {
			t.Errorf("%s: detail %q, want one that contains %q", name, detail, c.detail)
		}
		if got := r.header.Get("Accept-Encoding"); (got == "gzip") != (c.status == 415) {
			t.Errorf("%s: Accept-Encoding %q", name, got)
		}
	}
}

func TestEmptyBodies(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	for _, path := range []string{"/v1/tasks", "/v1/tasks/batch", "/v1/take", "/v1/leases/extend", "/v1/leases/settle", "/v1/queues/q/tasks/1/reschedule"} {
		for _, body := range []string{"", " \n"} {
			if got := s.call("POST", path, body).problem(400, "invalid-request").str("detail"); got != "the body is empty: send a JSON object" {
				t.Errorf("%s: %q", path, got)
			}
		}
	}
	for _, path := range []string{"done", "fail", "release", "extend"} { // a body is optional
		s.enqueue("email:"+path, 1, "")
		lease, _ := s.take("email:"+path, 1, "50s")
		s.call("POST", "/v1/leases/"+lease[0]+"/"+path, "").want(200)
	}
}

func TestInvalidDurations(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	s.enqueue("email:a", 1, "")
	for value, want := range map[string]string{
		"2562047h48m": "must be a duration of at most 2562047h47m16s (292 years)", "99999999999999999999h": "must be a duration of at most 2562047h47m16s (292 years)",
		"-1s": "must be a duration of at least 0s", "-99999999999999999999h": "must be a duration of at least 0s",
		"10": `must be a duration such as "30s" or "1h30m"`, "": `must be a duration such as "30s" or "1h30m"`, "1d": `must be a duration such as "30s" or "1h30m"`,
	} {
		r := s.call("POST", "/v1/tasks", `{"type":"email:a","process_in":"`+value+`"}`).problem(400, "invalid-request")
		if got := r.str("errors", 0, "detail"); got != want || r.str("errors", 0, "pointer") != "/process_in" {
			t.Errorf("%q: %s, want %q", value, r.body, want)
		}
		if value == "" {
			continue // does not wait
		}
		r = s.call("GET", "/v1/queues/email:a/tasks/1?wait="+value, "").problem(400, "invalid-request")
		if got := r.str("errors", 0, "detail"); got != want || r.str("errors", 0, "pointer") != "?wait" {
			t.Errorf("?wait=%s: %s, want %q", value, r.body, want)
		}
	}
}

// A response reports if its wait was shortened.
func TestShortenedWaitsAreReported(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), func(c *service.Config) { c.Limits.MaxWait = 200 * time.Millisecond })
	s.enqueue("email:a", 1, "")
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/v1/take", `{"queues":["none"],"wait":"10m"}`, "200ms"},
		{"POST", "/v1/take", `{"queues":["none"],"wait":"200ms"}`, ""},
		{"POST", "/v1/take", `{"queues":["none"]}`, ""},
		{"GET", "/v1/queues/email:a/tasks/1?wait=10m", "", "200ms"},
		{"GET", "/v1/queues/email:a/tasks/1?wait=100ms", "", ""},
	} {
		if got := s.call(c.method, c.path, c.body).want(200).header.Get("Asynq-Wait"); got != c.want {
			t.Errorf("%s %s %s: Asynq-Wait %q, want %q", c.method, c.path, c.body, got, c.want)
		}
	}
}
