package node

import (
	"context"
	"time"
)

// library is what a node needs of one.
type library interface {
	client(c *conn) client
	// serve processes tasks until the process is told to end.
	serve(c *conn, w *Worker, r reporter) error
}

var libraries = map[string]library{Ours: ours{}, Theirs: theirs{}}

// client enqueues tasks and returns the outcome of each.
type client interface {
	enqueue(ctx context.Context, tasks []*task) []error
	// refused tells whether the library says by an error of its own that the task is not there.
	refused(err error) bool
}

// reporter is told what a server does.
type reporter interface {
	handle(ctx context.Context, a *attempt) error
	failed(a *attempt, err error)
	// aggregate makes the payload of one task of those of a group.
	aggregate(payloads [][]byte) []byte
}

// attempt is one attempt of a task, as its handler sees it.
type attempt struct {
	id, queue         string
	payload           []byte
	retried, maxRetry int
	result            func(data []byte) error
	lost              func() bool // the context ended because the lease was lost
}

// task is one to be enqueued. A zero value stands for the library's default.
type task struct {
	id, queue, group                  string
	payload                           []byte
	maxRetry                          int // -1: none
	timeout, retention, unique, delay time.Duration
}

// typename is that of all tasks.
const typename = "chaos"

// What both libraries are told. Intervals are short, so that what takes long in a run are the faults.
const (
	retryDelay      = 200 * time.Millisecond
	checkInterval   = time.Second
	groupGrace      = time.Second
	groupMaxDelay   = 3 * time.Second
	groupMaxSize    = 50
	shutdownTimeout = 2 * time.Second
	healthInterval  = 5 * time.Second
	memberRetention = time.Hour // of aggregated tasks
)
