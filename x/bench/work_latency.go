package main

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"
)

// stopwatch measures from the call that enqueues a task to its handler. Both are in this process: no two clocks are compared.
type stopwatch struct {
	zero time.Time

	mu   sync.Mutex
	seen []time.Duration
}

func newStopwatch() *stopwatch { return &stopwatch{zero: time.Now()} }

// stamp returns a payload of 100 bytes that says that its time begins after a delay.
func (s *stopwatch) stamp(delay time.Duration) []byte {
	p := make([]byte, 100)
	binary.BigEndian.PutUint64(p, uint64(time.Since(s.zero)+delay))
	return p
}

// read notes how long ago the payload's time began.
func (s *stopwatch) read(p []byte) {
	d := time.Since(s.zero) - time.Duration(binary.BigEndian.Uint64(p))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, d)
}

// latency sums up what was noted.
func (s *stopwatch) latency() *latency {
	s.mu.Lock()
	defer s.mu.Unlock()
	return newLatency(s.seen)
}

// sporadic is a workload of lone tasks for idle servers. Several servers, each with a queue of its own, are measured at the
// same time: nearly all of it is waiting.
type sporadic struct{ servers int }

func (w sporadic) run(l *lane) (*figures, error) {
	watch := newStopwatch()
	queues := make([]string, w.servers)
	handled := make([]chan struct{}, w.servers)
	for i := range queues {
		queues[i] = "idle" + string(rune('a'+i))
		handled[i] = make(chan struct{}, 1)
		err := l.serve(serverConfig{concurrency: 10, queues: map[string]int{queues[i]: 1}, handle: func(a attempt) error {
			watch.read(a.payload)
			handled[i] <- struct{}{}
			return nil
		}})
		if err != nil {
			return nil, err
		}
	}
	p := l.producer()
	m := l.meter()
	if err := m.start(l.ctx); err != nil {
		return nil, err
	}
	each := (l.n + w.servers - 1) / w.servers
	err := spread(w.servers, w.servers, func(i int) error {
		for range each {
			pause(l, rand.N(time.Second)) // anywhere between two looks of a server that polls every second
			if err := p.enqueue(l.ctx, &job{payload: watch.stamp(0), queue: queues[i]}); err != nil {
				return err
			}
			select {
			case <-handled[i]:
			case <-l.ctx.Done():
				return l.ctx.Err()
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.stop()
	if err := l.settled(each*w.servers, queues...); err != nil {
		return nil, err
	}
	f, err := m.end(l.ctx, each*w.servers)
	if err == nil {
		f.Latency = watch.latency()
	}
	return f, err
}

// trickle is a workload of tasks that come at a steady rate, to servers that have no trouble with it.
type trickle struct {
	servers int
	rate    int // tasks/s
}

func (w trickle) run(l *lane) (*figures, error) {
	watch := newStopwatch()
	expected := newCountdown(l.n)
	for range l.most(w.servers) {
		err := l.serve(serverConfig{concurrency: 10, handle: func(a attempt) error {
			watch.read(a.payload)
			expected.hit()
			return nil
		}})
		if err != nil {
			return nil, err
		}
	}
	p := l.producer()
	pause(l, time.Duration(l.scale*float64(2*time.Second))) // the servers come to rest
	m := l.meter()
	if err := m.start(l.ctx); err != nil {
		return nil, err
	}
	start := time.Now()
	for i := range l.n {
		pause(l, time.Until(start.Add(time.Duration(i)*time.Second/time.Duration(w.rate))))
		if err := p.enqueue(l.ctx, &job{payload: watch.stamp(0)}); err != nil {
			return nil, err
		}
	}
	if err := expected.wait(l.ctx); err != nil {
		return nil, err
	}
	m.stop()
	if err := l.settled(l.n); err != nil {
		return nil, err
	}
	f, err := m.end(l.ctx, l.n)
	if err == nil {
		f.Latency = watch.latency()
	}
	return f, err
}

// punctual is a workload of tasks that are due at different times. Their latency is how late they come.
type punctual struct{ within time.Duration }

func (w punctual) run(l *lane) (*figures, error) {
	within := max(time.Duration(float64(w.within)*l.scale), time.Second)
	watch := newStopwatch()
	expected := newCountdown(l.n)
	p := l.producer()
	m := l.meter()
	if err := m.start(l.ctx); err != nil {
		return nil, err
	}
	err := l.serve(serverConfig{concurrency: 10, handle: func(a attempt) error {
		watch.read(a.payload)
		expected.hit()
		return nil
	}})
	if err != nil {
		return nil, err
	}
	err = spread(8, l.n, func(int) error {
		delay := time.Second + rand.N(within)
		return p.enqueue(l.ctx, &job{payload: watch.stamp(delay), delay: delay})
	})
	if err != nil {
		return nil, err
	}
	if err := expected.wait(l.ctx); err != nil {
		return nil, err
	}
	m.stop()
	if err := l.settled(l.n); err != nil {
		return nil, err
	}
	f, err := m.end(l.ctx, l.n)
	if err == nil {
		f.Latency = watch.latency()
	}
	return f, err
}

// pause waits, or until the lane is given up.
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
