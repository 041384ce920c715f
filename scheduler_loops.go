package asynq

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/timetable"
	"github.com/asynq-go/asynq/internal/wire"
)

const (
	tickBatch    = 100              // entries per pipeline
	maxTickDelay = 10 * time.Second // between two checks, to detect that the clock was set forward
)

// table returns the loops of the scheduler.
func (s *Scheduler) table() []runner.Loop {
	table := []runner.Loop{
		{Name: "ticks", Stage: stageIntake, Tick: s.tick, Wake: s.wakeTicks},
		{Name: "scheduler heartbeat", Stage: stagePresence, Tick: s.beat, Wake: s.wakeHeartbeat},
	}
	if s.opts.Group != "" {
		table = append(table, runner.Loop{Name: "lead", Stage: stageWork, Tick: s.lead, Wake: s.wakeLead})
	}
	return table
}

// firing is one tick of an entry that is being enqueued, and its result.
type firing struct {
	entry *scheduled
	tick  time.Time
	made  *creation
	err   error
}

// tick enqueues the due ticks.
func (s *Scheduler) tick(ctx context.Context) (time.Duration, error) {
	in, leads := s.leads(s.now())
	if !leads {
		return runner.UntilWoken, nil
	}
	s.loadTicks(ctx, in)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	due, next := s.due(in)
	if len(due) == 0 {
		return min(max(next.Sub(s.now()), time.Millisecond), maxTickDelay), nil
	}
	ctx = context.WithoutCancel(ctx)
	paused, err := s.pauses(ctx, due)
	s.fire(ctx, in, s.skipPaused(in, due, paused), err)
	return 0, nil
}

// pauses returns the paused entries among those of due ticks, by their pause IDs. An error means
// that it is unknown which are paused.
func (s *Scheduler) pauses(ctx context.Context, due []*firing) (map[string]time.Time, error) {
	ids := make([]string, len(due))
	for i, f := range due {
		ids[i] = f.entry.pauseID
	}
	paused, err := s.broker.EntryPauses(ctx, ids...)
	if script.Refused(err) {
		s.warnPauses.Do(func() {
			s.log.Warn("Redis rejected the check for paused entries: none is paused", "error", err)
		})
		err = nil
	}
	return paused, err
}

// skipPaused marks the due ticks of paused entries as done, to be recorded in Redis, and returns
// the others.
func (s *Scheduler) skipPaused(in term, due []*firing, paused map[string]time.Time) []*firing {
	if len(paused) == 0 {
		return due
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(due, func(f *firing) bool {
		e := f.entry
		if _, ok := paused[e.pauseID]; !ok {
			return false
		}
		if e.term == in.id {
			s.log.Debug("tick skipped: the entry is paused", "entry", e.id, "tick", f.tick)
			e.done(f.tick)
			e.backlog, e.skipped = nil, true
			if last := timetable.Latest(e.schedule, e.cursor, now); !last.IsZero() {
				e.moveTo(last)
			}
		}
		return true
	})
}

// due returns the due ticks, at most one per entry, and, if there are none, when the next one may
// be due.
func (s *Scheduler) due(in term) (due []*firing, next time.Time) {
	now := s.now()
	next = now.Add(maxTickDelay)
	type missedTicks struct {
		entry       *scheduled
		first, last time.Time
	}
	var missed []missedTicks
	s.mu.Lock()
	for _, e := range s.entries {
		if len(due) == tickBatch {
			break
		}
		if e.term != in.id {
			if e.retryAt.After(now) && e.retryAt.Before(next) {
				next = e.retryAt // of loadTicks
			}
			continue
		}
		first := e.next
		if last := e.applyPolicy(); !last.IsZero() {
			missed = append(missed, missedTicks{e, first, last})
		}
		at := e.head()
		if e.retryAt.After(at) {
			at = e.retryAt
		}
		switch {
		case e.skipped: // the cursor must be stored first
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
		s.log.Warn("periodic task missed ticks", "entry", m.entry.id, "type", m.entry.task.typename,
			"first", m.first, "last", m.last, "policy", m.entry.missed)
	}
	return due, next
}

// fire enqueues the tasks of ticks and calls the callbacks. With an error, the ticks fail with it.
func (s *Scheduler) fire(ctx context.Context, in term, due []*firing, failed error) {
	for _, f := range due {
		if s.opts.PreEnqueueFunc != nil {
			callSafely(s.log, "PreEnqueueFunc", func() { s.opts.PreEnqueueFunc(f.entry.task, f.entry.optsCopy()) })
		}
		opts := f.entry.opts
		if !f.entry.namesID {
			opts = append(f.entry.optsCopy(), TaskID(f.entry.taskID(f.tick)))
		}
		opts = s.withHeaders(f.entry, opts)
		if f.made, f.err = newCreation(f.entry.task, opts, s.broker.Keys, s.now()); f.err == nil {
			f.err = brokerError(failed)
		}
	}
	s.enqueue(ctx, in, due)
	s.conclude(in, due)
	for _, f := range due {
		s.report(f)
	}
}

// withHeaders returns opts with the headers that EnqueueHeaders returns.
func (s *Scheduler) withHeaders(e *scheduled, opts []Option) []Option {
	if s.opts.EnqueueHeaders == nil {
		return opts
	}
	var headers map[string]string
	callSafely(s.log, "EnqueueHeaders", func() { headers = s.opts.EnqueueHeaders(e.task, e.optsCopy()) })
	opts = slices.Clone(opts)
	for key, value := range headers {
		opts = append(opts, Header(key, value))
	}
	return opts
}

// enqueue sends the tasks and adds them to the histories of their entries. In a group, Redis
// records their ticks as done.
func (s *Scheduler) enqueue(ctx context.Context, in term, due []*firing) {
	if current, _ := s.leads(s.now()); current.id == in.id {
		in = current // the term may have been extended during the callbacks
	}
	var orders []*rdb.NewTask
	for _, f := range due {
		if f.err != nil {
			continue
		}
		if s.opts.Group != "" {
			f.made.order.Tick = &rdb.Tick{Entry: f.entry.id, At: f.tick.UnixMilli(), Deadline: in.deadline}
		}
		orders = append(orders, &f.made.order)
	}
	s.broker.Enqueue(ctx, orders...)
	var events []rdb.EnqueueEvent
	for _, f := range due {
		if f.err != nil {
			continue
		}
		if f.err = publicError(f.made.order.Err); f.err == nil {
			events = append(events, rdb.EnqueueEvent{Entry: f.entry.id, TaskID: f.made.order.ID, At: s.now()})
		}
	}
	if len(events) == 0 {
		return
	}
	if err := s.broker.RecordEnqueues(ctx, events...); err != nil {
		s.log.Error("could not record the history of periodic tasks", "error", err)
	}
}

// conclude updates the progress of the entries.
func (s *Scheduler) conclude(in term, due []*firing) {
	late := false
	now := s.now()
	s.mu.Lock()
	for _, f := range due {
		if f.err == nil {
			f.entry.prev = f.tick
		}
		switch {
		case f.entry.term != in.id: // the term has changed
		case errors.Is(f.err, rdb.ErrTickLate):
			late = true
		case f.open() && s.opts.Group != "":
			f.entry.failed(now)
		default:
			f.entry.done(f.tick)
			if s.opts.Group == "" && now.Sub(f.tick) > takeoverWindow {
				f.entry.gap = now // the process was suspended: ticks after this one are missed
			}
		}
	}
	s.mu.Unlock()
	if late {
		s.endTerm(in.id)
	}
}

// open reports whether the tick may still have to be enqueued: it is not known to be done.
func (f *firing) open() bool {
	return f.err != nil && f.made != nil && !errors.Is(f.err, rdb.ErrTickOver) &&
		!errors.Is(f.err, ErrDuplicateTask) && !errors.Is(f.err, ErrTaskIDConflict)
}

// report logs the result of a tick and calls the callbacks.
func (s *Scheduler) report(f *firing) {
	if errors.Is(f.err, rdb.ErrTickOver) || errors.Is(f.err, rdb.ErrTickLate) {
		s.log.Debug("tick is handled by another scheduler", "entry", f.entry.id, "tick", f.tick, "error", f.err)
		return
	}
	var info *TaskInfo
	if f.err == nil {
		info = f.made.info()
		s.log.Debug("periodic task enqueued", "entry", f.entry.id, "tick", f.tick, "task", info.ID, "queue", info.Queue)
	} else {
		s.log.Error("could not enqueue a periodic task", "entry", f.entry.id, "type", f.entry.task.typename, "tick", f.tick, "error", f.err)
		if s.opts.EnqueueErrorHandler != nil {
			callSafely(s.log, "EnqueueErrorHandler", func() { s.opts.EnqueueErrorHandler(f.entry.task, f.entry.optsCopy(), f.err) })
		}
	}
	if s.opts.PostEnqueueFunc != nil {
		callSafely(s.log, "PostEnqueueFunc", func() { s.opts.PostEnqueueFunc(info, f.err) })
	}
}

// beatSpacing is the minimum time between two heartbeats: changes of entries are published
// together.
const beatSpacing = time.Second

// beat publishes the entries, or withdraws them when the scheduler is no longer the leader.
func (s *Scheduler) beat(ctx context.Context) (time.Duration, error) {
	now := s.now()
	if _, leads := s.leads(now); !leads {
		if !s.published.IsZero() {
			if err := s.broker.WithdrawEntries(ctx, s.process); err != nil {
				return 0, err
			}
			s.published = time.Time{}
		}
		return s.opts.HeartbeatInterval, nil
	}
	if wait := min(beatSpacing, s.opts.HeartbeatInterval) - now.Sub(s.published); wait > 0 {
		return wait, nil
	}
	entries, err := s.snapshot()
	if err != nil {
		return 0, err
	}
	if err := s.broker.PublishEntries(ctx, s.process, entries, 2*s.opts.HeartbeatInterval); err != nil {
		return 0, err
	}
	s.published = now
	return s.opts.HeartbeatInterval, nil
}

// snapshot returns the entries as they are published.
func (s *Scheduler) snapshot() ([]rdb.ScheduleEntry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := make([]rdb.ScheduleEntry, len(s.entries))
	for i, e := range s.entries {
		published := &wire.SchedulerEntry{
			ID: e.id, Spec: e.spec, TaskType: e.task.typename, Payload: e.task.payload, Next: e.head(), Prev: e.prev,
		}
		if published.Next.IsZero() {
			published.Next = e.schedule.Next(s.now()) // its first term has just begun
		}
		creation := &wire.SchedulerCreation{Type: e.task.typename, Payload: e.task.payload, Headers: e.task.headers, Pause: e.pauseID}
		for _, opt := range e.all {
			published.EnqueueOptions = append(published.EnqueueOptions, opt.String())
			creation.Options = append(creation.Options, exactOption(opt))
		}
		entry, failed := published.Encode()
		made, err := creation.Encode()
		if err := cmp.Or(failed, err); err != nil {
			return nil, err
		}
		entries[i] = rdb.ScheduleEntry{ID: e.id, Entry: entry, Creation: made}
	}
	return entries, nil
}
