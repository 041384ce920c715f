package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
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

// output is the output of the program so far.
type output struct {
	mu    sync.Mutex
	b     bytes.Buffer
	ready chan struct{} // closed after the startup message
	once  sync.Once
}

func (s *output) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Write(p)
	if strings.Contains(s.b.String(), "Ctrl-C") {
		s.once.Do(func() { close(s.ready) })
	}
	return len(p), nil
}

func (s *output) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// In the demo, pages work, tasks succeed and fail, and nothing remains at the end.
func TestDev(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = taken.Close()
	listen := taken.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	words, code := &output{ready: make(chan struct{})}, make(chan int, 1)
	go func() {
		code <- cli.Run(ctx, []string{"dev", "--listen", listen, "--rate", "60", "--seed", "3"}, cli.Streams{
			In: strings.NewReader(""), Out: io.Discard, Err: words, Env: func(name string) (string, bool) {
				// The demo must ignore all of these.
				v, ok := map[string]string{"HOME": t.TempDir(), "ASYNQ_URI": "127.0.0.1:1", "ASYNQ_NAMESPACE": "production", "ASYNQ_PASSWORD": "secret"}[name]
				return v, ok
			},
		})
	}()
	select {
	case <-words.ready:
	case c := <-code:
		t.Fatalf("exit code %d: %s", c, words)
	}
	redis := regexp.MustCompile(`redis://(\S+) dash`).FindStringSubmatch(words.String())
	if redis == nil || !strings.Contains(words.String(), "http://"+listen+"/?token=") {
		t.Fatalf("the message has no URLs: %s", words)
	}

	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: redis[1]})
	awaitActivity(t, inspector)
	_ = inspector.Close()

	transport := &http.Transport{}
	browser := &http.Client{Transport: transport, Timeout: time.Minute}
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
	link := regexp.MustCompile(`http://\S+\?token=\S+`).FindString(words.String())
	for link, want := range map[string]int{"http://" + listen + "/": http.StatusForbidden, link: http.StatusOK} {
		browser.Jar, _ = cookiejar.New(nil) // no error without options
		resp, err := browser.Get(link)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		resp, err = browser.PostForm("http://"+listen+"/queue", url.Values{"queue": {"critical"}, "do": {"resume"}})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.StatusCode; (got == http.StatusForbidden) != (want == http.StatusForbidden) {
			t.Errorf("a change after %s: %d, want %d", link, got, want)
		}
	}
	transport.CloseIdleConnections()

	cancel()
	select {
	case c := <-code:
		if text := words.String(); c != cli.ExitDone || strings.Count(text, "WARN") != strings.Count(text, "msg=refused") || strings.Contains(text, "ERROR") {
			t.Errorf("exit code %d: %s", c, text)
		}
	case <-time.After(time.Minute):
		t.Fatal("the demo does not stop")
	}
	for _, addr := range []string{listen, redis[1]} {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			t.Errorf("%s is still in use", addr)
		}
	}
}

// awaitActivity waits for tasks that succeeded, failed, and are archived, scheduled and grouped,
// and for servers and schedulers.
func awaitActivity(t *testing.T, inspector *asynq.Inspector) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	missing := "everything"
	for deadline := time.Now().Add(time.Minute); ; <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("missing: %s", missing)
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
		for what, found := range map[string]bool{
			"100 processed": all.Processed-all.Failed > 100, "failed": all.Failed > 0, "archived": all.Archived > 0, "retry": all.Retry > 0,
			"scheduled": all.Scheduled > 0, "completed": all.Completed > 0, "groups": all.Groups > 0, "paused": paused == 1,
			"servers": len(servers) == 4, "entries": len(entries) == 5,
		} {
			if !found {
				missing += what + " "
			}
		}
		if missing == "" {
			return
		}
	}
}
