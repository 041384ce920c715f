package access

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestPanic(t *testing.T) {
	t.Parallel()
	g, l := newGuard(t, Config{})
	s := httptest.NewServer(g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Length", "5")
		w.Header().Set("Content-Encoding", "gzip")
		switch r.URL.Path {
		case "/early":
			w.WriteHeader(http.StatusEarlyHints)
			panic(errors.New("secret reason"))
		case "/late":
			w.Header().Del("Content-Length")
			w.Header().Del("Content-Encoding")
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic("too late")
		case "/abort":
			panic(http.ErrAbortHandler)
		}
	})))
	defer s.Close()
	resp, err := s.Client().Get(s.URL + "/early")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusInternalServerError || strings.Contains(string(b), "secret") || resp.Header.Get("ETag") != "" ||
		resp.Header.Get("Content-Encoding") != "" || !strings.HasPrefix(string(b), "Internal Server Error") {
		t.Errorf("%s %v %s", resp.Status, resp.Header, b)
	}
	lines := l.lines(t, "web: handler panicked")
	if len(lines) != 1 || lines[0]["panic"] != "secret reason" || lines[0]["level"] != "ERROR" || lines[0]["request"] != resp.Header.Get("X-Request-Id") ||
		!strings.Contains(lines[0]["stack"].(string), "writer_test.go") {
		t.Error(lines)
	}
	resp, err = s.Client().Get(s.URL + "/late")
	if err != nil {
		t.Fatal(err)
	}
	b, err = io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err == nil {
		t.Errorf("half an answer looks whole: %q", b)
	}
	if _, err := s.Client().Get(s.URL + "/abort"); err == nil {
		t.Error("an answer")
	}
	if n := len(l.lines(t, "web: handler panicked")); n != 2 {
		t.Errorf("%d lines: want none of the aborted one", n)
	}
}

// A hook that panics permits nothing.
func TestPanicOfHook(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Authorize: func(_ *http.Request, a Action) error {
		if a.Verb == TaskRun {
			panic("no database")
		}
		return nil
	}})
	want(t, serve(g, newRequest(http.MethodPost, "/"), Action{Verb: TaskRun}), http.StatusInternalServerError)
}

// Handlers can use all features of the server's ResponseWriter through Wrap.
func TestWriterPassesThrough(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{})
	next := make(chan struct{})
	s := httptest.NewServer(g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if r.URL.Path == "/hijack" {
			conn, _, err := c.Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbare")
			_ = conn.Close()
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			if i == 0 {
				w.(http.Flusher).Flush()
			} else if err := c.Flush(); err != nil {
				t.Error(err)
			}
			<-next
		}
	})))
	defer s.Close()
	resp, err := s.Client().Get(s.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		buf := make([]byte, 9)
		if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != fmt.Sprintf("data: %d\n\n", i) {
			t.Fatal(string(buf), err)
		}
		next <- struct{}{}
	}
	_ = resp.Body.Close()
	resp, err = s.Client().Get(s.URL + "/hijack")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); string(b) != "bare" {
		t.Error(string(b), err)
	}
	_ = resp.Body.Close()

	plain := &writer{ResponseWriter: struct{ http.ResponseWriter }{httptest.NewRecorder()}}
	plain.Flush()
	if err := plain.FlushError(); !errors.Is(err, http.ErrNotSupported) || plain.wrote {
		t.Error(err, plain.wrote)
	}
}
