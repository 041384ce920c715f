package worker

import "sync"

// slots counts the free slots and shares them out among the lanes that want some.
type slots struct {
	mu     sync.Mutex
	total  int
	free   int
	strict bool
	lanes  []*demand
}

// demand is what one lane wants.
type demand struct {
	weight   int  // of its ready queues; 0: it wants nothing
	priority int  // of its most important ready queue
	healthy  bool // a lane in trouble gets one slot to try with, and holds up no other
	unmet    bool // it got less than it could use
	wake     func()
}

func newSlots(total int, strict bool) *slots {
	return &slots{total: total, free: total, strict: strict}
}

func (s *slots) join(wake func()) *demand {
	d := &demand{wake: wake, healthy: true}
	s.mu.Lock()
	s.lanes = append(s.lanes, d)
	s.mu.Unlock()
	return d
}

// reserve takes slots for a lane whose ready queues have this weight and priority: its share of the free ones.
func (s *slots) reserve(d *demand, weight, priority int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	yields := d.weight > 0 && (weight == 0 || priority < d.priority)
	d.weight, d.priority = weight, priority
	if yields && s.strict {
		s.wakeUnmet(d)
	}
	if weight == 0 {
		d.unmet = false
		return 0
	}
	all := weight
	for _, other := range s.lanes {
		if other == d || other.weight == 0 || !other.healthy {
			continue
		}
		if s.strict && other.priority > priority {
			d.unmet = true
			return 0
		}
		all += other.weight
	}
	n := (s.free*weight + all - 1) / all
	if s.strict {
		n = s.free
	}
	if !d.healthy {
		n = min(n, 1)
	}
	s.free -= n
	d.unmet = n == 0
	return n
}

// release gives slots back.
func (s *slots) release(n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
	if len(s.lanes) > 1 {
		s.wakeUnmet(nil)
	}
}

// wanted reports whether a slot is free for a lane that waits for tasks. If none is, the lane is woken when one is.
func (s *slots) wanted(d *demand) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		d.unmet = true
	}
	return s.free > 0
}

// available returns how many slots are free.
func (s *slots) available() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}

// setHealthy says whether the lane's last turn went through.
func (s *slots) setHealthy(d *demand, healthy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.healthy != healthy {
		d.healthy = healthy
		s.wakeUnmet(d)
	}
}

func (s *slots) wakeUnmet(except *demand) {
	for _, d := range s.lanes {
		if d != except && d.unmet {
			d.wake()
		}
	}
}
