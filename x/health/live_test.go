package health_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/x/health"
)

// The causes of an incident come from what real servers have counted: an hour ago, attempts of
// report:build took 50 ms, now they take 1.2 s and hold most slots. The clock of Redis, by which
// attempts count, is set.
func TestCheckOfRecordedAttempts(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	opt := asynq.RedisClientOpt{Addr: mini.Addr()}
	inspector, client := asynq.NewInspector(opt), asynq.NewClient(opt)
	t.Cleanup(func() { _, _ = inspector.Close(), client.Close() })
	enqueue := func(typename string, n int) {
		t.Helper()
		tasks := make([]*asynq.Task, n)
		for i := range tasks {
			tasks[i] = asynq.NewTask(typename, nil)
		}
		for _, r := range client.BatchEnqueueContext(t.Context(), tasks) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	serve := func(concurrency int, handler asynq.HandlerFunc) *asynq.Server {
		t.Helper()
		srv := asynq.NewServer(opt, asynq.Config{Concurrency: concurrency, Logger: testenv.DiscardLogger()})
		if err := srv.Start(handler); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Shutdown)
		return srv
	}
	builds := func(from time.Time) (n int64) {
		all, err := inspector.TypeStats(t.Context(), "", from, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.Type == "report:build" {
				n += s.Succeeded
			}
		}
		return n
	}

	mini.SetTime(time.Now().Add(-time.Hour))
	enqueue("email:send", 1)
	old := serve(10, func(_ context.Context, task *asynq.Task) error {
		return lasts(task, "report:build", 50*time.Millisecond)
	})
	until(t, "the server to read the clock of Redis", func() bool {
		points, err := inspector.QueueHistory(t.Context(), "default", time.Now().Add(-2*time.Hour), time.Time{})
		return err == nil && len(points) > 0
	})
	enqueue("report:build", 40)
	until(t, "the builds to end", func() bool {
		info, err := inspector.GetQueueInfo("default")
		return err == nil && info.Size == 0
	})
	old.Shutdown()
	if n := builds(time.Now().Add(-2 * time.Hour)); n != 40 {
		t.Fatalf("%d builds are recorded, want 40", n)
	}

	mini.SetTime(time.Time{})
	enqueue("report:build", 40)
	serve(120, func(ctx context.Context, task *asynq.Task) error {
		if string(task.Payload()) == "stays" {
			<-ctx.Done()
			return ctx.Err()
		}
		return lasts(task, "report:build", 1200*time.Millisecond)
	})
	until(t, "the slow builds to be recorded", func() bool { return builds(time.Now().Add(-9*time.Minute)) == 40 })
	for typename, n := range map[string]int{"report:build": 62, "email:send": 58} {
		for range n {
			if _, err := client.Enqueue(asynq.NewTask(typename, []byte("stays"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "all slots to be busy", func() bool {
		info, err := inspector.GetQueueInfo("default")
		return err == nil && info.Active == 120
	})
	enqueue("email:send", 30)
	settings := health.Settings{WaitNotice: time.Millisecond, WaitWarning: 2 * time.Millisecond}
	var first health.Cause
	until(t, "the cause", func() bool { // once the server has reported its active tasks
		report, err := health.Check(t.Context(), inspector, settings)
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Causes) == 0 {
			return false
		}
		first = report.Causes[0]
		return first.Kind == "slots-busy" && strings.Contains(first.Title, " of 120")
	})
	if want := `All slots of queue "default" are busy: report:build holds 62 of 120`; first.Title != want {
		t.Errorf("title %q, want %q", first.Title, want)
	}
	if text := fmt.Sprint(first.Evidence); !regexp.MustCompile(`p95 of report:build rose from \d+ ms to 1\.\d+ s`).MatchString(text) {
		t.Errorf("evidence %s", text)
	}
}

// lasts takes a time for tasks of a type.
func lasts(task *asynq.Task, typename string, d time.Duration) error {
	if task.Type() == typename {
		<-time.After(d)
	}
	return nil
}

// until polls a condition.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ticks, end := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer ticks.Stop()
	for !cond() {
		select {
		case <-ticks.C:
		case <-end:
			t.Fatalf("waited a minute for %s", what)
		}
	}
}
