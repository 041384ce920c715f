package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq"
)

// active keeps 100,000 tasks active for longer than two leases: no lease may be lost, and each
// server must keep reporting its workers.
func active(r *run) error {
	const hosts = 4
	each := r.n(100_000/hosts, 100)
	n := hosts * each
	lease := r.duration(15*time.Second, time.Second)
	if err := r.produce(0, n, func(i int) *asynq.Task { return task(i, payloadSize) }); err != nil {
		return err
	}
	before, _ := settledHeap()
	r.bear("before")

	counts, begun, release := newTally(n), newTally(n), make(chan struct{})
	var lost atomic.Int64
	var all []*asynq.Server
	start := time.Now()
	for range hosts {
		s, err := r.server(asynq.Config{Concurrency: each, LeaseDuration: lease, ShutdownTimeout: time.Minute},
			func(ctx context.Context, t *asynq.Task) error {
				begun.add(numberOf(t))
				select {
				case <-release:
				case <-ctx.Done():
					lost.Add(1)
					return context.Cause(ctx)
				}
				counts.add(numberOf(t))
				return nil
			})
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	end, err := begun.all(r.ctx)
	if err != nil {
		return err
	}
	r.note("begun", float64(n)/end.Sub(start).Seconds(), "tasks/s")
	r.bear("begun")
	heap, goroutines := settledHeap()
	r.note("heap per active task", (heap-before)/float64(n), "bytes")
	r.note("goroutines per active task", goroutines/float64(n), "")
	r.memory("all active")

	cpu, since := r.redis.cpu(r.ctx), time.Now()
	r.hold(2*lease+lease/3, each, hosts)
	r.note("Redis while all are held", 100*(r.redis.cpu(r.ctx)-cpu)/time.Since(since).Seconds(), "% of a CPU", "leases extended every ", lease/6)
	r.check(lost.Load() == 0, "%d leases were lost", lost.Load())
	r.bear("held")
	if info, err := r.inspector.GetQueueInfo("default"); err != nil || info.Active != n || info.Pending+info.Retry != 0 {
		r.check(false, "of %d tasks that run: %+v, %v", n, info, err)
	}
	r.sound()

	start = time.Now()
	close(release)
	if _, err = counts.all(r.ctx); err != nil {
		return err
	}
	r.settled("default", n)
	r.note("ended and settled", float64(n)/time.Since(start).Seconds(), "tasks/s")
	r.shutdown(all...)
	r.bear("ended")
	r.exactlyOnce(begun)
	r.exactlyOnce(counts)
	r.sound()
	return nil
}

// hold waits and checks every second that all servers report all of their workers.
func (r *run) hold(d time.Duration, each, hosts int) {
	end := time.NewTimer(d)
	defer end.Stop()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	longest, first := time.Duration(0), true
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-end.C:
			r.note("longest call of Inspector.Servers", longest.Seconds()*1000, "ms")
			if first || r.small() {
				return // heartbeats take up to 5 s
			}
			servers, err := r.inspector.Servers()
			r.check(err == nil && len(servers) == hosts, "%d servers are there, want %d, error %v", len(servers), hosts, err)
			for _, s := range servers {
				r.check(len(s.ActiveWorkers) == each, "a server reports %d workers, want %d", len(s.ActiveWorkers), each)
			}
			return
		case <-look.C:
			start := time.Now()
			servers, err := r.inspector.Servers()
			longest = max(longest, time.Since(start))
			r.check(err == nil && len(servers) == hosts, "%d servers are there, want %d, error %v", len(servers), hosts, err)
			first = false
		}
	}
}
