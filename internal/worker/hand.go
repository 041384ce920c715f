package worker

import (
	"context"
	"slices"
	"sync"

	"github.com/asynq-go/asynq/internal/rdb"
)

// hand is what a pool has besides where nobody handles tasks, but they are taken by hand: who waits for tasks, and the leases that it
// knows of. Its lock is the innermost.
type hand struct {
	strict bool
	ended  chan struct{} // closed with the pool

	mu       sync.Mutex
	closed   bool
	requests []*request             // that wait, first come first
	demand   map[string]int         // tasks wanted that no turn asks for, by queue: those of a request count in each of its queues
	leases   map[leaseName]*Attempt // open attempts
}

// leaseName names a lease wherever it is settled.
type leaseName struct{ queue, id, token string }

func nameOf(a *Attempt) leaseName { return leaseName{a.Queue, a.settlement.ID, a.Token} }

// request is one who waits for tasks.
type request struct {
	queues []string
	left   int // tasks wanted that no turn asks for
	asked  int // tasks that a turn on its way asks for
	got    []*Attempt
	over   bool
	err    error
	done   chan struct{} // closed when it is over and got is for the one who waits
}

// portion is what part of a fetch is for whom.
type portion struct {
	request *request
	n       int
}

func newHand(strict bool) *hand {
	return &hand{
		strict: strict, ended: make(chan struct{}),
		demand: make(map[string]int), leases: make(map[leaseName]*Attempt),
	}
}

// want changes how many tasks a request wants that no turn asks for. The caller holds the lock.
func (h *hand) want(r *request, n int) {
	r.left += n
	for _, q := range r.queues {
		if h.demand[q] += n; h.demand[q] == 0 {
			delete(h.demand, q)
		}
	}
}

// join adds a request, and returns those of its queues that nobody waited for.
func (h *hand) join(r *request, n int) (fresh []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrServerClosed
	}
	for _, q := range r.queues {
		if h.demand[q] == 0 {
			fresh = append(fresh, q)
		}
	}
	h.requests = append(h.requests, r)
	h.want(r, n)
	return fresh, nil
}

// close ends a request. The caller holds the lock.
func (h *hand) close(r *request, err error) {
	r.over, r.err = true, err
	h.want(r, -r.left)
	if i := slices.Index(h.requests, r); i >= 0 {
		h.requests = slices.Delete(h.requests, i, i+1)
	}
	close(r.done)
}

// leave ends a request whose ctx has ended, and returns what it got so far. It reports whether it was over before.
func (h *hand) leave(r *request, err error) (got []*Attempt, late bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.over {
		return nil, true
	}
	got, r.got = r.got, nil
	h.close(r, err)
	return got, false
}

// wants reports whether somebody waits for tasks of a queue that no turn asks for.
func (h *hand) wants(queue string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.demand[queue] > 0
}

// wanted is how many tasks are waited for.
func (h *hand) wanted() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.requests {
		n += r.left + r.asked
	}
	return n
}

// plan shares out among queues, most important first, what is waited for, first come first: to each queue as many as one fetch may bring.
func (h *hand) plan(ready []*queueState, ask func(q *queueState, n int, portions []portion)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	room := make([]int, len(ready))
	portions := make([][]portion, len(ready))
	open := len(ready)
	for i := range room {
		room[i] = maxFetch
	}
	for _, r := range h.requests {
		if open == 0 {
			break
		}
		if r.left == 0 {
			continue
		}
		var mine []*queueState
		for i, q := range ready {
			if room[i] > 0 && slices.Contains(r.queues, q.name) {
				mine = append(mine, q)
			}
		}
		share(r.left, mine, h.strict, func(q *queueState, n int) {
			i := slices.Index(ready, q)
			n = min(n, room[i])
			if room[i] -= n; room[i] == 0 {
				open--
			}
			portions[i] = append(portions[i], portion{r, n})
			h.want(r, -n)
			r.asked += n
		})
	}
	for i, q := range ready {
		if room[i] < maxFetch {
			ask(q, maxFetch-room[i], portions[i])
		}
	}
}

// land deals out what a fetch has brought: to those it was for, first come first; what is left, to others who wait for the queue.
// It returns what nobody wants any more, and whether somebody waits for more than this fetch brought.
func (h *hand) land(queue string, portions []portion, tasks []*Attempt) (left []*Attempt, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	give := func(r *request, n int) int {
		n = min(n, len(tasks))
		r.got = append(r.got, tasks[:n]...)
		tasks = tasks[n:]
		return n
	}
	for _, p := range portions {
		r := p.request
		r.asked -= p.n
		if r.over {
			continue
		}
		h.want(r, p.n-give(r, p.n))
	}
	for _, r := range h.requests {
		if len(tasks) == 0 {
			break
		}
		if r.left > 0 && slices.Contains(r.queues, queue) {
			h.want(r, -give(r, r.left))
		}
	}
	for _, r := range slices.Clone(h.requests) {
		switch {
		case len(r.got) > 0 && r.asked == 0:
			h.close(r, nil)
		case r.left > 0:
			more = true
		}
	}
	return tasks, more
}

// shut ends all requests, with nothing for those who wait: what was taken for them is returned.
func (h *hand) shut() (got []*Attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for len(h.requests) > 0 {
		r := h.requests[0]
		got = append(got, r.got...)
		r.got = nil
		h.close(r, ErrServerClosed)
	}
	return got
}

// Take waits until the queues have tasks, and takes up to n of them. When ctx ends first it takes none. The pool is one of Hand.
func (pool *Pool) Take(ctx context.Context, n int, queues []string) ([]*Attempt, error) {
	r := &request{queues: queues, done: make(chan struct{})}
	pumps := make([]*Pump, len(queues))
	for i, q := range queues {
		pumps[i] = pool.pumpOf(q)
	}
	fresh, err := pool.hand.join(r, n)
	if err != nil {
		return nil, err
	}
	for i, q := range queues {
		if slices.Contains(fresh, q) {
			pumps[i].ask(q)
		}
	}
	select {
	case <-r.done:
		return r.got, r.err
	case <-ctx.Done():
	}
	got, late := pool.hand.leave(r, ctx.Err())
	if late {
		return r.got, r.err
	}
	giveBack(got)
	for _, p := range pumps {
		p.signal() // it may have a marker that is for others now
	}
	return nil, ctx.Err()
}

// ask lets the next turn look for tasks of a queue.
func (p *Pump) ask(queue string) {
	p.mu.Lock()
	q := p.queue(queue)
	q.dry = false
	p.mu.Unlock()
	p.signal()
}

// giveBack puts tasks that nobody wants any more back to the front of their queue; they come oldest first.
func giveBack(tasks []*Attempt) {
	for _, a := range slices.Backward(tasks) { // they are given back to the front one by one: the oldest must be the last
		a.pump.mu.Lock()
		ours := a.decide()
		a.pump.mu.Unlock()
		if ours {
			a.settlement.Outcome = rdb.Requeue
			a.pump.finish(a)
		}
	}
}

// wants reports whether tasks of a queue are wanted.
func (p *Pump) wants(q *queueState) bool {
	if p.pool.hand != nil {
		return p.pool.hand.wants(q.name)
	}
	return true
}

// hasRoom reports whether there is room for a task of a queue.
func (p *Pump) hasRoom(queue string) bool {
	if p.pool.hand != nil {
		return p.pool.hand.wants(queue)
	}
	return p.slots.available() > 0
}

// pumpOf returns the pump of a queue, and lets it know of the queue.
func (pool *Pool) pumpOf(queue string) *Pump {
	lane := pool.cfg.Hand.Lane(queue)
	pool.mu.Lock()
	p, known := pool.lanes[lane]
	if !known {
		p = newPump(pool, nil, pool.cfg.Hand.NewWaiter(queue))
		pool.lanes[lane] = p
		pool.pumps = append(pool.pumps, p)
	}
	p.mu.Lock()
	if p.queue(queue) == nil {
		p.addQueue(queue)
		p.sortQueues()
	}
	p.mu.Unlock()
	pool.mu.Unlock()
	if !known {
		pool.cfg.Hand.Begin(p)
	}
	return p
}

// SetQueues changes the weights of queues, and how many tasks of each may be active. The pool is one of Hand.
func (pool *Pool) SetQueues(weights, maxActive map[string]int) {
	pool.mu.Lock()
	pool.cfg.Queues, pool.cfg.MaxActive = weights, maxActive
	pumps := slices.Clone(pool.pumps)
	pool.mu.Unlock()
	for _, p := range pumps {
		p.mu.Lock()
		for _, q := range p.queues {
			q.weight, q.maxActive, q.credit = max(weights[q.name], 1), maxActive[q.name], 0
			q.dry = false // there may be room now
		}
		p.sortQueues()
		p.mu.Unlock()
		p.signal()
	}
}
