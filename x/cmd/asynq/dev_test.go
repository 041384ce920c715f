package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/cli"
)

func TestMain(m *testing.M) {
	cli.QuietRedis()
	goleak.VerifyTestMain(m)
}

// said is what the program wrote so far.
type said struct {
	mu    sync.Mutex
	b     bytes.Buffer
	ready chan struct{} // closed when it has told the last of its beginning
	once  sync.Once
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Write(p)
	if strings.Contains(s.b.String(), "Ctrl-C") {
		s.once.Do(func() { close(s.ready) })
	}
	return len(p), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// The command for a first look: pages answer, tasks succeed and fail, and nothing of it is left.
func TestDev(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = taken.Close()
	listen := taken.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	words, code := &said{ready: make(chan struct{})}, make(chan int, 1)
	go func() {
		code <- cli.Run(ctx, []string{"dev", "--listen", listen, "--rate", "60", "--seed", "3"}, cli.Streams{
			In: strings.NewReader(""), Out: io.Discard, Err: words, Env: func(name string) (string, bool) {
				// None of these is for the demo.
				v, ok := map[string]string{"HOME": t.TempDir(), "ASYNQ_URI": "127.0.0.1:1", "ASYNQ_NAMESPACE": "production", "ASYNQ_PASSWORD": "secret"}[name]
				return v, ok
			},
		})
	}()
	select {
	case <-words.ready:
	case c := <-code:
		t.Fatalf("it ended with %d: %s", c, words)
	}
	redis := regexp.MustCompile(`redis://(\S+) dash`).FindStringSubmatch(words.String())
	if redis == nil || !strings.Contains(words.String(), "http://"+listen+"/\n") {
		t.Fatalf("it does not say where to look: %s", words)
	}

	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: redis[1]})
	awaitLife(t, inspector)
	_ = inspector.Close()

	transport := &http.Transport{}
	browser := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	for _, path := range []string{"/", "/queues", "/queue?queue=critical", "/healthz"} {
		resp, err := browser.Get("http://" + listen + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || path == "/queues" && !bytes.Contains(body, []byte("newsletter")) {
			t.Errorf("%s: %s, %v\n%s", path, resp.Status, err, body)
		}
	}
	transport.CloseIdleConnections()

	cancel()
	select {
	case c := <-code:
		if text := words.String(); c != cli.ExitDone || strings.Contains(text, "WARN") || strings.Contains(text, "ERROR") {
			t.Errorf("it ended with %d: %s", c, text)
		}
	case <-time.After(15 * time.Second):
		t.Fatal("it does not end")
	}
	for _, addr := range []string{listen, redis[1]} {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			t.Errorf("somebody still listens on %s", addr)
		}
	}
}

// awaitLife waits until tasks have succeeded, failed, been archived, scheduled and grouped, and workers and schedulers are seen.
func awaitLife(t *testing.T, inspector *asynq.Inspector) {
	t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	missing := "everything"
	for deadline := time.Now().Add(12 * time.Second); ; <-look.C {
		if time.Now().After(deadline) {
			t.Fatalf("not seen: %s", missing)
		}
		var all asynq.QueueInfo
		infos, err := inspector.QueueInfos(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		paused := 0
		for _, r := range infos {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			if i := r.Info; i.Paused {
				paused++
			} else {
				all.Processed += i.Processed
				all.Failed += i.Failed
				all.Archived += i.Archived
				all.Retry += i.Retry
				all.Scheduled += i.Scheduled
				all.Completed += i.Completed
				all.Groups += i.Groups
			}
		}
		servers, err := inspector.Servers()
		if err != nil {
			t.Fatal(err)
		}
		entries, err := inspector.SchedulerEntries()
		if err != nil {
			t.Fatal(err)
		}
		missing = ""
		for what, seen := range map[string]bool{
			"100 processed": all.Processed-all.Failed > 100, "failed": all.Failed > 0, "archived": all.Archived > 0, "retry": all.Retry > 0,
			"scheduled": all.Scheduled > 0, "completed": all.Completed > 0, "groups": all.Groups > 0, "paused": paused == 1,
			"servers": len(servers) == 4, "entries": len(entries) == 5,
		} {
			if !seen {
				missing += what + " "
			}
		}
		if missing == "" {
			return
		}
	}
}
