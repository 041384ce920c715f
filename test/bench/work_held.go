package main

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// held is what an idle server holds.
type held struct {
	Connections float64 `json:"connections"` // to the primary with the most
	Goroutines  float64 `json:"goroutines"`  // without one for each slot
}

// manyQueues is a workload of single tasks on one idle server with many queues on a Cluster.
type manyQueues struct{ queues int }

func (w manyQueues) run(l *lane) (*figures, error) {
	queues := equalQueues(l.most(w.queues))
	names := slices.Sorted(maps.Keys(queues))
	err := l.seed(len(names), func(i int) *job { return &job{payload: payload(100, i), queue: names[i]} })
	if err != nil {
		return nil, err
	}
	if _, err := l.connections(); err != nil { // connects
		return nil, err
	}
	goroutines := runtime.NumGoroutine()
	const concurrency = 10
	v, seeded := newVisitors(6), newCountdown(len(names))
	err = l.serve(serverConfig{concurrency: concurrency, queues: queues, handle: func(a attempt) error {
		if seeded.hit() {
			return nil
		}
		return v.handle(a)
	}})
	if err != nil {
		return nil, err
	}
	if err := seeded.wait(l.ctx); err != nil {
		return nil, err
	}
	if err := l.settled(len(names), names...); err != nil {
		return nil, err
	}
	pause(l, time.Second) // the server becomes idle
	idle := &held{Goroutines: float64(max(runtime.NumGoroutine()-goroutines-concurrency, 0))}
	if idle.Connections, err = l.connections(); err != nil {
		return nil, err
	}

	p := l.producer()
	used := names[:min(l.Tasks, len(names))]
	f, err := v.measure(l, func() (tally, error) {
		n, err := v.enqueue(l, p, l.Tasks, func(i, k int) string { return used[(i+k*len(v.started))%len(used)] })
		return tally{tasks: n, attempts: n + len(used), queues: used}, err // each has one from before
	})
	if err == nil {
		f.Idle = idle
	}
	return f, err
}

// connections returns the number of connections of the library: to the server, or to the primary
// with the most.
func (l *lane) connections() (most float64, err error) {
	err = eachNode(l.ctx, l.admin, func(node *redis.Client) error {
		text, err := node.ClientList(l.ctx).Result()
		n := 0
		for line := range strings.Lines(text) {
			if !strings.Contains(line, " name="+adminName+" ") {
				n++
			}
		}
		most = max(most, float64(n))
		return err
	})
	return most, err
}

// stock is a workload that enqueues tasks and measures the memory that they need in Redis.
type stock struct{}

func (stock) run(l *lane) (*figures, error) {
	empty, err := infoOf(l.ctx, l.admin, "memory", "used_memory")
	if err != nil {
		return nil, err
	}
	conn := l.connect()
	p := l.side.producer(conn)
	f, err := l.measure(func() (tally, error) {
		return tally{tasks: l.Tasks}, spread(64, l.Tasks, func(i int) error {
			return p.enqueue(l.ctx, &job{payload: payload(100, i)})
		})
	})
	if err != nil {
		return nil, err
	}
	if err := conn.Close(); err != nil {
		return nil, err
	}
	err = poll(l.ctx, emptyTimeout, func() (bool, error) { // buffers of connections are memory too
		n, err := l.connections()
		return n == 0, err
	})
	if err != nil {
		return nil, err
	}
	full, err := infoOf(l.ctx, l.admin, "memory", "used_memory")
	f.Memory = full - empty
	return f, err
}
