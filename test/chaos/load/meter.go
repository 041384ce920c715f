package main

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// meter measures the effects of a scenario: the longest PING of another client, and the memory and
// goroutines of this process.
type meter struct {
	conn *redis.Client
	stop context.CancelFunc
	over sync.WaitGroup

	mu         sync.Mutex
	longest    time.Duration
	failed     error
	heap       uint64 // maximum
	goroutines int    // maximum
}

const (
	pingEvery = 5 * time.Millisecond
	heapEvery = 50 * time.Millisecond
)

func startMeter(ctx context.Context, addr string) *meter {
	ctx, cancel := context.WithCancel(ctx)
	m := &meter{conn: redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: time.Minute}), stop: cancel}
	m.over.Go(func() { every(ctx, pingEvery, m.ping) })
	m.over.Go(func() { every(ctx, heapEvery, m.sample) })
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

func (m *meter) sample() {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	n := runtime.NumGoroutine()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heap, m.goroutines = max(m.heap, stats.HeapAlloc), max(m.goroutines, n)
}

// lap returns the measurements since the last lap.
func (m *meter) lap() (longest time.Duration, heap uint64, goroutines int) {
	m.sample()
	m.mu.Lock()
	defer m.mu.Unlock()
	longest, heap, goroutines = m.longest, m.heap, m.goroutines
	m.longest, m.heap, m.goroutines = 0, 0, 0
	return longest, heap, goroutines
}

func (m *meter) close() error {
	m.stop()
	m.over.Wait()
	_ = m.conn.Close()
	return m.failed
}

// settledHeap returns the heap after a collection, and the number of goroutines.
func settledHeap() (heap, goroutines float64) {
	runtime.GC()
	runtime.GC() // frees what finalizers and pools kept
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc), float64(runtime.NumGoroutine())
}
