package asynqtest

import "time"

// Now returns the Broker's time. Only Advance and SetTime change it.
func (b *Broker) Now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// Advance moves the clock forward by d, rounded up to whole seconds, the resolution of times in
// Redis. The next Drain runs the tasks that are due then. Keys with a TTL, such as unique locks,
// may expire. The first move starts from the host's time, so that a task for time.Now().Add(d) is
// due after it. Advance panics if d is negative.
func (b *Broker) Advance(d time.Duration) {
	if d < 0 {
		panic("asynqtest: Advance by a negative duration: use SetTime to go back")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	from := b.now
	if host := ceilSecond(time.Now()); !b.moved && host.After(from) {
		from = host
	}
	b.moved = true
	b.set(ceilSecond(from.Add(d)))
}

// SetTime sets the clock to now exactly. It may go back, but that does not restore expired keys.
func (b *Broker) SetTime(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moved = true
	b.set(now)
}

// set changes the time of Redis, and the TTLs with it.
func (b *Broker) set(now time.Time) {
	b.now = now.Round(0) // strips the monotonic clock reading
	b.mini.SetTime(b.now)
}

// ceilSecond rounds up to whole seconds.
func ceilSecond(t time.Time) time.Time {
	if floor := t.Truncate(time.Second); !floor.Equal(t) {
		return floor.Add(time.Second)
	}
	return t
}
