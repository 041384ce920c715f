package asynq

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/asynq-go/asynq/internal/timetable"
	"github.com/asynq-go/asynq/internal/wire"
)

// scheduled is a registered periodic task. What follows progress is guarded by the Scheduler's mutex; the rest does not change.
type scheduled struct {
	id       string
	identity string // all that makes the entry: the same in every process
	ordinal  int    // among entries with the same identity
	spec     string
	task     *Task
	opts     []Option
	schedule timetable.Schedule
	missed   MissedTicks
	queue    string
	namesID  bool // an option gives the task's ID
	since    time.Time

	progress
}

// progress is how far an entry is in its row of ticks.
type progress struct {
	term     int64       // in which the rest holds; 0: none
	cursor   time.Time   // ticks up to here are over
	next     time.Time   // the first one after the cursor; zero if there is none
	backlog  []time.Time // missed ticks that are to be enqueued, before next
	gap      time.Time   // ticks up to here are missed
	skipped  bool        // Redis is to be told of the cursor
	prev     time.Time   // the last tick that was enqueued
	failures int         // in a row
	retryAt  time.Time   // not before
}

// entryNamespace is that of the IDs made from what an entry is, and of task IDs made from entry and tick.
var entryNamespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/asynq-go/asynq/scheduler"))

// newScheduled checks a config, and makes an entry that has no ID yet.
func (s *Scheduler) newScheduled(cfg PeriodicTaskConfig) (*scheduled, error) {
	if strings.TrimSpace(cfg.Cronspec) == "" {
		return nil, errNoCronspec
	}
	now := s.now()
	made, err := newCreation(cfg.Task, cfg.Opts, s.broker.Keys, now)
	if err != nil {
		return nil, err
	}
	if err := cfg.MissedTicks.validate(); err != nil {
		return nil, err
	}
	loc := cfg.Location
	if loc == nil {
		loc = s.opts.Location
	}
	schedule, err := timetable.Parse(cfg.Cronspec, loc, s.opts.Group != "")
	if err != nil {
		return nil, brokerError(err)
	}
	if schedule.Next(now).IsZero() {
		return nil, fmt.Errorf("asynq: cron spec %q: it has no tick within five years", cfg.Cronspec)
	}
	e := &scheduled{
		spec: cfg.Cronspec, task: cfg.Task, opts: slices.Clone(cfg.Opts), schedule: schedule, missed: cfg.MissedTicks,
		queue: made.order.Queue, since: now,
	}
	if e.missed == MissedTicksDefault || s.opts.Group == "" {
		e.missed = s.opts.MissedTicks
	}
	for _, opt := range e.options() {
		e.namesID = e.namesID || opt.Type() == TaskIDOpt
	}
	e.identity = e.identify(loc)
	return e, nil
}

// options are those of the task and of the entry; of two that say different things the later one holds.
func (e *scheduled) options() []Option { return slices.Concat(e.task.opts, e.opts) }

// optsCopy is for those who may write to it.
func (e *scheduled) optsCopy() []Option { return slices.Clone(e.opts) }

// identify returns all that makes the entry but its policy, in a form that does not depend on the process.
func (e *scheduled) identify(loc *time.Location) string {
	_, winter := time.Unix(1_700_000_000, 0).In(loc).Zone()
	_, summer := time.Unix(1_720_000_000, 0).In(loc).Zone()
	identity, _ := json.Marshal(struct { // cannot fail
		Spec, Location string
		Offsets        [2]int // two zones may have one name
		Type           string
		Payload        []byte
		Headers        map[string]string
		Options        []string
	}{e.spec, loc.String(), [2]int{winter, summer}, e.task.typename, e.task.payload, e.task.headers, canonicalOptions(e.options())})
	return string(identity)
}

// entryID is that of the entry of a group.
func (e *scheduled) entryID(group string) string {
	return uuid.NewSHA1(entryNamespace, []byte(group+"\x00"+strconv.Itoa(e.ordinal)+"\x00"+e.identity)).String()
}

// taskID is that of the task of one tick.
func (e *scheduled) taskID(tick time.Time) string {
	return uuid.NewSHA1(entryNamespace, []byte(e.id+"\x00"+strconv.FormatInt(tick.UnixMilli(), 10))).String()
}

// head is the tick to enqueue next, which may be in the future; zero if there is none.
func (p *progress) head() time.Time {
	if len(p.backlog) > 0 {
		return p.backlog[0]
	}
	return p.next
}

// moveTo says that ticks up to t are over.
func (e *scheduled) moveTo(t time.Time) {
	e.cursor = t
	e.next = e.schedule.Next(t)
}

// start begins with the ticks after the cursor, in a term.
func (e *scheduled) start(term int64, cursor time.Time) {
	e.progress = progress{term: term, prev: e.prev}
	e.moveTo(cursor)
}

// judge does with missed ticks what the policy says. It returns the last one of them; zero if there is none.
func (e *scheduled) judge() time.Time {
	if len(e.backlog) > 0 || e.next.IsZero() || e.next.After(e.gap) {
		return time.Time{}
	}
	last := timetable.Latest(e.schedule, e.cursor, e.gap)
	switch e.missed {
	case EnqueueLastMissed:
		e.backlog = []time.Time{last}
	case EnqueueAllMissed:
		e.backlog = timetable.Newest(e.schedule, e.cursor, e.gap, maxMissed)
	default:
		e.moveTo(last)
		e.skipped = true
	}
	return last
}

// over says that a tick is.
func (e *scheduled) over(tick time.Time) {
	if len(e.backlog) > 0 && e.backlog[0].Equal(tick) {
		e.backlog = e.backlog[1:]
	}
	if tick.After(e.cursor) {
		e.moveTo(tick)
	}
	e.failures, e.retryAt = 0, time.Time{}
}

// failed puts the next try off.
func (p *progress) failed(now time.Time) {
	p.retryAt = now.Add(min(100*time.Millisecond<<min(p.failures, 10), 5*time.Second))
	p.failures++
}

// published is the entry as other processes see it.
func (e *scheduled) published() *wire.SchedulerEntry {
	printed := &wire.SchedulerEntry{
		ID: e.id, Spec: e.spec, TaskType: e.task.typename, Payload: e.task.payload, Next: e.head(), Prev: e.prev,
	}
	for _, opt := range e.options() {
		printed.EnqueueOptions = append(printed.EnqueueOptions, opt.String())
	}
	return printed
}

// creation is what the entry's task is made from.
func (e *scheduled) creation() *wire.SchedulerCreation {
	c := &wire.SchedulerCreation{Type: e.task.typename, Payload: e.task.payload, Headers: e.task.headers}
	for _, opt := range e.options() {
		c.Options = append(c.Options, exactOption(opt))
	}
	return c
}
