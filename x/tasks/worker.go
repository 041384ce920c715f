package tasks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
)

// Worker processes the tasks of a Table. See Start.
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

// Use wraps all handlers in middleware, the first one outermost.
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

// Concurrency sets the maximum number of tasks that the worker processes at the same time. The
// default is the number of CPUs, which is low for handlers that mostly wait.
func Concurrency(n int) StartOption { return func(s *start) { s.cfg.Concurrency = n } }

// Configure changes the configuration of the asynq.Server, such as Logger, LeaseDuration and
// ErrorHandler. The Table replaces Queues, QueueConcurrency and the limits in QueueConfigs.
func Configure(change func(*asynq.Config)) StartOption { return func(s *start) { change(&s.cfg) } }

// Start starts a worker for the tasks of the table and returns immediately. When ctx is done, the
// worker shuts down as with Shutdown. Handler contexts inherit the values of ctx but not its
// cancellation. Start returns ErrDefinition if the table is invalid, and panics if r is not
// supported.
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

// Shutdown stops the worker. It waits for active tasks up to Config.ShutdownTimeout; the remaining
// ones return to the front of their queues. It is safe to call concurrently and more than once.
func (w *Worker) Shutdown() {
	w.once.Do(func() {
		w.server.Shutdown()
		close(w.done)
	})
	<-w.done
}

// Done returns a channel that is closed when the worker has stopped.
func (w *Worker) Done() <-chan struct{} { return w.done }

// Wait waits until the worker has stopped.
func (w *Worker) Wait() { <-w.done }

// handlers selects the handler of a task by its name.
type handlers map[string]asynq.Handler

// ProcessTask processes a task. A task that is not in the table fails and is retried, possibly by
// another worker that has it.
func (h handlers) ProcessTask(ctx context.Context, task *asynq.Task) error {
	handler, ok := h[task.Type()]
	if !ok {
		return fmt.Errorf("tasks: %q: %w", task.Type(), asynq.ErrHandlerNotFound)
	}
	return handler.ProcessTask(ctx, task)
}

// Patterns returns the names of the tasks, which the server publishes: see asynq.ServerInfo. As
// patterns they also match longer types, so a missing task may remain unnoticed.
func (h handlers) Patterns() []string { return slices.Sorted(maps.Keys(h)) }

// retryDelay uses the RetryDelay of the task, or else that of the worker.
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
