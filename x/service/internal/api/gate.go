package api

import (
	"context"
	"sync"
)

// gate counts active calls and rejects new ones once it drains.
type gate struct {
	mu      sync.Mutex
	n       int
	drained chan struct{} // nil until Drain; closed when no calls are active
}

// Enter registers a call. It returns false if the API drains. If it returns true, call Leave when
// the call ends.
func (a *API) Enter() bool {
	g := &a.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.drained != nil {
		return false
	}
	g.n++
	return true
}

// Leave ends a call that Enter has registered.
func (a *API) Leave() {
	g := &a.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.drained != nil {
		close(g.drained)
	}
}

// Drain rejects new calls and waits until active ones end or ctx is done.
func (a *API) Drain(ctx context.Context) {
	g := &a.gate
	g.mu.Lock()
	if g.drained == nil {
		g.drained = make(chan struct{})
		if g.n == 0 {
			close(g.drained)
		}
	}
	drained := g.drained
	g.mu.Unlock()
	select {
	case <-drained:
	case <-ctx.Done():
	}
}
