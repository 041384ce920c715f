package alert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
)

const (
	// sendTimeout bounds each attempt to send an alert.
	sendTimeout = 10 * time.Second
	// maxWaiting is the number of alerts that wait for a sink at most; more are dropped.
	maxWaiting = 100
)

// delays are the pauses between the attempts to send an alert.
var delays = []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute}

// Config configures a Notifier. Sinks is required.
type Config struct {
	Sinks []Sink

	// Severity is the minimum severity of a cause. The zero value is health.Notice.
	Severity health.Severity

	// After is how long a cause must last before the first alert. The default is 1 minute;
	// negative: none.
	After time.Duration

	// Quiet is how long a cause must be gone before it counts as resolved. It doubles each time the
	// cause returns within an hour, up to 16 times the value. The default is 5 minutes.
	Quiet time.Duration

	// Reminder is the interval of reminders. The default is 4 hours; negative: none.
	Reminder time.Duration

	// Source is a name of the Redis in alerts, such as "production". It may be empty.
	Source string

	// Link is a URL for details, such as that of the web UI. It may be empty.
	Link string

	// Log receives alerts that could not be sent. If nil, slog.Default() is used.
	Log *slog.Logger
}

// Sink sends alerts. Send must return soon after ctx ends. An error that wraps ErrPermanent is not
// retried.
type Sink interface {
	Name() string
	Send(ctx context.Context, a *Alert) error
}

// ErrPermanent means that sending the same alert again would fail again.
var ErrPermanent = errors.New("alert: not retried")

// Status is the state of a sink.
type Status struct {
	Sink      string
	Sent      int // alerts
	Failed    int // alerts that could not be sent, after all attempts
	LastError string
	LastAt    time.Time // of the last attempt; zero: none
}

// Notifier sends alerts. Create one with New. It is safe for concurrent use.
type Notifier struct {
	cfg Config

	mu      sync.Mutex
	tracker *tracker
	status  []Status // of the sinks
	waiting []chan Alert
}

// New returns a notifier, or an error if there is no sink.
func New(cfg Config) (*Notifier, error) {
	if len(cfg.Sinks) == 0 {
		return nil, errors.New("alert: there is no sink")
	}
	if cfg.Severity < health.Notice || cfg.Severity > health.Trouble {
		return nil, fmt.Errorf("alert: unknown severity %d", int(cfg.Severity))
	}
	if cfg.Quiet < 0 {
		return nil, fmt.Errorf("alert: Quiet is negative: %v", cfg.Quiet)
	}
	cfg.After = cmp.Or(cfg.After, time.Minute)
	cfg.Quiet = cmp.Or(cfg.Quiet, 5*time.Minute)
	cfg.Reminder = cmp.Or(cfg.Reminder, 4*time.Hour)
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	n := &Notifier{cfg: cfg, tracker: newTracker(cfg)}
	for i, s := range cfg.Sinks {
		if s == nil {
			return nil, fmt.Errorf("alert: sink %d is nil", i)
		}
		n.status = append(n.status, Status{Sink: s.Name()})
		n.waiting = append(n.waiting, make(chan Alert, maxWaiting))
	}
	return n, nil
}

// Status returns the state of the sinks, in the order of Config.Sinks.
func (n *Notifier) Status() []Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Status{}, n.status...)
}

// Observe decides which alerts a report leads to, and queues them. Deliver sends them. Reports must
// be in the order of time. It returns the queued alerts.
func (n *Notifier) Observe(r *health.Report) []Alert {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r == nil {
		return nil
	}
	alerts := n.tracker.observe(r)
	for _, a := range alerts {
		for i := range n.waiting {
			select {
			case n.waiting[i] <- a:
			default:
				n.status[i].Failed++
				n.cfg.Log.Error("alert dropped: too many are waiting", "sink", n.status[i].Sink, "cause", a.ID, "event", string(a.Event))
			}
		}
	}
	return alerts
}

// Deliver sends queued alerts until ctx ends, with retries: a sink that fails delays only its own
// alerts. Run it once.
func (n *Notifier) Deliver(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range n.waiting {
		wg.Go(func() {
			for {
				select {
				case a := <-n.waiting[i]:
					n.deliver(ctx, i, &a)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	wg.Wait()
}

// deliver sends an alert to a sink, with retries.
func (n *Notifier) deliver(ctx context.Context, i int, a *Alert) {
	for attempt := 0; ; attempt++ {
		err := send(ctx, n.cfg.Sinks[i], a)
		last := err == nil || errors.Is(err, ErrPermanent) || attempt == len(delays) || ctx.Err() != nil
		n.note(i, err, last)
		if err == nil {
			return
		}
		n.cfg.Log.Error("alert not sent", "sink", n.cfg.Sinks[i].Name(), "cause", a.ID, "event", string(a.Event), "attempt", attempt+1, "retry", !last, "error", err)
		if last {
			return
		}
		select {
		case <-time.After(delays[attempt]):
		case <-ctx.Done():
			return
		}
	}
}

func send(ctx context.Context, s Sink, a *Alert) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: the sink panicked: %v", ErrPermanent, v)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return s.Send(ctx, a)
}

func (n *Notifier) note(i int, err error, last bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := &n.status[i]
	s.LastAt = time.Now()
	switch {
	case err == nil:
		s.Sent++
		s.LastError = ""
	default:
		s.LastError = err.Error()
		if last {
			s.Failed++
		}
	}
}

// Run checks Redis every interval, by default 15 seconds, and delivers alerts until ctx ends. It
// returns an error only if ctx or the Inspector is nil, or the settings are invalid.
// Acknowledgements of causes that have ended are removed.
func (n *Notifier) Run(ctx context.Context, i *asynq.Inspector, s health.Settings, interval time.Duration) error {
	if ctx == nil || i == nil {
		return errors.New("alert: ctx and the Inspector must not be nil")
	}
	monitor, err := health.NewMonitor(s)
	if err != nil {
		return err
	}
	if interval <= 0 {
		interval = 15 * time.Second
	}
	var wg sync.WaitGroup
	wg.Go(func() { n.Deliver(ctx) })
	defer wg.Wait()
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		n.check(ctx, i, monitor, s, interval)
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (n *Notifier) check(ctx context.Context, i *asynq.Inspector, monitor *health.Monitor, s health.Settings, interval time.Duration) {
	checking, cancel := context.WithTimeout(ctx, max(interval, sendTimeout))
	defer cancel()
	in := health.Collect(checking, i, s)
	if ctx.Err() != nil {
		return // a check that was cut short would report Redis as unreachable
	}
	r := monitor.Check(in)
	n.Observe(r)
	if len(r.Ended) > 0 {
		if _, err := i.UnmuteCause(checking, r.Ended...); err != nil {
			n.cfg.Log.Warn("acknowledgements not removed", "causes", r.Ended, "error", err)
		}
	}
}
