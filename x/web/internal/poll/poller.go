package poll

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq/x/health"
)

const (
	defaultInterval     = 2 * time.Second
	defaultIdleInterval = 10 * time.Second
	defaultStreams      = 1000

	// wakeGap is the minimum time between two polls, regardless of the number of Wake calls.
	wakeGap = 200 * time.Millisecond

	// firstBackoff and longestBackoff bound the delay while Redis is unreachable.
	firstBackoff   = time.Second
	longestBackoff = 2 * time.Second
)

// Config configures a Poller. Zero fields have the default value.
type Config struct {
	Source       Source           // required
	Interval     time.Duration    // between polls while there are subscribers; default 2 s
	IdleInterval time.Duration    // between polls otherwise; default 10 s, at least Interval
	Clock        func() time.Time // default time.Now
	Logger       *slog.Logger     // default slog.Default()
	Health       health.Settings  // thresholds; New panics if they are invalid
	MaxStreams   int              // maximum number of concurrent event streams; default 1,000

	// Unmute ends the mutes of acknowledged causes that are gone. If nil, they stay.
	Unmute func(ctx context.Context, ids ...string) (int, error)
}

// Poller polls Redis on behalf of all pages. It is safe for concurrent use.
type Poller struct {
	cfg         Config
	snapshotter *snapshotter
	history     *history
	details     detailsCache
	asking      atomic.Bool // for details
	streams     atomic.Int64

	latest atomic.Pointer[Snapshot]
	wake   chan struct{} // requests a poll now
	nudge  chan struct{} // the first subscriber arrived: the interval changes

	mu          sync.Mutex
	started     bool
	subscribers map[*subscriber]struct{}
	closing     chan struct{}
	done        chan struct{} // closed when the last poll has ended
}

type subscriber struct{ ch chan *Snapshot }

// New returns a poller, which does nothing before Start. It panics without a Source.
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
	h := newHistory(2*cfg.IdleInterval + pollTimeout)
	return &Poller{
		cfg: cfg, history: h, snapshotter: newSnapshotter(cfg, h),
		wake: make(chan struct{}, 1), nudge: make(chan struct{}, 1),
		subscribers: make(map[*subscriber]struct{}), closing: make(chan struct{}), done: make(chan struct{}),
	}
}

// Start starts polling. It does nothing when called again or after Close.
func (p *Poller) Start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started || p.closed() {
		return
	}
	p.started = true
	go p.run()
}

// Close stops polling, all subscriptions and all event streams, and waits for the last poll to end.
// It may be called again, and before Start.
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

// Latest returns the last snapshot; nil before the first one.
func (p *Poller) Latest() *Snapshot { return p.latest.Load() }

// ErrClosed is the error of Fresh after Close.
var ErrClosed = errors.New("poll: poller closed")

// Fresh returns a snapshot that was started at since or later, polling if necessary, so that
// callers see their own changes. If ctx ends first, it returns the latest snapshot, which may be
// nil, and the error of ctx.
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

// Wake requests a poll now, or as soon as the current one has ended. Concurrent calls share one
// poll.
func (p *Poller) Wake() { signal(p.wake) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Subscribe sends the latest snapshot and each new one, until ctx ends or the poller is closed;
// then it closes the channel. A slow subscriber misses snapshots, and receives the latest one next.
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

// publish sends a snapshot to all subscribers. It never blocks: a new snapshot replaces one that
// was not received yet.
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

// run polls until Close.
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
		s := p.snapshotter.snapshot(ctx)
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

// rest waits until the next poll is due. It returns false if polling ends.
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

// due returns the time of the next regular poll. A slow poll is followed by a delay as long as the
// poll, so that a slow Redis is not polled all the time.
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

// History returns metrics of a queue, or of all queues if it is empty, over the last span of time
// (ten minutes if 0, at most three days). It returns at most 400 points.
func (p *Poller) History(queue string, metrics []Metric, span time.Duration) Series {
	return p.history.query(queue, metrics, span)
}
