// Package trend caches the statistics over time that servers record in Redis, for charts. A range
// is read once; later reads fetch only the last few minutes of it.
package trend

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
)

// Source is the part of asynq.Inspector that a Cache reads.
type Source interface {
	QueueHistory(ctx context.Context, queue string, from, to time.Time) ([]*asynq.QueuePoint, error)
	TypeHistory(ctx context.Context, queue, typename string, from, to time.Time) ([]*asynq.TypePoint, error)
	TypeStats(ctx context.Context, queue string, from, to time.Time) ([]*asynq.TypeStats, error)
	ErrorStats(ctx context.Context, queue string, from, to time.Time) ([]*asynq.ErrorStats, error)
}

// Subject is what a series is about: a queue, a task type, or all queues.
type Subject struct {
	Queue  string // empty: all queues
	Type   string
	OfType bool // of the Type, which may be empty for types that are not counted by themselves
}

// Range is a time range that ends now, and its resolution.
type Range struct{ Length, Step time.Duration }

// The ranges. Minutes are kept for 48 hours, and hours for 30 days.
var (
	Hour   = Range{time.Hour, time.Minute}
	Hours  = Range{6 * time.Hour, time.Minute}
	Days   = Range{48*time.Hour - 10*time.Minute, 10 * time.Minute}
	Month  = Range{30 * 24 * time.Hour, time.Hour}
	coarse = Range{50 * time.Hour, time.Hour} // Days of many queues
)

// RangeOf returns the shortest range that covers a length of time; Month if it is longer.
func RangeOf(length time.Duration) Range {
	for _, r := range []Range{Hour, Hours} {
		if length <= r.Length {
			return r
		}
	}
	if length <= 48*time.Hour {
		return Days
	}
	return Month
}

// start returns the start of the first bucket of the range.
func (r Range) start(now time.Time) time.Time { return now.Truncate(r.Step).Add(r.Step - r.Length) }

const (
	// MostQueues is the number of queues of which a series of all queues is read.
	MostQueues = 500

	// manyQueues is the number of queues from which the last 48 hours are read by hour.
	manyQueues = 50

	fresh     = 15 * time.Second // how long a value is used
	overlap   = 2 * time.Minute  // which is read again: servers write up to a minute late
	youngest  = 30 * time.Second // of a bucket that has a rate
	timeout   = 10 * time.Second
	mostKept  = 64 // series and lists
	recording = 5 * time.Minute
)

// ErrManyQueues means that the statistics of all queues are not read because there are more than
// MostQueues.
var ErrManyQueues = errors.New("there are more than 500 queues")

// Cache caches statistics. It is safe for concurrent use.
type Cache struct {
	source Source
	now    func() time.Time

	mu    sync.Mutex
	known map[any]*entry
}

type key struct {
	Subject
	Range
}

// entry is a cached series or list.
type entry struct {
	used  time.Time // guarded by Cache.mu
	mu    sync.Mutex
	tried time.Time // start of the last read
	err   error

	read    time.Time // start of the last successful read
	buckets []bucket  // by time, without those that have no data
	last    map[string]time.Time

	list any
}

type bucket struct {
	at int64
	values
}

// New returns a cache.
func New(source Source) *Cache {
	return &Cache{source: source, now: time.Now, known: make(map[any]*entry)}
}

// entry returns the entry of a key. It drops the one that was not used for longest if there are
// many.
func (c *Cache) entry(of any) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[of]
	if e == nil {
		if len(c.known) >= mostKept {
			var oldest any
			for k, other := range c.known {
				if oldest == nil || other.used.Before(c.known[oldest].used) {
					oldest = k
				}
			}
			delete(c.known, oldest)
		}
		e = &entry{last: make(map[string]time.Time)}
		c.known[of] = e
	}
	e.used = c.now()
	return e
}

// State is the current state of the system.
type State struct {
	Queues int               // number of queues
	Paused func(string) bool // queues whose latency does not count among all queues; nil: none
	Down   bool              // Redis is unreachable: nothing is read
}

// History returns metrics over a range. After an error it returns those of the last successful
// read, and the error. The number of its Redis commands is that of Inspector.QueueHistory or
// TypeHistory for the range at first, and for the last minutes later.
func (c *Cache) History(ctx context.Context, of Subject, r Range, state State) (Series, error) {
	if of.Queue == "" {
		switch {
		case state.Queues > MostQueues:
			return Series{}, ErrManyQueues
		case state.Queues > manyQueues && r == Days:
			r = coarse
		}
	}
	e := c.entry(key{of, r})
	e.mu.Lock()
	defer e.mu.Unlock()
	now := c.now()
	if !state.Down && (now.Sub(e.tried) >= fresh || now.Before(e.tried)) {
		e.tried = now
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout) // others wait for the same read
		e.err = c.refresh(ctx, e, of, r, state, now)
		cancel()
	}
	return e.series(of, r, now), e.err
}

// refresh reads what is new since the last read.
func (c *Cache) refresh(ctx context.Context, e *entry, of Subject, r Range, state State, now time.Time) error {
	from := r.start(now)
	if again := e.read.Add(-overlap).Truncate(r.Step); again.After(from) {
		from = again
	}
	var failed error
	found := make(map[int64]*sums)
	at := func(start time.Time) *sums {
		n := start.Truncate(r.Step).Unix()
		if found[n] == nil {
			found[n] = new(sums)
		}
		return found[n]
	}
	if of.OfType {
		points, err := c.source.TypeHistory(ctx, of.Queue, of.Type, from, time.Time{})
		if err != nil && len(points) == 0 {
			return err
		}
		failed = err // of some queues
		for _, p := range points {
			at(p.Start).add(&p.AttemptStats, true)
		}
	} else {
		points, err := c.source.QueueHistory(ctx, of.Queue, from, time.Time{})
		if err != nil && len(points) == 0 {
			return err
		}
		failed = err // of some queues
		for _, p := range points {
			s := at(p.Start)
			s.add(&p.AttemptStats, of.Queue != "")
			s.addSizes(p.Start.Unix(), p.Sizes, of.Queue != "" || state.Paused == nil || !state.Paused(p.Queue))
			e.last[p.Queue] = p.Start.Add(p.Length)
		}
	}
	start := r.start(now).Unix()
	e.buckets = slices.DeleteFunc(e.buckets, func(b bucket) bool { return b.at >= from.Unix() || b.at < start })
	for n, s := range found {
		seconds := min(r.Step.Seconds(), now.Sub(time.Unix(n, 0)).Seconds())
		if n < start {
			continue
		}
		v := s.values(max(seconds, 1))
		if seconds < youngest.Seconds() {
			v[Processed], v[Failed] = math.NaN(), math.NaN()
		}
		e.buckets = append(e.buckets, bucket{n, v})
	}
	slices.SortFunc(e.buckets, func(a, b bucket) int { return int(a.at - b.at) })
	e.read = now
	return failed
}

// Recorded returns whether a server of the queue has recorded statistics in the last minutes, as
// far as the last History of all queues found out.
func (c *Cache) Recorded(r Range, state State, queue string) bool {
	if state.Queues > manyQueues && r == Days {
		r = coarse
	}
	e := c.entry(key{Subject{}, r})
	e.mu.Lock()
	defer e.mu.Unlock()
	return c.now().Sub(e.last[queue]) < recording
}

// TypeStats returns the attempts of all task types over a range, as Inspector.TypeStats.
func (c *Cache) TypeStats(ctx context.Context, r Range, state State) ([]*asynq.TypeStats, error) {
	if state.Queues > MostQueues {
		return nil, ErrManyQueues
	}
	type of struct{ r Range }
	return cached(ctx, c, state, of{r}, func(ctx context.Context) ([]*asynq.TypeStats, error) {
		return c.source.TypeStats(ctx, "", r.start(c.now()), time.Time{})
	})
}

// ErrorStats returns the errors of a queue over a range, as Inspector.ErrorStats.
func (c *Cache) ErrorStats(ctx context.Context, queue string, r Range, state State) ([]*asynq.ErrorStats, error) {
	if queue == "" && state.Queues > MostQueues {
		return nil, ErrManyQueues
	}
	type of struct {
		queue string
		r     Range
	}
	return cached(ctx, c, state, of{queue, r}, func(ctx context.Context) ([]*asynq.ErrorStats, error) {
		return c.source.ErrorStats(ctx, queue, r.start(c.now()), time.Time{})
	})
}

// cached returns a list that is read at most once in the time for which it is fresh.
func cached[T any](ctx context.Context, c *Cache, state State, of any, read func(context.Context) ([]T, error)) ([]T, error) {
	e := c.entry(of)
	e.mu.Lock()
	defer e.mu.Unlock()
	began := c.now()
	if !state.Down && (began.Sub(e.tried) >= fresh || began.Before(e.tried)) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		list, err := read(ctx)
		cancel()
		if e.err = err; err == nil {
			e.list = list
		}
		e.tried = began.Add(min(4*c.now().Sub(began), 4*fresh)) // a slow read is repeated less often
	}
	list, _ := e.list.([]T)
	return list, e.err
}
