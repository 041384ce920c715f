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
	set atomic.Pointer[Set]

	mu       sync.Mutex
	closed   bool
	settings Settings
	server   *asynq.Server  // nil: nothing is hosted
	former   sync.WaitGroup // servers whose last tasks are at work
	working  sync.WaitGroup // handlers
	patience context.Context
	hurry    context.CancelFunc
}

// NewHost makes a host that takes nothing before Apply.
func NewHost(opt asynq.RedisConnOpt, log *slog.Logger) *Host {
	h := &Host{opt: opt, log: log}
	h.patience, h.hurry = context.WithCancel(context.Background())
	return h
}

// Apply lets the host go by another configuration. Tasks at work end by the one that they began with; not one is stopped or lost.
func (h *Host) Apply(set *Set, s Settings) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errors.New("the host was shut down")
	}
	if h.server != nil && h.settings.equal(&s) {
		h.replace(set)
		return nil
	}
	var next *asynq.Server
	if len(s.Weights) > 0 {
		next = asynq.NewServer(h.opt, asynq.Config{
			Concurrency: s.Concurrency, Queues: s.Weights, QueueConcurrency: s.Limits, StuckGracePeriod: s.Grace,
			Logger: asynq.NewSlogLogger(h.log), LogLevel: asynq.InfoLevel,
		})
	}
	h.replace(set) // before the first task of the new server
	if next != nil {
		if err := next.Start(asynq.HandlerFunc(h.process)); err != nil {
			return err
		}
	}
	if before := h.server; before != nil {
		before.Stop()
		h.former.Go(func() {
			if err := before.ShutdownContext(h.patience); err != nil {
				h.log.Warn("hosted tasks of the former configuration did not end in order", "error", err)
			}
		})
	}
	h.server, h.settings = next, s
	return nil
}

func (h *Host) replace(set *Set) {
	if before := h.set.Swap(set); before != nil {
		before.Close()
	}
}

func (h *Host) process(ctx context.Context, t *asynq.Task) error {
	h.working.Add(1)
	defer h.working.Done()
	return h.set.Load().ProcessTask(ctx, t)
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
	if h.server != nil {
		err = h.server.ShutdownContext(ctx)
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
	if set := h.set.Load(); set != nil {
		set.Close()
	}
	return err
}
