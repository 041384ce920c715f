package worker

// noIndex is the index of an attempt that is not open.
const noIndex = -1

// register notes an attempt as open: its lease is extended until it is settled.
func (p *Pump) register(a *Attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enter(a)
}

// enter is register for callers that hold the lock.
func (p *Pump) enter(a *Attempt) {
	p.begun++
	a.number = p.begun
	a.index = len(p.open)
	p.open = append(p.open, a)
	if p.pool.hand != nil {
		p.pool.hand.note(a)
	}
}

// unregister forgets a settled attempt. The caller holds the lock.
func (p *Pump) unregister(a *Attempt) {
	last := len(p.open) - 1
	p.open[a.index] = p.open[last]
	p.open[a.index].index = a.index
	p.open[last] = nil
	p.open = p.open[:last]
	a.index = noIndex
	if p.pool.hand != nil {
		p.pool.hand.forget(a)
	}
	if last == 0 || p.pool.hand != nil {
		notify(p.pool.drained)
	}
}

// landed notes that the answers of a turn have been taken in.
func (t *Trip) landed() {
	t.mu.Lock()
	t.fetching = false
	t.mu.Unlock()
	notify(t.pool.drained)
}

// each calls f for every open attempt that satisfies keep, without the lock.
func (p *Pump) each(keep func(a *Attempt) bool, f func(a *Attempt)) {
	p.mu.Lock()
	var some []*Attempt
	for _, a := range p.open {
		if keep(a) {
			some = append(some, a)
		}
	}
	p.mu.Unlock()
	for _, a := range some {
		f(a)
	}
}

// openCount returns how many attempts are open, and fetches on their way or in doubt, which may hold tasks, too.
func (p *Pump) openCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.open)
	if p.pool.hand != nil { // leases that are not settled outlive the pool
		n = 0
		for _, a := range p.open {
			if a.progress.Load() != running {
				n++
			}
		}
	}
	for _, t := range p.trips {
		if t.fetching {
			n++
		}
	}
	for _, q := range p.queues {
		if q.doubted {
			n++
		}
	}
	return n
}

// queue returns the state of a queue of the lane. The caller holds the lock.
func (p *Pump) queue(name string) *queueState {
	return p.byName[name] // attempts and turns name only queues of their lane
}

// held lists what the lane holds, by queue; where tasks are taken by hand, only what waits to be settled.
func (p *Pump) held() map[string][]*Attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	byQueue := make(map[string][]*Attempt, len(p.queues))
	for _, a := range p.open {
		if !a.lost.Load() && (p.pool.hand == nil || a.progress.Load() != running) {
			byQueue[a.Queue] = append(byQueue[a.Queue], a)
		}
	}
	return byQueue
}
