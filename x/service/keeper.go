package service

import (
	"context"
	"maps"
	"sync"
	"time"
)

// keeper sees to it that the taker looks after all queues in which there may be tasks: those of the configuration, those that clients
// name, and those that are in Redis, where another instance, or this one before it was restarted, has left leases and delays.
type keeper struct {
	service *Service
	wake    chan struct{}
	cancel  context.CancelFunc
	done    chan struct{}

	mu      sync.RWMutex
	found   map[string]bool // queues that are in Redis, or were touched
	touched map[string]bool // those of them that were touched since the last search

	applying sync.Mutex
	weights  map[string]int // what the taker was told
	limits   map[string]int
}

// searchInterval is how often Redis is asked which queues there are.
const searchInterval = 10 * time.Second

// maxTouched is how many queues may be touched between two searches: clients can name any number of queues that there are none of.
const maxTouched = 10_000

func newKeeper(s *Service) *keeper {
	return &keeper{service: s, wake: make(chan struct{}, 1), found: make(map[string]bool), touched: make(map[string]bool)}
}

func (k *keeper) start() {
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel, k.done = cancel, make(chan struct{})
	go k.run(ctx)
}

func (k *keeper) stop() {
	if k.cancel != nil {
		k.cancel()
		<-k.done
	}
}

// touch tells of a queue that somebody uses.
func (k *keeper) touch(queue string) {
	k.mu.RLock()
	known := k.found[queue]
	k.mu.RUnlock()
	if known {
		return
	}
	k.mu.Lock()
	if len(k.touched) >= maxTouched {
		k.mu.Unlock()
		return // the next search finds it, if it is in Redis
	}
	k.found[queue], k.touched[queue] = true, true
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default: // it will see this one, too
	}
}

func (k *keeper) run(ctx context.Context) {
	defer close(k.done)
	tick := time.NewTicker(searchInterval)
	defer tick.Stop()
	k.search(ctx)
	for {
		if err := k.apply(); err != nil {
			k.service.log.Error("queues are not looked after", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.search(ctx)
		case <-k.wake:
		}
	}
}

// search looks for queues in Redis.
func (k *keeper) search(ctx context.Context) {
	queues, err := k.service.inspector.WithContext(ctx).Queues()
	if err != nil {
		if ctx.Err() == nil {
			k.service.log.Warn("cannot tell which queues there are", "error", err)
		}
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.found = k.touched // a queue that was deleted is forgotten, so that nothing brings it back
	k.touched = make(map[string]bool)
	for _, q := range queues {
		k.found[q] = true
	}
}

// apply tells the taker, if something is new.
func (k *keeper) apply() error {
	k.applying.Lock()
	defer k.applying.Unlock()
	cfg := &k.service.settings.Load().cfg
	k.mu.RLock()
	found := k.found
	if cfg.OnlyQueues {
		found = nil
	}
	weights, limits := queueSettings(cfg, found)
	k.mu.RUnlock()
	if maps.Equal(weights, k.weights) && maps.Equal(limits, k.limits) {
		return nil
	}
	if err := k.service.taker.SetQueues(weights, limits); err != nil {
		return err
	}
	k.weights, k.limits = maps.Clone(weights), limits
	return nil
}

// queueSettings are what the taker is told of queues.
func queueSettings(cfg *Config, found map[string]bool) (weights, limits map[string]int) {
	weights, limits = make(map[string]int), make(map[string]int)
	for q := range found {
		weights[q] = 1
	}
	for q, rule := range cfg.Queues {
		weights[q] = max(rule.Weight, 1)
		if limit := rule.Limit(); limit != 0 {
			limits[q] = limit
		}
	}
	return weights, limits
}
