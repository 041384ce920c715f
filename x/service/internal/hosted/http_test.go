package hosted

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

const secret = "0123456789abcdef"

// posted returns an env with one endpoint "hook" that h handles.
func posted(t *testing.T, e Endpoint, h http.HandlerFunc) *env {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	e.URL = server.URL + e.URL
	return newEnv(t, Config{HTTP: HTTP{AllowNetworks: loopback}, Endpoints: map[string]Endpoint{"hook": e}})
}

func TestPostIsSigned(t *testing.T) {
	t.Parallel()
	type seen struct {
		r    *http.Request
		body string
	}
	got := make(chan seen, 1)
	s := posted(t, Endpoint{
		URL: "/in?x=1", Secrets: []string{secret, "whsec_" + base64.StdEncoding.EncodeToString([]byte("another-secret-of-it"))},
		Headers: map[string]string{"X-Shop": "7"},
	}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r, string(body)}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"ok":true}`)
	})
	info := s.run("hook", `{"n":1}`, asynq.TaskID("a.b\r\nX-Evil: 1"))
	expect(t, info, asynq.TaskStateCompleted, "")
	if string(info.Result) != `{"ok":true}` {
		t.Errorf("result %q", info.Result)
	}
	req := <-got
	h := req.r.Header
	if req.r.Method != http.MethodPost || req.r.URL.String() != "/in?x=1" || req.body != `{"n":1}` {
		t.Errorf("got %s %s %q", req.r.Method, req.r.URL, req.body)
	}
	want := map[string]string{
		"Idempotency-Key": "a%2Eb%0D%0AX-Evil:%201", "Webhook-Id": "a%2Eb%0D%0AX-Evil:%201", "Asynq-Attempt": "1", "Asynq-Task-Type": "hook",
		"Asynq-Queue": "hook", "Content-Type": "application/json", "X-Shop": "7", "X-Evil": "", "Accept-Encoding": "",
	}
	for name, value := range want {
		if h.Get(name) != value {
			t.Errorf("%s: got %q, want %q", name, h.Get(name), value)
		}
	}
	// Verify the signatures as a receiver does.
	signatures := strings.Fields(h.Get("Webhook-Signature"))
	for i, key := range []string{secret, "another-secret-of-it"} {
		mac := hmac.New(sha256.New, []byte(key))
		_, _ = io.WriteString(mac, h.Get("Webhook-Id")+"."+h.Get("Webhook-Timestamp")+"."+req.body)
		sent, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signatures[i], "v1,"))
		if err != nil || !hmac.Equal(sent, mac.Sum(nil)) {
			t.Errorf("signature %d does not match: %q", i, signatures[i])
		}
	}
}

func TestResponses(t *testing.T) {
	t.Parallel()
	s := posted(t, Endpoint{MaxRetryAfter: 10 * time.Minute, MaxResponse: 100}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		status, header, _ := strings.Cut(string(body), " ")
		if header != "" {
			w.Header().Set("Retry-After", header)
		}
		w.WriteHeader(map[string]int{"200": 200, "204": 204, "302": 302, "400": 400, "404": 404, "408": 408, "429": 429, "500": 500, "503": 503}[status])
		_, _ = io.WriteString(w, "because \x1b[31m"+status)
	})
	for _, c := range []struct {
		payload string
		state   asynq.TaskState
		err     string
		wait    time.Duration
	}{
		{"200", asynq.TaskStateCompleted, "", 0},
		{"204", asynq.TaskStateCompleted, "", 0},
		{"302", asynq.TaskStateArchived, "302", 0},
		{"400", asynq.TaskStateArchived, "responded with status 400: because [31m400", 0},
		{"404", asynq.TaskStateArchived, "404", 0},
		{"408", asynq.TaskStateRetry, "408", time.Hour},
		{"500", asynq.TaskStateRetry, "500", time.Hour},
		{"429", asynq.TaskStateRetry, "429", time.Hour},
		{"429 120", asynq.TaskStateRetry, "429", 2 * time.Minute},
		{"503 999999999999999999999", asynq.TaskStateRetry, "503", 10 * time.Minute},
		{"503 -5", asynq.TaskStateRetry, "503", time.Hour},
		{"503 " + time.Now().Add(5*time.Minute).UTC().Format(http.TimeFormat), asynq.TaskStateRetry, "503", 5 * time.Minute},
	} {
		info := s.run("hook", c.payload)
		expect(t, info, c.state, c.err)
		if wait := time.Until(info.NextProcessAt); c.wait > 0 && (wait > c.wait+2*time.Second || wait < c.wait-time.Minute) {
			t.Errorf("%s: the next attempt is in %v; want %v", c.payload, wait, c.wait)
		}
	}
}

func TestClientErrorsAndSnooze(t *testing.T) {
	t.Parallel()
	s := posted(t, Endpoint{RetryClientErrors: true, SnoozeWhenBusy: true}, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "busy" {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusConflict)
	})
	expect(t, s.run("hook", "x"), asynq.TaskStateRetry, "409")
	if info := s.run("hook", "busy"); info.Retried != 0 || info.State == asynq.TaskStateArchived {
		t.Errorf("got %+v; want an uncounted attempt", info)
	}
}

func TestResultIsTruncated(t *testing.T) {
	t.Parallel()
	s := posted(t, Endpoint{MaxResponse: 1000}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, endless{}) })
	info := s.run("hook", "")
	expect(t, info, asynq.TaskStateCompleted, "")
	if len(info.Result) != 1000 {
		t.Errorf("the result has %d bytes", len(info.Result))
	}
}

// A response that arrives byte by byte is aborted after the timeout.
func TestSlowResponse(t *testing.T) {
	t.Parallel()
	s := posted(t, Endpoint{Timeout: 100 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	expect(t, s.run("hook", ""), asynq.TaskStateRetry, "no response within 100ms")
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/there" {
			got <- r.Method + " " + string(body) + " " + r.Header.Get("Webhook-Signature")[:3] + r.Header.Get("Referer")
			return
		}
		to, code, _ := strings.Cut(string(body), " ")
		w.Header().Set("Location", to)
		w.WriteHeader(map[string]int{"": 307, "302": 302, "303": 303, "308": 308}[code])
	}
	other := httptest.NewServer(http.HandlerFunc(handler))
	t.Cleanup(other.Close)
	s := posted(t, Endpoint{MaxRedirects: 2, Secrets: []string{secret}}, handler)

	expect(t, s.run("hook", "/there"), asynq.TaskStateCompleted, "")
	if r := <-got; r != "POST /there v1," {
		t.Errorf("after the redirect: %q", r)
	}
	expect(t, s.run("hook", "/there 308"), asynq.TaskStateCompleted, "")
	<-got
	for payload, want := range map[string]string{
		"/there 302":                      "status 302 drops the body",
		"/there 303":                      "status 303 drops the body",
		"/here":                           "the limit is 2",
		other.URL + "/there":              "is not allowed",
		"http://169.254.169.254/latest":   "is not allowed",
		"http://[::ffff:10.0.0.1]/":       "is not allowed",
		"file:///etc/passwd":              "changes the scheme",
		"gopher://127.0.0.1:6379/_FLUSH":  "changes the scheme",
		"http://user:pass@127.0.0.1/":     "contains a user",
		"//evil.example/there":            "is not allowed",
		"http://127.0.0.1.evil.example/x": "is not allowed",
	} {
		expect(t, s.run("hook", payload), asynq.TaskStateArchived, want)
	}
	select {
	case r := <-got:
		t.Errorf("a request got through: %q", r)
	default:
	}
}

// An allowed host name that resolves to a private address is not connected to.
func TestAddressIsCheckedWhenDialed(t *testing.T) {
	t.Parallel()
	called := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called <- struct{}{} }))
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	endpoints := map[string]Endpoint{}
	for _, host := range []string{"localhost", "127.0.0.1", "0.0.0.0", "[::ffff:127.0.0.1]", "[::]", "127.1", "2130706433"} {
		endpoints[host] = Endpoint{URL: "http://" + host + ":" + port}
	}
	s := newEnv(t, Config{Endpoints: endpoints})
	for host := range maps.Keys(endpoints) {
		info := s.run(host, "x")
		// Names such as 127.1 are numbers to some resolvers and names to others.
		if resolves := net.ParseIP(strings.Trim(host, "[]")) != nil || host == "localhost"; resolves {
			expect(t, info, asynq.TaskStateArchived, "address not allowed")
		} else if info.State == asynq.TaskStateCompleted {
			t.Errorf("%s was reached", host)
		}
	}
	if len(called) > 0 {
		t.Error("a request got through")
	}
}

// Proxy settings of the environment are ignored: a proxy would dial instead of the service.
func TestNoProxy(t *testing.T) {
	client, err := newClient(&HTTP{})
	if err != nil || client.Transport.(*http.Transport).Proxy != nil {
		t.Errorf("a proxy is configured, or %v", err)
	}
}

func TestAllowsURL(t *testing.T) {
	t.Parallel()
	h := HTTP{AllowHosts: []string{"api.example.com", "api.example.com:8443", "*.shop.example", "[2001:db8::1]:81"}}
	for target, want := range map[string]bool{
		"https://api.example.com/x": true, "https://API.example.com./x": true, "http://api.example.com": true,
		"https://api.example.com:8443": true, "https://api.example.com:444": false, "https://x.api.example.com": false,
		"https://a.shop.example": true, "https://a.b.shop.example": true, "https://shop.example": false, "https://evilshop.example": false,
		"https://.shop.example": false, "http://[2001:db8::1]:81/": true, "http://[2001:db8::1]/": false, "https://api.example.com@evil.example/": false,
	} {
		req, err := http.NewRequest(http.MethodPost, target, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.AllowsURL(req.URL); got != want {
			t.Errorf("%s: %v, want %v", target, got, want)
		}
	}
}

func TestEndpointCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		e     Endpoint
		field string
	}{
		{Endpoint{}, "url"},
		{Endpoint{URL: "ftp://x"}, "url"},
		{Endpoint{URL: "https:///x"}, "url"},
		{Endpoint{URL: "https://*.example.com"}, "url"},
		{Endpoint{URL: "https://u:p@x"}, "url"},
		{Endpoint{URL: "https://x#y"}, "url"},
		{Endpoint{URL: "https://x", Secrets: []string{"short"}}, "secret"},
		{Endpoint{URL: "https://x", Secrets: []string{secret, "whsec_!"}}, "secret.1"},
		{Endpoint{URL: "https://x", Headers: map[string]string{"webhook-id": "1"}}, "headers"},
		{Endpoint{URL: "https://x", Headers: map[string]string{"a b": "1"}}, "headers"},
		{Endpoint{URL: "https://x", Headers: map[string]string{"A": "1\r\nB: 2"}}, "headers"},
		{Endpoint{URL: "https://x", Timeout: -1}, "timeout"},
		{Endpoint{URL: "https://x", MaxResponse: 1 << 30}, "max_response"},
		{Endpoint{URL: "https://x", MaxRedirects: 11}, "max_redirects"},
		{Endpoint{URL: "https://x", MaxRetryAfter: -1}, "max_retry_after"},
	} {
		if p := c.e.Check(); len(p) != 1 || p[0].Field != c.field {
			t.Errorf("%+v: got %v, want one of %s", c.e, p, c.field)
		}
	}
	if p := (&Endpoint{URL: "https://x.example:8443/y?z", Secrets: []string{secret}}).Check(); len(p) > 0 {
		t.Error(p)
	}
	if p := (&HTTP{AllowHosts: []string{"x", "*.x.y:1", "http://x", "*", "x/y"}}).Check(); len(p) != 3 {
		t.Error(p)
	}
}
