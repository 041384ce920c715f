package access

import (
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// The limits of wrong passwords: for one name from one address, and for all names from one address.
// A client with an old password blocks only its own name; a client that tries many names is blocked
// completely.
var (
	perName    = limit{burst: 10, every: 6 * time.Second}
	perAddress = limit{burst: 50, every: 1200 * time.Millisecond}
)

// maxBuckets bounds the memory of a throttle to a few hundred kilobytes.
const maxBuckets = 4096

type limit struct {
	burst float64
	every time.Duration // time until the next token
}

// tooMany is the error of an address with too many wrong passwords.
type tooMany struct{ wait time.Duration }

func (e *tooMany) Error() string { return fmt.Sprintf("too many wrong passwords: wait %v", e.wait) }

// throttleKey is an address, and a name or (zero) all names.
type throttleKey struct {
	addr netip.Addr
	name [16]byte
}

func (k throttleKey) limit() limit {
	if k.name == [16]byte{} {
		return perAddress
	}
	return perName
}

// throttle has a token bucket for each key. Full buckets are not stored.
type throttle struct {
	mu      sync.Mutex
	buckets map[throttleKey]bucket
}

type bucket struct {
	tokens float64
	at     time.Time
}

func newThrottle() *throttle { return &throttle{buckets: map[throttleKey]bucket{}} }

// blocked returns how long it takes until all keys have a token; zero if they have one.
func (t *throttle) blocked(keys [2]throttleKey) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wait(keys, time.Now())
}

// take takes a token of each key. If one has none, it takes none and returns how long to wait.
func (t *throttle) take(keys [2]throttleKey) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if wait := t.wait(keys, now); wait > 0 {
		return wait
	}
	for _, k := range keys {
		t.put(k, t.tokens(k, now)-1, now)
	}
	return 0
}

// giveBack undoes a take.
func (t *throttle) giveBack(keys [2]throttleKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, k := range keys {
		t.put(k, t.tokens(k, now)+1, now)
	}
}

func (t *throttle) wait(keys [2]throttleKey, now time.Time) (wait time.Duration) {
	for _, k := range keys {
		if lack := 1 - t.tokens(k, now); lack > 0 {
			wait = max(wait, time.Duration(lack*float64(k.limit().every))+1)
		}
	}
	return wait
}

func (t *throttle) tokens(k throttleKey, now time.Time) float64 {
	l := k.limit()
	b, ok := t.buckets[k]
	if !ok {
		return l.burst
	}
	return min(l.burst, b.tokens+float64(now.Sub(b.at))/float64(l.every))
}

func (t *throttle) put(k throttleKey, tokens float64, now time.Time) {
	if tokens >= k.limit().burst {
		delete(t.buckets, k)
		return
	}
	if _, ok := t.buckets[k]; !ok && len(t.buckets) >= maxBuckets {
		t.makeRoom(now)
	}
	t.buckets[k] = bucket{tokens, now}
}

// makeRoom removes the keys that have been idle for long enough and, if these are few, any others:
// that helps an attacker with thousands of addresses only a little. It makes room for many keys, so
// that it does not have to scan all of them for each new one.
func (t *throttle) makeRoom(now time.Time) {
	for k := range t.buckets {
		if t.tokens(k, now) >= k.limit().burst {
			delete(t.buckets, k)
		}
	}
	for k := range t.buckets {
		if len(t.buckets) <= maxBuckets*3/4 {
			break
		}
		delete(t.buckets, k)
	}
}
