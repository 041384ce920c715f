package hosted

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq"
)

// Settings configures how a Host processes tasks.
type Settings struct {
	// Concurrency is the maximum number of tasks that run at the same time.
	Concurrency int

	// Weights and Limits of the queues, as asynq.Config.Queues and QueueConfigs. Without queues,
	// the host is idle.
	Weights map[string]int
	Limits  map[string]asynq.QueueConfig

	// AttemptLog is the number of failed attempts to keep with a task, as asynq.Config.AttemptLog.
	AttemptLog int

	// Grace is how long a handler may keep running after its task is stopped.
	Grace time.Duration
}

func (s *Settings) equal(o *Settings) bool {
	return s.Concurrency == o.Concurrency && maps.Equal(s.Weights, o.Weights) && maps.Equal(s.Limits, o.Limits) &&
		s.AttemptLog == o.AttemptLog && s.Grace == o.Grace
}

// Grace returns the longest grace period of the commands, plus five seconds.
func (c *Config) Grace() time.Duration {
	longest := time.Duration(0)
	for _, cmd := range c.Commands {
		longest = max(longest, or(cmd.Grace, defaultGrace))
	}
	return longest + 5*time.Second
}

// Host runs a server that processes tasks with a Set. It is safe for concurrent use.
type Host struct {
	opt asynq.RedisConnOpt
	log *slog.Logger

	mu       sync.Mutex
	closed   bool
	settings Settings
	current  *instance      // nil if nothing is hosted
	replaced sync.WaitGroup // replaced servers that still have active tasks
	active   sync.WaitGroup // active handlers
	stopping context.Context
	stop     context.CancelFunc
}

// instance is a server with its handlers. Tasks that a replaced server fetched run with its own
// set, because the next set may not have their types.
type instance struct {
	server *asynq.Server
	set    atomic.Pointer[Set]
}

// NewHost returns a host that is idle until Apply.
func NewHost(opt asynq.RedisConnOpt, log *slog.Logger) *Host {
	h := &Host{opt: opt, log: log}
	h.stopping, h.stop = context.WithCancel(context.Background())
	return h
}

// Apply replaces the configuration. Active tasks finish with the configuration that they started
// with; none is stopped or lost. The host closes the set, also if Apply returns an error.
func (h *Host) Apply(set *Set, s Settings) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		set.Close()
		return errors.New("the host is shut down")
	}
	if h.current != nil && h.settings.equal(&s) {
		h.current.set.Swap(set).Close()
		return nil
	}
	var next *instance
	if len(s.Weights) > 0 {
		next = &instance{server: asynq.NewServer(h.opt, asynq.Config{
			Concurrency: s.Concurrency, Queues: s.Weights, QueueConfigs: s.Limits, StuckGracePeriod: s.Grace, AttemptLog: s.AttemptLog,
			Logger: asynq.NewSlogLogger(h.log), LogLevel: asynq.InfoLevel,
		})}
		next.set.Store(set)
		if err := next.server.Start(h.handler(next)); err != nil {
			set.Close()
			return err
		}
	} else {
		set.Close()
	}
	if before := h.current; before != nil {
		before.server.Stop()
		h.replaced.Go(func() {
			if err := before.server.ShutdownContext(h.stopping); err != nil {
				h.log.Warn("hosted tasks of the previous configuration: shutdown incomplete", "error", err)
			}
			before.set.Load().Close()
		})
	}
	h.current, h.settings = next, s
	return nil
}

func (h *Host) handler(by *instance) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		h.active.Add(1)
		defer h.active.Done()
		return by.set.Load().ProcessTask(ctx, t)
	})
}

// Shutdown stops fetching tasks and waits for active ones until ctx is done. Tasks that are still
// active then are stopped and return to the front of their queues.
func (h *Host) Shutdown(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	stop := context.AfterFunc(ctx, h.stop)
	defer stop()
	var err error
	if h.current != nil {
		err = h.current.server.ShutdownContext(ctx)
	}
	h.replaced.Wait()
	// Stopped handlers get the grace period: a command must not outlive the service.
	ended := make(chan struct{})
	go func() {
		h.active.Wait()
		close(ended)
	}()
	late := time.NewTimer(h.settings.Grace)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		err = errors.Join(err, errors.New("hosted tasks keep running after they were stopped"))
	}
	h.stop()
	if h.current != nil {
		h.current.set.Load().Close()
	}
	return err
}
