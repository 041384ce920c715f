package demo

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/asynq-go/asynq"
)

// enqueueInterval is how often tasks are enqueued.
const enqueueInterval = 200 * time.Millisecond

// wave returns the rate relative to the average at a time since the start: calm and busy minutes,
// with a burst of twelve seconds every three minutes.
func wave(since time.Duration) float64 {
	const period = 3 * time.Minute
	at := since % period
	if at > 30*time.Second && at < 42*time.Second {
		return 2.6
	}
	return 0.88 + 0.4*math.Sin(2*math.Pi*at.Seconds()/period.Seconds())
}

// produce enqueues the mix until ctx ends.
func (d *Demo) produce(ctx context.Context, s *shop) {
	began, last := time.Now(), time.Now()
	owed := 0.0
	away := false
	t := time.NewTicker(enqueueInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := time.Now()
		owed += min(now.Sub(last).Seconds(), 1) * d.opts.Rate * wave(now.Sub(began)) // do not catch up after a suspend
		last = now
		var tasks []*asynq.Task
		for ; owed >= 1; owed-- {
			tasks = append(tasks, s.next())
		}
		err := d.send(ctx, tasks)
		if err != nil && ctx.Err() == nil && !away {
			d.opts.warn("cannot enqueue tasks", "error", err)
		}
		away = err != nil
	}
}

// send enqueues tasks. Duplicates are not errors.
func (d *Demo) send(ctx context.Context, tasks []*asynq.Task) error {
	var failed error
	for _, r := range d.enqueue.BatchEnqueueContext(ctx, tasks) {
		if r.Err != nil && !errors.Is(r.Err, asynq.ErrDuplicateTask) && !errors.Is(r.Err, asynq.ErrTaskIDConflict) {
			failed = r.Err
		}
	}
	return failed
}

// stock fills the queues at the start.
func (d *Demo) stock(ctx context.Context, s *shop) error {
	later := func(n int, every time.Duration) (tasks []*asynq.Task) {
		for i := range n {
			tasks = append(tasks, s.some("cart:reminder", 1, asynq.ProcessIn(time.Duration(i+1)*every))...)
		}
		return tasks
	}
	tasks := slices.Concat(
		s.some("newsletter:send", 80), s.some("legacy:sync", 30), s.some("report:monthly", 3), s.some("catalog:import", 1),
		s.some("image:thumbnail", 10), s.some("webhook:deliver", 40), s.some("payment:capture", 25), later(40, 45*time.Second),
	)
	if err := d.send(ctx, tasks); err != nil {
		return err
	}
	return d.inspector.WithContext(ctx).PauseQueue(newsletter)
}

func (o *Options) warn(text string, args ...any) {
	if o.Log != nil {
		o.Log.Warn(text, args...)
	}
}
