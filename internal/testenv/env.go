package testenv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// Env is the environment of one test: an empty Redis, a client, and the log of all servers.
type Env struct {
	*redistest.Redis
	T      *testing.T
	RDB    redis.UniversalClient // a direct connection
	Client *asynq.Client         // uses RDB
	Queue  wire.Queue            // the keys of the default queue
	Log    *Log                  // of all servers and receivers
}

// Each runs a test on a miniredis and, if there is one, on a real server, as parallel subtests.
func Each(t *testing.T, test func(env *Env)) {
	t.Helper()
	t.Parallel()
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) { test(New(t, r, r.Client())) })
}

// OnServer returns an environment on a redis-server of its own, which is started with the
// arguments. It skips the test if redis-server is not installed. The invariants are not checked
// when the test ends.
func OnServer(t *testing.T, args ...string) (*Env, *redistest.Server) {
	t.Helper()
	server := redistest.StartServer(t, args...)
	return New(t, &redistest.Redis{Addr: server.Addr()}, server.Client(t)), server
}

// New returns an environment on r. If the test fails, the log of the servers is printed.
func New(t *testing.T, r *redistest.Redis, client redis.UniversalClient) *Env {
	env := &Env{
		Redis: r, T: t, RDB: client, Client: asynq.NewClientFromRedisClient(client),
		Queue: wire.DefaultNamespace.Queue("default"), Log: &Log{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("server log:\n%s", env.Log)
		}
	})
	return env
}

// Opt returns the options of a direct connection.
func (env *Env) Opt() asynq.RedisClientOpt { return asynq.RedisClientOpt{Addr: env.Addr, DB: env.DB} }

// Inspector returns an inspector that uses RDB.
func (env *Env) Inspector() *asynq.Inspector { return asynq.NewInspectorFromRedisClient(env.RDB) }

// Proxy starts a proxy in front of Redis and returns it with the options that connect through it.
func (env *Env) Proxy() (*redistest.Proxy, asynq.RedisClientOpt) {
	p := redistest.StartProxy(env.T, env.Addr)
	return p, asynq.RedisClientOpt{Addr: p.Addr(), DB: env.DB}
}

// NewClient returns a client with the given connection. It is closed when the test ends.
func (env *Env) NewClient(opt asynq.RedisConnOpt) *asynq.Client {
	c := asynq.NewClient(opt)
	env.T.Cleanup(func() { _ = c.Close() }) // the test is over
	return c
}

// Serve starts a server with a direct connection. It is shut down when the test ends.
func (env *Env) Serve(cfg asynq.Config, handler asynq.HandlerFunc) *asynq.Server {
	env.T.Helper()
	return env.ServeOn(env.Opt(), cfg, handler)
}

// ServeOn is Serve with the given connection. Unless cfg has a Logger, the server logs to env.Log.
func (env *Env) ServeOn(opt asynq.RedisConnOpt, cfg asynq.Config, handler asynq.HandlerFunc) *asynq.Server {
	env.T.Helper()
	if cfg.Logger == nil {
		cfg.Logger = asynq.NewSlogLogger(slog.New(env.Log))
	}
	srv := asynq.NewServer(opt, cfg)
	if err := srv.Start(handler); err != nil {
		env.T.Fatal(err)
	}
	env.T.Cleanup(srv.Shutdown)
	return srv
}

// Receiver starts a Receiver with a direct connection. It is shut down when the test ends.
func (env *Env) Receiver(cfg asynq.ReceiverConfig) *asynq.Receiver {
	env.T.Helper()
	return env.ReceiverOn(env.Opt(), cfg)
}

// ReceiverOn is Receiver with the given connection. Unless cfg has a Logger, the receiver logs to
// env.Log.
func (env *Env) ReceiverOn(opt asynq.RedisConnOpt, cfg asynq.ReceiverConfig) *asynq.Receiver {
	env.T.Helper()
	if cfg.Logger == nil {
		cfg.Logger = asynq.NewSlogLogger(slog.New(env.Log))
	}
	r := asynq.NewReceiver(opt, cfg)
	if err := r.Start(); err != nil {
		env.T.Fatal(err)
	}
	env.T.Cleanup(r.Shutdown)
	return r
}

// Enqueue enqueues a task whose ID and type are id.
func (env *Env) Enqueue(id string, opts ...asynq.Option) *asynq.TaskInfo {
	env.T.Helper()
	info, err := env.Client.Enqueue(asynq.NewTask(id, nil), append([]asynq.Option{asynq.TaskID(id)}, opts...)...)
	if err != nil {
		env.T.Fatalf("enqueue %q: %v", id, err)
	}
	return info
}

// EnqueueMany enqueues the tasks t0, t1, …, in this order, in one batch.
func (env *Env) EnqueueMany(n int, opts ...asynq.Option) {
	env.T.Helper()
	tasks := make([]*asynq.Task, n)
	for i := range tasks {
		id := "t" + strconv.Itoa(i)
		tasks[i] = asynq.NewTask(id, nil, asynq.TaskID(id))
	}
	for i, r := range env.Client.BatchEnqueueContext(context.Background(), tasks, opts...) {
		if r.Err != nil {
			env.T.Fatalf("enqueue task %d: %v", i, r.Err)
		}
	}
}

// FetchAndCrash fetches n tasks as a server does that crashes at once: their leases of 1 s are
// never extended.
func (env *Env) FetchAndCrash(n int) {
	env.T.Helper()
	f := &rdb.Fetch{Queue: "default", N: n, Token: fmt.Sprintf("crashed-%d", n), Lease: time.Second}
	env.Broker().RoundTrip(context.Background(), &rdb.RoundTrip{Fetch: []*rdb.Fetch{f}})
	if f.Err != nil || len(f.Tasks) != n {
		env.T.Fatalf("fetched %d tasks of %d, error %v", len(f.Tasks), n, f.Err)
	}
}

// StealLease replaces the lease token of an active task, as a server that takes the task over does.
func (env *Env) StealLease(id string) {
	env.T.Helper()
	if err := env.RDB.HSet(context.Background(), env.Queue.Task(id), wire.FieldToken, "stolen").Err(); err != nil {
		env.T.Fatal(err)
	}
}

// EnqueueEveryState creates a task in each state, whose ID is the state, and the task "staged",
// which is being aggregated. Each of them holds a uniqueness lock. The active task succeeds when
// finish is called.
func (env *Env) EnqueueEveryState() (finish func()) {
	env.T.Helper()
	ctx := context.Background()
	started, finished := make(chan struct{}), make(chan struct{})
	env.Enqueue("retry", asynq.Unique(time.Hour))
	env.Enqueue("archived", asynq.Unique(time.Hour))
	env.Enqueue("completed", asynq.Unique(time.Hour), asynq.Retention(time.Hour))
	env.Enqueue("active", asynq.Unique(time.Hour)) // last: it takes the only slot, so no fetch is in flight at Stop
	srv := env.Serve(asynq.Config{Concurrency: 1}, func(_ context.Context, task *asynq.Task) error {
		switch task.Type() {
		case "retry":
			return errors.New("failed")
		case "archived":
			return asynq.SkipRetry
		case "active":
			close(started)
			<-finished
		}
		return nil
	})
	finish = sync.OnceFunc(func() { close(finished) })
	env.T.Cleanup(finish)
	Await(env, started, "the task to start")
	for _, id := range []string{"retry", "archived", "completed"} {
		env.AwaitState(id, id)
	}
	srv.Stop() // it fetches nothing more
	env.Enqueue("pending", asynq.Unique(time.Hour))
	env.Enqueue("scheduled", asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour))
	env.Enqueue("aggregating", asynq.Unique(time.Hour), asynq.Group("g"))
	env.Enqueue("staged", asynq.Unique(time.Hour), asynq.Group("g"))
	set := env.Queue.AggregationSet("g", "u")
	env.RDB.ZRem(ctx, env.Queue.Group("g"), "staged")
	env.RDB.ZAdd(ctx, set, redis.Z{Score: 1, Member: "staged"})
	env.RDB.ZAdd(ctx, env.Queue.AggregationSets(), redis.Z{Score: 1e10, Member: set})
	return finish
}
