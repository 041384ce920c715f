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

// BenchmarkPartitions measures the CPU time of Redis for a task that is fetched and settled, with
// and without partitions.
//
//	go test -run '^$' -bench Partitions/ -benchtime 50000x ./internal/rdb
func BenchmarkPartitions(b *testing.B) {
	for _, tt := range []struct {
		name       string
		keys       int
		settings   string
		backlog    bool
		beforeSort bool
	}{
		{"plain", 0, "", true, false},
		{"keys=1", 1, "", true, false},
		{"keys=1,trickle", 1, "", false, false},
		{"keys=10000", 10000, "", true, false},
		{"keys=10000,fast", 10000, "", true, true},
		{"keys=10000,trickle", 10000, "", false, false},
		{"keys=10000,concurrency=1", 10000, "concurrency=1", true, false},
		{"keys=10000,concurrency=10,fast", 10000, "concurrency=10", true, true},
		{"keys=10,concurrency=10", 10, "concurrency=10", true, false},
	} {
		b.Run(tt.name, func(b *testing.B) {
			server := redistest.StartServer(b)
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			b.Cleanup(func() { _ = client.Close() })
			broker, ctx := rdb.New(client, ""), context.Background()
			enqueue := func(first, n int) {
				var tasks []*rdb.NewTask
				for i := first; i < first+n; i++ {
					msg := &wire.TaskMessage{ID: fmt.Sprintf("%036d", i), Type: "bench", Queue: "q", Payload: []byte(strings.Repeat("x", 100))}
					if tt.keys > 0 {
						msg.SetPartitionKey("tenant-" + strconv.Itoa(i%tt.keys))
					}
					encoded, err := msg.Encode()
					if err != nil {
						b.Fatal(err)
					}
					tasks = append(tasks, &rdb.NewTask{ID: msg.ID, Queue: "q", Message: encoded})
					if len(tasks) == 500 || i == first+n-1 {
						broker.Enqueue(ctx, tasks...)
						tasks = nil
					}
				}
			}
			if tt.backlog {
				enqueue(0, b.N)
			}
			enqueued, done, cpu := 0, 0, 0.0
			load := &rdb.Settlement{Queue: "q", ID: "none", Token: "none", Outcome: rdb.Done}
			broker.RoundTrip(ctx, &rdb.RoundTrip{Settle: []*rdb.Settlement{load}}) // so that no fetch precedes its settlements
			var settle []*rdb.Settlement
			var ended []rdb.Ended
			var longest time.Duration
			b.ResetTimer()
			for trip := 0; done < b.N; trip++ {
				if !tt.backlog && enqueued < b.N {
					b.StopTimer()
					enqueue(enqueued, 100)
					enqueued += 100
					b.StartTimer()
				}
				f := &rdb.Fetch{Queue: "q", N: 100, Token: strconv.Itoa(trip), Lease: time.Hour}
				if tt.keys > 0 {
					f.Partitions = &rdb.Partitions{Limits: tt.settings}
					f.Ended, f.BeforeSort = ended, tt.beforeSort
				}
				before := redisCPU(b, client)
				start := time.Now()
				broker.RoundTrip(ctx, &rdb.RoundTrip{Settle: settle, Fetch: []*rdb.Fetch{f}})
				longest = max(longest, time.Since(start))
				cpu += redisCPU(b, client) - before
				if f.Err != nil || f.Code != script.CodeOK {
					b.Fatalf("code %d, error %v", f.Code, f.Err)
				}
				done += len(settle)
				settle, ended = nil, nil
				for _, t := range f.Tasks {
					m, err := wire.DecodeTaskMessage(t.Message)
					if err != nil {
						b.Fatal(err)
					}
					settle = append(settle, &rdb.Settlement{Queue: "q", ID: t.ID, Token: f.Token, Outcome: rdb.Done})
					ended = append(ended, rdb.Ended{Partition: m.PartitionKey(), ID: t.ID})
				}
			}
			if testing.Verbose() {
				b.Log(client.Info(ctx, "commandstats").Val())
			}
			b.ReportMetric(cpu/float64(done)*1e6, "redis-µs/task")
			b.ReportMetric(float64(longest.Microseconds()), "max-µs/call")
		})
	}
}

// BenchmarkSortInbox measures the CPU time and the memory of Redis for a task of a long inbox, and
// the CPU time of a fetch of 100 tasks after that. With keys=N, each task has its own partition:
//
//	go test -run '^$' -bench SortInbox/keys=N -benchtime 1000000x ./internal/rdb
func BenchmarkSortInbox(b *testing.B) {
	for _, name := range []string{"1", "10000", "N"} {
		b.Run("keys="+name, func(b *testing.B) {
			keys, err := strconv.Atoi(name)
			if err != nil {
				keys = b.N
			}
			server := redistest.StartServer(b)
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			b.Cleanup(func() { _ = client.Close() })
			broker, ctx := rdb.New(client, ""), context.Background()
			for i := 0; i < b.N; i += 500 {
				var tasks []*rdb.NewTask
				for j := i; j < i+500; j++ {
					msg := &wire.TaskMessage{ID: fmt.Sprintf("%036d", j), Type: "bench", Queue: "q", Payload: []byte(strings.Repeat("x", 100)), MaxRetry: 25, Timeout: 1800}
					msg.SetPartitionKey("tenant-" + strconv.Itoa(j%keys))
					encoded, err := msg.Encode()
					if err != nil {
						b.Fatal(err)
					}
					tasks = append(tasks, &rdb.NewTask{ID: msg.ID, Queue: "q", Message: encoded})
				}
				broker.Enqueue(ctx, tasks...)
			}
			client.ConfigResetStat(ctx)
			before, memory := redisCPU(b, client), usedMemory(b, client)
			fetch := func(trip, n int) *rdb.Fetch {
				f := &rdb.Fetch{Queue: "q", N: n, Token: strconv.Itoa(trip), Lease: time.Hour, Partitions: &rdb.Partitions{}}
				broker.RoundTrip(ctx, &rdb.RoundTrip{Fetch: []*rdb.Fetch{f}})
				if f.Err != nil || f.Code != script.CodeOK {
					b.Fatalf("code %d, error %v", f.Code, f.Err)
				}
				return f
			}
			trip := 0
			for more := true; more; trip++ {
				more = fetch(trip, 0).More && client.LLen(ctx, "asynq:{q}:pending").Val() > 0
			}
			b.ReportMetric((redisCPU(b, client)-before)/float64(b.N)*1e6, "redis-µs/task")
			b.ReportMetric((usedMemory(b, client)-memory)/float64(b.N), "B/task")
			const fetches = 20
			before = redisCPU(b, client)
			for range fetches {
				trip++
				fetch(trip, 100)
			}
			b.ReportMetric((redisCPU(b, client)-before)/fetches*1e6, "redis-µs/fetch")
			if testing.Verbose() {
				b.Log(client.Info(ctx, "commandstats").Val())
			}
		})
	}
}

// usedMemory returns the memory that Redis has allocated.
func usedMemory(b *testing.B, client *redis.Client) float64 {
	b.Helper()
	info, err := client.InfoMap(context.Background(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.ParseFloat(info["Memory"]["used_memory"], 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
