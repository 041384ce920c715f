package main

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// side is a library under test. Workloads use this interface only.
type side interface {
	// connect returns a connection with the defaults of the library, to a server or to a Cluster.
	connect(addr string, cluster bool) redis.UniversalClient
	// producer returns a producer on a connection.
	producer(conn redis.UniversalClient) producer
	// serve starts a server with its own connection. It ends with the process.
	serve(conn redis.UniversalClient, cfg serverConfig) error
}

// producer enqueues tasks.
type producer interface {
	enqueue(ctx context.Context, j *job) error
	// batch enqueues many tasks in the fastest way that the library offers to one goroutine.
	batch(ctx context.Context, jobs []*job) error
}

// job is a task to enqueue. A zero field means the default of the library.
type job struct {
	payload   []byte
	queue     string
	group     string
	key       string // of a partition
	delay     time.Duration
	unique    time.Duration
	retention time.Duration
}

// attempt is the argument of a handler.
type attempt struct {
	payload []byte
	result  io.Writer
}

// serverConfig configures a server. A zero field means the default of the library.
type serverConfig struct {
	concurrency  int
	queues       map[string]int
	retryDelay   *time.Duration
	delayedCheck time.Duration
	groupGrace   time.Duration
	queueLimit   int                                // maximum of active tasks of the default queue
	partitions   *partitions                        // of the default queue
	aggregate    func(members int) (payload []byte) // if nil, groups are not aggregated
	failFirst    bool                               // the first attempt of each task fails without calling handle
	handle       func(a attempt) error

	// cluster is the address of a node of a Cluster. This library then makes the connection of the
	// server itself, because its pool depends on the concurrency; its round trips are not counted.
	cluster string
}

// partitions are the limits of each partition of a queue; 0 means no limit.
type partitions struct{ concurrency, rate int }

// errFirst is the error of first attempts.
var errFirst = errors.New("the first attempt fails")

// sides maps the names in the tables to the libraries.
var sides = map[string]side{
	sideOurs:      ours{},
	sideLogged:    ours{attemptLog: 20},
	sideReference: theirs{},
	sideFloor:     bareScripts{},
}

const (
	sideOurs      = "asynq-go"
	sideLogged    = "attempt log" // this library with Config.AttemptLog
	sideReference = "hibiken"
	sideFloor     = "floor"
	sideBullMQ    = "bullmq"
)

const (
	taskType     = "bench"
	defaultQueue = "default"
)

// roundTrips counts the round trips of go-redis clients: a pipeline is one round trip.
type roundTrips struct{ atomic.Int64 }

// DialHook is a no-op.
func (r *roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts a command.
func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.Add(1)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts a pipeline.
func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.Add(1)
		return next(ctx, cmds)
	}
}
