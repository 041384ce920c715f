package tasks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
)

// Worker works on the tasks of a Table. See Start.
type Worker struct {
	server *asynq.Server
	once   sync.Once
	done   chan struct{}
}

// StartOption is a setting of a worker.
type StartOption func(*start)

type start struct {
	cfg         asynq.Config
	middlewares []asynq.MiddlewareFunc
	err         error
}

// Use wraps all handlers in middlewares, the first one outermost.
func Use(middlewares ...asynq.MiddlewareFunc) StartOption {
	return func(s *start) {
		for _, m := range middlewares {
			if m == nil {
				s.err = errors.New("tasks: a middleware is nil")
			}
		}
		s.middlewares = append(s.middlewares, middlewares...)
	}
}

// Concurrency sets how many tasks the worker works on at the same time, of all names together. Default: the number of CPUs, which is little
// for handlers that mostly wait.
func Concurrency(n int) StartOption { return func(s *start) { s.cfg.Concurrency = n } }

// Configure changes the configuration of the worker's asynq.Server: Logger, LeaseDuration, ErrorHandler and others. Queues and
// QueueConcurrency are overwritten with what the Table says.
func Configure(change func(*asynq.Config)) StartOption { return func(s *start) { change(&s.cfg) } }

// Start starts a worker for the tasks of the table, and returns at once. When ctx ends, the worker shuts down as with Shutdown. Handlers'
// contexts have the values of ctx, but do not end with it. The error is ErrDefinition where the table cannot be; Start panics if r
// cannot make a connection.
func Start(ctx context.Context, r asynq.RedisConnOpt, table Table, opts ...StartOption) (*Worker, error) {
	if ctx == nil {
		return nil, errors.New("tasks: Start needs a context: use context.Background()")
	}
	var s start
	for _, opt := range opts {
		opt(&s)
	}
	if s.err != nil {
		return nil, s.err
	}
	handlers, err := table.plan(&s.cfg)
	if err != nil {
		return nil, err
	}
	if s.cfg.BaseContext == nil {
		s.cfg.BaseContext = func() context.Context { return context.WithoutCancel(ctx) }
	}
	var handler asynq.Handler = handlers
	for i := len(s.middlewares) - 1; i >= 0; i-- {
		handler = s.middlewares[i](handler)
	}
	w := &Worker{server: asynq.NewServer(r, s.cfg), done: make(chan struct{})}
	if err := w.server.Start(handler); err != nil {
		return nil, fmt.Errorf("tasks: start: %w", err)
	}
	stop := context.AfterFunc(ctx, w.Shutdown)
	go func() {
		<-w.done
		stop()
	}()
	return w, nil
}

// Shutdown stops the worker, and waits until it has ended: tasks that are at work are waited for up to Config.ShutdownTimeout, and then
// go back to the front of their queue. It is safe to call at any time and more than once.
func (w *Worker) Shutdown() {
	w.once.Do(func() {
		w.server.Shutdown()
		close(w.done)
	})
	<-w.done
}

// Done is closed when the worker has ended.
func (w *Worker) Done() <-chan struct{} { return w.done }

// Wait waits until the worker has ended.
func (w *Worker) Wait() { <-w.done }

// handlers finds the handler of a task by its name.
type handlers map[string]asynq.Handler

// ProcessTask does the task. One of a name that is not in the table comes from elsewhere: it is tried again, by a worker that may know it.
func (h handlers) ProcessTask(ctx context.Context, task *asynq.Task) error {
	handler, ok := h[task.Type()]
	if !ok {
		return fmt.Errorf("tasks: %q: %w", task.Type(), asynq.ErrHandlerNotFound)
	}
	return handler.ProcessTask(ctx, task)
}

// retryDelay asks the task's own RetryDelay before the worker's.
func retryDelay(table Table, fallback asynq.RetryDelayFunc) asynq.RetryDelayFunc {
	if fallback == nil {
		fallback = asynq.DefaultRetryDelayFunc
	}
	own := make(map[string]func(int, error) time.Duration)
	for _, row := range table {
		if row.settings.retryDelay != nil {
			own[row.settings.name] = row.settings.retryDelay
		}
	}
	return func(n int, err error, task *asynq.Task) time.Duration {
		if f := own[task.Type()]; f != nil {
			return f(n, err)
		}
		return fallback(n, err, task)
	}
}
