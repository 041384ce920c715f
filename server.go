package asynq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// Server takes tasks from queues and gives them to a handler, many at a time. Tasks that fail are tried again, with growing delays,
// and in the end archived.
type Server struct {
	conn    connection
	broker  *rdb.Broker
	cfg     Config
	log     *slog.Logger
	process wire.Process

	mu      sync.Mutex // guards what follows, and is held through start and shutdown
	state   serverState
	started time.Time
	handler Handler
	pool    *worker.Pool
	loops   *runner.Runner

	stateMu sync.Mutex // guards state alone, for those who must not wait for a shutdown
}

type serverState string

// The states of a server, as the wire format names them.
const (
	stateNew     serverState = "new"
	stateActive  serverState = "active"
	stateStopped serverState = "stopped"
	stateClosed  serverState = "closed"
)

// NewServer returns a server that connects as r says. It panics if r cannot make a connection, or if cfg is invalid; whether Redis
// answers is not known before Ping.
func NewServer(r RedisConnOpt, cfg Config) *Server { return newServer(connect(r), cfg) }

// NewServerFromRedisClient returns a server on a connection that stays the caller's to close. It panics if c is nil, or cfg is invalid.
func NewServerFromRedisClient(c redis.UniversalClient, cfg Config) *Server {
	return newServer(connectShared(c), cfg)
}

func newServer(conn connection, cfg Config) *Server {
	if cfg.Namespace != "" {
		conn.namespace = mustNamespace(cfg.Namespace)
	}
	cfg = cfg.withDefaults()
	return &Server{
		conn:    conn,
		broker:  rdb.New(conn.client, conn.namespace),
		cfg:     cfg,
		log:     newSlog(cfg.Logger, cfg.LogLevel),
		process: newProcess(),
		state:   stateNew,
	}
}

// newProcess names this server or scheduler among all.
func newProcess() wire.Process {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	host = strings.ToValidUTF8(host, "\uFFFD") // what is not could not be published
	return wire.Process{Host: host, PID: os.Getpid(), ID: uuid.NewString()}
}

// Ping asks Redis for a sign of life. It returns ErrServerClosed after Shutdown.
func (srv *Server) Ping() error {
	if srv.currentState() == stateClosed {
		return ErrServerClosed
	}
	return srv.broker.Ping(context.Background())
}

// Run starts the server and waits for a signal of the operating system: TERM and INT shut it down, TSTP (not on Windows) stops it
// from taking new tasks. It returns after the shutdown, or with the error of Start.
func (srv *Server) Run(handler Handler) error {
	if err := srv.Start(handler); err != nil {
		return err
	}
	srv.waitForSignals()
	srv.Shutdown()
	return nil
}

// Start lets the server take tasks and give them to the handler, and returns at once. It fails if the server was started before or the
// handler is nil, and with ErrServerClosed after Shutdown.
func (srv *Server) Start(handler Handler) error {
	if isNilHandler(handler) {
		return errors.New("asynq: server cannot run without a handler")
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	switch srv.state {
	case stateActive:
		return errors.New("asynq: the server is already running")
	case stateStopped:
		return errors.New("asynq: the server was stopped: shut it down and make a new one")
	case stateClosed:
		return ErrServerClosed
	}
	srv.handler = handler
	srv.started = time.Now()
	srv.setState(stateActive)
	srv.pool, srv.loops = srv.assemble()
	srv.log.Info("server started", "concurrency", srv.cfg.Concurrency, "queues", len(srv.cfg.Queues))
	srv.loops.Start(context.Background())
	return nil
}

// Stop lets the server take no new tasks; those that it has go on. It is no substitute for Shutdown, and needs not come before it.
func (srv *Server) Stop() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.state == stateActive {
		srv.setState(stateStopped)
		srv.pool.StopFetching()
		srv.log.Info("server takes no new tasks")
	}
}

// Shutdown ends the server. It waits up to Config.ShutdownTimeout for the handlers at work; the tasks of those that go on go back to
// the front of their queue, without a used attempt. It is safe to call at any time and more than once.
func (srv *Server) Shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), srv.cfg.ShutdownTimeout)
	defer cancel()
	_ = srv.ShutdownContext(ctx) // what went wrong has been logged
}

// How long a shutdown takes at most after the handlers have ended or been given up, if Redis does not answer.
const (
	settleTimeout = 3 * time.Second // for outcomes
	endTimeout    = 2 * time.Second // for loops
)

// ShutdownContext is Shutdown with ctx in place of the ShutdownTimeout. The error says what could not be ended in order: the
// tasks concerned run again when their leases have ended.
func (srv *Server) ShutdownContext(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	switch srv.state {
	case stateClosed:
		return nil
	case stateNew:
		srv.setState(stateClosed)
		return srv.closeConnection()
	}
	srv.log.Info("server shuts down")
	errs := []error{srv.end(ctx)}
	srv.setState(stateClosed)
	errs = append(errs, srv.closeConnection())
	err := errors.Join(errs...)
	if err != nil {
		srv.log.Error("the shutdown was not in order", "error", err)
	} else {
		srv.log.Info("server ended")
	}
	return err
}

// end stops the loops stage by stage around the end of the handlers.
func (srv *Server) end(ctx context.Context) error {
	srv.pool.StopFetching()
	var errs []error
	step := func(timeout time.Duration, f func(ctx context.Context) error) {
		if err := within(timeout, f); err != nil {
			errs = append(errs, err)
		}
	}
	step(endTimeout, func(ctx context.Context) error { return srv.loops.Stop(ctx, stageIntake) })
	if srv.pool.Drain(ctx) != nil {
		srv.pool.Abort()
		step(settleTimeout, func(ctx context.Context) error {
			if srv.pool.Drain(ctx) != nil {
				return fmt.Errorf("asynq: %d tasks are not settled", srv.pool.Open())
			}
			return nil
		})
	}
	step(endTimeout, srv.loops.StopAll)
	step(endTimeout, srv.pool.PassMarkers)
	step(endTimeout, func(ctx context.Context) error { return srv.broker.Withdraw(ctx, srv.process) })
	srv.pool.Close()
	return errors.Join(errs...)
}

// within waits for f no longer than the timeout: commands to a Redis that does not answer end by their own timeouts, which are longer.
func within(timeout time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("asynq: Redis did not answer within %v: %w", timeout, ctx.Err())
	}
}

func (srv *Server) closeConnection() error {
	if srv.conn.shared {
		return nil
	}
	if err := srv.conn.client.Close(); err != nil {
		return fmt.Errorf("asynq: closing the connection: %w", err)
	}
	return nil
}

// setState changes the state. The caller holds mu.
func (srv *Server) setState(s serverState) {
	srv.stateMu.Lock()
	defer srv.stateMu.Unlock()
	srv.state = s
}

func (srv *Server) currentState() serverState {
	srv.stateMu.Lock()
	defer srv.stateMu.Unlock()
	return srv.state
}

// queueNames lists the queues, in a fixed order.
func (srv *Server) queueNames() []string { return slices.Sorted(maps.Keys(srv.cfg.Queues)) }
