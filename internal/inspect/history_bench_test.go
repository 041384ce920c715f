package inspect_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/rollup"
)

// BenchmarkTypeStats reads 59 minutes of the statistics of 1,000 types in ten queues, each with
// attempts in every minute.
func BenchmarkTypeStats(b *testing.B) {
	client := redistest.StartServer(b).Client(b)
	broker := rdb.New(client, "")
	ctx := context.Background()
	end := time.Now().Truncate(time.Hour) // of a complete hour
	var queues []string
	for q := range 10 {
		queues = append(queues, fmt.Sprint("q", q))
		broker.Enqueue(ctx, redistest.NewTask(b, queues[q], "t"))
		for minute := range int64(60) {
			batch := &rollup.Batch{Queue: queues[q], Hour: end.Unix()/3600 - 1, Number: uint64(minute + 1)}
			for t := range 100 {
				s := &rollup.Stats{}
				for range 20 {
					s.Counts[rollup.Succeeded]++
					s.Duration.Observe(time.Duration(1+rand.IntN(5)) * 10 * time.Millisecond)
					s.Wait.Observe(time.Duration(1+rand.IntN(5)) * time.Millisecond)
				}
				batch.Entries = append(batch.Entries, rollup.Entry{
					Minute: batch.Hour*60 + minute, Table: rollup.TypeTable, Type: fmt.Sprint("type", t), Stats: s,
				})
			}
			if r := broker.AddStats(ctx, "sender", []*rollup.Batch{batch})[0]; r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	in := inspect.New(broker)
	for b.Loop() {
		found, err := in.TypeStats(ctx, queues, end.Add(-59*time.Minute), end)
		if err != nil || len(found) != 1000 {
			b.Fatal(len(found), err)
		}
	}
}
