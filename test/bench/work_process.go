package main

import (
	"context"
	"maps"
	"slices"
	"time"
)

// drain is a workload that processes existing tasks.
type drain struct {
	concurrency int
	servers     int            // 0 means one
	queues      map[string]int // nil means the default queue
	behind      int            // tasks that remain pending after the measured ones
	size        int            // bytes of payload
	takes       time.Duration  // duration of a handler
	result      []byte         // result of a handler
	retention   time.Duration
	unique      time.Duration
	failFirst   bool
	retryDelay  time.Duration
	queueLimit  int // 0 means none
	keys        int // partitions of the tasks; 0 means none
	partitions  *partitions
}

func (w drain) run(l *lane) (*figures, error) {
	queues := slices.Sorted(maps.Keys(w.queues))
	shared := payload(w.size, 0)
	err := l.seed(l.Tasks+l.most(w.behind), func(i int) *job {
		j := &job{payload: shared, retention: w.retention, unique: w.unique, key: partitionKey(i, w.keys)}
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
	attempts := l.Tasks
	if w.failFirst {
		attempts *= 2
	}
	return l.measure(func() (tally, error) {
		expected := newCountdown(l.Tasks)
		for range l.most(max(w.servers, 1)) {
			if err := l.serve(w.config(l.ctx, expected)); err != nil {
				return tally{}, err
			}
		}
		return tally{tasks: l.Tasks, attempts: attempts, queues: queues}, expected.wait(l.ctx)
	})
}

func (w drain) config(ctx context.Context, expected *countdown) serverConfig {
	cfg := serverConfig{concurrency: w.concurrency, queues: w.queues, failFirst: w.failFirst, queueLimit: w.queueLimit, partitions: w.partitions}
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
			<-ctx.Done() // other tasks must not run while the meter is read
		}
		return nil
	}
	return cfg
}

// flow is a workload that enqueues and processes concurrently.
type flow struct {
	produce

	concurrency int
	queueLimit  int // 0 means none
	partitions  *partitions
}

func (w flow) run(l *lane) (*figures, error) {
	jobs := w.jobs(l.Tasks)
	p := l.producer()
	expected := newCountdown(l.Tasks)
	cfg := serverConfig{concurrency: w.concurrency, queueLimit: w.queueLimit, partitions: w.partitions, handle: func(attempt) error {
		expected.hit()
		return nil
	}}
	if err := l.serve(cfg); err != nil {
		return nil, err
	}
	return l.measure(func() (tally, error) {
		if err := w.send(l, p, jobs); err != nil {
			return tally{}, err
		}
		return tally{tasks: l.Tasks, attempts: l.Tasks}, expected.wait(l.ctx)
	})
}
