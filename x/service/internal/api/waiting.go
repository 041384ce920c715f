package api

import (
	"net/http"
	"sync"
)

// waiting counts the requests that wait.
type waiting struct {
	mu      sync.Mutex
	all     int
	byToken map[string]int // by the name of the token, which a reload keeps
}

// Waiter admits one more request that waits. Call the function when it waits no more.
//
// There may be Rules.MaxWaiting of them, and where several tokens may wait, no token has more of them than are left for others: one takes up to a
// half, two a third each, and so on, so that there is always room for a token that has none.
func (a *API) Waiter(c *Call) (leave func(), err error) {
	w, name := &a.waiting, c.Who.Name
	w.mu.Lock()
	defer w.mu.Unlock()
	free := c.Rules.MaxWaiting - w.all
	switch {
	case free <= 0:
		return nil, Problemf(http.StatusServiceUnavailable, KindUnavailable, "too many requests wait: try again")
	case c.Rules.Shared && w.byToken[name] >= free:
		c.W.Header().Set("Retry-After", "1")
		return nil, Problemf(http.StatusTooManyRequests, KindTooMany, "too many requests of the token %q wait: take more tasks with fewer of them, or try again", name)
	}
	if w.byToken == nil {
		w.byToken = make(map[string]int)
	}
	w.all++
	w.byToken[name]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all--
		if w.byToken[name]--; w.byToken[name] == 0 {
			delete(w.byToken, name)
		}
	}, nil
}

// Waiting is how many requests wait.
func (a *API) Waiting() int {
	a.waiting.mu.Lock()
	defer a.waiting.mu.Unlock()
	return a.waiting.all
}
