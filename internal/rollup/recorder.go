package rollup

import (
	"sync"
	"sync/atomic"
	"time"
)

// The limits of what a Recorder counts by itself, of a queue between two flushes.
const (
	MaxTypes    = 100
	MaxKinds    = 100 // pairs of a kind of error and a type
	maxTypeName = 256 // bytes
)

// Attempt is an attempt that ended.
type Attempt struct {
	Queue, Type string
	Outcome     Outcome
	Duration    time.Duration // negative: it did not start
	Wait        time.Duration // negative: unknown
	Failed      bool
	Err         string // text of the error, if Failed
}

// Recorder counts attempts. It is safe for concurrent use.
type Recorder struct {
	kinds  kinds
	offset atomic.Int64 // of the clock of Redis, in nanoseconds

	number atomic.Uint64 // of the last call

	mu     sync.RWMutex
	queues map[string]*queue
}

// NewRecorder returns a Recorder. kindOf returns the kind of the text of an error.
func NewRecorder(kindOf func(text string) string) *Recorder {
	return &Recorder{kinds: kinds{of: kindOf}, queues: make(map[string]*queue)}
}

// Clock returns the time by the clock of Redis, as far as it is known.
func (r *Recorder) Clock(now time.Time) time.Time { return now.Add(time.Duration(r.offset.Load())) }

// SetClock records the time of Redis, in Unix milliseconds. A reply takes a moment, so small
// differences are ignored.
func (r *Recorder) SetClock(ms int64, now time.Time) {
	if offset := time.UnixMilli(ms).Sub(now); offset.Abs() > 500*time.Millisecond {
		r.offset.Store(int64(offset))
	} else {
		r.offset.Store(0)
	}
}

// queue counts the attempts of one queue.
type queue struct {
	mu      sync.Mutex
	types   map[string]*cell
	errors  map[errorName]*errorCount
	entries []Entry // of minutes that are over, or frozen by a failed flush
	dropped int64   // attempts that are not counted, because there were too many entries

	sending *Batch // the call without a reply
	rest    []Batch
	sized   int64 // the last minute whose sizes were sent
}

// cell counts the attempts of one type in one minute. Its memory is used again in the next one.
type cell struct {
	minute   int64 // since 1970
	attempts int64
	counts   [NumOutcomes]int64
	duration counter
	wait     counter
}

// counter is a histogram that does not allocate.
type counter struct {
	nanos   int64
	counts  [numBuckets]uint32
	present bool
}

func (c *counter) observe(d time.Duration) {
	c.nanos += int64(d)
	c.counts[bucketOf(d)]++
	c.present = true
}

// Record counts an attempt that ends now.
func (r *Recorder) Record(now time.Time, a *Attempt) {
	minute := r.Clock(now).Unix() / 60
	kind := ""
	if a.Failed && a.Err != "" {
		kind = r.kinds.lookUp(a.Err, now)
	}
	r.mu.RLock()
	defer r.mu.RUnlock() // prune must not remove the queue meanwhile
	q := r.queues[a.Queue]
	for q == nil {
		r.mu.RUnlock()
		r.create(a.Queue)
		r.mu.RLock()
		q = r.queues[a.Queue]
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.cell(a.Type)
	if c.minute != minute {
		q.rotate(a.Type, c, minute)
	}
	c.attempts++
	c.counts[a.Outcome]++
	if a.Duration >= 0 {
		c.duration.observe(a.Duration)
	}
	if a.Wait >= 0 {
		c.wait.observe(a.Wait)
	}
	if a.Failed {
		q.countError(kind, a.Type, minute)
	}
}

// create adds a queue unless there is one.
func (r *Recorder) create(name string) *queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queues[name]
	if q == nil {
		q = &queue{types: make(map[string]*cell), errors: make(map[errorName]*errorCount)}
		r.queues[name] = q
	}
	return q
}

// cell returns the cell of a type, or that of all types beyond the limit.
func (q *queue) cell(typename string) *cell {
	c := q.types[typename]
	if c != nil {
		return c
	}
	if len(typename) > maxTypeName || len(q.types) >= MaxTypes {
		typename = ""
	}
	if c = q.types[typename]; c == nil {
		c = &cell{}
		q.types[typename] = c
	}
	return c
}

// rotate moves the counts of the last minute of a cell to the entries.
func (q *queue) rotate(typename string, c *cell, minute int64) {
	if c.attempts > 0 {
		if q.types[typename] != c {
			typename = ""
		}
		q.freeze(typename, c)
	}
	c.minute = minute
}

// freeze moves the counts of a cell to the entries.
func (q *queue) freeze(typename string, c *cell) {
	stats := c.stats()
	q.add(Entry{Minute: c.minute, Table: TypeTable, Type: typename, Stats: stats}, c.attempts)
	*c = cell{minute: c.minute}
}

func (c *cell) stats() *Stats {
	return &Stats{Counts: c.counts, Duration: c.duration.histogram(), Wait: c.wait.histogram()}
}

func (c *counter) histogram() (h Histogram) {
	if !c.present {
		return h
	}
	first, last := -1, 0
	for i := range c.counts {
		n := c.counts[i]
		if n > 0 {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	h = Histogram{first: first, counts: make([]int64, last-first+1), sum: c.nanos / int64(time.Microsecond)}
	for i := range h.counts {
		h.counts[i] = int64(c.counts[first+i])
	}
	return h
}
