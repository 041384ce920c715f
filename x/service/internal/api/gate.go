package api

import (
	"context"
	"sync"
)

// gate counts the calls at work, and lets none in any more once it is shut.
type gate struct {
	mu   sync.Mutex
	n    int
	shut chan struct{} // closed when the last one has left; nil while it is open
}

// Enter lets a call in, unless the API drains. Call Leave at its end.
func (a *API) Enter() bool {
	g := &a.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		return false
	}
	g.n++
	return true
}

// Leave says that a call has ended.
func (a *API) Leave() {
	g := &a.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.shut != nil {
		close(g.shut)
	}
}

// Drain lets no call in any more, and waits until those at work have ended, or ctx has.
func (a *API) Drain(ctx context.Context) {
	g := &a.gate
	g.mu.Lock()
	if g.shut == nil {
		g.shut = make(chan struct{})
		if g.n == 0 {
			close(g.shut)
		}
	}
	shut := g.shut
	g.mu.Unlock()
	select {
	case <-shut:
	case <-ctx.Done():
	}
}
