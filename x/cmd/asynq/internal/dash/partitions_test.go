package dash

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// The partitions of a queue are listed, and the key p pauses and resumes one.
func TestPartitionsPage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		for _, key := range []string{"acme", "initech"} {
			for range 3 {
				enqueue(t, client, asynq.NewTask("hook", nil), asynq.Queue("hooks"), asynq.PartitionKey(key))
			}
		}
		s := asynq.NewServer(r, asynq.Config{
			Concurrency: 10, Queues: map[string]int{"hooks": 1}, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Millisecond,
			QueueConfigs: map[string]asynq.QueueConfig{"hooks": {Partitions: &asynq.PartitionConfig{Concurrency: 1}}},
		})
		if err := s.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { <-ctx.Done(); return ctx.Err() })); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)

		d := drive(t, quick(client, insp))
		d.see("hooks", "HELD")
		d.keys("P")
		d.see("Partitions › hooks", "2 partitions · 4 held tasks", "acme", "initech", "at its limit", "HELD ▼")
		d.keys("s s s s s s s")
		d.see("PARTITION ▲")
		d.keys("p")
		d.see("Pause partition acme of queue hooks")
		d.keys("y")
		d.see("paused partition acme of queue hooks")
		d.until("acme is paused", func() bool { r, _ := d.m.selected(); return r.ref.id == "acme" && r.ref.paused })
		d.keys("p")
		d.see("Resume partition acme of queue hooks")
		d.keys("y")
		d.see("resumed partition acme of queue hooks")
		d.lacks("  paused")
		d.keys("esc enter P")
		d.see("Partitions › hooks")
	})
}

// Shares count with the weight that the servers of the queue configure, if it is known.
func TestPartitionShares(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		weights []float64 // of servers
		want    string
	}{{nil, "– – – –"}, {[]float64{1}, "20.0 40.0 20.0 20.0"}, {[]float64{6, 6}, "30.0 10.0 30.0 30.0"}, {[]float64{1, 6}, "– – – –"}} {
		m := stage(140, 40)
		m.snap.servers = []*asynq.ServerInfo{{}}
		for _, w := range tt.weights {
			m.snap.servers = append(m.snap.servers, &asynq.ServerInfo{Partitions: map[string]asynq.PartitionConfig{"critical": {Weight: w}}})
		}
		m.on(page{view: viewPartitions, queue: "critical"}, body{partitions: stagePartitions()})
		var got []string
		for _, r := range m.listPartitions().rows {
			got = append(got, r.cells[5].text)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("with the weights %v of servers, the shares are %q, want %s", tt.weights, got, tt.want)
		}
	}
}
