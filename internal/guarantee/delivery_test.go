package guarantee_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestGuarantee01AtLeastOnce(t *testing.T) {
	t.Parallel()
	t.Run("a process dies", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.EnqueueMany(15)
			p := startCrashable(env)
			p.awaitTasks(env, 10)
			p.kill()
			ran := finishCrashed(env)
			if n := ran.Distinct(); n != 15 {
				env.T.Errorf("%d tasks ran, want 15", n)
			}
		})
	})
	t.Run("connections die", func(t *testing.T) { testenv.Each(t, deliverThroughCuts) })
	t.Run("Redis is unreachable for a while", func(t *testing.T) { testenv.Each(t, deliverAfterOutage) })
	t.Run("Redis crashes", func(t *testing.T) {
		t.Parallel()
		deliverAfterRedisCrash(t)
	})
	t.Run("the scripts are flushed", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			var ran testenv.Tally
			env.Serve(asynq.Config{Concurrency: 1}, func(ctx context.Context, task *asynq.Task) error {
				ran.Add(task.Type())
				return env.RDB.ScriptFlush(ctx).Err()
			})
			for i := range 10 {
				env.RDB.ScriptFlush(context.Background())
				env.Enqueue(fmt.Sprint("t", i), asynq.Unique(time.Minute))
			}
			env.AwaitEmpty()
			env.WantCounts(10, 0)
		})
	})
}

// deliverThroughCuts cuts all connections repeatedly while tasks are enqueued and processed.
func deliverThroughCuts(env *testenv.Env) {
	p, opt := env.Proxy()
	client := env.NewClient(opt)
	var ran testenv.Tally
	handler := func(_ context.Context, task *asynq.Task) error {
		if ran.Add(task.Type()); ran.Distinct()%4 == 0 {
			p.Cut()
		}
		return nil
	}
	env.ServeOn(opt, asynq.Config{Concurrency: 5, LeaseDuration: time.Second}, handler)
	env.ServeOn(opt, asynq.Config{Concurrency: 5, LeaseDuration: time.Second}, handler)
	const n = 60
	for i := range n {
		id := fmt.Sprint("t", i)
		if i%3 == 0 {
			go p.Cut() // a random moment of the call
		}
		env.Eventually(func() bool {
			_, err := client.Enqueue(asynq.NewTask(id, nil), asynq.TaskID(id))
			// A conflict means that an earlier call reported an error although it had created the
			// task.
			return err == nil || errors.Is(err, asynq.ErrTaskIDConflict)
		}, "task %s to be accepted", id)
	}
	env.Eventually(func() bool { return ran.Distinct() == n }, "all tasks to run")
	env.AwaitEmpty()
}

// deliverAfterOutage has tasks in several states when Redis becomes unreachable for longer than a
// lease lasts.
func deliverAfterOutage(env *testenv.Env) {
	p, opt := env.Proxy()
	var ran testenv.Tally
	started, proceed := make(chan string, 10), make(chan struct{})
	env.EnqueueMany(10)
	env.Enqueue("delayed", asynq.ProcessIn(time.Second))
	env.ServeOn(opt, asynq.Config{Concurrency: 5, LeaseDuration: time.Second}, func(_ context.Context, task *asynq.Task) error {
		ran.Add(task.Type())
		select {
		case started <- task.Type():
		default:
		}
		<-proceed
		return nil
	})
	for range 5 {
		testenv.Await(env, started, "five tasks to start")
	}
	p.Down()
	close(proceed)
	<-time.After(1500 * time.Millisecond) // leases expire during the outage
	p.Resume()
	env.AwaitEmpty()
	if n := ran.Distinct(); n != 11 {
		env.T.Errorf("%d tasks ran, want 11", n)
	}
}

// deliverAfterRedisCrash kills a Redis that writes each command to disk while its tasks run.
func deliverAfterRedisCrash(t *testing.T) {
	env, server := testenv.OnServer(t, "--appendonly", "yes", "--appendfsync", "always")
	env.EnqueueMany(50, asynq.Retention(time.Hour))
	var ran testenv.Tally
	killed := make(chan struct{})
	env.Serve(asynq.Config{Concurrency: 4, LeaseDuration: time.Second}, func(_ context.Context, task *asynq.Task) error {
		ran.Add(task.Type())
		if ran.Distinct() > 20 {
			<-killed
		}
		return nil
	})
	env.Eventually(func() bool { return ran.Distinct() > 20 }, "the tasks to run")
	server.Kill()
	close(killed)
	server.Restart(t)
	env.Eventually(func() bool {
		return env.RDB.ZCard(context.Background(), env.Queue.Completed()).Val() == 50
	}, "all tasks to be completed")
	env.CheckInvariants("after a crash of Redis")
}

func TestGuarantee03FinishedTaskIsNotRunAgain(t *testing.T) {
	t.Parallel()
	swallow := func(p *redistest.Proxy) *redistest.Fault { return p.SwallowReplies(2, "evalsha", "the-task") }
	lose := func(p *redistest.Proxy) *redistest.Fault { return p.LoseCommands(2, "evalsha", "the-task") }
	for _, tc := range []struct {
		name  string
		fault func(p *redistest.Proxy) *redistest.Fault // of the settlement
		err   error
		state wire.State // 0 means that the task is deleted
		opts  []asynq.Option
	}{
		{name: "success, reply lost", fault: swallow},
		{name: "success, command lost", fault: lose},
		{name: "retention, reply lost", fault: swallow, state: wire.StateCompleted, opts: []asynq.Option{asynq.Retention(time.Hour)}},
		{name: "failure, reply lost", fault: swallow, err: errors.New("failed"), state: wire.StateRetry},
		{name: "failure, command lost", fault: lose, err: errors.New("failed"), state: wire.StateRetry},
		{name: "archived, reply lost", fault: swallow, err: asynq.SkipRetry, state: wire.StateArchived},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				p, opt := env.Proxy()
				var ran testenv.Tally
				faults := make(chan *redistest.Fault, 10)
				env.Enqueue("the-task", tc.opts...)
				srv := env.ServeOn(opt, asynq.Config{Concurrency: 1}, func(_ context.Context, task *asynq.Task) error {
					ran.Add(task.Type())
					if task.Type() != "the-task" {
						return nil
					}
					faults <- tc.fault(p)
					return tc.err
				})
				testenv.Await(env, testenv.Await(env, faults, "the task to run").Done(), "the fault")
				env.Enqueue("next")
				env.AwaitState("next", "")
				srv.Shutdown()
				want := ""
				failed := int64(0)
				if tc.state != 0 {
					want = tc.state.String()
				}
				if tc.err != nil {
					failed = 1
				}
				if got := env.State("the-task"); got != want {
					env.T.Errorf("the task is in state %q, want %q", got, want)
				}
				if n := ran.Of("the-task"); n != 1 {
					env.T.Errorf("the task ran %d times, want once", n)
				}
				env.WantCounts(2, failed)
				if tc.state == wire.StateRetry && env.Message("the-task").Retried != 1 {
					env.T.Errorf("the failed attempt was counted %d times", env.Message("the-task").Retried)
				}
			})
		})
	}
	t.Run("fetch, reply lost", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			p, opt := env.Proxy()
			var ran testenv.Tally
			f := p.SwallowReplies(2, "evalsha", env.Queue.Active(), env.Queue.Pending())
			env.EnqueueMany(20)
			env.ServeOn(opt, asynq.Config{Concurrency: 5}, ran.Handle)
			testenv.Await(env, f.Done(), "the fault")
			env.AwaitEmpty()
			if n := len(ran.Order()); n != 20 {
				env.T.Errorf("20 tasks ran %d times", n)
			}
			env.WantCounts(20, 0)
		})
	})
	t.Run("Redis hangs for less than the lease", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			p, opt := env.Proxy()
			var ran testenv.Tally
			env.EnqueueMany(10)
			env.ServeOn(opt, asynq.Config{Concurrency: 3}, func(_ context.Context, task *asynq.Task) error {
				if ran.Add(task.Type()); ran.Distinct() == 5 {
					p.Blackhole()
					time.AfterFunc(500*time.Millisecond, p.Resume)
				}
				return nil
			})
			env.AwaitEmpty()
			if n := len(ran.Order()); n != 10 {
				env.T.Errorf("10 tasks ran %d times", n)
			}
			env.WantCounts(10, 0)
		})
	})
}
