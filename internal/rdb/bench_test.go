package rdb_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// BenchmarkRoundTrip measures the upper bound of a server's throughput: one connection, no other
// load, each round trip settles the tasks that the previous one fetched.
func BenchmarkRoundTrip(b *testing.B) {
	for _, batch := range []int{1, 10, 100, 500} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			server := redistest.StartServer(b)
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			b.Cleanup(func() { _ = client.Close() })
			broker := rdb.New(client, "")
			ctx := context.Background()
			tasks := make([]*rdb.NewTask, b.N)
			for i := range tasks {
				msg := &wire.TaskMessage{ID: fmt.Sprintf("%036d", i), Type: "bench", Queue: "q", Payload: []byte(strings.Repeat("x", 100))}
				encoded, err := msg.Encode()
				if err != nil {
					b.Fatal(err)
				}
				tasks[i] = &rdb.NewTask{ID: msg.ID, Queue: "q", Message: encoded}
			}
			broker.Enqueue(ctx, tasks...)

			before := redisCPU(b, client)
			b.ResetTimer()
			var settle []*rdb.Settlement
			for i := 0; ; i++ {
				trip := &rdb.RoundTrip{Settle: settle}
				fetch := &rdb.Fetch{Queue: "q", N: batch, Token: strconv.Itoa(i), Lease: 30 * time.Second}
				trip.Fetch = append(trip.Fetch, fetch)
				broker.RoundTrip(ctx, trip)
				if fetch.Err != nil {
					b.Fatal(fetch.Err)
				}
				if len(fetch.Tasks) == 0 {
					break
				}
				settle = settle[:0]
				for _, t := range fetch.Tasks {
					settle = append(settle, &rdb.Settlement{Queue: "q", ID: t.ID, Token: fetch.Token, Outcome: rdb.Done})
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			b.ReportMetric((redisCPU(b, client)-before)/float64(b.N)*1e6, "redis-µs/task")
		})
	}
}

// redisCPU returns the seconds of CPU time that the server has used.
func redisCPU(b testing.TB, client *redis.Client) float64 {
	b.Helper()
	info, err := client.InfoMap(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	total := 0.0
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		v, err := strconv.ParseFloat(info["CPU"][name], 64)
		if err != nil {
			b.Fatal(err)
		}
		total += v
	}
	return total
}
