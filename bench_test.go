package asynq_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/testenv"
)

var benchPayload = []byte(strings.Repeat("x", 100))

// BenchmarkProcess drains a queue of b.N no-op tasks at several degrees of concurrency. It reports
// tasks/s and the costs of a task: round trips, commands executed by Redis, and CPU time of Redis.
func BenchmarkProcess(b *testing.B) {
	for _, concurrency := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("concurrency=%d", concurrency), func(b *testing.B) {
			opt, stats := benchRedis(b)
			fill(b, opt, b.N)
			client := opt.MakeRedisClient().(redis.UniversalClient)
			b.Cleanup(func() { _ = client.Close() })
			var trips roundTrips
			client.AddHook(&trips)

			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan struct{})
			srv := asynq.NewServerFromRedisClient(client, asynq.Config{Concurrency: concurrency, Logger: testenv.DiscardLogger()})
			handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
				if left.Add(-1) == 0 {
					close(done)
				}
				return nil
			})
			b.ReportAllocs()
			before := stats()
			b.ResetTimer()
			if err := srv.Start(handler); err != nil {
				b.Fatal(err)
			}
			<-done
			b.StopTimer()
			stats().report(b, before)
			b.ReportMetric(float64(trips.Load())/float64(b.N), "roundtrips/task")
			srv.Shutdown()
		})
	}
}

// BenchmarkReceive drains a queue of b.N tasks from one goroutine, which receives and settles them
// in batches of several sizes.
func BenchmarkReceive(b *testing.B) {
	for _, size := range []int{1, 10, 100, 500} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			opt, stats := benchRedis(b)
			fill(b, opt, b.N)
			receiver := asynq.NewReceiver(opt, asynq.ReceiverConfig{Logger: testenv.DiscardLogger()})
			if err := receiver.Start(); err != nil {
				b.Fatal(err)
			}
			defer receiver.Shutdown()
			ctx := context.Background()
			b.ReportAllocs()
			before := stats()
			b.ResetTimer()
			for left := b.N; left > 0; {
				leases, err := receiver.Receive(ctx, min(size, left))
				if err != nil {
					b.Fatal(err)
				}
				left -= len(leases)
				ends := make([]asynq.Settlement, len(leases))
				for i, l := range leases {
					ends[i].Lease = l
				}
				for _, err := range receiver.Settle(ctx, ends...) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.StopTimer()
			stats().report(b, before)
		})
	}
}

// BenchmarkEnqueue enqueues b.N tasks from several goroutines, and in batches.
func BenchmarkEnqueue(b *testing.B) {
	for _, goroutines := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			opt, stats := benchRedis(b)
			client := asynq.NewClient(opt)
			defer client.Close()
			b.ReportAllocs()
			before := stats()
			b.ResetTimer()
			var wg sync.WaitGroup
			var next atomic.Int64
			for range goroutines {
				wg.Go(func() {
					for next.Add(1) <= int64(b.N) {
						if _, err := client.Enqueue(asynq.NewTask("bench", benchPayload)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			stats().report(b, before)
		})
	}
	b.Run("batch=1000", func(b *testing.B) {
		opt, stats := benchRedis(b)
		b.ReportAllocs()
		before := stats()
		b.ResetTimer()
		fill(b, opt, b.N)
		b.StopTimer()
		stats().report(b, before)
	})
}

// fill enqueues n tasks in batches of 1,000.
func fill(b *testing.B, opt asynq.RedisConnOpt, n int) {
	b.Helper()
	client := asynq.NewClient(opt)
	defer client.Close()
	tasks := make([]*asynq.Task, 0, 1000)
	for n > 0 {
		tasks = tasks[:0]
		for range min(n, cap(tasks)) {
			tasks = append(tasks, asynq.NewTask("bench", benchPayload))
		}
		n -= len(tasks)
		for _, r := range client.BatchEnqueueContext(context.Background(), tasks) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
}

// redisStats are figures from INFO.
type redisStats struct {
	commands float64 // including those in scripts
	cpu      float64 // seconds
}

func (s redisStats) report(b *testing.B, before redisStats) {
	b.Helper()
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric((s.commands-before.commands)/n, "commands/task")
	b.ReportMetric((s.cpu-before.cpu)/n*1e6, "redis-µs/task")
}

// roundTrips counts the round trips of a go-redis client.
type roundTrips struct{ atomic.Int64 }

func (r *roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.Add(1)
		return next(ctx, cmd)
	}
}

func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.Add(1)
		return next(ctx, cmds)
	}
}

// benchRedis starts a Redis for one benchmark.
func benchRedis(b *testing.B) (asynq.RedisClientOpt, func() redisStats) {
	b.Helper()
	server := redistest.StartServer(b)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	b.Cleanup(func() { _ = client.Close() })
	return asynq.RedisClientOpt{Addr: server.Addr()}, func() redisStats {
		info, err := client.Info(context.Background(), "everything").Result()
		if err != nil {
			b.Fatal(err)
		}
		return redisStats{
			commands: infoValue(info, "total_commands_processed:"),
			cpu:      infoValue(info, "used_cpu_sys:") + infoValue(info, "used_cpu_user:"),
		}
	}
}

func infoValue(info, name string) float64 {
	_, after, ok := strings.Cut(info, "\n"+name)
	if !ok {
		return 0
	}
	end := strings.IndexAny(after, ",\r\n")
	v, err := strconv.ParseFloat(after[:end], 64)
	if err != nil {
		return 0
	}
	return v
}
