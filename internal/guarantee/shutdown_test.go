package guarantee_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

func TestGuarantee13Shutdown(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	nothing := func(context.Context, *asynq.Task) error { return nil }
	t.Run("prompt when idle", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			srv := env.Serve(asynq.Config{}, nothing)
			env.Enqueue("t")
			env.AwaitState("t", "") // now the server is idle
			start := time.Now()
			srv.Shutdown()
			if d := time.Since(start); d > time.Second+testenv.Slack {
				env.T.Errorf("Shutdown took %v", d)
			}
			if servers := env.Keys("asynq:servers*"); len(servers) > 0 {
				env.T.Errorf("keys left: %v", servers)
			}
		})
	})
	t.Run("bounded when Redis is down", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) { shutdownWithoutRedis(env, false) })
	})
	t.Run("bounded when Redis hangs", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) { shutdownWithoutRedis(env, true) })
	})
	t.Run("bounded when Redis has never replied", func(t *testing.T) { testenv.Each(t, shutdownWithoutReply) })
	t.Run("twice and concurrently", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			srv := env.Serve(asynq.Config{}, nothing)
			var all sync.WaitGroup
			for range 4 {
				all.Go(srv.Shutdown)
				all.Go(srv.Stop)
			}
			all.Wait()
			srv.Shutdown()
			if err := srv.Start(asynq.HandlerFunc(nothing)); !errors.Is(err, asynq.ErrServerClosed) {
				env.T.Errorf("Start after Shutdown: %v, want ErrServerClosed", err)
			}
			if err := srv.Ping(); !errors.Is(err, asynq.ErrServerClosed) {
				env.T.Errorf("Ping after Shutdown: %v, want ErrServerClosed", err)
			}
		})
	})
	t.Run("before Start", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			var ran testenv.Tally
			srv := asynq.NewServer(env.Opt(), asynq.Config{Logger: asynq.NewSlogLogger(slog.New(env.Log))})
			srv.Stop()
			srv.Shutdown()
			if err := srv.Ping(); err != nil {
				env.T.Errorf("Ping after a Shutdown before Start: %v", err)
			}
			if err := srv.Start(asynq.HandlerFunc(ran.Handle)); err != nil {
				env.T.Fatalf("Start after Shutdown: %v", err)
			}
			env.T.Cleanup(srv.Shutdown)
			env.Enqueue("t")
			env.Eventually(func() bool { return ran.Of("t") == 1 }, "the task to run")
		})
	})
	t.Run("during Start", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			for range 20 {
				srv := asynq.NewServer(env.Opt(), asynq.Config{Logger: asynq.NewSlogLogger(slog.New(env.Log))})
				var all sync.WaitGroup
				all.Go(srv.Shutdown)
				all.Go(srv.Stop)
				all.Go(func() {
					if err := srv.Start(asynq.HandlerFunc(nothing)); err != nil {
						env.T.Errorf("Start during a Shutdown: %v", err)
					}
				})
				all.Wait()
				srv.Shutdown()
				if err := srv.Ping(); !errors.Is(err, asynq.ErrServerClosed) {
					env.T.Errorf("Ping after Shutdown: %v, want ErrServerClosed", err)
				}
			}
		})
	})
	t.Run("right after Start", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.EnqueueMany(50)
			for range 10 {
				env.Serve(asynq.Config{}, nothing).Shutdown()
			}
			env.Serve(asynq.Config{}, nothing)
			env.AwaitEmpty()
			env.WantCounts(50, 0)
		})
	})
	t.Run("waits for handlers", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			started, proceed := make(chan struct{}), make(chan struct{})
			env.Enqueue("t")
			env.Enqueue("next")
			srv := env.Serve(asynq.Config{Concurrency: 1}, func(context.Context, *asynq.Task) error {
				close(started)
				<-proceed
				return nil
			})
			testenv.Await(env, started, "the task to start")
			returned := make(chan struct{})
			go func() {
				defer close(returned)
				srv.Shutdown()
			}()
			env.Eventually(func() bool { return env.Log.Count("server shutting down") > 0 }, "the shutdown")
			close(proceed)
			testenv.Await(env, returned, "Shutdown to return")
			if env.State("t") != "" || env.State("next") != "pending" {
				env.T.Errorf("the active task is %q, want it done; the next task is %q, want pending", env.State("t"), env.State("next"))
			}
			env.WantCounts(1, 0)
		})
	})
	t.Run("unfinished tasks return to the front", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			h := newHeld()
			env.EnqueueMany(5)
			srv := env.Serve(asynq.Config{Concurrency: 2, ShutdownTimeout: 50 * time.Millisecond}, h.handle)
			first := []string{testenv.Await(env, h.started, "a task"), testenv.Await(env, h.started, "another")}
			start := time.Now()
			srv.Shutdown()
			if d := time.Since(start); d > 2*time.Second+testenv.Slack {
				env.T.Errorf("Shutdown took %v with a ShutdownTimeout of 50 ms", d)
			}
			for range 2 {
				if cause := testenv.Await(env, h.causes, "the handlers to be canceled"); !errors.Is(cause, asynq.ErrServerClosed) {
					env.T.Errorf("cause of the context: %v, want ErrServerClosed", cause)
				}
			}
			pending := env.RDB.LRange(ctx, env.Queue.Pending(), 0, -1).Val()
			slices.Reverse(pending) // next task first
			front := slices.Sorted(slices.Values(pending[:2]))
			if !slices.Equal(front, slices.Sorted(slices.Values(first))) || !slices.Equal(pending[2:], []string{"t2", "t3", "t4"}) {
				env.T.Errorf("pending tasks are %v, want the unfinished tasks %v first", pending, first)
			}
			for _, id := range first {
				if m := env.Message(id); m.Retried != 0 || m.LastErr != "" {
					env.T.Errorf("task %s: Retried %d, last error %q", id, m.Retried, m.LastErr)
				}
			}
			env.WantCounts(0, 0)
			env.CheckInvariants("after the shutdown")
			close(h.proceed) // the handlers return without effect
			var ran testenv.Tally
			env.Serve(asynq.Config{}, ran.Handle)
			env.AwaitEmpty()
			env.WantCounts(5, 0)
		})
	})
	t.Run("Stop fetches no new tasks", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			var ran testenv.Tally
			srv := env.Serve(asynq.Config{TaskCheckInterval: 10 * time.Millisecond}, ran.Handle)
			env.Enqueue("before")
			env.AwaitState("before", "")
			srv.Stop()
			env.Enqueue("after")
			srv.Shutdown()
			if ran.Of("after") > 0 || env.State("after") != "pending" {
				env.T.Errorf("after Stop, a task ran or its state is %q", env.State("after"))
			}
		})
	})
}

// shutdownWithoutRedis shuts down a server that cannot settle its tasks.
func shutdownWithoutRedis(env *testenv.Env, hangs bool) {
	p, opt := env.Proxy()
	h := newHeld()
	close(h.proceed)
	env.EnqueueMany(3)
	srv := env.ServeOn(opt, asynq.Config{Concurrency: 2, LeaseDuration: time.Second, ShutdownTimeout: 500 * time.Millisecond}, h.handle)
	testenv.Await(env, h.started, "a task to start")
	testenv.Await(env, h.started, "another to start")
	if hangs {
		p.Blackhole()
	} else {
		p.Down()
	}
	start := time.Now()
	srv.Shutdown()
	if d := time.Since(start); d > 500*time.Millisecond+2*time.Second+testenv.Slack {
		env.T.Errorf("Shutdown took %v with a ShutdownTimeout of 500 ms", d)
	}
	p.Resume()
	var ran testenv.Tally
	env.Serve(asynq.Config{LeaseDuration: time.Second}, ran.Handle)
	env.AwaitEmpty()
	if ran.Of("t2") == 0 { // commands sent while Redis hung may have settled the others
		env.T.Error("a task was lost")
	}
}

// shutdownWithoutReply shuts down every component on a Redis that accepts connections and never
// replies.
func shutdownWithoutReply(env *testenv.Env) {
	p, opt := env.Proxy()
	p.Blackhole()
	const timeout = 500 * time.Millisecond
	logger := asynq.NewSlogLogger(slog.New(env.Log))
	srv := asynq.NewServer(opt, asynq.Config{ShutdownTimeout: timeout, Logger: logger})
	receiver := asynq.NewReceiver(opt, asynq.ReceiverConfig{ShutdownTimeout: timeout, Logger: logger})
	options := &asynq.SchedulerOpts{Group: "g", Logger: logger}
	scheduler := asynq.NewScheduler(opt, options)
	manager, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
		RedisConnOpt: opt, SchedulerOpts: options, PeriodicTaskConfigProvider: noConfigs{},
	})
	if err != nil {
		env.T.Fatal(err)
	}
	if _, err := scheduler.Register("@every 1s", asynq.NewTask("t", nil)); err != nil {
		env.T.Fatal(err)
	}
	nothing := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
	var all sync.WaitGroup
	for name, component := range map[string]struct {
		start    func() error
		shutdown func()
		limit    time.Duration
	}{
		"server":    {func() error { return srv.Start(nothing) }, srv.Shutdown, timeout + 2*time.Second},
		"receiver":  {receiver.Start, receiver.Shutdown, timeout + 2*time.Second},
		"scheduler": {scheduler.Start, scheduler.Shutdown, 2 * time.Second},
		"manager":   {manager.Start, manager.Shutdown, 2 * time.Second},
	} {
		if err := component.start(); err != nil {
			env.T.Fatalf("%s: %v", name, err)
		}
		all.Go(func() {
			<-time.After(200 * time.Millisecond) // until its loops wait for replies
			began := time.Now()
			component.shutdown()
			if d := time.Since(began); d > component.limit+testenv.Slack {
				env.T.Errorf("Shutdown of the %s took %v, want at most %v", name, d, component.limit)
			}
		})
	}
	all.Wait()
}

// noConfigs provides no periodic tasks.
type noConfigs struct{}

func (noConfigs) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) { return nil, nil }
