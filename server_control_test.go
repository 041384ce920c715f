package asynq_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

// controlled is a server with a handler that blocks each task until the test ends it.
type controlled struct {
	*testenv.Env
	srv     *asynq.Server
	inspect *asynq.Inspector
	id      string
	started chan string
	end     chan struct{}
}

func newControlled(env *testenv.Env, cfg asynq.Config) *controlled {
	c := &controlled{Env: env, inspect: env.Inspector(), started: make(chan string, 100), end: make(chan struct{}, 100)}
	if cfg.Queues == nil {
		cfg.Queues = map[string]int{"default": 3, "low": 1}
	}
	c.srv = env.Serve(cfg, func(ctx context.Context, task *asynq.Task) error {
		c.started <- task.Type()
		select {
		case <-c.end:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	c.id = c.awaitInfo("the server to be published", func(*asynq.ServerInfo) bool { return true }).ID
	return c
}

// awaitInfo waits until the only server is as wanted.
func (c *controlled) awaitInfo(what string, wanted func(s *asynq.ServerInfo) bool) (info *asynq.ServerInfo) {
	c.T.Helper()
	c.Eventually(func() bool {
		servers, err := c.inspect.Servers()
		if err != nil {
			c.T.Fatal(err)
		}
		if len(servers) != 1 {
			return false
		}
		info = servers[0]
		return wanted(info)
	}, "%s", what)
	return info
}

// info returns the only server, as it is published now.
func (c *controlled) info() *asynq.ServerInfo {
	c.T.Helper()
	servers, err := c.inspect.Servers()
	if err != nil || len(servers) != 1 {
		c.T.Fatalf("servers %v, error %v", servers, err)
	}
	return servers[0]
}

func (c *controlled) must(err error) {
	c.T.Helper()
	if err != nil {
		c.T.Fatal(err)
	}
}

func (c *controlled) awaitStart(want string) {
	c.T.Helper()
	if got := testenv.Await(c.Env, c.started, "a task to start"); got != want {
		c.T.Errorf("%s has started, want %s", got, want)
	}
}

// mustHaveStartedNone checks that no further task has started. The caller has waited for something
// that happens after the start would have.
func (c *controlled) mustHaveStartedNone() {
	c.T.Helper()
	select {
	case id := <-c.started:
		c.T.Errorf("%s has started", id)
	default:
	}
}

// When a command returns, its effect is published.
func TestServerCommands(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		c := newControlled(env, asynq.Config{Concurrency: 1, TaskCheckInterval: 10 * time.Millisecond})
		if s := c.info(); !s.RemoteControl || s.PausedQueues != nil || s.Concurrency != 1 {
			t.Errorf("published: %+v", s)
		}
		env.Enqueue("a")
		c.awaitStart("a")
		env.Enqueue("b")
		env.Enqueue("c")

		c.must(c.inspect.SetServerConcurrency(ctx, c.id, 3))
		if n := c.info().Concurrency; n != 3 {
			t.Errorf("concurrency %d is published", n)
		}
		for range 2 {
			testenv.Await(env, c.started, "b and c to start")
		}

		c.must(c.inspect.SetServerConcurrency(ctx, c.id, 2))
		env.Enqueue("d")
		c.end <- struct{}{}
		env.Eventually(func() bool { return env.RDB.LLen(ctx, env.Queue.Active()).Val() == 2 }, "the first task to end")
		c.mustHaveStartedNone() // the same round trip would have fetched it
		c.end <- struct{}{}
		c.awaitStart("d")

		for range 2 { // pausing again changes nothing
			c.must(c.inspect.PauseServerQueue(ctx, c.id, "default"))
			if s := c.info(); !slices.Equal(s.PausedQueues, []string{"default"}) || len(s.Queues) != 1 || s.Queues["low"] != 1 {
				t.Errorf("published: %+v", s)
			}
		}
		for range 2 {
			c.end <- struct{}{}
		}
		env.AwaitEmpty()
		env.Enqueue("e")
		env.Enqueue("f", asynq.Queue("low"))
		c.awaitStart("f")
		c.mustHaveStartedNone()
		for range 2 {
			c.must(c.inspect.ResumeServerQueue(ctx, c.id, "default"))
			if s := c.info(); len(s.PausedQueues) != 0 || s.Queues["default"] != 3 {
				t.Errorf("published: %+v", s)
			}
		}
		c.awaitStart("e")

		for range 2 {
			c.must(c.inspect.QuietServer(ctx, c.id))
			if status := c.info().Status; status != "stopped" {
				t.Errorf("status %q is published", status)
			}
		}
		env.Enqueue("g")
		select {
		case <-c.srv.Done():
			t.Error("the server is done")
		default:
		}
		c.must(c.inspect.StopServer(ctx, c.id))
		c.end <- struct{}{}
		c.end <- struct{}{}
		testenv.Await(env, c.srv.Done(), "the shutdown")
		if err := c.srv.Ping(); !errors.Is(err, asynq.ErrServerClosed) {
			t.Errorf("Ping: %v", err)
		}
		if err := c.inspect.StopServer(ctx, c.id); !errors.Is(err, asynq.ErrServerNotFound) {
			t.Errorf("stopped again: %v", err)
		}
		if state := env.State("g"); state != "pending" {
			t.Errorf("g is %s", state)
		}
	})
}

// A server reports why it does not execute a command.
func TestServerCommandErrors(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		c := newControlled(env, asynq.Config{Concurrency: 1})
		for _, err := range []error{
			c.inspect.PauseServerQueue(ctx, c.id, "other"), c.inspect.ResumeServerQueue(ctx, c.id, "other"), c.srv.PauseQueue("other"),
		} {
			if err == nil || err.Error() != `asynq: the server does not process queue "other"` {
				t.Errorf("a queue of other servers: %v", err)
			}
		}
		key := env.RDB.ZRange(ctx, wire.DefaultNamespace.Servers(), 0, 0).Val()[0]
		c.must(env.Broker().SendCommand(ctx, key, c.id, `{"id":"x","verb":"dance"}`))
		c.must(env.Broker().SendCommand(ctx, key, c.id, `{"id":1`))
		for _, id := range []string{"x", ""} {
			env.Eventually(func() bool {
				text, ok, err := env.Broker().CommandReply(ctx, key, id)
				c.must(err)
				if ok && text == "" {
					t.Errorf("command %q was executed", id)
				}
				return ok
			}, "a reply")
		}
		env.Eventually(func() bool { return env.RDB.Exists(ctx, wire.ServerCommands(key)).Val() == 0 }, "the commands to be removed")
		if err := c.inspect.QuietServer(ctx, "nobody"); !errors.Is(err, asynq.ErrServerNotFound) {
			t.Errorf("an unknown server: %v", err)
		}
		env.Eventually(func() bool { // the next heartbeat makes it a server with remote control again
			c.must(env.RDB.Del(ctx, wire.ServerControlKey(key)).Err())
			err := c.inspect.PauseServerQueue(ctx, c.id, "other")
			return errors.Is(err, asynq.ErrRemoteControl)
		}, "the error of a server of another library")
	})
}

// A server with DisableRemoteControl executes no command.
func TestDisableRemoteControl(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		c := newControlled(env, asynq.Config{Concurrency: 1, DisableRemoteControl: true})
		if c.info().RemoteControl {
			t.Error("it is published as remotely controlled")
		}
		if err := c.inspect.StopServer(ctx, c.id); !errors.Is(err, asynq.ErrRemoteControl) {
			t.Errorf("stopped: %v", err)
		}
		key := env.RDB.ZRange(ctx, wire.DefaultNamespace.Servers(), 0, 0).Val()[0]
		c.must(env.Broker().SendCommand(ctx, key, c.id, `{"id":"x","verb":"concurrency","n":5}`))
		c.must(c.srv.PauseQueue("low")) // its own program may
		s := c.awaitInfo("the pause", func(s *asynq.ServerInfo) bool { return len(s.PausedQueues) == 1 })
		if _, replied, err := env.Broker().CommandReply(ctx, key, "x"); replied || err != nil || s.Concurrency != 1 {
			t.Errorf("replied %t, error %v, concurrency %d", replied, err, s.Concurrency)
		}
	})
}

// A server that does not reply may execute the command later.
func TestCommandUnconfirmed(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, cancel := context.WithCancel(context.Background())
		process := wire.Process{Host: "h", PID: 1, ID: "frozen"}
		key := wire.DefaultNamespace.Server(process)
		info, err := (&wire.ServerInfo{Host: "h", PID: 1, ServerID: "frozen", Status: "active"}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		p := env.RDB.Pipeline()
		p.Set(ctx, key, info, time.Minute)
		p.Set(ctx, wire.ServerControlKey(key), "{}", time.Minute)
		p.ZAdd(ctx, wire.DefaultNamespace.Servers(), redis.Z{Score: float64(time.Now().Add(time.Minute).Unix()), Member: key})
		if _, err := p.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		returned := make(chan error, 1)
		go func() { returned <- env.Inspector().QuietServer(ctx, "frozen") }()
		env.Eventually(func() bool { return env.RDB.LLen(context.Background(), wire.ServerCommands(key)).Val() == 1 }, "the command")
		cancel()
		err = testenv.Await(env, returned, "the call to return")
		if !errors.Is(err, asynq.ErrCommandUnconfirmed) || !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if ttl := env.RDB.TTL(context.Background(), wire.ServerCommands(key)).Val(); ttl <= 0 {
			t.Errorf("the TTL of the command is %v", ttl)
		}
	})
}

// StopServer ends Run as SIGTERM does.
func TestStopServerEndsRun(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		c := &controlled{Env: env, inspect: env.Inspector()}
		srv := asynq.NewServer(env.Opt(), asynq.Config{Concurrency: 1})
		returned := make(chan error, 1)
		go func() {
			returned <- srv.Run(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil }))
		}()
		id := c.awaitInfo("the server", func(*asynq.ServerInfo) bool { return true }).ID
		c.must(c.inspect.StopServer(context.Background(), id))
		if err := testenv.Await(env, returned, "Run to return"); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// What a program sets before Start holds from the start.
func TestServerSettingsBeforeStart(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("a")
		env.Enqueue("b", asynq.Queue("low"))
		env.Enqueue("c", asynq.Queue("low"))
		srv := asynq.NewServer(env.Opt(), asynq.Config{Concurrency: 1, Queues: map[string]int{"default": 1, "low": 1}})
		for _, err := range []error{srv.SetConcurrency(2), srv.PauseQueue("default"), srv.PauseQueue("low"), srv.ResumeQueue("low")} {
			if err != nil {
				t.Fatal(err)
			}
		}
		started, end := make(chan string, 3), make(chan struct{})
		if err := srv.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
			started <- task.Type()
			<-end
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		got := []string{testenv.Await(env, started, "a task"), testenv.Await(env, started, "a second task")}
		if slices.Sort(got); !slices.Equal(got, []string{"b", "c"}) {
			t.Errorf("%q have started", got)
		}
		close(end)
		srv.Shutdown()
		testenv.Await(env, srv.Done(), "Done")
		for _, err := range []error{srv.SetConcurrency(2), srv.PauseQueue("default"), srv.ResumeQueue("low")} {
			if !errors.Is(err, asynq.ErrServerClosed) {
				t.Errorf("after Shutdown: %v", err)
			}
		}
		if state := env.State("a"); state != "pending" {
			t.Errorf("a is %s", state)
		}
	})
}
