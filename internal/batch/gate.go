package batch

// Gate decides when a request may leave: at once if none is in flight, and while one is, if it
// has enough items to be worth its fixed cost. There are at most two. Its user provides the lock.
type Gate struct {
	// Second is the minimum number of items of a second request; 0 if there is none.
	Second int

	// Full is a number of items that is always worth a second request. With fewer, it has at least
	// as many as the first, so that requests become equally large. The default is Second.
	Full int

	n     int
	items int // of the request in flight
}

// Worth reports whether a request with so many items may leave.
func (g *Gate) Worth(items int) bool {
	return g.n == 0 || g.n == 1 && g.Second > 0 && items >= max(g.Second, min(g.items, g.Full))
}

// Start counts a request with so many items. End must be called after its reply.
func (g *Gate) Start(items int) { g.n, g.items = g.n+1, items }

// End ends a request.
func (g *Gate) End() { g.n-- }

// None reports whether no request is in flight.
func (g *Gate) None() bool { return g.n == 0 }
