package main

import (
	"encoding/binary"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// payload returns size bytes that differ for each i below 2³².
func payload(size, i int) []byte {
	p := make([]byte, max(size, 4))
	binary.BigEndian.PutUint32(p, uint32(i))
	return p
}

// produce is a workload that enqueues.
type produce struct {
	goroutines int
	batch      int // tasks per call, from one goroutine
	size       int // bytes of payload
	unique     time.Duration
	keys       int // partitions of the tasks; 0 means none
}

func (w produce) run(l *lane) (*figures, error) {
	jobs := w.jobs(l.Tasks)
	p := l.producer()
	if err := p.batch(l.ctx, []*job{w.job(l.Tasks)}); err != nil { // connects, and loads the scripts
		return nil, err
	}
	return l.measure(func() (tally, error) { return tally{tasks: l.Tasks}, w.send(l, p, jobs) })
}

func (w produce) job(i int) *job {
	return &job{payload: payload(w.size, i), unique: w.unique, key: partitionKey(i, w.keys)}
}

// partitionKey returns the partition of the i-th task; empty without partitions.
func partitionKey(i, partitions int) string {
	if partitions == 0 {
		return ""
	}
	return "customer-" + strconv.Itoa(i%partitions)
}

// jobs returns n jobs. Large ones share a payload.
func (w produce) jobs(n int) []*job {
	jobs := make([]*job, n)
	for i := range jobs {
		if i > 0 && w.size > 1000 {
			jobs[i] = jobs[0]
			continue
		}
		jobs[i] = w.job(i)
	}
	return jobs
}

// send enqueues the jobs. The bare scripts enqueue the tasks of all goroutines in one call.
func (w produce) send(l *lane, p producer, jobs []*job) error {
	batch := w.batch
	if batch == 0 && l.Side == sideFloor {
		batch = w.goroutines
	}
	if batch == 0 {
		return spread(w.goroutines, len(jobs), func(i int) error { return p.enqueue(l.ctx, jobs[i]) })
	}
	for len(jobs) > 0 {
		n := min(batch, len(jobs))
		if err := p.batch(l.ctx, jobs[:n]); err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	return nil
}

// spread calls do for each number below n from several goroutines, until an error.
func spread(goroutines, n int, do func(i int) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	var once sync.Once
	var failed error
	for range goroutines {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					once.Do(func() { failed = err })
					next.Store(int64(n))
					return
				}
			}
		})
	}
	wg.Wait()
	return failed
}

// number returns the i of a payload.
func number(p []byte) int { return int(binary.BigEndian.Uint32(p)) }
