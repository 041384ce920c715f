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

// BenchmarkTurn is the floor under the speed of a server: turns that settle what the turn before fetched, on one connection, with
// nothing else going on.
func BenchmarkTurn(b *testing.B) {
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
				turn := &rdb.Turn{Settle: settle}
				fetch := &rdb.Fetch{Queue: "q", N: batch, Token: strconv.Itoa(i), Lease: 30 * time.Second}
				turn.Fetch = append(turn.Fetch, fetch)
				broker.Turn(ctx, turn)
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

// reportCalls reports how long the scripts took, on an average and at most (where more than 1 ms, as the machine is otherwise busy).
func reportCalls(ctx context.Context, b *testing.B, client *redis.Client) {
	b.Helper()
	stats, err := client.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for field := range strings.SplitSeq(stats["Commandstats"]["cmdstat_evalsha"], ",") {
		if us, ok := strings.CutPrefix(field, "usec_per_call="); ok {
			mean, _ := strconv.ParseFloat(us, 64)
			b.ReportMetric(mean/1000, "ms-mean-call")
		}
	}
	slow, err := client.SlowLogGet(ctx, 100_000).Result()
	if err != nil {
		b.Fatal(err)
	}
	longest := time.Duration(0)
	for _, entry := range slow {
		longest = max(longest, entry.Duration)
	}
	b.ReportMetric(longest.Seconds()*1000, "ms-longest-call")
}

// redisCPU returns the seconds of CPU time that the server has used.
func redisCPU(b *testing.B, client *redis.Client) float64 {
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

// BenchmarkDeleteAll deletes a million scheduled tasks, and reports how long another client waits for an answer meanwhile.
//
//	go test -run '^$' -bench DeleteAll -benchtime 1x ./internal/rdb
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
			client.SlowLogReset(ctx), client.ConfigResetStat(ctx),
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
		deleted, err := broker.DeleteAllTasks(ctx, "q", wire.StateScheduled, "")
		b.StopTimer()
		close(stop)
		if deleted != n || err != nil {
			b.Fatalf("deleted %d, error %v", deleted, err)
		}
		b.ReportMetric((<-worst).Seconds()*1000, "ms-longest-ping")
		b.ReportMetric(n/b.Elapsed().Seconds()*float64(b.N), "tasks/s")
		reportCalls(ctx, b, client)
		server.Stop()
		b.StartTimer()
	}
}
