package rdb_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/rollup"
	"github.com/asynq-go/asynq/internal/script"
)

// BenchmarkStatsMemory measures the bytes that the statistics of a type take in Redis: those of
// minutes, which are kept for 48 hours, and those of hours. A server runs attempts in each minute,
// whose durations and waits are spread over a decade or so, and flushes its counts every 5 s.
func BenchmarkStatsMemory(b *testing.B) {
	for _, load := range []struct{ types, hours, perFlush, flushes int }{
		{1, 48, 10, 12}, {50, 2, 1, 1}, {50, 2, 10, 12}, {50, 1, 100, 12},
	} {
		name := fmt.Sprintf("types=%d/hours=%d/attempts=%d", load.types, load.hours, load.perFlush*load.flushes)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				minutes, hours := statsMemory(b, load.types, load.hours, load.perFlush, load.flushes)
				b.ReportMetric(minutes, "bytes/type-minute")
				b.ReportMetric(minutes*48*60, "bytes/type-48h")
				b.ReportMetric(hours, "bytes/type-hour")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// statsMemory returns the bytes of a type for a minute and for an hour.
func statsMemory(b *testing.B, types, hours, perFlush, flushes int) (minuteBytes, hourBytes float64) {
	b.Helper()
	server := redistest.StartServer(b)
	ctx, client := context.Background(), server.Client(b)
	broker := rdb.New(client, "")
	broker.Enqueue(ctx, redistest.NewTask(b, "q", "t"))
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable figures
	spread := func(middle time.Duration) time.Duration {
		return time.Duration(float64(middle) * math.Exp(0.6*random.NormFloat64()))
	}
	var number uint64
	var batches []*rollup.Batch
	send := func() {
		for _, r := range broker.AddStats(ctx, "sender", batches) {
			if r.Err != nil || r.Code != script.CodeOK {
				b.Fatal(r)
			}
		}
		batches = batches[:0]
	}
	for minute := range int64(hours * 60) {
		at := statsHour.Unix()/60 + minute
		for range flushes {
			number++
			batch := &rollup.Batch{Queue: "q", Number: number, Hour: at / 60}
			for i := range types {
				s := &rollup.Stats{}
				for range perFlush {
					s.Counts[rollup.Succeeded]++
					s.Duration.Observe(spread(200 * time.Millisecond))
					s.Wait.Observe(spread(5 * time.Millisecond))
				}
				batch.Entries = append(batch.Entries, rollup.Entry{Minute: at, Table: rollup.TypeTable, Type: fmt.Sprint("email:welcome", i), Stats: s})
			}
			if batches = append(batches, batch); len(batches) == 100 {
				send()
			}
		}
	}
	send()
	k := broker.Keys("q")
	usage := func(keys map[string]bool) (bytes float64) {
		for key := range keys {
			n, err := client.MemoryUsage(ctx, key, 0).Result()
			if err != nil {
				b.Fatal(err)
			}
			bytes += float64(n)
		}
		return bytes
	}
	ofMinutes, ofHours := make(map[string]bool), make(map[string]bool)
	for hour := range hours {
		at := statsHour.Add(time.Duration(hour) * time.Hour)
		ofMinutes[k.StatsMinutes(at)], ofHours[k.StatsHours(at)] = true, true
	}
	return usage(ofMinutes) / float64(types*hours*60), usage(ofHours) / float64(types*hours)
}
