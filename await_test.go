package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/internal/testenv"
)

// EnqueueAndWait and Wait return the ends of tasks: results, failures, deletions.
func TestEnqueueAndWait(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		release, started := make(chan struct{}), make(chan struct{})
		env.Serve(asynq.Config{Concurrency: 10}, func(ctx context.Context, task *asynq.Task) error {
			switch task.Type() {
			case "fail":
				return fmt.Errorf("broken: %w", asynq.SkipRetry)
			case "revoke":
				return asynq.RevokeTask
			case "wait":
				<-release
			case "block":
				close(started)
				<-ctx.Done()
				return ctx.Err()
			}
			_, err := task.ResultWriter().Write(append([]byte("result of "), task.Payload()...))
			return err
		})
		info, err := env.Client.EnqueueAndWait(ctx, asynq.NewTask("t", []byte("x")))
		env.NoError(err)
		if string(info.Result) != "result of x" || info.State != asynq.TaskStateCompleted || info.CompletedAt.IsZero() {
			env.T.Errorf("returned %+v", info)
		}
		large := make([]byte, 100<<10)
		info, err = env.Client.EnqueueAndWait(ctx, asynq.NewTask("t", large))
		env.NoError(err)
		if len(info.Result) != len(large)+len("result of ") {
			env.T.Errorf("a large result has %d bytes: %+v; the hash has %d", len(info.Result), info, len(env.RDB.HGet(ctx, env.Queue.Task(info.ID), "result").Val()))
		}
		var failed *asynq.TaskFailedError
		if _, err = env.Client.EnqueueAndWait(ctx, asynq.NewTask("fail", nil)); !errors.As(err, &failed) || failed.Info.State != asynq.TaskStateArchived {
			env.T.Errorf("a failed task: %v", err)
		}
		if _, err = env.Client.EnqueueAndWait(ctx, asynq.NewTask("revoke", nil)); !errors.Is(err, asynq.ErrTaskNotFound) {
			env.T.Errorf("a deleted task: %v", err)
		}
		if _, err = env.Client.Wait(ctx, "default", "missing"); !errors.Is(err, asynq.ErrTaskNotFound) {
			env.T.Errorf("a missing task: %v", err)
		}
		if _, err = env.Client.Enqueue(asynq.NewTask("t", nil), asynq.CancelOnReturn()); err == nil {
			env.T.Error("Enqueue accepts CancelOnReturn")
		}

		// Waits of several clients, for tasks with and without Awaitable.
		other := asynq.NewClient(env.Opt())
		defer other.Close()
		var waits sync.WaitGroup
		for i, opts := range [][]asynq.Option{{asynq.Awaitable()}, nil} {
			info, err := env.Client.Enqueue(asynq.NewTask("wait", []byte("y")), append(opts, asynq.Retention(time.Minute))...)
			env.NoError(err)
			for _, client := range []*asynq.Client{env.Client, env.Client, other} {
				waits.Go(func() {
					got, err := client.Wait(ctx, info.Queue, info.ID)
					if err != nil || string(got.Result) != "result of y" {
						env.T.Errorf("task %d: %+v, %v", i, got, err)
					}
				})
			}
		}
		env.Eventually(func() bool {
			n := 0
			for _, key := range env.RDB.Keys(ctx, env.Queue.TaskPrefix()+"*").Val() {
				if strings.Contains(env.RDB.HGet(ctx, key, "awaited_by").Val(), " ") {
					n++
				}
			}
			return n == 1
		}, "two clients wait")
		close(release)
		waits.Wait()

		short, cancel := context.WithCancel(ctx)
		go func() {
			<-started
			cancel()
		}()
		_, err = env.Client.EnqueueAndWait(short, asynq.NewTask("block", nil), asynq.TaskID("blocked"), asynq.CancelOnReturn())
		if !errors.Is(err, context.Canceled) {
			env.T.Errorf("after the end of ctx: %v", err)
		}
		env.AwaitState("blocked", "")
	})
}

// Without a single report, all waits end.
func TestWaitWithoutReports(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		stop := make(chan struct{})
		defer close(stop)
		go func() { // deletes all reports
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, key := range env.RDB.Keys(ctx, env.Queue.Replies("*")).Val() {
					env.RDB.Del(ctx, key)
				}
			}
		}()
		env.Serve(asynq.Config{Concurrency: 10}, func(_ context.Context, task *asynq.Task) error {
			_, err := task.ResultWriter().Write(task.Payload())
			return err
		})
		var waits sync.WaitGroup
		for i := range 20 {
			waits.Go(func() {
				want := fmt.Sprint("r", i)
				info, err := env.Client.EnqueueAndWait(ctx, asynq.NewTask("t", []byte(want)))
				if err != nil || string(info.Result) != want {
					env.T.Errorf("%+v, %v", info, err)
				}
			})
		}
		waits.Wait()
	})
}

// The call returns a round trip after the end of the handler: one way of the settlement, and one of
// the report.
func TestWaitTakesOneRoundTrip(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const delay = 50 * time.Millisecond
		var ended atomic.Int64 // Unix nanoseconds
		p, opt := env.Proxy()
		env.ServeOn(opt, asynq.Config{Concurrency: 1}, func(context.Context, *asynq.Task) error {
			// The settlement would wait for a fetch in flight, and the reply for a client that does
			// not wait for it yet. They take three round trips at most.
			<-time.After(6 * delay)
			ended.Store(time.Now().UnixNano())
			return nil
		})
		client := asynq.NewClient(opt)
		defer client.Close()
		p.Delay(delay) // much more than a busy machine needs
		var after, pings []time.Duration
		for range 6 {
			if _, err := client.EnqueueAndWait(context.Background(), asynq.NewTask("t", nil)); err != nil {
				env.T.Fatal(err)
			}
			after = append(after, time.Duration(time.Now().UnixNano()-ended.Load()))
			began := time.Now()
			env.NoError(client.Ping())
			pings = append(pings, time.Since(began))
		}
		got, roundTrip := slices.Min(after), slices.Min(pings) // others may have waited for a CPU
		env.T.Logf("%v after the handler, round trip %v", after, roundTrip)
		if got > roundTrip*3/2 {
			env.T.Errorf("the calls return %v after the end of the handler, a round trip takes %v", after, roundTrip)
		}
	})
}

// Clients that wait for many tasks send few commands, also with ASYNQ_AWAITED_TASKS=10000.
func TestManyWaitsSendFewCommands(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, cancel := context.WithCancel(context.Background())
		tasks := 1000
		if n, err := strconv.Atoi(os.Getenv("ASYNQ_AWAITED_TASKS")); err == nil {
			tasks = n
		}
		p, opt := env.Proxy()
		client := asynq.NewClient(opt)
		defer client.Close()
		var waits sync.WaitGroup
		for range tasks {
			waits.Go(func() {
				if _, err := client.EnqueueAndWait(ctx, asynq.NewTask("t", nil)); !errors.Is(err, context.Canceled) {
					env.T.Errorf("the wait ends with %v", err)
				}
			})
		}
		env.Eventually(func() bool { return env.RDB.LLen(ctx, env.Queue.Pending()).Val() == int64(tasks) }, "all tasks are enqueued")
		env.Eventually(func() bool {
			before, start := p.Commands(), time.Now()
			<-time.After(6 * time.Second) // the commands of this period are counted
			n, per := p.Commands()-before, time.Since(start)
			env.T.Logf("%d commands in %v", n, per)
			return float64(n) <= 5*per.Seconds()+2 // the period may have one reading more
		}, "the waits to send at most 5 commands a second")
		cancel()
		waits.Wait()
	})
}

// Waits for tasks whose ends are not reported read them together.
func TestManyPollsSendFewCommands(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, cancel := context.WithCancel(context.Background())
		const tasks = 500
		p, opt := env.Proxy()
		client := asynq.NewClient(opt)
		defer client.Close()
		var waits, deleted sync.WaitGroup
		for i := range tasks {
			info, err := client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID(fmt.Sprint(i)), asynq.Retention(time.Minute))
			env.NoError(err)
			want, group := context.Canceled, &waits
			if i == 7 {
				want, group = asynq.ErrTaskNotFound, &deleted
			}
			group.Go(func() {
				if _, err := client.Wait(ctx, info.Queue, info.ID); !errors.Is(err, want) {
					env.T.Errorf("task %s: %v", info.ID, err)
				}
			})
		}
		env.Eventually(func() bool {
			before, start := p.Commands(), time.Now()
			<-time.After(3 * time.Second) // the commands of this period are counted
			n, per := p.Commands()-before, time.Since(start)
			env.T.Logf("%d commands in %v", n, per)
			return float64(n) <= 5*per.Seconds()+2
		}, "%d waits to send at most 5 commands a second", tasks)
		env.NoError(env.Inspector().DeleteTask("default", "7"))
		deleted.Wait()
		cancel()
		waits.Wait()
	})
}

// BenchmarkEnqueueAndWait measures the time from the end of the handler to the return of the call,
// and the round trip of a PING.
func BenchmarkEnqueueAndWait(b *testing.B) {
	env := asynq.RedisClientOpt{Addr: proctest.StartRedis(b).Addr()}
	var ended time.Time
	srv := asynq.NewServer(env, asynq.Config{Concurrency: 1, LogLevel: asynq.FatalLevel})
	if err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		ended = time.Now()
		return nil
	})); err != nil {
		b.Fatal(err)
	}
	defer srv.Shutdown()
	client := asynq.NewClient(env)
	defer client.Close()
	var after, pings []time.Duration
	for i := 0; i < b.N; i++ {
		if _, err := client.EnqueueAndWait(context.Background(), asynq.NewTask("t", nil)); err != nil {
			b.Fatal(err)
		}
		after = append(after, time.Since(ended))
		began := time.Now()
		if err := client.Ping(); err != nil {
			b.Fatal(err)
		}
		pings = append(pings, time.Since(began))
	}
	slices.Sort(after)
	slices.Sort(pings)
	b.ReportMetric(float64(after[len(after)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(pings[len(pings)/2].Microseconds()), "µs-ping")
}
