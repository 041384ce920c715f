package main

import (
	"context"
	"maps"
	"slices"
	"time"
)

// drain is a workload that processes tasks which are there before.
type drain struct {
	concurrency int
	servers     int            // 0: one
	queues      map[string]int // nil: the default one
	behind      int            // tasks that are still pending when the last measured one is done
	size        int            // bytes of payload
	takes       time.Duration  // that a handler takes
	result      []byte         // that a handler writes
	retention   time.Duration
	unique      time.Duration
	failFirst   bool
	retryDelay  time.Duration
}

func (w drain) run(l *lane) (*figures, error) {
	queues := slices.Sorted(maps.Keys(w.queues))
	shared := payload(w.size, 0)
	err := l.seed(l.n+l.most(w.behind), func(i int) *job {
		j := &job{payload: shared, retention: w.retention, unique: w.unique}
		if w.unique > 0 {
			j.payload = payload(w.size, i)
		}
		if len(queues) > 0 {
			j.queue = queues[i%len(queues)]
		}
		return j
	})
	if err != nil {
		return nil, err
	}
	m := l.meter()
	if err := m.start(l.ctx); err != nil {
		return nil, err
	}
	expected := newCountdown(l.n)
	for range l.most(max(w.servers, 1)) {
		if err := l.serve(w.config(l.ctx, expected)); err != nil {
			return nil, err
		}
	}
	if err := expected.wait(l.ctx); err != nil {
		return nil, err
	}
	m.stop()
	attempts := l.n
	if w.failFirst {
		attempts *= 2
	}
	if err := l.settled(attempts, queues...); err != nil {
		return nil, err
	}
	return m.end(l.ctx, l.n)
}

func (w drain) config(ctx context.Context, expected *countdown) serverConfig {
	cfg := serverConfig{concurrency: w.concurrency, queues: w.queues, failFirst: w.failFirst}
	if w.failFirst {
		cfg.retryDelay = &w.retryDelay
		cfg.delayedCheck = time.Second
	}
	cfg.handle = func(a attempt) error {
		if w.takes > 0 {
			time.Sleep(w.takes)
		}
		if w.result != nil {
			if _, err := a.result.Write(w.result); err != nil {
				return err
			}
		}
		if !expected.hit() {
			<-ctx.Done() // what is not measured must not go on while the meter is read
		}
		return nil
	}
	return cfg
}

// flow is a workload that enqueues and processes at once.
type flow struct {
	produce

	concurrency int
}

func (w flow) run(l *lane) (*figures, error) {
	jobs := w.jobs(l.n)
	p := l.producer()
	expected := newCountdown(l.n)
	cfg := serverConfig{concurrency: w.concurrency, handle: func(attempt) error {
		expected.hit()
		return nil
	}}
	if err := l.serve(cfg); err != nil {
		return nil, err
	}
	m := l.meter()
	if err := m.start(l.ctx); err != nil {
		return nil, err
	}
	if err := w.send(l, p, jobs); err != nil {
		return nil, err
	}
	if err := expected.wait(l.ctx); err != nil {
		return nil, err
	}
	m.stop()
	if err := l.settled(l.n); err != nil {
		return nil, err
	}
	return m.end(l.ctx, l.n)
}
