package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// partitioned enqueues tasks to the queue "hooks", and runs one of each partition until the test
// ends.
func (s *site) partitioned(tasks int, keys ...string) {
	s.Helper()
	for _, key := range keys {
		for n := range tasks {
			opts := []asynq.Option{asynq.Queue("hooks"), asynq.TaskID(fmt.Sprintf("%s-%d", key, n))}
			if key != "" {
				opts = append(opts, asynq.PartitionKey(key))
			}
			s.enqueue(asynq.NewTask("hook", nil), opts...)
		}
	}
	server := asynq.NewServer(s.opt, asynq.Config{
		Concurrency: 20, Queues: map[string]int{"hooks": 1}, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
		QueueConfigs:   map[string]asynq.QueueConfig{"hooks": {Partitions: &asynq.PartitionConfig{Concurrency: 1}}},
	})
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		<-ctx.Done()
		return ctx.Err()
	})); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(server.Shutdown)
	proctest.Eventually(s, "a task of each partition to start", func() bool {
		info, err := s.inspector.GetQueueInfo("hooks")
		return err == nil && info.Active == len(keys)
	})
}

// The page lists partitions with what they hold back, and why.
func TestPartitions(t *testing.T) {
	s := newSite(t)
	s.partitioned(3, "acme", "a<b>&", "")
	ctx := context.Background()
	if err := s.inspector.SetPartition(ctx, "hooks", "acme", asynq.PartitionSettings{Weight: 2, Rate: asynq.RateLimit{Events: 5, Per: time.Minute}, Paused: true}); err != nil {
		t.Fatal(err)
	}
	shares := func(weights ...float64) string {
		s.poller.snapshot.Servers = nil
		for _, w := range weights {
			s.poller.snapshot.Servers = append(s.poller.snapshot.Servers,
				&asynq.ServerInfo{}, &asynq.ServerInfo{Partitions: map[string]asynq.PartitionConfig{"hooks": {Weight: w}, "other": {Weight: 9}}})
		}
		page, text := s.get("/partitions", "queue", "hooks", "sort", "key", "up", "1"), ""
		for _, cell := range page.all("td", "data-is", "share") {
			text += textOf(cell) + " "
		}
		return text + fmt.Sprint(strings.Contains(page.text("main"), "Shares are unknown"))
	}
	for _, tt := range []struct {
		want    string
		weights []float64 // of servers
	}{{"– – – true", nil}, {"– – – true", []float64{1, 2}}, {"20 % 40 % 40 % false", []float64{4, 4}}, {"50 % 25 % 25 % false", []float64{1}}} {
		if got := shares(tt.weights...); got != tt.want {
			t.Errorf("with the weights %v of servers, the shares are %q, want %q", tt.weights, got, tt.want)
		}
	}
	shares(1)
	page := s.get("/partitions", "queue", "hooks", "sort", "key", "up", "1")
	rows := page.rows()
	if len(rows) != 3 {
		t.Fatalf("rows %q", rows)
	}
	for n, want := range []string{"acme 2 1 ", "a<b>& 2 1 ", "tasks without a key 2 1 "} {
		if !strings.HasPrefix(rows[n], want) {
			t.Errorf("row %q, want %q", rows[n], want)
		}
	}
	if !strings.Contains(rows[0], "50 % paused 5 per 1m, weight 2") || !strings.Contains(rows[1], "25 % at its limit") {
		t.Errorf("rows %q", rows)
	}
	if got := page.text("main"); !strings.Contains(got, "3 partitions with 6 held tasks and 3 active") {
		t.Errorf("it says %s", got)
	}
	if rows := s.get("/partitions", "queue", "hooks", "key", "ACM").rows(); len(rows) != 1 {
		t.Errorf("rows %q", rows)
	}
	for path, want := range map[string]string{
		"/partitions?queue=hooks&key=none": "No partition matches.", "/queue?queue=hooks": "6 tasks wait for their partitions.",
		"/partition?queue=hooks&key=acme":             "5 per 1m, weight 2",
		"/task?queue=hooks&id=acme-2":                 "This task is held: it waits for its partition",
		"/partition?queue=hooks":                      "tasks without a key",
		"/partition?queue=hooks&key=a%3Cb%3E%26":      "at its limit",
		"/partition?queue=hooks&key=without%20tasks":  "nothing waits",
		"/partitions?queue=hooks&key=acme&sort=share": "the",
	} {
		s.look()
		if got := s.get(path).text("main"); !strings.Contains(got, want) {
			t.Errorf("%s lacks %q: %s", path, want, got)
		}
	}
	for _, path := range []string{"/partitions?queue=none", "/partition?queue=none&key=a", "/partitions", "/partition?key=a", "/partitions?queue=%20"} {
		if a := s.ask(path); a.status != http.StatusNotFound {
			t.Errorf("%s: status %d", path, a.status)
		}
	}
	s.gate.refuse = "partition."
	if page := s.get("/partition", "queue", "hooks", "key", "acme"); page.does("resume") || page.does("set") {
		t.Error("it offers what is refused")
	}
}

// Partitions are changed, whatever their keys contain.
func TestPartitionsAreChanged(t *testing.T) {
	s := newSite(t)
	const key = "a<b>&;% ü"
	s.partitioned(3, key)
	ctx, back := context.Background(), root+"/partition?queue=hooks&key="+url.QueryEscape(key)
	do := func(what string, fields ...string) *answer {
		t.Helper()
		return s.post("/partition", append([]string{"queue", "hooks", "key", key, "do", what, "back", back}, fields...)...)
	}
	info := func() *asynq.PartitionInfo {
		t.Helper()
		p, err := s.inspector.GetPartitionInfo(ctx, "hooks", key)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if a := do("pause"); a.status != http.StatusSeeOther || a.header.Get("Location") != back || !info().Settings.Paused {
		t.Errorf("status %d to %q: %+v", a.status, a.header.Get("Location"), info())
	}
	do("set", "concurrency", " 2 ", "rate", "10", "per", "5s", "burst", "3", "weight", "0.5")
	want := asynq.PartitionSettings{Concurrency: 2, Rate: asynq.RateLimit{Events: 10, Per: 5 * time.Second, Burst: 3}, Weight: 0.5, Paused: true}
	if got := info().Settings; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	page := s.get("/partition", "queue", "hooks", "key", key)
	for name, value := range map[string]string{"concurrency": "2", "rate": "10", "per": "5s", "burst": "3", "weight": "0.5"} {
		if got := attr(page.one("input", "name", name), "value"); got != value {
			t.Errorf("the form has %s %q, want %q", name, got, value)
		}
	}
	do("set", "concurrency", "0", "rate", "0")
	if got := info().Settings; got.Concurrency != -1 || got.Rate.Events != -1 || got.Weight != 0 || !got.Paused {
		t.Errorf("without limits: %+v", got)
	}
	do("set")
	do("resume")
	if got := info().Settings; got != (asynq.PartitionSettings{}) {
		t.Errorf("those of the queue: %+v", got)
	}
	for what, title := range map[string]string{"cancel": "Cancel the active tasks of " + key, "delete": "Delete the tasks of " + key} {
		if a := do(what); a.status != http.StatusOK || !strings.Contains(a.text("h1"), title) {
			t.Errorf("%s: status %d, asked %q", what, a.status, a.text("h1"))
		}
	}
	proctest.Eventually(t, "all tasks to start and be canceled", func() bool {
		do("cancel", "confirm", "yes")
		return info().Held+info().Active == 0
	})
	do("delete", "confirm", "yes")
	if n := s.size("hooks"); n != 0 {
		t.Errorf("after the deletion %d tasks are left", n)
	}
	log := strings.Join(s.gate.log(), "\n")
	for _, line := range []string{"partition.set queue=hooks", "task.delete queue=hooks", "task.cancel queue=hooks state=active"} {
		if !strings.Contains(log, line) {
			t.Errorf("the log lacks %q: %s", line, log)
		}
	}
	for _, wrong := range [][]string{{"paint"}, {"set", "concurrency", "-1"}, {"set", "rate", "x"}, {"set", "rate", "1", "per", "soon"}, {"set", "weight", "0"}, {"set", "burst", "-1"}} {
		if a := do(wrong[0], wrong[1:]...); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%q: status %d", wrong, a.status)
		}
	}
}

// A pause that comes while limits are saved remains.
func TestPauseDuringSave(t *testing.T) {
	s := newSite(t)
	s.enqueue(asynq.NewTask("hook", nil), asynq.Queue("hooks"))
	var paused atomic.Bool
	s.redis.Server().SetPreHook(func(_ *server.Peer, name string, args ...string) bool {
		if strings.EqualFold(name, "evalsha") && len(args) > 2 && args[2] == "asynq:{hooks}:partitions:settings" && paused.CompareAndSwap(false, true) {
			if err := s.inspector.PausePartition(context.Background(), "hooks", "a"); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	s.post("/partition", "queue", "hooks", "key", "a", "do", "set", "concurrency", "3", "back", root+"/")
	p, err := s.inspector.GetPartitionInfo(context.Background(), "hooks", "a")
	if err != nil || p.Settings != (asynq.PartitionSettings{Concurrency: 3, Paused: true}) {
		t.Errorf("%+v, %v", p, err)
	}
}
