package asynq

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/asynq-go/asynq/internal/rdb"
)

// combiner lets enqueue calls that are made at the same time share one pipeline. A lone call goes out at once; calls that come while
// a pipeline is on its way go into the next one, so batches grow with the load by themselves.
type combiner struct {
	send func(ctx context.Context, tasks ...*rdb.NewTask)

	mu      sync.Mutex
	waiting []*combined
	flights int
}

// combined is a call that waits for its pipeline.
type combined struct {
	task *rdb.NewTask
	done chan struct{}
	sent bool // on its way: it can no longer be taken back
}

const (
	// maxFlights is how many pipelines are on their way at the same time: while Redis works on one, the other is made or read.
	maxFlights = 2
	// minSecond is how many calls a second pipeline leaves with at least: each has a cost of its own. What is too little for that goes
	// with the first, when it is back.
	minSecond = 32
)

// enqueue makes a task. If ctx ends first it returns at once; the error says whether the task may have been made.
func (c *combiner) enqueue(ctx context.Context, task *rdb.NewTask) error {
	if err := ctx.Err(); err != nil {
		return notEnqueued(ctx)
	}
	own := &combined{task: task, done: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, own)
	lead := c.worthAFlight()
	if lead {
		c.flights++
	}
	c.mu.Unlock()
	switch {
	case lead && ctx.Done() == nil:
		c.fly(own)
	case lead:
		go c.fly(nil) // so that the end of ctx is heeded while Redis is not
	}
	select {
	case <-own.done:
		return task.Err
	case <-ctx.Done():
		return c.abandon(ctx, own)
	}
}

// worthAFlight reports whether one more pipeline is to leave with the calls that wait. The caller holds the lock.
func (c *combiner) worthAFlight() bool {
	return len(c.waiting) > 0 && (c.flights == 0 || c.flights < maxFlights && len(c.waiting) >= minSecond)
}

// fly sends pipelines until it is worth none; or, where own is given, the one pipeline with that call, after which another goroutine takes
// over.
func (c *combiner) fly(own *combined) {
	for {
		if own == nil {
			runtime.Gosched() // those that have their answers may be about to call again
		}
		c.mu.Lock()
		if own != nil && own.sent {
			c.mu.Unlock()
			c.land() // another flight took the call along
			return
		}
		c.flights--
		if own == nil && !c.worthAFlight() {
			c.mu.Unlock()
			return
		}
		c.flights++
		batch := c.waiting
		c.waiting = nil
		tasks := make([]*rdb.NewTask, len(batch))
		for i, w := range batch {
			w.sent = true
			tasks[i] = w.task
		}
		c.mu.Unlock()

		c.send(context.Background(), tasks...)
		for _, w := range batch {
			close(w.done)
		}
		if own != nil { // it was in the batch
			c.land()
			return
		}
	}
}

// land ends the flight of a caller that has its answer: if others wait, another goroutine goes on.
func (c *combiner) land() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flights--
	if c.worthAFlight() {
		c.flights++
		go c.fly(nil)
	}
}

// abandon leaves a call alone whose ctx has ended.
func (c *combiner) abandon(ctx context.Context, own *combined) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own.sent {
		return fmt.Errorf("asynq: no answer from Redis, the task may or may not be enqueued: %w", context.Cause(ctx))
	}
	for i, w := range c.waiting {
		if w == own {
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			break
		}
	}
	return notEnqueued(ctx)
}

func notEnqueued(ctx context.Context) error {
	return fmt.Errorf("asynq: the task was not enqueued: %w", context.Cause(ctx))
}
