package main

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// meter watches what others have to bear while a scenario runs: how long a PING of another client takes at most, and how much memory and
// how many goroutines this process has.
type meter struct {
	conn *redis.Client
	stop context.CancelFunc
	over sync.WaitGroup

	mu         sync.Mutex
	longest    time.Duration
	failed     error
	heap       uint64 // at most
	goroutines int    // at most
}

const (
	pingEvery = 5 * time.Millisecond
	heapEvery = 50 * time.Millisecond
)

func startMeter(ctx context.Context, addr string) *meter {
	ctx, cancel := context.WithCancel(ctx)
	m := &meter{conn: redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: time.Minute}), stop: cancel}
	m.over.Go(func() { every(ctx, pingEvery, m.ping) })
	m.over.Go(func() { every(ctx, heapEvery, m.look) })
	return m
}

func every(ctx context.Context, d time.Duration, f func()) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f()
		}
	}
}

func (m *meter) ping() {
	start := time.Now()
	err := m.conn.Ping(context.Background()).Err()
	took := time.Since(start)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.longest = max(m.longest, took)
	if err != nil {
		m.failed = err
	}
}

func (m *meter) look() {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	n := runtime.NumGoroutine()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heap, m.goroutines = max(m.heap, stats.HeapAlloc), max(m.goroutines, n)
}

// lap returns what was seen since the last lap.
func (m *meter) lap() (longest time.Duration, heap uint64, goroutines int) {
	m.look()
	m.mu.Lock()
	defer m.mu.Unlock()
	longest, heap, goroutines = m.longest, m.heap, m.goroutines
	m.longest, m.heap, m.goroutines = 0, 0, 0
	return longest, heap, goroutines
}

func (m *meter) close() error {
	m.stop()
	m.over.Wait()
	_ = m.conn.Close() // it did its part
	return m.failed
}

// settledHeap is the heap that is left after a collection, and the number of goroutines.
func settledHeap() (heap, goroutines float64) {
	runtime.GC()
	runtime.GC() // what finalizers and pools held through the first one
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc), float64(runtime.NumGoroutine())
}
