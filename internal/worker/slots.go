package worker

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// minLendDelay is how long a request keeps the slots reserved for its fetches while other lanes
// wait for slots. The delay is twice the last reply time of the lane if that is longer.
const minLendDelay = 500 * time.Millisecond

// slots counts the free slots and divides them among the lanes.
type slots struct {
	mu       sync.Mutex
	total    int
	free     int // negative while more attempts run than a reduced total allows
	strict   bool
	lanes    []*laneSlots
	inFlight []*reservation // of several lanes, oldest first
	closed   atomic.Bool    // no tasks are fetched any more

	paused atomic.Pointer[map[string]bool] // queues that are not fetched from; nil: none; replaced by each change
}

// laneSlots is the demand of one lane.
type laneSlots struct {
	slots     *slots
	cfg       *Config
	weight    int  // of its ready queues; 0: no demand
	priority  int  // of its most important ready queue
	healthy   bool // a failing lane gets one slot to retry, and blocks no other lane
	unmet     bool // it got fewer slots than it could use
	lentTrips int  // requests whose slots are lent; the lane blocks no other lane until they return
	lendDelay time.Duration
	wake      func()
}

// reservation is the slots that a round trip reserves while it is in flight.
type reservation struct {
	lane   *laneSlots
	n      int
	sentAt time.Time
	lent   bool // other lanes may use them
}

var _ demand = (*laneSlots)(nil)
var _ claim = (*reservation)(nil)

func newSlots(total int, strict bool) *slots {
	return &slots{total: total, free: total, strict: strict}
}

// resize changes the number of slots. If fewer are left than are in use, attempts that end do not
// free theirs until the new number is reached.
func (s *slots) resize(total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += total - s.total
	s.total = total
}

// setPaused pauses or resumes the fetches from a queue.
func (s *slots) setPaused(queue string, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queues := make(map[string]bool)
	if old := s.paused.Load(); old != nil {
		maps.Copy(queues, *old)
	}
	if queues[queue] = true; !paused {
		delete(queues, queue)
	}
	if len(queues) == 0 {
		s.paused.Store(nil)
		return
	}
	s.paused.Store(&queues)
}

// isPaused reports whether tasks of a queue are not fetched.
func (s *slots) isPaused(queue string) bool {
	paused := s.paused.Load()
	return paused != nil && (*paused)[queue]
}

func (s *slots) join(cfg *Config, wake func()) *laneSlots {
	d := &laneSlots{slots: s, cfg: cfg, wake: wake, healthy: true, lendDelay: minLendDelay}
	s.mu.Lock()
	s.lanes = append(s.lanes, d)
	s.mu.Unlock()
	return d
}

// available returns the number of free slots.
func (s *slots) available() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}

// release returns n slots.
func (s *slots) release(n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
	if len(s.lanes) > 1 {
		s.wakeUnmet(nil)
	}
}

// lend lends the slots of requests that are in flight for too long. The caller holds the lock.
func (s *slots) lend() {
	for _, r := range s.inFlight {
		if !r.lent && time.Since(r.sentAt) >= r.lane.lendDelay {
			s.lendOne(r)
		}
	}
}

// lendOne lends the slots of one request. The caller holds the lock.
func (s *slots) lendOne(r *reservation) {
	r.lent = true
	r.lane.lentTrips++
	s.free += r.n
	s.wakeUnmet(r.lane)
}

// wakeUnmet wakes the lanes that wait for slots. The caller holds the lock.
func (s *slots) wakeUnmet(except *laneSlots) {
	for _, d := range s.lanes {
		if d != except && d.unmet {
			d.wake()
		}
	}
}

// reserve takes the lane's share of the free slots. weight and priority are those of its ready
// queues.
func (d *laneSlots) reserve(weight, priority int) int {
	s := d.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lend()
	yields := d.weight > 0 && (weight == 0 || priority < d.priority)
	d.weight, d.priority = weight, priority
	if yields && s.strict {
		s.wakeUnmet(d)
	}
	if weight == 0 {
		d.unmet = false
		return 0
	}
	all := weight
	for _, other := range s.lanes {
		if other == d || other.weight == 0 || !other.healthy || other.lentTrips > 0 {
			continue
		}
		if s.strict && other.priority > priority {
			d.unmet = true
			return 0
		}
		all += other.weight
	}
	n := (max(s.free, 0)*weight + all - 1) / all
	if s.strict {
		n = max(s.free, 0)
	}
	if !d.healthy {
		n = min(n, 1)
	}
	s.free -= n
	d.unmet = n == 0
	return n
}

func (d *laneSlots) settings(queue string) (weight, maxActive int, partitions *rdb.Partitions) {
	return d.cfg.Queues[queue], d.cfg.MaxActive[queue], d.cfg.Partitions[queue]
}

func (d *laneSlots) wants(queue string) bool {
	return !d.slots.closed.Load() && !d.slots.isPaused(queue)
}

func (d *laneSlots) accepts(queue string) bool { return d.wants(queue) && d.slots.available() > 0 }

func (d *laneSlots) anyFree() bool {
	s := d.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lend()
	d.unmet = d.unmet || s.free <= 0
	return s.free > 0
}

// retryAt returns when the next request of another lane is in flight for too long, if the lane
// waits for slots; at the latest after minLendDelay, because others may send requests until then.
func (d *laneSlots) retryAt(now time.Time) (at time.Time) {
	s := d.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lanes) == 1 {
		return time.Time{}
	}
	s.lend()
	if d.unmet = d.unmet || s.free <= 0; !d.unmet {
		return time.Time{}
	}
	at = now.Add(minLendDelay)
	for _, r := range s.inFlight {
		if due := r.sentAt.Add(r.lane.lendDelay); !r.lent && due.Before(at) {
			at = due
		}
	}
	return at
}

func (d *laneSlots) setHealthy(healthy bool) {
	d.slots.mu.Lock()
	defer d.slots.mu.Unlock()
	if d.healthy != healthy {
		d.healthy = healthy
		d.slots.wakeUnmet(d)
	}
}

func (d *laneSlots) newClaim() claim { return &reservation{lane: d} }

func (d *laneSlots) opened(*Attempt) {}
func (d *laneSlots) closed(*Attempt) {}

// plan reserves the lane's share of the free slots for fetches from the queues.
func (r *reservation) plan(queues []*queueState, fetch func(q *queueState, n int)) {
	s, weight, priority := r.lane.slots, 0, 0
	if s.paused.Load() != nil {
		queues = slices.DeleteFunc(slices.Clone(queues), func(q *queueState) bool { return s.isPaused(q.name) })
	}
	if !s.closed.Load() {
		for _, q := range queues {
			weight += q.weight
			priority = max(priority, q.weight)
		}
	}
	free := r.lane.reserve(weight, priority)
	r.n = 0
	share(free, queues, r.lane.cfg.Strict, func(q *queueState, n int) {
		n = min(n, maxFetch)
		r.n += n
		fetch(q, n)
	})
	s.release(free - r.n)
}

// sent records that a round trip of the lane is in flight. Its slots are lent immediately if the
// lane is failing.
func (r *reservation) sent() {
	s, d := r.lane.slots, r.lane
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lanes) == 1 {
		return
	}
	r.lent, r.sentAt = false, time.Now()
	s.inFlight = append(s.inFlight, r)
	if !d.healthy {
		s.lendOne(r)
	}
}

// land releases the slots that the tasks do not use. Tasks without a slot are not wanted: other
// lanes use it, there are fewer slots now, or the pool has stopped fetching from the queue.
func (r *reservation) land(ok bool, fetches []*fetch, e *effects) {
	s, stopped := r.lane.slots, r.lane.slots.closed.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.free
	if !r.lent {
		s.free += r.n
	}
	r.n = 0
	for _, f := range fetches {
		n := min(len(f.tasks), max(s.free, 0))
		if stopped || s.isPaused(f.call.Queue) {
			n = 0
		}
		s.free -= n
		e.run, e.unwanted = append(e.run, f.tasks[:n]...), append(e.unwanted, f.tasks[n:]...)
	}
	if len(s.lanes) == 1 {
		return
	}
	s.inFlight = slices.DeleteFunc(s.inFlight, func(other *reservation) bool { return other == r })
	if ok {
		r.lane.lendDelay = max(minLendDelay, 2*time.Since(r.sentAt))
	}
	if r.lent {
		r.lane.lentTrips--
	}
	if s.free > free {
		s.wakeUnmet(nil)
	}
}
