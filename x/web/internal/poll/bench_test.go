package poll

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// BenchmarkPoll measures a poll of 1,000 queues without Redis.
func BenchmarkPoll(b *testing.B) {
	f := newFake()
	for n := range maxTracked {
		f.queues[fmt.Sprintf("q%04d", n)] = asynq.QueueInfo{Pending: n, Retry: 1, Latency: 10 * time.Minute, ProcessedTotal: 1}
	}
	f.servers = []*asynq.ServerInfo{worker(10, "q0001", "q0002")}
	at := start
	l := newSnapshotter(Config{Source: f, Clock: func() time.Time { at = at.Add(time.Second); return at }, Logger: quiet()}, newHistory(25*time.Second))
	b.ReportAllocs()
	for b.Loop() {
		l.snapshot(b.Context())
	}
}

// BenchmarkHistory measures a chart of six hours.
func BenchmarkHistory(b *testing.B) {
	h := newHistory(25 * time.Second)
	feed(h, start, 2*time.Second, 7*time.Hour, func(second int) float64 { return float64(second) })
	for b.Loop() {
		if _, err := h.query("low", []Metric{Processed, Failed, Pending}, 6*time.Hour).MarshalJSON(); err != nil {
			b.Fatal(err)
		}
	}
}
