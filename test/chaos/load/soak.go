package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq"
)

const (
	soakRate    = 2000 // tasks per second
	soakWorkers = 50
	soakSamples = 60      // in total
	soakHeap    = 4 << 20 // permitted growth of the heap in bytes
	soakRoutine = 100     // permitted growth of goroutines: connections and delayed writes vary on a busy machine
	soakPulse   = 25 * time.Millisecond
)

var errSoak = errors.New("planned failure")

// soak runs a steady load of all kinds of tasks and detects growth of memory and goroutines.
func soak(r *run) error { return r.soakWith(func() {}) }

// soakWith calls leak for each attempt, which tests use to cause a leak.
func (r *run) soakWith(leak func()) error {
	var failed, members, grouped atomic.Int64
	counts := newTally(int(r.soak.Seconds()*soakRate) + 2*batch)
	warm, warmed := make(chan struct{}), atomic.Int64{}
	cfg := asynq.Config{
		Concurrency: soakWorkers, Queues: map[string]int{"default": 3, "other": 1}, JanitorInterval: time.Second,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return time.Millisecond },
		DelayedTaskCheckInterval: time.Second, GroupGracePeriod: time.Second, GroupMaxSize: 50,
		GroupAggregator: asynq.GroupAggregatorFunc(func(_ string, tasks []*asynq.Task) *asynq.Task {
			return asynq.NewTask("sum", make([]byte, len(tasks)))
		}),
	}
	s, err := r.server(cfg, func(ctx context.Context, t *asynq.Task) error {
		switch t.Type() {
		case "warm": // starts all workers, so that they do not look like a leak
			if warmed.Add(1) == soakWorkers {
				close(warm)
			}
			<-warm
			return nil
		case "sum":
			members.Add(int64(len(t.Payload())))
			return nil
		}
		leak()
		if n, _ := asynq.GetRetryCount(ctx); n == 0 && numberOf(t)%50 == 7 {
			failed.Add(1)
			return errSoak
		}
		counts.add(numberOf(t))
		return nil
	})
	if err != nil {
		return err
	}
	for range soakWorkers {
		if _, err := r.client.EnqueueContext(r.ctx, asynq.NewTask("warm", nil)); err != nil {
			return err
		}
	}
	<-warm
	var heap, goroutines []sample
	start := time.Now()
	sampleEvery := max(r.soak/soakSamples, 20*time.Millisecond)
	next := start.Add(sampleEvery)
	pulse := time.NewTicker(soakPulse)
	defer pulse.Stop()
	made := 0
	for time.Since(start) < r.soak {
		select {
		case <-r.ctx.Done():
			return r.ctx.Err()
		case <-pulse.C:
		}
		many := int(time.Since(start).Seconds()*soakRate) - made
		many = min(many, batch)
		if err := r.produce(made, made+many, soakTask); err != nil {
			return err
		}
		for i := made; i < made+many; i++ {
			if i%10 == groupKind {
				grouped.Add(1)
			}
		}
		made += many
		if now := time.Now(); now.After(next) {
			next = now.Add(sampleEvery)
			bytes, routines := settledHeap()
			at := now.Sub(start).Seconds()
			heap, goroutines = append(heap, sample{at, bytes}), append(goroutines, sample{at, routines})
		}
	}
	r.note("time", time.Since(start).Seconds(), "s")
	r.note("processed", float64(counts.total.Load()+members.Load())/time.Since(start).Seconds(), "tasks/s", fmt.Sprint(failed.Load(), " failed attempts among them"))
	for _, g := range []struct {
		name    string
		samples []sample
		allowed float64
		unit    string
	}{{"heap", heap, soakHeap, "bytes"}, {"goroutines", goroutines, soakRoutine, ""}} {
		growth, err := grows(g.name, g.samples, g.allowed)
		r.note(g.name+" grown, by the trend", growth, g.unit, fmt.Sprintf("%d samples, from %s to %s", len(g.samples),
			number(g.samples[len(g.samples)/4].value), number(g.samples[len(g.samples)-1].value)))
		if err != nil {
			r.failed = append(r.failed, err)
		}
	}
	r.memory("end")
	r.bear("whole")
	if len(r.failed) > 0 {
		s.Shutdown()
		return nil // a leak was found: do not wait for all tasks
	}

	err = poll(r.ctx, time.Minute, func() (bool, error) { // until all tasks have ended: groups wait for their grace period
		left := 0
		for _, queue := range []string{"default", "other"} {
			info, err := r.inspector.GetQueueInfo(queue)
			if errors.Is(err, asynq.ErrQueueNotFound) {
				continue
			}
			if err != nil {
				return false, err
			}
			left += info.Size - info.Completed
		}
		return left == 0, nil
	})
	r.check(err == nil, "tasks are left: %v", err)
	r.shutdown(s)
	r.check(members.Load() == grouped.Load(), "of %d tasks in groups, %d were aggregated", grouped.Load(), members.Load())
	wrong := 0
	for i := range made {
		want := int32(1)
		if i%10 == groupKind {
			want = 0
		}
		if counts.runs[i].Load() != want {
			wrong++
		}
	}
	r.check(wrong == 0, "%d of %d tasks did not succeed once", wrong, made)
	r.sound()
	return nil
}

// groupKind is the one of ten tasks that is grouped.
const groupKind = 4

// soakTask returns tasks of all kinds.
func soakTask(i int) *asynq.Task {
	switch i % 10 {
	case 1:
		return task(i, payloadSize, asynq.Queue("other"), asynq.Retention(2*time.Second))
	case 2:
		return task(i, payloadSize, asynq.ProcessIn(time.Second))
	case 3:
		return task(i, payloadSize, asynq.Unique(time.Minute))
	case groupKind:
		return task(i, payloadSize, asynq.Group(fmt.Sprint("g", i%7)))
	case 5:
		return task(i, 4000)
	}
	return task(i, payloadSize)
}
