package dash

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/health"
)

const (
	// pollTimeout is the timeout of one poll.
	pollTimeout = 10 * time.Second
	// maxRetryDelay is the maximum delay after a failed poll, and before the second poll, which
	// yields the first rates.
	maxRetryDelay = 2 * time.Second
)

// snapshot is the result of one poll.
type snapshot struct {
	base
	query query
	body  body
	// err is the error that prevented reading body.
	err error
}

// errInterrupted means that the page changed during the poll.
var errInterrupted = errors.New("interrupted")

// pollingMsg reports the start of a poll.
type pollingMsg struct{ at time.Time }

// failedMsg reports a failed poll.
type failedMsg struct{ err error }

// poller reads Redis at the refresh interval, and whenever the query changes.
type poller struct {
	insp    *asynq.Inspector
	flows   *flow.Inspector
	refresh time.Duration
	log     *slog.Logger
	send    func(tea.Msg)
	wake    chan struct{}
	recheck chan struct{} // checks the health now

	settings health.Settings

	mu      sync.Mutex
	query   query
	refetch bool               // refetch everything, including cached data
	stop    bool               // stop the search
	cancel  context.CancelFunc // cancels the poll in flight

	// The following fields belong to run.
	base    base
	memory  map[string]int64
	memAt   time.Time
	kept    kept
	failing bool

	search   *search // the current one; nil if the page has no filter
	searches sync.WaitGroup
}

func newPoller(o *Options, send func(tea.Msg)) *poller {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &poller{
		insp: o.Inspector, flows: flow.Inspect(o.Inspector), refresh: refreshOf(*o), log: log, send: send, settings: o.Health,
		wake: make(chan struct{}, 1), recheck: make(chan struct{}, 1),
	}
}

// setQuery changes the data that the poller fetches. It does not block.
func (p *poller) setQuery(q query) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.query == q {
		return
	}
	p.query = q
	if p.cancel != nil {
		p.cancel()
	}
	p.signal()
}

// refreshNow makes the poller refetch everything now. It does not block.
func (p *poller) refreshNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refetch = true
	p.signal()
	select {
	case p.recheck <- struct{}{}:
	default:
	}
}

// stopSearch stops the running search. It does not block.
func (p *poller) stopSearch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop = true
	p.signal()
}

func (p *poller) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run polls until ctx ends.
func (p *poller) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer p.searches.Wait()
	var checks sync.WaitGroup
	defer checks.Wait()
	defer cancel()
	checks.Go(func() { p.checkHealth(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := true
	for polls := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			due = true
		case <-p.wake:
		}
		p.send(pollingMsg{at: time.Now()})
		err := p.pollOnce(ctx, due)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errInterrupted) {
			continue // setQuery has also sent a wake signal
		}
		p.report(ctx, err)
		if due {
			due = false
			polls++
			next := p.refresh
			if err != nil || polls == 1 {
				next = min(next, maxRetryDelay)
			}
			timer.Reset(next)
		}
	}
}

// report logs when polls start to fail and when they succeed again.
func (p *poller) report(ctx context.Context, err error) {
	switch {
	case err != nil && !p.failing:
		p.log.LogAttrs(ctx, slog.LevelError, "dash: cannot read Redis", slog.Any("error", err))
	case err == nil && p.failing:
		p.log.LogAttrs(ctx, slog.LevelInfo, "dash: Redis is reachable again")
	}
	p.failing = err != nil
}

// pollOnce polls once and sends the result. If due is false, it reuses the known state of queues
// and servers.
func (p *poller) pollOnce(whole context.Context, due bool) error {
	ctx, cancel := context.WithTimeout(whole, pollTimeout)
	defer cancel()
	p.mu.Lock()
	q, refetch, stop := p.query, p.refetch, p.stop
	p.refetch, p.stop, p.cancel = false, false, cancel
	p.mu.Unlock()
	p.searchFor(whole, q, due, refetch, stop)

	if refetch {
		p.kept = kept{}
	}
	s, err := p.fetch(ctx, q, due || refetch || p.base.at.IsZero())
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return errInterrupted
	case err == nil:
		err = ctx.Err()
	}
	if err != nil {
		p.send(failedMsg{err: err})
		return err
	}
	p.send(s)
	return nil
}

func (p *poller) fetch(ctx context.Context, q query, due bool) (snapshot, error) {
	f := fetcher{ctx: ctx, insp: p.insp.WithContext(ctx), flows: p.flows}
	if due {
		memory := time.Since(p.memAt) > memoryInterval
		b, err := f.base(memory)
		if err != nil {
			return snapshot{}, err
		}
		p.remember(&b, memory)
		p.base = b
	}
	s := snapshot{base: p.base, query: q}
	if p.search != nil {
		s.body, s.err = p.search.body()
	} else {
		s.body, s.err = f.body(q, &p.base, &p.kept)
	}
	return s, nil
}

// searchFor starts, repeats or stops the search of a page with a filter.
func (p *poller) searchFor(ctx context.Context, q query, due, refetch, stop bool) {
	s := p.search
	if s != nil && (q != s.query || refetch) {
		s.cancel()
	}
	if q.filter == "" || q.queue == "" {
		p.search = nil
		return
	}
	var before *search
	if s != nil && q == s.query {
		switch {
		case refetch || due && s.due(p.refresh):
			if before = s; s.running() {
				before = s.before
			}
		case stop:
			s.stop()
			return
		default:
			return
		}
		if before != nil {
			before.before = nil // keep only one previous search
		}
	}
	p.searches.Add(1)
	p.search = startSearch(ctx, p.insp, q, before, p.wakeUp, p.searches.Done)
}

// wakeUp makes run process new search results.
func (p *poller) wakeUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal()
}

// remember caches the memory usage of queues, which is sampled less often than other data.
func (p *poller) remember(b *base, sampled bool) {
	if sampled {
		p.memory, p.memAt = make(map[string]int64), b.at
	}
	for _, q := range b.queues {
		switch {
		case q.info == nil:
		case sampled:
			p.memory[q.name] = q.info.MemoryUsage
		default:
			q.info.MemoryUsage = p.memory[q.name]
		}
	}
}
