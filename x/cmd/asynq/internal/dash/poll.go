package dash

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
)

const (
	// pollWithin bounds one look at Redis.
	pollWithin = 10 * time.Second
	// retryEvery is the most that is waited after a failure, and before the second look, which the first rates come from.
	retryEvery = 2 * time.Second
)

// snapshot is what one look at Redis found.
type snapshot struct {
	base
	want want
	body body
	// err is why body is empty.
	err error
}

// errInterrupted says that something else is wanted meanwhile.
var errInterrupted = errors.New("interrupted")

// pollingMsg tells that a look at Redis begins.
type pollingMsg struct{ at time.Time }

// failedMsg tells that a look at Redis failed.
type failedMsg struct{ err error }

// poller looks at Redis, now and then and whenever it is asked for something else.
type poller struct {
	insp    *asynq.Inspector
	refresh time.Duration
	log     *slog.Logger
	send    func(tea.Msg)
	wake    chan struct{}

	mu     sync.Mutex
	want   want
	fresh  bool               // whatever is known is to be looked at anew
	cancel context.CancelFunc // of the look that is under way

	// Of run only.
	base    base
	memory  map[string]int64
	memAt   time.Time
	faults  *faults
	failing bool
}

func newPoller(insp *asynq.Inspector, refresh time.Duration, log *slog.Logger, send func(tea.Msg)) *poller {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &poller{insp: insp, refresh: refresh, log: log, send: send, wake: make(chan struct{}, 1)}
}

// look has the poller fetch something else from now on. It never waits.
func (p *poller) look(w want) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.want == w {
		return
	}
	p.want = w
	if p.cancel != nil {
		p.cancel()
	}
	p.poked()
}

// poke has the poller look at everything now. It never waits.
func (p *poller) poke() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = true
	p.poked()
}

func (p *poller) poked() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run polls until ctx ends.
func (p *poller) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := true
	for looks := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			due = true
		case <-p.wake:
		}
		p.send(pollingMsg{at: time.Now()})
		err := p.tick(ctx, due)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errInterrupted) {
			continue // the wake that belongs to it is still to come
		}
		p.report(ctx, err)
		if due {
			due = false
			looks++
			next := p.refresh
			if err != nil || looks == 1 {
				next = min(next, retryEvery)
			}
			timer.Reset(next)
		}
	}
}

// report logs where failing begins and ends.
func (p *poller) report(ctx context.Context, err error) {
	switch {
	case err != nil && !p.failing:
		p.log.LogAttrs(ctx, slog.LevelError, "dash: Redis cannot be looked at", slog.Any("error", err))
	case err == nil && p.failing:
		p.log.LogAttrs(ctx, slog.LevelInfo, "dash: Redis answers again")
	}
	p.failing = err != nil
}

// tick looks once, and sends what it finds. Unless all is due, what is known of queues and servers serves again.
func (p *poller) tick(ctx context.Context, due bool) error {
	ctx, cancel := context.WithTimeout(ctx, pollWithin)
	defer cancel()
	p.mu.Lock()
	w, fresh := p.want, p.fresh
	p.fresh, p.cancel = false, cancel
	p.mu.Unlock()

	if fresh {
		p.faults = nil
	}
	s, err := p.fetch(ctx, w, due || fresh || p.base.at.IsZero())
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

func (p *poller) fetch(ctx context.Context, w want, due bool) (snapshot, error) {
	f := fetcher{ctx: ctx, insp: p.insp.WithContext(ctx)}
	if due {
		memory := time.Since(p.memAt) > memoryEvery
		b, err := f.base(memory)
		if err != nil {
			return snapshot{}, err
		}
		p.remember(&b, memory)
		p.base = b
	}
	s := snapshot{base: p.base, want: w}
	s.body, s.err = f.body(w, &p.base, &p.faults)
	return s, nil
}

// remember keeps the sizes of queues, which are sampled less often than the rest.
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
