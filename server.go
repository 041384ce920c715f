package asynq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/lifecycle"
	"github.com/asynq-go/asynq/internal/loops"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redisopt"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// Server fetches tasks from queues and calls a handler for each, many at a time. Failed tasks are
// retried with growing delays, and archived when their retries are exhausted.
type Server struct {
	conn    connection
	broker  *rdb.Broker
	cfg     Config
	limits  map[string]int // of the queues, see queueLimits
	parts   map[string]*rdb.Partitions
	log     *slog.Logger
	process wire.Process

	life lifecycle.Lifecycle

	archived *archivedCalls     // nil without an OnArchived
	stats    *loops.StatsWriter // nil with DisableStats

	settings sync.Mutex      // guards cfg.Concurrency, and paused, once the server is created; and the start of pool
	paused   map[string]bool // queues that this server does not fetch from

	flows sync.Map // queue → *flow.Loop of its lane

	beat chan struct{} // wakes the heartbeat
	done chan struct{} // closed after the shutdown

	// Set by Start.
	started time.Time
	handler Handler
	pool    *worker.Pool
	loops   *runner.Runner
}

// NewServer returns a server that connects to Redis with the options r. It does not contact Redis
// before Ping or Start. It panics if r or cfg is invalid.
func NewServer(r RedisConnOpt, cfg Config) *Server {
	cfg = cfg.withDefaults()
	if cfg.Concurrency < manySlots {
		r = limitPool(r)
	}
	if cfg.Namespace != "" {
		r = WithNamespace(r, cfg.Namespace)
	}
	conn := connect(r)
	limits, err := queueLimits(cfg.QueueConcurrency, cfg.QueueConfigs)
	if err != nil {
		panic(err)
	}
	parts, err := queuePartitions(cfg.QueueConfigs)
	if err != nil {
		panic(err)
	}
	log := newSlog(cfg.Logger, cfg.LogLevel)
	broker := conn.newBroker()
	archive, archives, err := archiveLimits(cfg.Archive, cfg.QueueConfigs)
	if err != nil {
		panic(err)
	}
	broker.Archive = archive
	broker.Archives.Store(&archives)
	srv := &Server{
		conn:    conn,
		broker:  broker,
		cfg:     cfg,
		limits:  limits,
		parts:   parts,
		log:     log,
		process: newProcess(),
		paused:  make(map[string]bool),
		beat:    make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	srv.life = lifecycle.Lifecycle{Name: "server", ErrClosed: ErrServerClosed, Release: srv.release, Log: log}
	srv.archived = newArchivedCalls(srv)
	srv.stats = newStatsWriter(srv)
	return srv
}

// release releases what the server holds since it was created.
func (srv *Server) release() error {
	defer close(srv.done)
	return srv.conn.release()
}

// NewServerFromRedisClient returns a server that uses an existing connection, which the caller
// remains responsible for closing. It panics if c is nil or cfg is invalid.
func NewServerFromRedisClient(c redis.UniversalClient, cfg Config) *Server {
	return NewServer(SharedRedisClient(c), cfg)
}

// manySlots is the Concurrency from which a server keeps two round trips in flight, so that it may
// need more than fewConns connections.
const manySlots = 50

// fewConns is the number of pooled connections of a server to each primary of a Cluster. A round
// trip, a wake-up and the background loops rarely need more at a moment; if they do, they take
// turns. The subscription has a connection of its own.
const fewConns = 3

// limitPool limits the connections to each primary of a Cluster, unless Params or Configure
// configure the pool.
func limitPool(r RedisConnOpt) RedisConnOpt {
	switch opt := r.(type) {
	case namespaced:
		opt.inner = limitPool(opt.inner)
		return opt
	case clocked:
		opt.inner = limitPool(opt.inner)
		return opt
	case exact:
		opt.inner = limitPool(opt.inner)
		return opt
	case *RedisClusterClientOpt:
		if opt != nil {
			return limitPool(*opt)
		}
	case RedisClusterClientOpt:
		return opt.Configure(func(o *redis.ClusterOptions) {
			if o.PoolSize == 0 && o.MinIdleConns == 0 && o.MaxActiveConns == 0 {
				o.PoolSize = fewConns
				redisopt.DisablePipelinePool(o)
			}
		})
	}
	return r
}

// newProcess returns a unique identity for a server or scheduler.
func newProcess() wire.Process {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	host = strings.ToValidUTF8(host, "\uFFFD") // required for publishing
	return wire.Process{Host: host, PID: os.Getpid(), ID: uuid.NewString()}
}

// Ping checks the connection to Redis. It returns ErrServerClosed after Shutdown.
func (srv *Server) Ping() error {
	if err := srv.life.Err(); err != nil {
		return err
	}
	return srv.broker.Ping(context.Background())
}

// Run starts the server and waits for signals: SIGTERM and SIGINT shut it down, SIGTSTP (not on
// Windows) calls Stop. It returns nil after the shutdown, also one by Inspector.StopServer, or the
// error of Start.
func (srv *Server) Run(handler Handler) error {
	signals := lifecycle.Notify(srv.Stop)
	defer signals.Close()
	if err := srv.Start(handler); err != nil {
		return err
	}
	signals.Wait(srv.done)
	srv.Shutdown()
	return nil
}

// Start starts processing tasks with handler in the background. It returns an error if handler is
// nil or the server was started before, and ErrServerClosed after Shutdown.
func (srv *Server) Start(handler Handler) error {
	if isNilHandler(handler) {
		return errors.New("asynq: server cannot run without a handler")
	}
	return srv.life.Start(func() error {
		srv.handler = handler
		srv.started = time.Now()
		srv.loops = srv.launch()
		srv.loops.Start(context.Background())
		return nil
	})
}

// Stop stops fetching new tasks. Active tasks continue. Calling Stop before Shutdown is optional;
// Stop neither waits for tasks nor releases resources.
func (srv *Server) Stop() {
	srv.life.Stop(srv.stopFetching)
}

func (srv *Server) stopFetching() {
	srv.pool.StopFetching()
	srv.log.Info("server stopped fetching tasks")
	wake(srv.beat)
}

// Shutdown shuts the server down. It waits for active tasks for up to Config.ShutdownTimeout, then
// cancels their contexts and returns the tasks to the front of their queues without using up an
// attempt. If Redis is unreachable, it takes up to 2 seconds longer. Shutdown may be called more
// than once; before Start it does nothing.
func (srv *Server) Shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), srv.cfg.ShutdownTimeout)
	defer cancel()
	_ = srv.ShutdownContext(ctx) // it logs the error
}

// The time limits of the steps of a shutdown if Redis is unreachable, counted from when the
// handlers have returned or timed out.
const (
	settleTimeout = 800 * time.Millisecond  // settling tasks
	stopTimeout   = 1000 * time.Millisecond // stopping loops
	leaveTimeout  = 1200 * time.Millisecond // withdrawing published state
)

// ShutdownContext is like Shutdown, but waits for active tasks until ctx ends instead of
// Config.ShutdownTimeout. It returns an error if the shutdown was incomplete; tasks that could not
// be settled run again when their leases have expired.
func (srv *Server) ShutdownContext(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return srv.life.Shutdown(func() error { return srv.end(ctx) })
}

// end stops fetching, waits for the handlers, and stops the loops stage by stage.
func (srv *Server) end(ctx context.Context) error {
	srv.pool.StopFetching()
	srv.archived.stopping()
	err := lifecycle.Within(ctx, stopTimeout, func(ctx context.Context) error { return srv.loops.Stop(ctx, stageIntake) })
	drained := srv.pool.Drain(ctx) == nil
	srv.archived.drain(ctx)
	var steps lifecycle.Steps
	if !drained {
		srv.pool.Abort()
		steps.Run(settleTimeout, func(ctx context.Context) error {
			if srv.pool.Drain(ctx) != nil {
				return fmt.Errorf("asynq: %d tasks could not be settled", srv.pool.Open())
			}
			return nil
		})
	}
	steps.Run(stopTimeout, srv.loops.StopAll)
	steps.Run(leaveTimeout, srv.leave(srv.pool, srv.process))
	srv.pool.Close()
	return errors.Join(err, steps.Err(), srv.archived.end())
}

// leave returns a step that passes the wake markers of the pool's queues on to other servers,
// withdraws the published state of processes, and writes the last statistics.
func (srv *Server) leave(pool *worker.Pool, processes ...wire.Process) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		passed, written := make(chan error, 1), make(chan struct{})
		go func() { passed <- pool.PassMarkers(ctx) }()
		go func() {
			defer close(written)
			if srv.stats != nil {
				srv.stats.Flush(ctx, false)
			}
		}()
		err := srv.broker.Withdraw(ctx, processes...)
		<-written
		return errors.Join(<-passed, err)
	}
}
