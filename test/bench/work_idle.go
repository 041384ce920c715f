package main

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// rest is an idle workload: a server with one empty queue. It measures commands per second.
type rest struct{ lasts time.Duration }

func (w rest) run(l *lane) (*figures, error) {
	if err := l.seed(1, func(int) *job { return &job{payload: payload(100, 0)} }); err != nil { // makes the queue known
		return nil, err
	}
	if err := l.serve(serverConfig{concurrency: 10, handle: func(attempt) error { return nil }}); err != nil {
		return nil, err
	}
	if err := l.settled(1); err != nil {
		return nil, err
	}
	lasts := max(time.Duration(float64(w.lasts)*l.Scale), 2*time.Second)
	pause(l, lasts/10) // the server becomes idle
	return l.measure(func() (tally, error) {
		pause(l, lasts)
		return tally{}, nil
	})
}

// gather is a workload that aggregates due groups. Its tasks are the members of all groups.
type gather struct{ groups int }

func (w gather) run(l *lane) (*figures, error) {
	names := make([]string, l.most(w.groups))
	for i := range names {
		names[i] = "g" + strconv.Itoa(i)
	}
	members := max(l.Tasks, len(names))
	err := l.seed(members, func(i int) *job { return &job{payload: payload(100, i), group: names[i%len(names)]} })
	if err != nil {
		return nil, err
	}
	const grace = time.Second
	pause(l, grace+grace/2)
	return l.measure(func() (tally, error) {
		expected := newCountdown(members)
		var handed atomic.Int64
		err := l.serve(serverConfig{
			concurrency: 100,
			groupGrace:  grace,
			aggregate: func(n int) []byte {
				handed.Add(1)
				return payload(4, n)
			},
			handle: func(a attempt) error {
				for range number(a.payload) {
					expected.hit()
				}
				return nil
			},
		})
		if err == nil {
			err = expected.wait(l.ctx)
		}
		return tally{tasks: members, attempts: int(handed.Load())}, err
	})
}

// trend describes a process during a soak.
type trend struct {
	Minutes          float64 `json:"minutes"`
	Heap             float64 `json:"heap_bytes"` // at the end
	HeapGrowth       float64 `json:"heap_growth_bytes_per_minute"`
	Goroutines       float64 `json:"goroutines"` // at the end
	GoroutinesGrowth float64 `json:"goroutines_growth_per_minute"`
}

// soak is a long workload with a steady rate of tasks, some of which fail first, and all of which
// have results. It detects leaks of memory and goroutines. It ends after at least the number of
// tasks of the lane.
type soak struct{ rate int }

func (w soak) run(l *lane) (*figures, error) {
	var first sync.Map // tasks that have failed once
	var handled atomic.Int64
	none := time.Duration(0)
	err := l.serve(serverConfig{concurrency: 100, retryDelay: &none, delayedCheck: time.Second, handle: func(a attempt) error {
		if i := number(a.payload); i%10 == 0 {
			if _, known := first.LoadOrStore(i, true); !known {
				return errFirst
			}
			first.Delete(i)
		}
		handled.Add(1)
		_, err := a.result.Write(a.payload)
		return err
	}})
	if err != nil {
		return nil, err
	}
	p := l.producer()
	var minutes, heap, goroutines []float64
	start := time.Now()
	sample := max(l.Soak/100, 100*time.Millisecond)
	f, err := l.measure(func() (tally, error) {
		for i, next := 0, sample; time.Since(start) < l.Soak || handled.Load() < int64(l.Tasks); i++ {
			pause(l, time.Until(start.Add(time.Duration(i)*time.Second/time.Duration(w.rate))))
			if err := p.enqueue(l.ctx, &job{payload: payload(100, i), retention: 10 * time.Second}); err != nil {
				return tally{}, err
			}
			if passed := time.Since(start); passed >= next {
				next += sample
				if passed < l.Soak/10 {
					continue // while pools and caches fill
				}
				runtime.GC()
				var mem runtime.MemStats
				runtime.ReadMemStats(&mem)
				minutes = append(minutes, passed.Minutes())
				heap = append(heap, float64(mem.HeapAlloc))
				goroutines = append(goroutines, float64(runtime.NumGoroutine()))
			}
		}
		return tally{tasks: int(handled.Load())}, nil
	})
	if err != nil || len(minutes) == 0 {
		return f, err
	}
	f.Trend = &trend{
		Minutes:          time.Since(start).Minutes(),
		Heap:             heap[len(heap)-1],
		HeapGrowth:       slope(minutes, heap),
		Goroutines:       goroutines[len(goroutines)-1],
		GoroutinesGrowth: slope(minutes, goroutines),
	}
	return f, nil
}
