package asynq

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/worker"
)

const (
	tickBatch = 100              // entries in one pipeline
	tickRest  = 10 * time.Second // at most: a clock that is set forward is noticed then
)

// table lists the loops that run under the scheduler.
func (s *Scheduler) table() []runner.Loop {
	table := []runner.Loop{
		{Name: "ticks", Stage: stageIntake, Tick: s.tick, Wake: s.wakeTicks},
		{Name: "scheduler heartbeat", Stage: stageTell, Tick: s.beat, Wake: s.wakeHeartbeat},
	}
	if s.opts.Group != "" {
		table = append(table, s.leadLoop())
	}
	return table
}

// firing is one tick of an entry on its way to Redis, and what became of it.
type firing struct {
	entry *scheduled
	tick  time.Time
	made  *creation
	order *rdb.Tick // in a group
	err   error
	at    time.Time // when it was enqueued, if it was
}

// tick enqueues what is due.
func (s *Scheduler) tick(ctx context.Context) (time.Duration, error) {
	in, leads := s.leads(s.now())
	if !leads {
		return runner.UntilWoken, nil
	}
	s.recall(ctx, in)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	due, next := s.due(in)
	if len(due) == 0 {
		return min(max(next.Sub(s.now()), time.Millisecond), tickRest), nil
	}
	s.fire(context.WithoutCancel(ctx), in, due)
	return 0, nil
}

// due returns the ticks to enqueue now, at most one of each entry; or, if there are none, when there may be one.
func (s *Scheduler) due(in term) (due []*firing, next time.Time) {
	now := s.now()
	next = now.Add(tickRest)
	type judged struct {
		entry       *scheduled
		first, last time.Time
	}
	var missed []judged
	s.mu.Lock()
	for _, e := range s.entries {
		if len(due) == tickBatch {
			break
		}
		if e.term != in.id {
			if e.retryAt.After(now) && e.retryAt.Before(next) {
				next = e.retryAt // of the recall
			}
			continue
		}
		first := e.next
		if last := e.judge(); !last.IsZero() {
			missed = append(missed, judged{e, first, last})
		}
		at := e.head()
		if e.retryAt.After(at) {
			at = e.retryAt
		}
		switch {
		case e.skipped: // Redis is to be told first
			if e.retryAt.Before(next) {
				next = e.retryAt
			}
		case at.IsZero():
		case !at.After(now):
			due = append(due, &firing{entry: e, tick: e.head()})
		case at.Before(next):
			next = at
		}
	}
	s.mu.Unlock()
	for _, m := range missed {
		s.log.Warn("ticks of a periodic task were missed", "entry", m.entry.id, "type", m.entry.task.typename,
			"first", m.first, "last", m.last, "policy", m.entry.missed)
	}
	return due, next
}

// fire enqueues the tasks of ticks, and tells whom it concerns.
func (s *Scheduler) fire(ctx context.Context, in term, due []*firing) {
	for _, f := range due {
		if s.opts.PreEnqueueFunc != nil {
			s.contain("PreEnqueueFunc", func() { s.opts.PreEnqueueFunc(f.entry.task, f.entry.optsCopy()) })
		}
		opts := f.entry.opts
		if !f.entry.namesID {
			opts = append(f.entry.optsCopy(), TaskID(f.entry.taskID(f.tick)))
		}
		opts = s.withHeaders(f.entry, opts)
		f.made, f.err = newCreation(f.entry.task, opts, s.broker.Keys, s.now())
	}
	s.enqueue(ctx, in, due)
	s.record(ctx, due)
	s.conclude(in, due)
	for _, f := range due {
		s.tell(f)
	}
}

// withHeaders returns the options with the headers that the user has for the tick.
func (s *Scheduler) withHeaders(e *scheduled, opts []Option) []Option {
	if s.opts.EnqueueHeaders == nil {
		return opts
	}
	var headers map[string]string
	s.contain("EnqueueHeaders", func() { headers = s.opts.EnqueueHeaders(e.task, e.optsCopy()) })
	opts = slices.Clone(opts)
	for key, value := range headers {
		opts = append(opts, Header(key, value))
	}
	return opts
}

// enqueue sends the tasks. In a group Redis keeps that their ticks are over.
func (s *Scheduler) enqueue(ctx context.Context, in term, due []*firing) {
	if current, _ := s.leads(s.now()); current.id == in.id {
		in = current // the callbacks may have taken some time
	}
	var orders []*rdb.NewTask
	var ticks []*rdb.Tick
	for _, f := range due {
		if f.err != nil {
			continue
		}
		orders = append(orders, &f.made.order)
		f.order = &rdb.Tick{Entry: f.entry.id, At: f.tick.UnixMilli(), Deadline: in.deadline, Task: &f.made.order}
		ticks = append(ticks, f.order)
	}
	if s.opts.Group == "" {
		s.broker.Enqueue(ctx, orders...)
	} else {
		s.broker.EnqueueTick(ctx, ticks...)
	}
	for _, f := range due {
		if f.err != nil {
			continue
		}
		f.err = publicError(f.made.order.Err)
		f.at = s.now()
		if s.opts.Group != "" {
			f.at = time.UnixMilli(f.order.Decided) // the same for whoever hears of it
		}
	}
}

// record adds what was enqueued to the histories of the entries.
func (s *Scheduler) record(ctx context.Context, due []*firing) {
	var events []rdb.EnqueueEvent
	for _, f := range due {
		if f.err == nil {
			events = append(events, rdb.EnqueueEvent{Entry: f.entry.id, TaskID: f.made.order.ID, At: f.at})
		}
	}
	if len(events) == 0 {
		return
	}
	if err := s.broker.RecordEnqueues(ctx, events...); err != nil {
		s.log.Error("periodic tasks are missing in their history", "error", err)
	}
}

// conclude says which ticks are over.
func (s *Scheduler) conclude(in term, due []*firing) {
	late := false
	now := s.now()
	s.mu.Lock()
	for _, f := range due {
		if f.err == nil {
			f.entry.prev = f.tick
		}
		switch {
		case f.entry.term != in.id: // registered anew meanwhile
		case errors.Is(f.err, rdb.ErrTickLate):
			late = true
		case f.open() && s.opts.Group != "":
			f.entry.failed(now)
		default:
			f.entry.over(f.tick)
			if s.opts.Group == "" && now.Sub(f.tick) > takeoverWindow {
				f.entry.gap = now // the process was held up: what came due behind this tick is missed
			}
		}
	}
	s.mu.Unlock()
	if late {
		s.resign(in.id)
	}
}

// open reports whether the tick may still be enqueued: Redis has not decided on it, as far as is known.
func (f *firing) open() bool {
	return f.err != nil && f.order != nil && !errors.Is(f.err, rdb.ErrTickOver) &&
		!errors.Is(f.err, ErrDuplicateTask) && !errors.Is(f.err, ErrTaskIDConflict)
}

// tell tells the user what became of a tick.
func (s *Scheduler) tell(f *firing) {
	if errors.Is(f.err, rdb.ErrTickOver) || errors.Is(f.err, rdb.ErrTickLate) {
		s.log.Debug("another scheduler sees to a tick", "entry", f.entry.id, "tick", f.tick, "error", f.err)
		return
	}
	var info *TaskInfo
	if f.err == nil {
		info = f.made.info()
		s.log.Debug("periodic task enqueued", "entry", f.entry.id, "tick", f.tick, "task", info.ID, "queue", info.Queue)
	} else {
		s.log.Error("a periodic task was not enqueued", "entry", f.entry.id, "type", f.entry.task.typename, "tick", f.tick, "error", f.err)
		if s.opts.EnqueueErrorHandler != nil {
			s.contain("EnqueueErrorHandler", func() { s.opts.EnqueueErrorHandler(f.entry.task, f.entry.optsCopy(), f.err) })
		}
	}
	if s.opts.PostEnqueueFunc != nil {
		s.contain("PostEnqueueFunc", func() { s.opts.PostEnqueueFunc(info, f.err) })
	}
}

// contain runs user code, and logs it if that panics.
func (s *Scheduler) contain(callback string, f func()) {
	if err := worker.Contain(f); err != nil {
		s.log.Error("a callback panicked", "callback", callback, "error", err)
	}
}

// heartbeat is what the loop of that name remembers.
type heartbeat struct {
	published bool
	last      time.Time
}

// beatSpacing is how long a change of entries waits for others, to be published with them.
const beatSpacing = time.Second

// beat publishes the entries of a scheduler that enqueues, and withdraws those of one that no longer does.
func (s *Scheduler) beat(ctx context.Context) (time.Duration, error) {
	now := s.now()
	if _, leads := s.leads(now); !leads {
		if s.heartbeat.published {
			if err := s.broker.WithdrawEntries(ctx, s.process); err != nil {
				return 0, err
			}
			s.heartbeat.published = false
		}
		return s.opts.HeartbeatInterval, nil
	}
	if wait := min(beatSpacing, s.opts.HeartbeatInterval) - now.Sub(s.heartbeat.last); s.heartbeat.published && wait > 0 {
		return wait, nil
	}
	entries, err := s.snapshot()
	if err != nil {
		return 0, err
	}
	if err := s.broker.PublishEntries(ctx, s.process, entries, 2*s.opts.HeartbeatInterval); err != nil {
		return 0, err
	}
	s.heartbeat = heartbeat{published: true, last: now}
	return s.opts.HeartbeatInterval, nil
}

// snapshot returns the entries as they are published.
func (s *Scheduler) snapshot() ([]rdb.ScheduleEntry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := make([]rdb.ScheduleEntry, len(s.entries))
	for i, e := range s.entries {
		published := e.published()
		if published.Next.IsZero() {
			published.Next = e.schedule.Next(s.now()) // its first term has only just begun
		}
		encoded, err := published.Encode()
		if err != nil {
			return nil, err
		}
		creation, err := e.creation().Encode()
		if err != nil {
			return nil, err
		}
		entries[i] = rdb.ScheduleEntry{ID: e.id, Entry: encoded, Creation: creation}
	}
	return entries, nil
}
