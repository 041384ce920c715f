package service

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
)

// maintainer makes the receiver maintain all queues that may have tasks: those of the
// configuration, those that clients enqueue to, and those in Redis, where other instances, or this
// one before a restart, have left leases and delayed tasks. It ignores queues that clients only
// wait for: a queue exists from its first task on.
type maintainer struct {
	service *Service
	wake    chan struct{}
	cancel  context.CancelFunc
	done    chan struct{}

	mu      sync.RWMutex
	found   map[string]bool // queues that are in Redis or were touched
	touched map[string]bool // queues that were touched since the last search

	applying sync.Mutex
	weights  map[string]int // last values applied
	limits   map[string]asynq.QueueConfig
}

// searchInterval is how often Redis is searched for queues.
const searchInterval = 10 * time.Second

// maxTouched limits the queues that are touched between two searches: clients may name any number
// of queues that do not exist.
const maxTouched = 10_000

func newMaintainer(s *Service) *maintainer {
	return &maintainer{service: s, wake: make(chan struct{}, 1), found: make(map[string]bool), touched: make(map[string]bool)}
}

func (m *maintainer) start() {
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel, m.done = cancel, make(chan struct{})
	go m.run(ctx)
}

func (m *maintainer) stop() {
	if m.cancel != nil {
		m.cancel()
		<-m.done
	}
}

// touch adds a queue that has received or delivered a task.
func (m *maintainer) touch(queue string) {
	m.mu.RLock()
	known := m.found[queue]
	m.mu.RUnlock()
	if known {
		return
	}
	m.mu.Lock()
	if len(m.touched) >= maxTouched {
		m.mu.Unlock()
		return // the next search finds the queue if it is in Redis
	}
	m.found[queue], m.touched[queue] = true, true
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

func (m *maintainer) run(ctx context.Context) {
	defer close(m.done)
	tick := time.NewTicker(searchInterval)
	defer tick.Stop()
	m.search(ctx)
	for {
		if err := m.apply(); err != nil {
			m.service.log.Error("cannot update the maintained queues", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.search(ctx)
		case <-m.wake:
		}
	}
}

// search reads the names of all queues from Redis.
func (m *maintainer) search(ctx context.Context) {
	queues, err := m.service.inspector.WithContext(ctx).Queues()
	if err != nil {
		if ctx.Err() == nil {
			m.service.log.Warn("cannot list queues", "error", err)
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.found = m.touched // drops deleted queues, so that they are not recreated
	m.touched = make(map[string]bool)
	for _, q := range queues {
		m.found[q] = true
	}
}

// apply updates the receiver if the queues have changed.
func (m *maintainer) apply() error {
	m.applying.Lock()
	defer m.applying.Unlock()
	cfg := &m.service.settings.Load().cfg
	m.mu.RLock()
	found := m.found
	if cfg.OnlyQueues {
		found = nil
	}
	weights, limits := queueSettings(cfg, found)
	m.mu.RUnlock()
	if maps.Equal(weights, m.weights) && maps.Equal(limits, m.limits) {
		return nil
	}
	if err := m.service.receiver.SetQueues(weights, limits); err != nil {
		return err
	}
	m.weights, m.limits = maps.Clone(weights), limits
	return nil
}

// queueSettings returns the weights and limits for the receiver.
func queueSettings(cfg *Config, found map[string]bool) (weights map[string]int, limits map[string]asynq.QueueConfig) {
	weights, limits = make(map[string]int), make(map[string]asynq.QueueConfig)
	for q := range found {
		weights[q] = 1
		if cfg.Archive != (asynq.ArchiveConfig{}) {
			limits[q] = asynq.QueueConfig{Archive: cfg.Archive}
		}
	}
	for q, rule := range cfg.Queues {
		weights[q] = max(rule.Weight, 1)
		limits[q] = rule.Limits(cfg.Archive)
	}
	return weights, limits
}
