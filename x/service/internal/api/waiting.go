package api

import (
	"net/http"
	"sync"
)

// waiting counts waiting requests.
type waiting struct {
	mu      sync.Mutex
	all     int
	queues  int            // that they name, counted per request
	byToken map[string]int // by token name, which a reload keeps
}

// maxWaitedQueues limits the queues that waiting requests name in total: each costs memory even if
// it does not exist.
const maxWaitedQueues = 20_000

// Waiter registers a request that waits for this number of queues. Call leave when it stops
// waiting.
//
// At most Rules.MaxWaiting requests may wait. If several tokens may wait, no token may have more
// waiting requests than remain for others: one token uses up to a half, two a third each, and so
// on, so that another token always finds room.
func (a *API) Waiter(c *Call, queues int) (leave func(), err error) {
	w, name := &a.waiting, c.Who.Name
	w.mu.Lock()
	defer w.mu.Unlock()
	free := c.Rules.MaxWaiting - w.all
	switch {
	case free <= 0:
		return nil, Problemf(http.StatusServiceUnavailable, KindUnavailable, "too many waiting requests: try again")
	case queues > 1 && w.queues+queues > maxWaitedQueues:
		return nil, Problemf(http.StatusServiceUnavailable, KindUnavailable, "waiting requests name too many queues: name fewer or try again")
	case c.Rules.Shared && w.byToken[name] >= free:
		c.W.Header().Set("Retry-After", "1")
		return nil, Problemf(http.StatusTooManyRequests, KindTooMany, "the token %q has too many waiting requests: take more tasks per request, or try again", name)
	}
	if w.byToken == nil {
		w.byToken = make(map[string]int)
	}
	w.all++
	w.queues += queues
	w.byToken[name]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all--
		w.queues -= queues
		if w.byToken[name]--; w.byToken[name] == 0 {
			delete(w.byToken, name)
		}
	}, nil
}

// Waiting returns the number of waiting requests.
func (a *API) Waiting() int {
	a.waiting.mu.Lock()
	defer a.waiting.mu.Unlock()
	return a.waiting.all
}
