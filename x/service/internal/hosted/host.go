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

// Settings are how a Host takes tasks.
type Settings struct {
	// Concurrency is how many tasks run at the same time.
	Concurrency int

	// Weights and Limits of the queues, as asynq.Config.Queues and QueueConcurrency. Without queues, nothing is taken.
	Weights, Limits map[string]int

	// Grace is how long a handler may take to end when its task is stopped.
	Grace time.Duration
}

func (s *Settings) equal(o *Settings) bool {
	return s.Concurrency == o.Concurrency && maps.Equal(s.Weights, o.Weights) && maps.Equal(s.Limits, o.Limits) && s.Grace == o.Grace
}

// Grace is the longest time that a command of the configuration has after SIGTERM, and a little more.
func (c *Config) Grace() time.Duration {
	longest := time.Duration(0)
	for _, cmd := range c.Commands {
		longest = max(longest, or(cmd.Grace, defaultGrace))
	}
	return longest + 5*time.Second
}

// Host takes tasks and has a Set carry them out. It is safe for concurrent use.
type Host struct {
	opt asynq.RedisConnOpt
	log *slog.Logger

	mu       sync.Mutex
	closed   bool
	settings Settings
	staff    *staff         // nil: nothing is hosted
	former   sync.WaitGroup // servers whose last tasks are at work
	working  sync.WaitGroup // handlers
	patience context.Context
	hurry    context.CancelFunc
}

// staff is a server and what it carries out. What a former one takes while the next one starts, it does by its own set: the next one's
// may not have the type any more.
type staff struct {
	server *asynq.Server
	set    atomic.Pointer[Set]
}

// NewHost makes a host that takes nothing before Apply.
func NewHost(opt asynq.RedisConnOpt, log *slog.Logger) *Host {
	h := &Host{opt: opt, log: log}
	h.patience, h.hurry = context.WithCancel(context.Background())
	return h
}

// Apply lets the host go by another configuration. Tasks at work end by the one that they began with; not one is stopped or lost. The
// host closes the set, also where there is an error.
func (h *Host) Apply(set *Set, s Settings) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		set.Close()
		return errors.New("the host was shut down")
	}
	if h.staff != nil && h.settings.equal(&s) {
		h.staff.set.Swap(set).Close()
		return nil
	}
	var next *staff
	if len(s.Weights) > 0 {
		next = &staff{server: asynq.NewServer(h.opt, asynq.Config{
			Concurrency: s.Concurrency, Queues: s.Weights, QueueConcurrency: s.Limits, StuckGracePeriod: s.Grace,
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
	if before := h.staff; before != nil {
		before.server.Stop()
		h.former.Go(func() {
			if err := before.server.ShutdownContext(h.patience); err != nil {
				h.log.Warn("hosted tasks of the former configuration did not end in order", "error", err)
			}
			before.set.Load().Close()
		})
	}
	h.staff, h.settings = next, s
	return nil
}

func (h *Host) handler(by *staff) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		h.working.Add(1)
		defer h.working.Done()
		return by.set.Load().ProcessTask(ctx, t)
	})
}

// Shutdown takes no more tasks, and waits for those at work until ctx ends. The rest is stopped, and goes back to the front of its queue.
func (h *Host) Shutdown(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	stop := context.AfterFunc(ctx, h.hurry)
	defer stop()
	var err error
	if h.staff != nil {
		err = h.staff.server.ShutdownContext(ctx)
	}
	h.former.Wait()
	// What is stopped has its grace: a command must not outlive the service.
	ended := make(chan struct{})
	go func() {
		h.working.Wait()
		close(ended)
	}()
	late := time.NewTimer(h.settings.Grace)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		err = errors.Join(err, errors.New("hosted tasks do not end"))
	}
	h.hurry()
	if h.staff != nil {
		h.staff.set.Load().Close()
	}
	return err
}
