package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq"
)

// tasksPerQueue is the number of pending tasks per queue.
const tasksPerQueue = 10

// queues processes 1,000 queues with one server, by weight and by strict priority.
func queues(r *run) error {
	n := r.n(1000, 20)
	if err := r.weighted(n); err != nil {
		return err
	}
	return r.strict(n)
}

// fill enqueues tasks to n queues, whose numbers identify the queue, and returns the names.
func (r *run) fill(prefix string, n int) ([]string, error) {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%04d", prefix, i)
	}
	start := time.Now()
	err := r.produce(0, n*tasksPerQueue, func(i int) *asynq.Task { // round robin
		return task(i%n*tasksPerQueue+i/n, payloadSize, asynq.Queue(names[i%n]))
	})
	r.note(prefix+": enqueued", float64(n*tasksPerQueue)/time.Since(start).Seconds(), "tasks/s")
	return names, err
}

// weighted checks that all queues are served, and heavy ones sooner.
func (r *run) weighted(n int) error {
	names, err := r.fill("weighted", n)
	if err != nil {
		return err
	}
	weights := make(map[string]int, n)
	for i, name := range names {
		weights[name] = 1 + 9*(i%2)
	}
	counts := newTally(n*tasksPerQueue, 1)
	var current atomic.Pointer[tally]
	current.Store(counts)
	var mu sync.Mutex
	var ranks [2]int64 // sums of light and heavy queues
	r.bear("weighted before")
	start := time.Now()
	s, err := r.server(asynq.Config{Concurrency: 50, Queues: weights}, func(_ context.Context, t *asynq.Task) error {
		i := numberOf(t)
		mu.Lock()
		defer mu.Unlock()
		rank := current.Load().add(i)
		ranks[i/tasksPerQueue%2] += rank
		return nil
	})
	if err != nil {
		return err
	}
	r.note("weighted: Start", float64(time.Since(start).Microseconds())/1000, "ms")
	first, err := counts.wait(r.ctx, 0)
	if err != nil {
		return err
	}
	r.note("weighted: until the first task runs", float64(first.Sub(start).Microseconds())/1000, "ms")
	end, err := counts.all(r.ctx)
	if err != nil {
		return err
	}
	r.note("weighted: processed", float64(n*tasksPerQueue)/end.Sub(start).Seconds(), "tasks/s")
	mu.Lock() // wait for the last handler
	light, heavy := ranks[0]/int64(n*5), ranks[1]/int64(n*5)
	mu.Unlock()
	r.check(heavy < light*9/10, "heavy queues were served at %d on an average, light ones at %d", heavy, light)
	r.bear("weighted processed")
	r.exactlyOnce(counts)
	for _, name := range names {
		r.settled(name, tasksPerQueue)
	}
	r.idle("weighted", 1)

	// A single task in one of many queues of an idle server.
	latency := time.Duration(0)
	for i := range 20 {
		late := newTally(1)
		current.Store(late)
		start := time.Now()
		if _, err := r.client.EnqueueContext(r.ctx, task(0, payloadSize), asynq.Queue(names[i*n/20])); err != nil {
			return err
		}
		end, err := late.all(r.ctx)
		if err != nil {
			return err
		}
		latency = max(latency, end.Sub(start))
	}
	r.note("weighted: from enqueue to handler when idle, longest of 20", float64(latency.Microseconds())/1000, "ms")
	r.shutdown(s)
	r.bear("weighted idle")
	listed, err := r.inspector.Queues()
	r.check(err == nil && len(listed) == n, "%d queues are listed, want %d, error %v", len(listed), n, err)
	r.sound()
	return nil
}

// strict checks that each queue is empty before the next one is served.
func (r *run) strict(n int) error {
	names, err := r.fill("strict", n)
	if err != nil {
		return err
	}
	priorities := make(map[string]int, n)
	for i, name := range names {
		priorities[name] = n - i
	}
	counts := newTally(n * tasksPerQueue)
	var order []int
	start := time.Now()
	s, err := r.server(asynq.Config{Concurrency: 1, Queues: priorities, StrictPriority: true}, func(_ context.Context, t *asynq.Task) error {
		order = append(order, numberOf(t))
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
	r.note("strict: processed", float64(n*tasksPerQueue)/end.Sub(start).Seconds(), "tasks/s")
	r.check(slices.IsSorted(order), "tasks of queues with strict priority came out of order")
	r.shutdown(s)
	r.bear("strict processed")
	r.exactlyOnce(counts)
	r.sound()
	return nil
}

// idle records the costs of idle servers.
func (r *run) idle(phase string, servers int) {
	d := r.duration(10*time.Second, 300*time.Millisecond)
	before, err := r.redis.info(r.ctx, "stats", "total_commands_processed")
	cpu := r.redis.cpu(r.ctx)
	pings := float64(d / pingEvery)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ctx.Done():
	}
	after, err2 := r.redis.info(r.ctx, "stats", "total_commands_processed")
	r.check(err == nil && err2 == nil, "%v, %v", err, err2)
	r.note(phase+": Redis commands of an idle server", max(after-before-pings, 0)/d.Seconds()/float64(servers), "/s", "also those inside of scripts")
	r.note(phase+": Redis while idle", 100*(r.redis.cpu(r.ctx)-cpu)/d.Seconds(), "% of a CPU", "200 PINGs/s of the meter among it")
}
