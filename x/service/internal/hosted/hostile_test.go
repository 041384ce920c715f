package hosted

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// Access to one queue does not grant access to handlers of another.
func TestTypeInWrongQueueFails(t *testing.T) {
	t.Parallel()
	var calls = make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { calls <- r.URL.Path }))
	t.Cleanup(server.Close)
	s := newEnv(t, Config{HTTP: HTTP{AllowNetworks: loopback}, Endpoints: map[string]Endpoint{
		"mine": {URL: server.URL + "/mine"}, "theirs": {Queue: "secret", URL: server.URL + "/theirs"}, "both": {Queue: "mine", URL: server.URL + "/both"},
	}})
	wrong, err := s.client.Enqueue(asynq.NewTask("theirs", nil), asynq.Queue("mine"))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, s.ended(wrong), asynq.TaskStateRetry, `tasks of type "theirs" are hosted in queue "secret" only`)
	for _, typename := range []string{"theirs", "both"} {
		expect(t, s.run(typename, ""), asynq.TaskStateCompleted, "")
		if path := <-calls; path != "/"+typename {
			t.Errorf("%s was posted to", path)
		}
	}
}

// A 101 response turns the connection into another protocol, without a read deadline.
func TestSwitchingProtocols(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	s := newEnv(t, Config{HTTP: HTTP{AllowNetworks: loopback}, Endpoints: map[string]Endpoint{
		"hook": {URL: "http://" + l.Addr().String(), Timeout: timeout},
	}})
	expect(t, s.run("hook", ""), asynq.TaskStateArchived, "responded with status 101")
}

func TestHostsThatLookAllowed(t *testing.T) {
	t.Parallel()
	h := HTTP{AllowHosts: []string{"*.hooks.example.com", "api.example.com"}}
	for text, want := range map[string]bool{
		"https://a.hooks.example.com": true, "https://A.HOOKS.example.com./": true, "https://api.example.com:443/": true,
		"https://hooks.example.com": false, "https://evilhooks.example.com": false, "https://a.hooks.example.com:8443": false,
		"https://[::1%25.hooks.example.com]/": false, "https://[2001:4860:4860::8888%25a.hooks.example.com]": false,
		"https://api.example.com.evil.com": false, "https://a.hooks.example.com.evil.com": false, "http://api.example.com": true,
		"https://api.example.com%2eevil.com": false, "https://evil.com%23.hooks.example.com": false, "https://evil.com%2f.hooks.example.com": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			continue // not a valid URL
		}
		if got := h.AllowsURL(u); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// Configured headers are not sent to other hosts.
func TestHeadersAreNotForwarded(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 2)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	t.Cleanup(other.Close)
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/same" {
			seen <- r.Header
			return
		}
		to := other.URL
		if r.URL.RawQuery == "same" {
			to = "/same"
		}
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(first.Close)
	headers := map[string]string{"X-Api-Key": "secret", "authorization": "Bearer secret"}
	s := newEnv(t, Config{
		HTTP: HTTP{AllowNetworks: loopback, AllowHosts: []string{hostOf(t, first.URL), hostOf(t, other.URL)}},
		Endpoints: map[string]Endpoint{
			"away": {URL: first.URL, Headers: headers, MaxRedirects: 1}, "stays": {URL: first.URL + "/?same", Headers: headers, MaxRedirects: 1},
		},
	})
	expect(t, s.run("away", ""), asynq.TaskStateCompleted, "")
	if h := <-seen; h.Get("X-Api-Key")+h.Get("Authorization") != "" || h.Get("Idempotency-Key") == "" {
		t.Errorf("another host got %v", h)
	}
	expect(t, s.run("stays", ""), asynq.TaskStateCompleted, "")
	if h := <-seen; h.Get("X-Api-Key") != "secret" || h.Get("Authorization") != "Bearer secret" {
		t.Errorf("the same host got %v", h)
	}
}

func hostOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// A zero Retry-After must not cause an endless loop without counted attempts.
func TestMinRetryAfter(t *testing.T) {
	t.Parallel()
	p := newEndpoint(Endpoint{URL: "https://a"}, &HTTP{}, new(http.Client), quiet)
	past := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	for text, want := range map[string]time.Duration{
		"0": time.Second, "000": time.Second, past: time.Second, "2": 2 * time.Second, "99999999999999999999": time.Hour, "2147483648": time.Hour,
	} {
		if got, ok := p.retryAfter(text); !ok || got != want {
			t.Errorf("%s: %v %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"-1", "1.5", "1e9", "soon", "0x10", "+3"} {
		if got, ok := p.retryAfter(text); ok {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// Shells that would execute a value are rejected, however they are started.
func TestIndirectShells(t *testing.T) {
	t.Parallel()
	value := Rule{Pattern: ".*"}
	dash := Rule{Pattern: ".*", AllowDash: true}
	for name, c := range map[string]Command{
		"env":     {Path: "/usr/bin/env", Args: []string{"A=b", "/bin/bash", "-ec"}, List: &List{Rule: value}},
		"timeout": {Path: "/usr/bin/timeout", Args: []string{"5", "sh", "-c"}},
		"flag":    {Path: "/bin/sh", Params: []Param{{Name: "a", Flag: "-c", Rule: value}}},
		"dash":    {Path: "/bin/sh", List: &List{Rule: dash}},
		"param":   {Path: "/usr/bin/env", Args: []string{"dash"}, Params: []Param{{Name: "a", Rule: dash}}},
	} {
		if len(c.Check()) == 0 {
			t.Errorf("%s: no problems", name)
		}
	}
	for name, c := range map[string]Command{
		"script":    {Path: "/bin/sh", Args: []string{"/opt/a.sh"}, List: &List{Rule: value}},
		"separated": {Path: "/bin/sh", Args: []string{"/opt/a.sh"}, Separator: true, List: &List{Rule: dash}},
		"others":    {Path: "/usr/bin/tar", Args: []string{"-c", "sh"}, List: &List{Rule: dash}},
	} {
		if p := c.Check(); len(p) > 0 {
			t.Errorf("%s: %v", name, p)
		}
	}
}
