package main

import (
	"math/rand/v2"
	"sync"
	"time"
)

// order is the order in which tasks finish, seen from that in which they started.
type order string

const (
	startOrder   order = "start-order"
	reverseOrder order = "reverse"
	randomOrder  order = "random"
)

// hold is a workload that keeps many tasks in their handlers: whenever some finish, others take their places. What is measured is
// the price of finishing and fetching a task beside so many.
type hold struct {
	active int
	order  order
}

// inFlight is how many tasks may have finished and not yet been replaced, however many are active: batches are of the same size
// then.
const inFlight = 10

func (w hold) run(l *lane) (*figures, error) {
	active := l.most(w.active)
	if err := l.seed(active+l.n, func(int) *job { return &job{payload: payload(100, 0)} }); err != nil {
		return nil, err
	}
	c := &crowd{started: make(chan struct{}, active+l.n)}
	if err := l.serve(serverConfig{concurrency: active, handle: c.handle}); err != nil {
		return nil, err
	}
	if err := c.await(l, active); err != nil {
		return nil, err
	}
	m := l.meter()
	if err := m.start(l.ctx); err != nil {
		return nil, err
	}
	for i := range l.n {
		if i >= min(inFlight, active) {
			if err := c.await(l, 1); err != nil {
				return nil, err
			}
		}
		c.release(w.order)
	}
	if err := c.await(l, min(inFlight, active, l.n)); err != nil {
		return nil, err
	}
	m.stop()
	if err := l.settled(l.n); err != nil {
		return nil, err
	}
	return m.end(l.ctx, l.n)
}

// crowd is the tasks that are held in their handlers, in the order in which they started.
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
	late := time.NewTimer(patience)
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
		c.held[i] = c.held[last] // the order is of no use then
	case reverseOrder:
		close(c.held[last])
	}
	c.held = c.held[:last]
}
