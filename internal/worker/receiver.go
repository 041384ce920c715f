package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// receiver is the part of a pool for callers that receive tasks: their requests, and the leases
// that the pool holds. Its lock is the innermost one.
type receiver struct {
	strict     bool
	poolClosed chan struct{} // closed with the pool

	mu      sync.Mutex
	weights map[string]int // of the configured queues
	limits  map[string]int

	partitions map[string]*rdb.Partitions

	ended    bool
	requests []*request            // waiting, oldest first
	demand   map[string]int        // unassigned tasks of all requests by queue; a request counts in each of its queues
	leases   map[leaseKey]*Attempt // open attempts
}

// leaseKey identifies a lease, also across processes.
type leaseKey struct{ queue, id, token string }

func keyOf(a *Attempt) leaseKey { return leaseKey{a.Queue, a.settlement.ID, a.Token} }

// request is a call of Receive that waits for tasks.
type request struct {
	queues     []string // sorted
	unassigned int      // wanted tasks that no fetch in flight requests
	inFlight   int      // wanted tasks that a fetch in flight requests
	got        []*Attempt
	closed     bool
	err        error
	done       chan struct{} // closed with the request, when the caller may read got and err
}

// includes reports whether the request is for tasks of the queue.
func (req *request) includes(queue string) bool {
	_, named := slices.BinarySearch(req.queues, queue)
	return named
}

func newReceiver(cfg *Config) *receiver {
	return &receiver{
		strict: cfg.Strict, poolClosed: make(chan struct{}), weights: cfg.Queues, limits: cfg.MaxActive, partitions: cfg.Partitions,
		demand: make(map[string]int), leases: make(map[leaseKey]*Attempt),
	}
}

// addDemand changes the number of unassigned tasks of a request. The caller holds the lock.
func (r *receiver) addDemand(req *request, n int) {
	req.unassigned += n
	for _, q := range req.queues {
		if r.demand[q] += n; r.demand[q] == 0 {
			delete(r.demand, q)
		}
	}
}

// addRequest adds a request. It returns those of its queues that had no demand before.
func (r *receiver) addRequest(req *request, n int) (fresh []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil, ErrServerClosed
	}
	for _, q := range req.queues {
		if r.demand[q] == 0 {
			fresh = append(fresh, q)
		}
	}
	r.requests = append(r.requests, req)
	r.addDemand(req, n)
	return fresh, nil
}

// closeRequest closes a request. The caller holds the lock.
func (r *receiver) closeRequest(req *request, err error) {
	req.closed, req.err = true, err
	r.addDemand(req, -req.unassigned)
	if i := slices.Index(r.requests, req); i >= 0 {
		r.requests = slices.Delete(r.requests, i, i+1)
	}
	close(req.done)
}

// cancelRequest closes a request whose context ended, and returns what it received so far. late
// means that it was closed before.
func (r *receiver) cancelRequest(req *request, err error) (got []*Attempt, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if req.closed {
		return nil, true
	}
	got, req.got = req.got, nil
	r.closeRequest(req, err)
	return got, false
}

func (r *receiver) settings(queue string) (weight, maxActive int, partitions *rdb.Partitions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.weights[queue], r.limits[queue], r.partitions[queue]
}

// wants reports whether a request has unassigned tasks of the queue.
func (r *receiver) wants(queue string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.demand[queue] > 0
}

func (r *receiver) accepts(queue string) bool { return r.wants(queue) }

func (r *receiver) anyFree() bool { return true }

func (r *receiver) retryAt(time.Time) time.Time { return time.Time{} }

func (r *receiver) setHealthy(bool) {}

func (r *receiver) newClaim() claim {
	return &requestClaim{receiver: r}
}

// requestClaim is the part of the demand that the fetches of one round trip are for.
type requestClaim struct {
	receiver *receiver
	shares   []requestShare
}

// requestShare is the part of the fetches that is for one request.
type requestShare struct {
	request *request
	n       int
}

var _ demand = (*receiver)(nil)
var _ claim = (*requestClaim)(nil)

func (c *requestClaim) sent() {}

// plan serves older requests first. A fetch has a limit, so a queue gets no more than that.
func (c *requestClaim) plan(ready []*queueState, fetch func(q *queueState, n int)) {
	r := c.receiver
	r.mu.Lock()
	defer r.mu.Unlock()
	room := make([]int, len(ready))
	open := len(ready)
	for i := range room {
		room[i] = maxFetch
	}
	for _, req := range r.requests {
		if open == 0 {
			break
		}
		if req.unassigned == 0 {
			continue
		}
		var mine []*queueState
		for i, q := range ready {
			if room[i] > 0 && req.includes(q.name) {
				mine = append(mine, q)
			}
		}
		share(req.unassigned, mine, r.strict, func(q *queueState, n int) {
			i := slices.Index(ready, q)
			n = min(n, room[i])
			if room[i] -= n; room[i] == 0 {
				open--
			}
			c.shares = append(c.shares, requestShare{req, n})
			r.addDemand(req, -n)
			req.inFlight += n
		})
	}
	for i, q := range ready {
		if room[i] < maxFetch {
			fetch(q, maxFetch-room[i])
		}
	}
}

// land gives the tasks to the requests for their queues, oldest first.
func (c *requestClaim) land(_ bool, fetches []*fetch, e *effects) {
	r := c.receiver
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range c.shares {
		if s.request.inFlight -= s.n; !s.request.closed {
			r.addDemand(s.request, s.n)
		}
	}
	clear(c.shares)
	if c.shares = c.shares[:0]; len(fetches) == 0 {
		return
	}
	for _, f := range fetches {
		tasks := f.tasks
		for _, req := range r.requests {
			if len(tasks) == 0 {
				break
			}
			if n := min(req.unassigned, len(tasks)); n > 0 && req.includes(f.call.Queue) {
				req.got = append(req.got, tasks[:n]...)
				r.addDemand(req, -n)
				tasks = tasks[n:]
			}
		}
		e.unwanted = append(e.unwanted, tasks...)
	}
	for _, req := range slices.Clone(r.requests) {
		switch {
		case len(req.got) > 0 && req.inFlight == 0:
			r.closeRequest(req, nil)
		case req.unassigned > 0:
			e.more = true
		}
	}
}

// closeAll closes all requests with ErrServerClosed, and returns the tasks that they had received.
func (r *receiver) closeAll() (got []*Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for len(r.requests) > 0 {
		req := r.requests[0]
		got = append(got, req.got...)
		req.got = nil
		r.closeRequest(req, ErrServerClosed)
	}
	return got
}

// Receive waits until a queue has tasks, and returns up to n of them. queues must be sorted. If ctx
// ends first, it returns ctx.Err() and requeues what it received. The pool must have a receiver.
func (pool *Pool) Receive(ctx context.Context, n int, queues []string) ([]*Attempt, error) {
	req := &request{queues: queues, done: make(chan struct{})}
	fresh, err := pool.receiver.addRequest(req, n) // before fetcherFor: Prune keeps the queues of requests
	if err != nil {
		return nil, err
	}
	fetchers := make([]*Fetcher, len(queues))
	for i, q := range queues {
		fetchers[i] = pool.fetcherFor(q, false)
	}
	for i, q := range queues {
		if slices.Contains(fresh, q) {
			fetchers[i].markNonEmpty(q)
		}
	}
	select {
	case <-req.done:
		return req.got, req.err
	case <-ctx.Done():
	}
	got, late := pool.receiver.cancelRequest(req, ctx.Err())
	if late {
		return req.got, req.err
	}
	requeue(got)
	for _, f := range fetchers {
		f.signal() // it may have a marker that others need now
	}
	return nil, ctx.Err()
}

// markNonEmpty makes the next round trip fetch from a queue.
func (f *Fetcher) markNonEmpty(queue string) {
	f.mu.Lock()
	f.lane.queue(queue).wake()
	f.mu.Unlock()
	f.signal()
}

// requeue puts tasks back to the front of their queue. tasks is sorted, oldest first.
func requeue(tasks []*Attempt) {
	for _, a := range slices.Backward(tasks) { // one by one to the front: the oldest must come last
		f := a.fetcher
		f.mu.Lock()
		f.lane.requeue(a)
		send := f.lane.worthSending()
		f.mu.Unlock()
		if send {
			f.signal()
		}
	}
}

// fetcherFor returns the fetcher of a queue, and adds the queue to it. keep exempts the fetcher
// from pruning, because an attempt may use it at any time.
func (pool *Pool) fetcherFor(queue string, keep bool) *Fetcher {
	lane := pool.cfg.Receiver.Lane(queue)
	pool.mu.Lock()
	if pool.queueCount > pool.pruneAt {
		defer pool.stopAll(pool.prune())
	}
	f, known := pool.lanes[lane]
	if !known {
		f = newFetcher(pool, nil, pool.cfg.Receiver.NewWaiter(queue))
		pool.lanes[lane] = f
		pool.fetchers = append(pool.fetchers, f)
	}
	f.mu.Lock()
	f.kept = f.kept || keep
	before := len(f.lane.queues)
	f.lane.queue(queue)
	pool.queueCount += len(f.lane.queues) - before
	f.mu.Unlock()
	pool.mu.Unlock()
	if !known {
		pool.cfg.Receiver.Start(f)
	}
	return f
}

// minQueueCount is the number of queues above which a pool prunes their state without a call of
// Prune.
const minQueueCount = 10_000

// Prune drops the state of queues that are not configured and that no caller waits for. Callers may
// wait for any number of queues that do not exist, so their state must not grow forever; on a
// Cluster, each has loops and a connection. The pool must have a receiver.
func (pool *Pool) Prune() {
	pool.mu.Lock()
	idle := pool.prune()
	pool.mu.Unlock()
	pool.stopAll(idle)
}

// prune is Prune for callers that hold the lock. It returns the fetchers that are no longer needed.
func (pool *Pool) prune() (idle []*Fetcher) {
	wanted := pool.receiver.neededQueues()
	pool.queueCount = 0
	for lane, f := range pool.lanes {
		f.mu.Lock()
		f.lane.dropUnneeded(wanted, time.Now())
		pool.queueCount += len(f.lane.queues)
		if f.idle() {
			idle = append(idle, f)
			delete(pool.lanes, lane)
		}
		f.mu.Unlock()
	}
	pool.fetchers = slices.DeleteFunc(slices.Clone(pool.fetchers), func(f *Fetcher) bool {
		return slices.Contains(idle, f)
	})
	pool.pruneAt = max(minQueueCount, 2*pool.queueCount)
	return idle
}

// stopAll stops the loops of pruned fetchers.
func (pool *Pool) stopAll(idle []*Fetcher) {
	for _, f := range idle {
		pool.cfg.Receiver.Stop(f)
		f.waiter.Close()
	}
}

// neededQueues returns the queues that are configured or that a caller waits for.
func (r *receiver) neededQueues() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make(map[string]bool, len(r.weights)+len(r.demand))
	for q := range r.weights {
		names[q] = true
	}
	for _, req := range r.requests {
		for _, q := range req.queues {
			names[q] = true
		}
	}
	return names
}

// dropUnneeded drops the queues that are not needed and have no state to keep.
func (l *lane) dropUnneeded(wanted map[string]bool, now time.Time) {
	l.queues = slices.DeleteFunc(l.queues, func(q *queueState) bool {
		if wanted[q.name] || q.phase == unknown || q.wakePending || q.unsettled > 0 || now.Before(q.retryAt) {
			return false
		}
		delete(l.byName, q.name)
		return true
	})
}

// idle reports whether the fetcher is not needed any more. A fetcher that ever had an attempt is
// kept, because a lease may refer to it. The caller holds the lock.
func (f *Fetcher) idle() bool {
	l := &f.lane
	return len(l.queues) == 0 && l.opened == 0 && !f.kept && l.gate.None() && len(l.unknown) == 0 && f.waitingFor == nil
}

// SetQueues changes the weights, the concurrency limits and the partitions of queues. The pool must
// have a receiver.
func (pool *Pool) SetQueues(weights, maxActive map[string]int, partitions map[string]*rdb.Partitions) {
	pool.receiver.mu.Lock()
	pool.receiver.weights, pool.receiver.limits, pool.receiver.partitions = weights, maxActive, partitions
	pool.receiver.mu.Unlock()
	pool.mu.Lock()
	fetchers := slices.Clone(pool.fetchers)
	pool.mu.Unlock()
	for _, f := range fetchers {
		f.mu.Lock()
		for _, q := range f.lane.queues {
			q.weight, q.maxActive, q.credit = max(weights[q.name], 1), maxActive[q.name], 0
			q.partitions = partitions[q.name]
			q.wake() // there may be room now
		}
		slices.SortFunc(f.lane.queues, byImportance)
		f.mu.Unlock()
		f.signal()
	}
}
