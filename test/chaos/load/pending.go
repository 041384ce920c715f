package main

import (
	"context"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
)

const payloadSize = 100

// pending enqueues 2,000,000 tasks before processing starts, and compares the speed with that of a
// short queue: it must not depend on the number of pending tasks.
func pending(r *run) error {
	n := r.n(2_000_000, 4000)
	part := max(n/20, 1000)
	short, err := r.drain("short", min(n, 30_000), min(part, 10_000))
	if err != nil {
		return err
	}
	long, err := r.drain("long", n, part)
	if err != nil {
		return err
	}
	r.note("Redis CPU a task with all pending, of that with few", 100*long/short, "%")
	r.check(!r.full() || long < 2*short, "with %d pending a task costs %.1f µs of Redis, with few %.1f", n, long, short)
	return nil
}

// full reports whether the scenario is large and long enough for its speed to be meaningful.
func (r *run) full() bool { return r.scale >= 0.5 }

// drain fills a queue and drains it, and returns the Redis CPU per task of the first part in
// microseconds, which other load on the machine affects little. First, a server takes some tasks
// one by one, which must be in order.
func (r *run) drain(queue string, n, part int) (cost float64, err error) {
	r.bear(queue + " before")
	rate := func(measure string, first, last int) error {
		start, cpu := time.Now(), r.redis.cpu(r.ctx)
		if err := r.produce(first, last, func(i int) *asynq.Task { return task(i, payloadSize, asynq.Queue(queue)) }); err != nil {
			return err
		}
		r.note(queue+": enqueued, "+measure, float64(last-first)/time.Since(start).Seconds(), "tasks/s")
		r.note(queue+": Redis CPU, "+measure+" enqueued", (r.redis.cpu(r.ctx)-cpu)/float64(last-first)*1e6, "µs/task")
		return nil
	}
	for _, step := range []struct {
		measure     string
		first, last int
	}{{"first", 0, part}, {"then", part, n - part}, {"last", n - part, n}} {
		if step.first < step.last {
			if err := rate(step.measure, step.first, step.last); err != nil {
				return 0, err
			}
		}
	}
	r.memory(queue)
	r.bear(queue + " enqueued")
	r.sound()
	info, err := r.inspector.GetQueueInfo(queue)
	if err != nil {
		return 0, err
	}
	r.check(info.Pending == n && info.Size == n, "%s: %d of %d tasks are pending", queue, info.Pending, n)

	counts, ordered := newTally(n, 100), 0
	one, err := r.server(asynq.Config{Concurrency: 1, Queues: map[string]int{queue: 1}}, func(_ context.Context, t *asynq.Task) error {
		if i := numberOf(t); counts.add(i) == int64(i+1) {
			ordered++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if _, err := counts.wait(r.ctx, 0); err != nil {
		return 0, err
	}
	r.shutdown(one)
	begun := counts.total.Load()
	r.check(ordered == int(begun), "%s: at Concurrency 1, %d of %d tasks came in their order", queue, ordered, begun)

	counts.marks = append([]mark{{count: begun + int64(part), hit: make(chan struct{})}, {count: int64(n - part), hit: make(chan struct{})}},
		counts.marks[len(counts.marks)-1])
	start, cpu := time.Now(), r.redis.cpu(r.ctx)
	many, err := r.server(asynq.Config{Concurrency: 100, Queues: map[string]int{queue: 1}}, func(_ context.Context, t *asynq.Task) error {
		counts.add(numberOf(t))
		return nil
	})
	if err != nil {
		return 0, err
	}
	first, err := counts.wait(r.ctx, 0)
	if err != nil {
		return 0, err
	}
	cost = (r.redis.cpu(r.ctx) - cpu) / float64(part) * 1e6
	r.note(queue+": processed, first", float64(part)/first.Sub(start).Seconds(), "tasks/s", fmt.Sprintf("with %d pending", n))
	r.note(queue+": Redis CPU, first", cost, "µs/task")
	if _, err := counts.wait(r.ctx, 1); err != nil {
		return 0, err
	}
	cpu = r.redis.cpu(r.ctx)
	end, err := counts.all(r.ctx)
	if err != nil {
		return 0, err
	}
	if late := counts.marks[1].at; !late.IsZero() {
		r.note(queue+": processed, last", float64(part)/end.Sub(late).Seconds(), "tasks/s")
		r.note(queue+": Redis CPU, last", (r.redis.cpu(r.ctx)-cpu)/float64(part)*1e6, "µs/task")
	}
	r.shutdown(many)
	r.bear(queue + " processed")
	r.exactlyOnce(counts)
	r.settled(queue, n)
	r.sound()
	return cost, nil
}
