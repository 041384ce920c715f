package main

import (
	"context"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
)

// grow fills a queue without workers by single calls from many goroutines; then a worker drains it.
func grow(r *run) error {
	const producers, steps = 16, 5
	n := r.n(300_000, 2000) / (producers * steps) * producers * steps
	r.bear("before")
	for step := range steps {
		var over sync.WaitGroup
		errs := make([]error, producers)
		first := step * n / steps
		start := time.Now()
		for p := range producers {
			over.Go(func() {
				for i := p; i < n/steps && errs[p] == nil; i += producers {
					_, errs[p] = r.client.EnqueueContext(r.ctx, task(first+i, payloadSize))
				}
			})
		}
		over.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		r.note("enqueued by 16 goroutines", float64(n/steps)/time.Since(start).Seconds(), "tasks/s")
		info, err := r.inspector.GetQueueInfo("default")
		r.check(err == nil && info.Pending == (step+1)*n/steps, "step %d: %+v, %v", step, info, err)
	}
	r.memory("grown")
	r.bear("grown")

	counts := newTally(n)
	start := time.Now()
	s, err := r.server(asynq.Config{Concurrency: 50}, func(_ context.Context, t *asynq.Task) error {
		counts.add(numberOf(t))
		return nil
	})
	if err != nil {
		return err
	}
	end, err := counts.all(r.ctx)
	if err != nil {
		return err
	}
	r.note("processed", float64(n)/end.Sub(start).Seconds(), "tasks/s")
	r.shutdown(s)
	r.bear("processed")
	r.memory("processed")
	r.exactlyOnce(counts)
	r.settled("default", n)
	r.sound()
	return nil
}
