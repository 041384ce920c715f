package asynqtest

import "time"

// Now returns the Broker's time. It stands still until Advance or SetTime move it.
func (b *Broker) Now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// Advance lets d pass, rounded up to whole seconds, as times are in Redis. What is due by then is run by the next Drain; what has a
// time to live, such as a uniqueness lock, may end. If it is the first move of the clock, d counts from the host's time, so that
// a task for time.Now().Add(d) is due too. Advance panics if d is negative.
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

// SetTime moves the clock to exactly now. It may go back, but that brings back nothing that has expired.
func (b *Broker) SetTime(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moved = true
	b.set(now)
}

// set tells Redis the time; TTLs go with it.
func (b *Broker) set(now time.Time) {
	b.now = now.Round(0) // without the host's monotonic clock
	b.mini.SetTime(b.now)
}

// ceilSecond rounds up to whole seconds.
func ceilSecond(t time.Time) time.Time {
	if floor := t.Truncate(time.Second); !floor.Equal(t) {
		return floor.Add(time.Second)
	}
	return t
}
