package flow_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/proctest"
)

// BenchmarkCount counts 10,000 flows.
func BenchmarkCount(b *testing.B) {
	r := proctest.StartRedis(b)
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: r.Addr()})
	defer client.Close()
	for i := range 10_000 {
		if _, err := flow.Start(b.Context(), client, flow.Chain(fmt.Sprint(i), asynq.NewTask("t", nil))); err != nil {
			b.Fatal(err)
		}
	}
	i := asynq.NewInspector(asynq.RedisClientOpt{Addr: r.Addr()})
	defer i.Close()
	for b.Loop() {
		if c, err := flow.Inspect(i).Count(b.Context(), 10_000); err != nil || c.Running.Flows != 10_000 {
			b.Fatal(c, err)
		}
	}
}

// BenchmarkMembers compares the time to process tasks that are members of a batch with that of
// other tasks. The tasks exist before the server starts.
func BenchmarkMembers(b *testing.B) {
	for _, members := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "members"}[members]
		b.Run(name, func(b *testing.B) {
			r := proctest.StartRedis(b)
			opt := asynq.RedisClientOpt{Addr: r.Addr()}
			client := asynq.NewClient(opt)
			defer client.Close()
			ctx := context.Background()
			tasks := make([]*asynq.Task, b.N)
			for i := range tasks {
				tasks[i] = asynq.NewTask("t", make([]byte, 100))
			}
			if members {
				batch, err := flow.OpenBatch(ctx, client, flow.NewBatch("b"))
				if err == nil {
					_, err = batch.Enqueue(ctx, tasks)
				}
				if err != nil {
					b.Fatal(err)
				}
			} else {
				client.BatchEnqueueContext(ctx, tasks)
			}
			rdb := redis.NewClient(&redis.Options{Addr: r.Addr()})
			defer rdb.Close()
			before := cpu(b, rdb)
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan struct{})
			srv := asynq.NewServer(opt, asynq.Config{Concurrency: 100, LogLevel: asynq.FatalLevel})
			b.ResetTimer()
			if err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
				if left.Add(-1) == 0 {
					close(done)
				}
				return nil
			})); err != nil {
				b.Fatal(err)
			}
			<-done
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			b.ReportMetric((cpu(b, rdb)-before)*1e6/float64(b.N), "Redis-µs/task")
			srv.Shutdown()
		})
	}
}

// cpu returns the CPU time of Redis in seconds.
func cpu(b *testing.B, rdb *redis.Client) float64 {
	b.Helper()
	var user, sys float64
	info := rdb.InfoMap(context.Background(), "cpu").Item("CPU", "used_cpu_user")
	_, _ = fmt.Sscan(info, &user)
	_, _ = fmt.Sscan(rdb.InfoMap(context.Background(), "cpu").Item("CPU", "used_cpu_sys"), &sys)
	return user + sys
}

// BenchmarkNextNode measures the time from the end of a task to the start of the next one of a
// chain.
func BenchmarkNextNode(b *testing.B) {
	r := proctest.StartRedis(b)
	opt := asynq.RedisClientOpt{Addr: r.Addr()}
	client := asynq.NewClient(opt)
	defer client.Close()
	var ended time.Time
	var gaps []time.Duration
	done := make(chan struct{}, 1)
	const length = 100
	srv := asynq.NewServer(opt, asynq.Config{Concurrency: 10, LogLevel: asynq.FatalLevel})
	if err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		m, _ := flow.FromContext(ctx)
		if m.Node() != "1" {
			gaps = append(gaps, time.Since(ended))
		}
		if m.Node() == fmt.Sprint(length) {
			done <- struct{}{}
		}
		ended = time.Now()
		return nil
	})); err != nil {
		b.Fatal(err)
	}
	defer srv.Shutdown()
	tasks := make([]*asynq.Task, length)
	for i := range tasks {
		tasks[i] = asynq.NewTask("t", nil)
	}
	for i := 0; i < b.N; i++ {
		if _, err := flow.Start(context.Background(), client, flow.Chain(fmt.Sprint(i), tasks...)); err != nil {
			b.Fatal(err)
		}
		<-done
	}
	slices.Sort(gaps)
	b.ReportMetric(float64(gaps[len(gaps)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(gaps[len(gaps)*99/100].Microseconds()), "µs-p99")
}
