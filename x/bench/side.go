package main

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// side is a library under test. A workload is written once, against this interface, and knows no library.
type side interface {
	// connect returns a connection made with the library's own defaults.
	connect(addr string) redis.UniversalClient
	// producer returns what puts tasks into queues over a connection.
	producer(conn redis.UniversalClient) producer
	// serve starts what takes tasks out of queues over a connection of its own. It ends with the process.
	serve(conn redis.UniversalClient, cfg serverConfig) error
	// bare reports that there is no library, only scripts that are called for many tasks at once.
	bare() bool
}

// producer puts tasks into queues.
type producer interface {
	enqueue(ctx context.Context, j *job) error
	// batch enqueues many tasks in the fastest way that the library offers to one goroutine.
	batch(ctx context.Context, jobs []*job) error
}

// job is a task to enqueue. The zero value of a field stands for the library's default.
type job struct {
	payload   []byte
	queue     string
	group     string
	delay     time.Duration
	unique    time.Duration
	retention time.Duration
}

// attempt is what a handler is given.
type attempt struct {
	payload []byte
	result  io.Writer // nil on the floor
}

// serverConfig says how a server processes tasks. The zero value of a field stands for the library's default.
type serverConfig struct {
	concurrency  int
	queues       map[string]int
	retryDelay   *time.Duration
	delayedCheck time.Duration
	groupGrace   time.Duration
	aggregate    func(members int) (payload []byte) // nil: groups are left alone
	failFirst    bool                               // the first attempt of each task fails before it gets to handle
	handle       func(a attempt) error
}

// errFirst is what first attempts fail with.
var errFirst = errors.New("the first attempt fails")

// sides are the libraries by the names that the tables have for them.
var sides = map[string]side{
	sideOurs:      ours{},
	sideReference: theirs{},
	sideFloor:     bareScripts{},
}

const (
	sideOurs      = "asynq-go"
	sideReference = "hibiken"
	sideFloor     = "floor"
	sideBullMQ    = "bullmq"
)

const (
	taskType     = "bench"
	defaultQueue = "default"
)

// roundTrips counts what go-redis clients send and wait for: a pipeline is one, however many commands it has.
type roundTrips struct{ atomic.Int64 }

// DialHook changes nothing.
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
