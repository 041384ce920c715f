package asynqtest

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/asynq-go/asynq"
)

// stage passes calls from the goroutines of a server to the one that called Drain.
type stage struct {
	calls   chan *call
	leaving chan struct{} // closed when Drain no longer answers calls
	over    chan struct{} // closed after the server has stopped, which requeues the tasks of handlers without an answer
	once    sync.Once
}

func newStage() *stage {
	return &stage{calls: make(chan *call), leaving: make(chan struct{}), over: make(chan struct{})}
}

func (s *stage) leave() { s.once.Do(func() { close(s.leaving) }) }

func (s *stage) close() {
	s.leave()
	close(s.over)
}

// call is something to execute on Drain's goroutine: a task for the handler, or run.
type call struct {
	ctx  context.Context
	task *asynq.Task
	run  func()

	done     chan struct{}
	err      error             // of the handler
	panicked *asynq.PanicError // nil if it did not panic
}

// answer releases the caller. If run panicked, the caller panics with the same value.
func (c *call) answer(run func()) {
	if run != nil {
		c.panicked = contain(run)
	}
	close(c.done)
}

var errDrainOver = errors.New("asynqtest: Drain has ended")

// perform is the server's handler.
func (s *stage) perform(ctx context.Context, task *asynq.Task) error {
	c := &call{ctx: ctx, task: task}
	s.wait(c)
	return c.err
}

// call runs a function on Drain's goroutine.
func (s *stage) call(run func()) { s.wait(&call{run: run}) }

// wait passes a call on and waits for the answer. It panics again with the value of a panic, so
// that the server sees it.
func (s *stage) wait(c *call) {
	c.done = make(chan struct{})
	over := s.over
	if c.task == nil {
		over = s.leaving
	}
	select {
	case s.calls <- c:
	case <-over:
		c.err = errDrainOver
		return
	}
	select {
	case <-c.done:
	case <-over:
		c.err = errDrainOver
		return
	}
	if c.panicked != nil {
		panic(c.panicked.Value)
	}
}

// contain runs f and returns the value that it panicked with.
func contain(f func()) (panicked *asynq.PanicError) {
	defer func() {
		if v := recover(); v != nil {
			panicked = &asynq.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	f()
	return nil
}
