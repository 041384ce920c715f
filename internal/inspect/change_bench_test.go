package inspect_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// BenchmarkDeleteAll deletes a million scheduled tasks and reports the latency of another client
// during the call.
//
//	go test -run '^$' -bench DeleteAll -benchtime 1x ./internal/inspect
func BenchmarkDeleteAll(b *testing.B) {
	const n = 1_000_000
	for range b.N {
		b.StopTimer()
		server := redistest.StartServer(b)
		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
		b.Cleanup(func() { _ = client.Close() })
		broker, ctx := rdb.New(client, ""), context.Background()
		later := time.Now().Add(time.Hour).Unix()
		for start := 0; start < n; start += 4000 {
			tasks := make([]*rdb.NewTask, 4000)
			for i := range tasks {
				msg := &wire.TaskMessage{ID: fmt.Sprintf("%036d", start+i), Type: "bench", Queue: "q", Payload: []byte(strings.Repeat("x", 100))}
				encoded, err := msg.Encode()
				if err != nil {
					b.Fatal(err)
				}
				tasks[i] = &rdb.NewTask{ID: msg.ID, Queue: "q", Message: encoded, ProcessAt: later + int64(start+i)/100}
			}
			broker.Enqueue(ctx, tasks...)
		}

		for _, cmd := range []redis.Cmder{
			client.ConfigSet(ctx, "slowlog-log-slower-than", "1000"), client.ConfigSet(ctx, "slowlog-max-len", "100000"),
			client.Do(ctx, "SLOWLOG", "RESET"), client.ConfigResetStat(ctx),
		} {
			if err := cmd.Err(); err != nil {
				b.Fatal(err)
			}
		}
		worst, stop := make(chan time.Duration), make(chan struct{})
		go func() {
			ping := redis.NewClient(&redis.Options{Addr: server.Addr()})
			defer ping.Close()
			longest := time.Duration(0)
			defer func() { worst <- longest }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				start := time.Now()
				if err := ping.Ping(ctx).Err(); err != nil {
					b.Error(err)
				}
				longest = max(longest, time.Since(start))
			}
		}()
		b.StartTimer()
		deleted, err := changeAll(broker, inspect.Delete, wire.StateScheduled, "")
		b.StopTimer()
		close(stop)
		if deleted != n || err != nil {
			b.Fatalf("deleted %d, error %v", deleted, err)
		}
		b.ReportMetric((<-worst).Seconds()*1000, "ms-longest-ping")
		b.ReportMetric(n/b.Elapsed().Seconds()*float64(b.N), "tasks/s")
		redistest.ReportCalls(ctx, b, client)
		server.Stop()
		b.StartTimer()
	}
}
