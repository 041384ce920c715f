package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// serve runs a server of the queue until the end of the test or stop. Tasks of type "fail" fail.
func (w *world) serve(queue string, handle asynq.HandlerFunc) (stop func()) {
	w.t.Helper()
	srv := asynq.NewServer(w.opt, asynq.Config{
		Concurrency: 2, Queues: map[string]int{queue: 1}, Logger: asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
	if err := srv.Start(handle); err != nil {
		w.t.Fatal(err)
	}
	stop = sync.OnceFunc(srv.Shutdown)
	w.t.Cleanup(stop)
	return stop
}

// processTasks processes good tasks of the queue that succeed, and bad tasks that fail permanently.
func (w *world) processTasks(queue string, good, bad int) {
	w.t.Helper()
	var done sync.WaitGroup
	done.Add(good + bad)
	for range good {
		w.enqueue("ok", "", asynq.Queue(queue))
	}
	for range bad {
		w.enqueue("fail", "", asynq.Queue(queue), asynq.MaxRetry(0))
	}
	stop := w.serve(queue, func(_ context.Context, t *asynq.Task) error {
		defer done.Done()
		if t.Type() == "fail" {
			return errors.New("as asked")
		}
		return nil
	})
	done.Wait()
	stop() // the server has stored all outcomes
}

// signalWriter records its input, and calls a function once a text has been written n times.
type signalWriter struct {
	mu   sync.Mutex
	b    strings.Builder
	text string
	n    int
	call func()
}

func newSignalWriter(text string, n int, call func()) *signalWriter {
	return &signalWriter{text: text, n: n, call: call}
}

func (s *signalWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Write(p)
	if strings.Count(s.b.String(), s.text) >= s.n {
		s.call()
	}
	return len(p), nil
}

func (s *signalWriter) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestGroupLs(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.golden("group_ls", w.run("group", "ls"))
	w.golden("group_ls_queue", w.run("group", "ls", "-q", "reports", "-q", "none", "-o", "json"))
}

// startActiveTask starts a server with an active task of the given ID. It returns once the server
// reports the task. end stops the server.
func (w *world) startActiveTask(queue, id string) (server *asynq.ServerInfo, end func()) {
	w.t.Helper()
	started, release := make(chan struct{}), make(chan struct{})
	stop := w.serve(queue, func(context.Context, *asynq.Task) error {
		close(started)
		<-release
		return nil
	})
	end = sync.OnceFunc(func() {
		close(release)
		stop()
	})
	w.t.Cleanup(end)
	w.enqueue("email:welcome", `{"user":1}`, asynq.Queue(queue), asynq.TaskID(id))
	<-started
	proctest.Eventually(w.t, "the server to tell of its work", func() bool {
		servers, err := w.inspector.Servers()
		if err != nil {
			w.t.Fatal(err)
		}
		if len(servers) != 1 || len(servers[0].ActiveWorkers) != 1 {
			return false
		}
		server = servers[0]
		return true
	})
	return server, end
}

func TestServerLs(t *testing.T) {
	w := newWorld(t)
	w.golden("server_ls_empty", w.run("server", "ls"))
	_, end := w.startActiveTask("mail", "busy")
	w.golden("server_ls", w.run("server", "ls"))
	w.golden("server_ls_yaml", w.run("server", "ls", "-o", "yaml"))
	w.golden("server_ls_filter", w.run("server", "ls", "--filter", "status=stopped"))
	end()
}

func TestStats(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.processTasks("jobs", 3, 1)
	w.golden("stats", w.run("stats"))
	w.golden("stats_json", w.run("stats", "--json"))
}

func TestVersion(t *testing.T) {
	w := newWorld(t)
	r := w.run("version")
	if r.code != ExitDone || !strings.HasPrefix(r.out, "asynq version ") || r.err != "" {
		t.Errorf("got %+v", r)
	}
	if r := w.run("version", "-o", "template={{.go}}"); !strings.HasPrefix(r.out, "go1.") {
		t.Errorf("got %+v", r)
	}
}
