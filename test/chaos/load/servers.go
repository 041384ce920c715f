package main

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq"
)

// servers runs 200 servers on one queue in one process.
func servers(r *run) error {
	hosts, n := r.n(200, 20), r.n(200_000, 2000)
	before := runtime.NumGoroutine()
	heap, _ := settledHeap()
	counts := newTally(n)
	shares := make([]atomic.Int64, hosts)
	var all []*asynq.Server
	start := time.Now()
	for i := range hosts {
		s, err := r.server(asynq.Config{Concurrency: 10}, func(_ context.Context, t *asynq.Task) error {
			shares[i].Add(1)
			counts.add(numberOf(t))
			return nil
		})
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	r.note("Start of all", float64(time.Since(start).Microseconds())/1000, "ms")
	err := poll(r.ctx, 30*time.Second, func() (bool, error) {
		infos, err := r.inspector.Servers()
		return len(infos) == hosts, err
	})
	r.check(err == nil, "not all servers are listed: %v", err)
	r.bear("started")
	r.idle("at start", hosts)
	idleHeap, goroutines := settledHeap()
	r.note("heap of an idle server", (idleHeap-heap)/float64(hosts)/1000, "kB")
	r.note("goroutines of an idle server", (goroutines-float64(before))/float64(hosts), "")
	if clients, err := r.redis.info(r.ctx, "clients", "connected_clients"); err == nil {
		r.note("connections of an idle server", clients/float64(hosts), "")
	}

	start = time.Now()
	if err := r.produce(0, n, func(i int) *asynq.Task { return task(i, payloadSize) }); err != nil {
		return err
	}
	end, err := counts.all(r.ctx)
	if err != nil {
		return err
	}
	r.note("enqueued and processed", float64(n)/end.Sub(start).Seconds(), "tasks/s")
	used, most := 0, int64(0)
	for i := range shares {
		if share := shares[i].Load(); share > 0 {
			used++
			most = max(most, share)
		}
	}
	r.note("servers that processed any", float64(used), "")
	r.note("largest share of one", 100*float64(most)/float64(n), "%")
	r.bear("processed")
	r.exactlyOnce(counts)
	r.settled("default", n)
	r.idle("after the load", hosts)
	r.shutdown(all...)
	infos, err := r.inspector.Servers()
	r.check(err == nil && len(infos) == 0, "%d servers are listed after their end, error %v", len(infos), err)
	err = poll(r.ctx, 10*time.Second, func() (bool, error) { return runtime.NumGoroutine() <= before+3, nil })
	r.check(err == nil, "%d goroutines before, %d after", before, runtime.NumGoroutine())
	r.bear("ended")
	r.sound()
	return nil
}
