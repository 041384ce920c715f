package poll

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultInterval     = 2 * time.Second
	defaultIdleInterval = 10 * time.Second
	defaultStreams      = 1000

	// wakeGap is the least time between two looks, however often Wake is called.
	wakeGap = 200 * time.Millisecond

	// firstBackoff and longestBackoff are how long to wait while Redis cannot be asked.
	firstBackoff   = time.Second
	longestBackoff = 2 * time.Second
)

// Config says what to look at, and how often. The zero value of a field stands for its default.
type Config struct {
	Source       Source           // required
	Interval     time.Duration    // from look to look while somebody subscribes; default 2 s
	IdleInterval time.Duration    // otherwise; default 10 s, and never less than Interval
	Clock        func() time.Time // default time.Now
	Logger       *slog.Logger     // default slog.Default()
	MaxStreams   int              // how many event streams there may be at once; default 1,000
}

// Poller looks at Redis for everybody. It is safe for concurrent use.
type Poller struct {
	cfg     Config
	looker  *looker
	history *history
	details detailsCache
	asking  atomic.Bool // for details
	streams atomic.Int64

	latest atomic.Pointer[Snapshot]
	wake   chan struct{} // someone wants a look now
	nudge  chan struct{} // the first subscriber came: the time until the next look is another

	mu          sync.Mutex
	started     bool
	subscribers map[*subscriber]struct{}
	closing     chan struct{}
	done        chan struct{} // closed when no look is being made any more
}

type subscriber struct{ ch chan *Snapshot }

// New returns a poller that does nothing before Start. It panics without a Source.
func New(cfg Config) *Poller {
	if cfg.Source == nil {
		panic("poll: no Source")
	}
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.IdleInterval <= 0 {
		cfg.IdleInterval = defaultIdleInterval
	}
	cfg.IdleInterval = max(cfg.IdleInterval, cfg.Interval)
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.MaxStreams <= 0 {
		cfg.MaxStreams = defaultStreams
	}
	h := newHistory(2*cfg.IdleInterval + lookTimeout)
	return &Poller{
		cfg: cfg, history: h, looker: newLooker(cfg.Source, cfg.Clock, cfg.Logger, h),
		wake: make(chan struct{}, 1), nudge: make(chan struct{}, 1),
		subscribers: make(map[*subscriber]struct{}), closing: make(chan struct{}), done: make(chan struct{}),
	}
}

// Start begins to look. Calling it again, or after Close, does nothing.
func (p *Poller) Start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started || p.closed() {
		return
	}
	p.started = true
	go p.run()
}

// Close ends looking, all subscriptions and all event streams, and returns when no look is being made any more. Calling it again, or
// before Start, is safe.
func (p *Poller) Close() {
	p.mu.Lock()
	if !p.closed() {
		close(p.closing)
		for s := range p.subscribers {
			close(s.ch)
		}
		clear(p.subscribers)
		if !p.started {
			close(p.done)
		}
	}
	p.mu.Unlock()
	<-p.done
}

func (p *Poller) closed() bool {
	select {
	case <-p.closing:
		return true
	default:
		return false
	}
}

// Latest is what the last look saw; nil before the first one has ended.
func (p *Poller) Latest() *Snapshot { return p.latest.Load() }

// ErrClosed is what Fresh returns when there are no more looks.
var ErrClosed = errors.New("poll: the poller is closed")

// Fresh is what a look saw that began at since or later; it makes one if there is none. So whoever has just changed something
// sees it. If ctx ends before, it returns the latest snapshot, which may be nil, with the error of ctx.
func (p *Poller) Fresh(ctx context.Context, since time.Time) (*Snapshot, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	snapshots := p.subscribe(ctx, false)
	for {
		if s := p.Latest(); s != nil && !s.At.Before(since) {
			return s, nil
		}
		p.Wake()
		select {
		case _, ok := <-snapshots:
			if !ok {
				if err := ctx.Err(); err != nil {
					return p.Latest(), err
				}
				return p.Latest(), ErrClosed
			}
		case <-ctx.Done():
			return p.Latest(), ctx.Err()
		}
	}
}

// Wake has a look made now, or as soon as the present one has ended. Many calls at once make one look.
func (p *Poller) Wake() { signal(p.wake) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Subscribe tells of each new snapshot, and of the latest at once, until ctx ends or the poller is closed; then the channel is closed.
// Whoever is slow misses snapshots, and gets the latest when it looks.
func (p *Poller) Subscribe(ctx context.Context) <-chan *Snapshot { return p.subscribe(ctx, true) }

func (p *Poller) subscribe(ctx context.Context, latest bool) <-chan *Snapshot {
	s := &subscriber{ch: make(chan *Snapshot, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed() || ctx.Err() != nil {
		close(s.ch)
		return s.ch
	}
	if last := p.Latest(); latest && last != nil {
		s.ch <- last
	}
	p.subscribers[s] = struct{}{}
	if len(p.subscribers) == 1 {
		signal(p.nudge)
	}
	context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if _, ok := p.subscribers[s]; ok {
			delete(p.subscribers, s)
			close(s.ch)
		}
	})
	return s.ch
}

// publish hands a snapshot to all subscribers. It never waits: where one has not been taken yet, the new one takes its place.
func (p *Poller) publish(s *Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest.Store(s)
	for sub := range p.subscribers {
		select {
		case <-sub.ch:
		default:
		}
		sub.ch <- s
	}
}

// run looks until Close.
func (p *Poller) run() {
	defer close(p.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-p.closing
		cancel()
	}()
	backoff := time.Duration(0)
	for {
		began := time.Now()
		s := p.looker.look(ctx)
		if ctx.Err() != nil {
			return
		}
		p.publish(s)
		switch {
		case s.Err == nil:
			backoff = 0
		case backoff == 0:
			backoff = firstBackoff
		default:
			backoff = longestBackoff
		}
		if !p.rest(ctx, began, time.Now(), backoff) {
			return
		}
	}
}

// rest waits until the next look is due. It reports false if there is to be none.
func (p *Poller) rest(ctx context.Context, began, ended time.Time, backoff time.Duration) bool {
	soonest := ended.Add(max(wakeGap, backoff))
	for woken := false; ; {
		due := soonest
		if !woken && backoff == 0 {
			due = p.due(began, ended)
		}
		timer := time.NewTimer(time.Until(due))
		select {
		case <-timer.C:
			return true
		case <-p.wake:
			woken = true
		case <-p.nudge:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
}

// due is when to look next if nobody asks for it. A look that took long is followed by as long a rest, so that a slow Redis is not
// asked all the time.
func (p *Poller) due(began, ended time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	interval := p.cfg.IdleInterval
	if len(p.subscribers) > 0 {
		interval = p.cfg.Interval
	}
	due, rested := began.Add(interval), ended.Add(min(ended.Sub(began), interval))
	if due.Before(rested) {
		return rested
	}
	return due
}

// History tells metrics of a queue, or in total if it is empty, over the last span of time (ten minutes if it is 0, three days at most):
// at most 400 points.
func (p *Poller) History(queue string, metrics []Metric, span time.Duration) Series {
	return p.history.query(queue, metrics, span)
}
