package site

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// page is a UI with one page. Its streams last until it is closed.
type page struct {
	http.Handler
	closed chan struct{}
}

func newPage() *page {
	p := &page{closed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-p.closed
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page "+r.URL.EscapedPath()) })
	p.Handler = mux
	return p
}

func (p *page) Close() error { close(p.closed); return nil }

func TestNextFreePort(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	opts := Options{Addr: taken.Addr().String(), Log: slog.New(slog.DiscardHandler)}
	if _, err := Listen(t.Context(), opts); err == nil {
		t.Error("Listen succeeded on a port in use")
	}
	opts.ExtraPorts = 50
	s, err := Listen(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	first := taken.Addr().(*net.TCPAddr).Port
	if got := s.l.Addr().(*net.TCPAddr).Port; got <= first || got > first+50 {
		t.Errorf("port %d, want one of the 50 after %d", got, first)
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	s, err := Listen(t.Context(), Options{Addr: "127.0.0.1:0", RootPath: "/q", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, newPage()) }()
	base := s.URL()[:len(s.URL())-len("/q/")]
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(client.CloseIdleConnections)
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{
		{"/healthz", http.StatusOK, "ok\n"},
		{"/", http.StatusFound, "<a href=\"/q/\">Found</a>.\n\n"},
		{"/q/healthz", http.StatusOK, "page /q/healthz"},
	} {
		resp, err := client.Get(base + c.path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || string(body) != c.body {
			t.Errorf("%s: %s %q, %v; want %d %q", c.path, resp.Status, body, err, c.status, c.body)
		}
	}
	stream, err := client.Get(base + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	began := time.Now()
	cancel()
	if err := <-ended; err != nil || time.Since(began) >= shutdownTimeout {
		t.Errorf("ended after %v with %v; the UI must be closed before waiting for requests", time.Since(began), err)
	}
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Errorf("the stream: %v", err)
	}
}

func TestDisplayAddr(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{"127.0.0.1:1": "127.0.0.1:1", "0.0.0.0:2": "localhost:2", "[::]:3": "localhost:3", "[::1]:4": "[::1]:4"} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := DisplayAddr(tcp); got != want {
			t.Errorf("%s is shown as %s, want %s", addr, got, want)
		}
	}
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "localhost:" + strconv.Itoa(2): true, "[::1]:3": true, "127.9.9.9:4": true,
		":5": false, "0.0.0.0:6": false, "[::]:7": false, "10.0.0.1:8": false, "example.com:9": false, "localhost": false, "": false,
	} {
		if got := IsLoopback(addr); got != want {
			t.Errorf("IsLoopback(%q) = %v", addr, got)
		}
	}
}
