package node

import (
	"context"
	"time"
)

// library is the interface of a library for nodes.
type library interface {
	client(c *conn) client
	// serve processes tasks until the process is terminated.
	serve(c *conn, w *Worker, r reporter) error
}

var libraries = map[string]library{Ours: ours{}, Theirs: theirs{}}

// client enqueues tasks and returns the outcome of each.
type client interface {
	enqueue(ctx context.Context, tasks []*task) []error
	// refused reports whether an error of the library means that the task was not enqueued.
	refused(err error) bool
}

// reporter receives the events of a server.
type reporter interface {
	handle(ctx context.Context, a *attempt) error
	failed(a *attempt, err error)
	// aggregate returns the payload of the aggregated task of a group.
	aggregate(payloads [][]byte) []byte
}

// attempt is one attempt of a task, as its handler receives it.
type attempt struct {
	id, queue         string
	payload           []byte
	retried, maxRetry int
	result            func(data []byte) error
	lost              func() bool // reports whether the lease was lost
}

// task is a task to enqueue. A zero field means the default of the library.
type task struct {
	id, queue, group, partition       string
	payload                           []byte
	maxRetry                          int // -1 means none
	timeout, retention, unique, delay time.Duration
}

// typename is the type of all tasks.
const typename = "chaos"

// Settings of both libraries. Intervals are short, so that the faults dominate.
const (
	retryDelay      = 200 * time.Millisecond
	checkInterval   = time.Second
	groupGrace      = time.Second
	groupMaxDelay   = 3 * time.Second
	groupMaxSize    = 50
	shutdownTimeout = 2 * time.Second
	healthInterval  = 5 * time.Second
	memberRetention = time.Hour // retention of aggregated tasks
)
