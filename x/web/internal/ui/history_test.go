package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/trend"
)

// attempts runs tasks on a server, which records their statistics. Every third one fails.
func (s *site) attempts(queue, typename string, n int) {
	s.Helper()
	for range n {
		s.enqueue(asynq.NewTask(typename, nil), asynq.Queue(queue), asynq.MaxRetry(1))
	}
	ended := 0
	done := make(chan struct{})
	server := asynq.NewServer(s.opt, asynq.Config{
		Concurrency: 1, Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	})
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if ended++; ended == n {
			close(done)
		}
		if ended%3 == 0 {
			return fmt.Errorf("dial tcp 192.0.2.%d:80: connection refused", ended)
		}
		return nil
	})); err != nil {
		s.Fatal(err)
	}
	<-done
	proctest.Eventually(s, "the tasks to end", func() bool {
		info, err := s.inspector.GetQueueInfo(queue)
		return err == nil && info.ProcessedTotal == n
	})
	server.Shutdown() // writes the statistics
}

// points requests a series, and returns the values that are known.
func (s *site) points(query, metric string) (known []float64, step int64) {
	s.Helper()
	a := s.get("/series?" + query)
	var series struct {
		Step   int64
		Values map[string][]*float64
	}
	if err := json.Unmarshal([]byte(a.body), &series); err != nil {
		s.Fatal(err)
	}
	for _, v := range series.Values[metric] {
		if v != nil {
			known = append(known, *v)
		}
	}
	return known, series.Step
}

// Charts show what servers have recorded before this web UI was started.
func TestRecordedCharts(t *testing.T) {
	s := newSite(t)
	s.attempts("mail", "email:welcome", 9)
	s.attempts("low", "report", 3)
	s.look()
	page := s.get("/queue", "queue", "mail", "span", "1h")
	for _, title := range []string{"Duration of attempts", "Waiting time before attempts", "Attempts per second"} {
		if !strings.Contains(page.text(".charts"), title) {
			t.Errorf("the queue has no chart %q", title)
		}
	}
	if got := page.text("main"); strings.Contains(got, "when this web UI was started") {
		t.Errorf("the queue says %q", got)
	}
	for _, span := range []string{"1h", "6h", "48h", "720h"} {
		known, _ := s.points("queue=mail&metrics=duration_p95,pending&span="+span, "duration_p95")
		if len(known) == 0 || len(known) > 2 || known[0] <= 0 {
			t.Errorf("%s: p95 is %v", span, known)
		}
	}
	// The tasks of all queues together are counted: the current minute has no rate at first.
	proctest.Eventually(t, "the rates", func() bool {
		known, step := s.points("metrics=processed&span=720h", "processed")
		sum := 0.0
		for _, v := range known {
			sum += v
		}
		return step == 3600 && sum > 0
	})
	// The poller has seen nothing, so its gaps are filled, in the last ten minutes as well.
	now := time.Now().Unix()
	s.poller.times = []int64{now - 4000, now - 60, now}
	if known, step := s.points("queue=mail&metrics=wait_p50", "wait_p50"); step != 2 || len(known) == 0 || len(known) > 2 {
		t.Errorf("the last ten minutes: %v, step %d", known, step)
	}
}

// Queues whose servers record nothing have the charts of the poller, and say so.
func TestUnrecordedCharts(t *testing.T) {
	s := newSite(t)
	s.enqueue(asynq.NewTask("a", nil), asynq.Queue("old"))
	s.look()
	const note = "The charts begin when this web UI was started: no server has recorded statistics in this time range."
	for _, path := range []string{"/?span=1h", "/queue?queue=old&span=48h"} {
		if got := s.get(path).text("main"); !strings.Contains(got, note) {
			t.Errorf("%s says %s", path, got)
		}
	}
	if got := s.get("/queue?queue=old").text("main"); strings.Contains(got, "The charts begin") {
		t.Errorf("the last ten minutes: %s", got)
	}
	if known, step := s.points("queue=old&metrics=pending&span=1h", "pending"); step != 2 || len(known) != 3 {
		t.Errorf("the poller has seen %v, step %d", known, step)
	}
	// Next to a queue that is recorded, others are named.
	s.attempts("new", "b", 3)
	s.look()
	s.poller.snapshot.Servers = []*asynq.ServerInfo{
		{ID: "reference", Queues: map[string]int{"old": 1}, Started: time.Now().Add(-time.Hour)},
		{ID: "young", Queues: map[string]int{"fresh": 1}, Started: time.Now()},
	}
	s.ui.trends = trend.New(s.inspector) // nothing is cached
	if got := s.get("/?span=1h").text("main"); !strings.Contains(got, "Without 1 queue whose servers record no statistics.") {
		t.Errorf("the overview says %s", got)
	}
}

// While Redis is unreachable, charts do not wait for it.
func TestChartsDuringOutage(t *testing.T) {
	s := newSite(t)
	s.attempts("mail", "a", 3)
	s.look()
	s.get("/queue?queue=mail&span=1h")
	s.redis.SetError("LOADING")
	s.ui.trends = trend.New(s.inspector) // nothing is cached
	if got := s.get("/?span=1h").text("main"); !strings.Contains(got, "LOADING") {
		t.Errorf("the error is not shown: %s", got)
	}
	before := s.redis.CommandCount()
	s.poller.snapshot = &poll.Snapshot{At: time.Now(), Err: errors.New("refused"), Queues: s.poller.snapshot.Queues}
	s.ui.trends = trend.New(s.inspector) // nothing is cached
	s.get("/?span=1h")
	if after := s.redis.CommandCount(); after != before {
		t.Errorf("%d commands were sent", after-before)
	}
}

// Task types are ranked by their recorded attempts, not by a sample of stored tasks.
func TestTypesAreRankedByAttempts(t *testing.T) {
	s := newSite(t)
	s.put("mail", failedTask("stored", "no"), failedTask("stored", "no"), failedTask("stored", "no"))
	s.attempts("mail", "seldom", 3)
	s.attempts("low", "often", 6)
	s.read()
	s.look()
	page := s.get("/types")
	rows := page.rows()
	if len(rows) != 3 || !strings.HasPrefix(rows[0], "often ") || !strings.Contains(rows[0], " 6 2 ") || !strings.HasPrefix(rows[1], "seldom ") || !strings.HasSuffix(rows[2], "– – – –") {
		t.Errorf("rows %q", rows)
	}
	one := s.get("/type", "type", "often", "span", "48h")
	if got := one.text(".figures"); !strings.Contains(got, "Attempts 6 33 % failed, in the time range") || !strings.Contains(got, "Duration p95") {
		t.Errorf("the figures are %q", got)
	}
	if got := one.text(".charts"); !strings.Contains(got, "Duration of attempts") {
		t.Errorf("the charts are %q", got)
	}
	if known, step := s.points("of=type&type=often&metrics=duration_p99&span=48h", "duration_p99"); len(known) == 0 || step != 600 {
		t.Errorf("the series is %v, step %d", known, step)
	}
	if known, _ := s.points("of=type&type=never&metrics=duration_p99&span=48h", "duration_p99"); len(known) != 0 {
		t.Errorf("of another type: %v", known)
	}
}
