package main

import (
	"math/rand/v2"
	"sync"
	"time"
)

// order is the order in which tasks finish, relative to their start.
type order string

const (
	startOrder   order = "start-order"
	reverseOrder order = "reverse"
	randomOrder  order = "random"
)

// hold is a workload with many active tasks: whenever some finish, others replace them. It measures
// the cost of settling and fetching a task beside so many.
type hold struct {
	active int
	order  order
}

// inFlight is the maximum number of finished tasks that are not yet replaced, so that batches have
// the same size for any number of active tasks.
const inFlight = 10

func (w hold) run(l *lane) (*figures, error) {
	active := l.most(w.active)
	if err := l.seed(active+l.Tasks, func(int) *job { return &job{payload: payload(100, 0)} }); err != nil {
		return nil, err
	}
	c := &crowd{started: make(chan struct{}, active+l.Tasks)}
	if err := l.serve(serverConfig{concurrency: active, handle: c.handle}); err != nil {
		return nil, err
	}
	if err := c.await(l, active); err != nil {
		return nil, err
	}
	return l.measure(func() (tally, error) {
		for i := range l.Tasks {
			if i >= min(inFlight, active) {
				if err := c.await(l, 1); err != nil {
					return tally{}, err
				}
			}
			c.release(w.order)
		}
		return tally{tasks: l.Tasks, attempts: l.Tasks}, c.await(l, min(inFlight, active, l.Tasks))
	})
}

// crowd holds the active tasks in the order of their start.
type crowd struct {
	started chan struct{}

	mu   sync.Mutex
	held []chan struct{}
}

func (c *crowd) handle(attempt) error {
	c.mu.Lock()
	free := make(chan struct{})
	c.held = append(c.held, free)
	c.mu.Unlock()
	c.started <- struct{}{}
	<-free
	return nil
}

// await waits until n more tasks have started.
func (c *crowd) await(l *lane, n int) error {
	late := time.NewTimer(taskTimeout)
	defer late.Stop()
	for range n {
		select {
		case <-c.started:
		case <-late.C:
			return errNoTasks
		case <-l.ctx.Done():
			return l.ctx.Err()
		}
	}
	return nil
}

// release lets one task finish.
func (c *crowd) release(o order) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.held) - 1
	switch o {
	case startOrder:
		close(c.held[0])
		c.held = c.held[1:]
		return
	case randomOrder:
		i := rand.IntN(len(c.held))
		close(c.held[i])
		c.held[i] = c.held[last] // the order does not matter then
	case reverseOrder:
		close(c.held[last])
	}
	c.held = c.held[:last]
}
