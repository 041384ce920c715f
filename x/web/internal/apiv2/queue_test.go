package apiv2

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// Each of many queues has its own rate and verdicts, in linear time.
func TestManyQueues(t *testing.T) {
	const n = 5000
	snapshot := &poll.Snapshot{At: time.Now()}
	for i := range n {
		name := fmt.Sprintf("q%04d", i)
		snapshot.Queues = append(snapshot.Queues, poll.Queue{Name: name, Info: &asynq.QueueInfo{Queue: name, Pending: i}, Rate: poll.Rate{Known: true, Processed: float64(i)}})
		snapshot.Health.Causes = append(snapshot.Health.Causes, health.Cause{Severity: health.Warning, Queues: []string{name}, Kind: "no-worker", Title: name})
	}
	s := newSite(t, func(c *Config) { c.Poller = &poller{snapshot: snapshot} })
	began := time.Now()
	var list QueueList
	s.want(200, "GET", "/queues", "").into(&list)
	t.Log(time.Since(began))
	if len(list.Items) != n {
		t.Fatalf("%d queues", len(list.Items))
	}
	for i, q := range list.Items {
		if q.Tasks.Pending != i || q.Rate.Processed != float64(i) || len(q.Health) != 1 || q.Health[0].Title != q.Queue {
			t.Fatalf("%+v", q)
		}
	}
}

// A queue has the limits of its archive as its servers publish them, and a server the patterns of
// the types that it handles.
func TestWhatServersPublish(t *testing.T) {
	s := newSite(t, nil)
	s.enqueue("email:welcome", "", asynq.ProcessIn(time.Hour))
	var q Queue
	s.want(200, "GET", "/queues/default", "").into(&q)
	if q.ArchiveMaxTasks != 10_000 || q.ArchiveMaxAgeSeconds != 90*24*3600 {
		t.Errorf("the default limits are %d tasks and %v s", q.ArchiveMaxTasks, q.ArchiveMaxAgeSeconds)
	}
	mux := asynq.NewServeMux()
	mux.HandleFunc("email:", func(context.Context, *asynq.Task) error { return nil })
	for _, handler := range []asynq.Handler{mux, asynq.HandlerFunc(mux.ProcessTask)} {
		srv := asynq.NewServer(s.opt, asynq.Config{
			Logger:  asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
			Archive: asynq.ArchiveConfig{MaxTasks: 5, MaxAge: time.Hour},
		})
		if err := srv.Start(handler); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Shutdown)
	}
	proctest.Eventually(t, "the servers and the limits to be published", func() bool {
		var list ServerList
		s.want(200, "GET", "/servers", "").into(&list)
		s.want(200, "GET", "/queues/default", "").into(&q)
		return len(list.Items) == 2 && q.ArchiveMaxTasks == 5 && q.ArchiveMaxAgeSeconds == 3600
	})
	var list ServerList
	s.want(200, "GET", "/servers", "").into(&list)
	var known [][]string
	for _, server := range list.Items {
		if server.Patterns != nil {
			known = append(known, *server.Patterns)
		}
	}
	if len(known) != 1 || !slices.Equal(known[0], []string{"email:"}) {
		t.Errorf("the patterns are %q, want those of one server", known)
	}
}
