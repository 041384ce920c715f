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
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// BenchmarkSettle measures the CPU time of Redis for each outcome.
//
//	go test -run '^$' -bench Settle/ -benchtime 20000x ./internal/rdb
func BenchmarkSettle(b *testing.B) {
	for outcome := rdb.Done; outcome <= rdb.Discard; outcome++ {
		for _, batch := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("%v/batch=%d", outcome, batch), func(b *testing.B) {
				server := redistest.StartServer(b)
				client := redis.NewClient(&redis.Options{Addr: server.Addr()})
				b.Cleanup(func() { _ = client.Close() })
				broker, ctx := rdb.New(client, ""), context.Background()
				settle := func(part []*rdb.Settlement) {
					broker.RoundTrip(ctx, &rdb.RoundTrip{Settle: part})
					if s := part[len(part)-1]; s.Err != nil || s.Code != script.CodeOK {
						b.Fatalf("code %d, error %v", s.Code, s.Err)
					}
				}
				cpu, done := 0.0, 0
				for round := 0; done < b.N; round++ {
					var settlements []*rdb.Settlement
					var tasks []*rdb.NewTask
					for i := range 500 {
						msg := &wire.TaskMessage{
							ID: fmt.Sprintf("%036d", round*500+i), Type: "bench", Queue: "q", Payload: []byte(strings.Repeat("x", 100)),
						}
						encoded, err := msg.Encode()
						if err != nil {
							b.Fatal(err)
						}
						tasks = append(tasks, &rdb.NewTask{ID: msg.ID, Queue: "q", Message: encoded})
						s := &rdb.Settlement{Queue: "q", ID: msg.ID, Token: strconv.Itoa(round), Outcome: outcome}
						switch outcome {
						case rdb.Complete:
							s.Message, s.Retention = encoded, 3600
						case rdb.Retry:
							s.Message, s.Delay, s.Failed = encoded, time.Hour, true
						case rdb.Archive:
							s.Message, s.Failed = encoded, true
						}
						settlements = append(settlements, s)
					}
					broker.Enqueue(ctx, tasks...)
					broker.RoundTrip(ctx, &rdb.RoundTrip{Fetch: []*rdb.Fetch{{Queue: "q", N: 500, Token: strconv.Itoa(round), Lease: time.Hour}}})
					if round == 0 {
						settle(settlements[:batch]) // load the script
						settlements = settlements[batch:]
					}
					before := redisCPU(b, client)
					for first := 0; first < len(settlements); first += batch {
						settle(settlements[first:min(first+batch, len(settlements))])
					}
					cpu += redisCPU(b, client) - before
					done += len(settlements)
					if err := client.Del(ctx, "asynq:{q}:pending").Err(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(cpu/float64(done)*1e6, "redis-µs/task")
			})
		}
	}
}
