package main

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"
)

// stopwatch measures from the call that enqueues a task to its handler, in one process and with one
// clock.
type stopwatch struct {
	zero time.Time

	mu        sync.Mutex
	latencies []time.Duration
}

func newStopwatch() *stopwatch { return &stopwatch{zero: time.Now()} }

// stamp returns a payload of 100 bytes whose time starts after a delay.
func (s *stopwatch) stamp(delay time.Duration) []byte {
	p := make([]byte, 100)
	binary.BigEndian.PutUint64(p, uint64(time.Since(s.zero)+delay))
	return p
}

// read records the time since the start in a payload.
func (s *stopwatch) read(p []byte) {
	d := time.Since(s.zero) - time.Duration(binary.BigEndian.Uint64(p))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latencies = append(s.latencies, d)
}

// handle reads the payload of a task and counts it.
func (s *stopwatch) handle(expected *countdown) func(attempt) error {
	return func(a attempt) error {
		s.read(a.payload)
		expected.hit()
		return nil
	}
}

// measure returns the figures of do with the latencies.
func (s *stopwatch) measure(l *lane, do func() (tally, error)) (*figures, error) {
	f, err := l.measure(do)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		f.Latency = newLatency(s.latencies)
	}
	return f, err
}

// visitors enqueue single tasks at random times. Each enqueues the next task after the previous one
// has started.
type visitors struct {
	*stopwatch

	started []chan struct{} // one for each visitor
}

// visitorAt is the byte of the payload with the number of the visitor, after the time.
const visitorAt = 8

func newVisitors(n int) *visitors {
	v := &visitors{stopwatch: newStopwatch(), started: make([]chan struct{}, n)}
	for i := range v.started {
		v.started[i] = make(chan struct{}, 1)
	}
	return v
}

func (v *visitors) handle(a attempt) error {
	v.read(a.payload)
	v.started[a.payload[visitorAt]] <- struct{}{}
	return nil
}

// enqueue enqueues at least n tasks, equally many of each visitor, and returns their number. queue
// returns the queue of task k of visitor i.
func (v *visitors) enqueue(l *lane, p producer, n int, queue func(i, k int) string) (int, error) {
	count := len(v.started)
	each := (n + count - 1) / count
	return each * count, spread(count, count, func(i int) error {
		for k := range each {
			pause(l, rand.N(time.Second)) // at a random time between the polls of a server that polls every second
			stamped := v.stamp(0)
			stamped[visitorAt] = byte(i)
			if err := p.enqueue(l.ctx, &job{payload: stamped, queue: queue(i, k)}); err != nil {
				return err
			}
			select {
			case <-v.started[i]:
			case <-l.ctx.Done():
				return l.ctx.Err()
			}
		}
		return nil
	})
}

// sporadic is a workload of single tasks on idle servers. Several servers, each with its own queue,
// are measured concurrently, since most of the time is waiting.
type sporadic struct{ servers int }

func (w sporadic) run(l *lane) (*figures, error) {
	v := newVisitors(w.servers)
	queues := make([]string, w.servers)
	for i := range queues {
		queues[i] = "idle" + string(rune('a'+i))
		err := l.serve(serverConfig{concurrency: 10, queues: map[string]int{queues[i]: 1}, handle: v.handle})
		if err != nil {
			return nil, err
		}
	}
	p := l.producer()
	return v.measure(l, func() (tally, error) {
		n, err := v.enqueue(l, p, l.Tasks, func(i, _ int) string { return queues[i] })
		return tally{tasks: n, attempts: n, queues: queues}, err
	})
}

// trickle is a workload with a steady rate that servers handle easily.
type trickle struct {
	servers int
	rate    int // tasks/s
}

func (w trickle) run(l *lane) (*figures, error) {
	watch := newStopwatch()
	expected := newCountdown(l.Tasks)
	for range l.most(w.servers) {
		if err := l.serve(serverConfig{concurrency: 10, handle: watch.handle(expected)}); err != nil {
			return nil, err
		}
	}
	p := l.producer()
	pause(l, time.Duration(l.Scale*float64(2*time.Second))) // the servers become idle
	return watch.measure(l, func() (tally, error) {
		start := time.Now()
		for i := range l.Tasks {
			pause(l, time.Until(start.Add(time.Duration(i)*time.Second/time.Duration(w.rate))))
			if err := p.enqueue(l.ctx, &job{payload: watch.stamp(0)}); err != nil {
				return tally{}, err
			}
		}
		return tally{tasks: l.Tasks, attempts: l.Tasks}, expected.wait(l.ctx)
	})
}

// punctual is a workload of tasks that are due at different times. Their latency is their lateness.
type punctual struct{ within time.Duration }

func (w punctual) run(l *lane) (*figures, error) {
	within := max(time.Duration(float64(w.within)*l.Scale), time.Second)
	watch := newStopwatch()
	expected := newCountdown(l.Tasks)
	p := l.producer()
	return watch.measure(l, func() (tally, error) {
		if err := l.serve(serverConfig{concurrency: 10, handle: watch.handle(expected)}); err != nil {
			return tally{}, err
		}
		err := spread(8, l.Tasks, func(int) error {
			delay := time.Second + rand.N(within)
			return p.enqueue(l.ctx, &job{payload: watch.stamp(delay), delay: delay})
		})
		if err == nil {
			err = expected.wait(l.ctx)
		}
		return tally{tasks: l.Tasks, attempts: l.Tasks}, err
	})
}

// pause waits, or until the lane is canceled.
func pause(l *lane, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.ctx.Done():
	}
}
