package asynq

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/asynq-go/asynq/internal/timetable"
)

// scheduled is an entry of a Scheduler. progress is guarded by the Scheduler's mutex;
// the other fields are immutable.
type scheduled struct {
	id       string
	pauseID  string // names its pause; depends only on the group and the settings
	identity string // all settings of the entry, independent of the process
	ordinal  int    // among entries with the same identity
	spec     string
	task     *Task
	opts     []Option // of the entry
	all      []Option // of the task and the entry; later ones override earlier ones
	schedule timetable.Schedule
	missed   MissedTicks
	queue    string
	namesID  bool // an option sets the task ID
	since    time.Time

	progress
}

// progress is the position of an entry in its sequence of ticks.
type progress struct {
	term     int64       // leadership term to which the other fields apply; 0: none
	cursor   time.Time   // ticks up to here are done
	next     time.Time   // the first one after the cursor; zero if there is none
	backlog  []time.Time // missed ticks to enqueue, before next
	gap      time.Time   // ticks up to here are missed
	skipped  bool        // the cursor must be stored in Redis
	prev     time.Time   // the last tick that was enqueued
	failures int         // in a row
	retryAt  time.Time   // not before
}

// entryNamespace is the UUID namespace of the derived IDs of entries and tasks.
var entryNamespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/asynq-go/asynq/scheduler"))

// newScheduled validates a config and returns an entry without an ID.
func (s *Scheduler) newScheduled(cfg PeriodicTaskConfig) (*scheduled, error) {
	if strings.TrimSpace(cfg.Cronspec) == "" {
		return nil, errors.New("asynq: the cron spec must not be empty: use five fields, \"@daily\" or \"@every 90s\"")
	}
	now := s.now()
	made, err := newCreation(cfg.Task, cfg.Opts, s.broker.Keys, now)
	if err != nil {
		return nil, err
	}
	if err := made.independent("a scheduled task"); err != nil {
		return nil, err
	}
	opts, err := ownOptions(cfg.Opts)
	if err != nil {
		return nil, err
	}
	taskOpts, err := ownOptions(cfg.Task.opts)
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
		spec: cfg.Cronspec, task: cfg.Task, opts: opts, all: append(taskOpts, opts...), schedule: schedule, missed: cfg.MissedTicks,
		queue: made.order.Queue, since: now,
	}
	if e.missed == MissedTicksDefault || s.opts.Group == "" {
		e.missed = s.opts.MissedTicks
	}
	for _, opt := range e.all {
		e.namesID = e.namesID || opt.Type() == TaskIDOpt
	}
	e.identity = e.identify(loc)
	return e, nil
}

// optsCopy returns a copy of opts that callbacks may modify.
func (e *scheduled) optsCopy() []Option { return slices.Clone(e.opts) }

// identify returns all settings of the entry except its MissedTicks, in a form that is the same in
// all processes.
func (e *scheduled) identify(loc *time.Location) string {
	_, winter := time.Unix(1_700_000_000, 0).In(loc).Zone()
	_, summer := time.Unix(1_720_000_000, 0).In(loc).Zone()
	identity, _ := json.Marshal(struct { // cannot fail
		Spec, Location string
		Offsets        [2]int // different zones may have the same name
		Type           string
		Payload        []byte
		Headers        map[string]string
		Options        []string
	}{e.spec, loc.String(), [2]int{winter, summer}, e.task.typename, e.task.payload, e.task.headers, canonicalOptions(e.all)})
	return string(identity)
}

// entryID returns the ID of the entry in a group.
func (e *scheduled) entryID(group string) string {
	return uuid.NewSHA1(entryNamespace, []byte(group+"\x00"+strconv.Itoa(e.ordinal)+"\x00"+e.identity)).String()
}

// taskID returns the ID of the task of a tick.
func (e *scheduled) taskID(tick time.Time) string {
	return uuid.NewSHA1(entryNamespace, []byte(e.id+"\x00"+strconv.FormatInt(tick.UnixMilli(), 10))).String()
}

// head returns the next tick to enqueue, which may be in the future; zero if there is none.
func (p *progress) head() time.Time {
	if len(p.backlog) > 0 {
		return p.backlog[0]
	}
	return p.next
}

// moveTo marks the ticks up to t as done.
func (e *scheduled) moveTo(t time.Time) {
	e.cursor = t
	e.next = e.schedule.Next(t)
}

// start starts a term with the ticks after cursor.
func (e *scheduled) start(term int64, cursor time.Time) {
	e.progress = progress{term: term, prev: e.prev}
	e.moveTo(cursor)
}

// applyPolicy applies the policy for missed ticks. It returns the last missed tick; zero if there
// is none.
func (e *scheduled) applyPolicy() time.Time {
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

// done marks a tick as done.
func (e *scheduled) done(tick time.Time) {
	if len(e.backlog) > 0 && e.backlog[0].Equal(tick) {
		e.backlog = e.backlog[1:]
	}
	if tick.After(e.cursor) {
		e.moveTo(tick)
	}
	e.failures, e.retryAt = 0, time.Time{}
}

// failed delays the next attempt to enqueue a tick.
func (p *progress) failed(now time.Time) {
	p.retryAt = now.Add(min(100*time.Millisecond<<min(p.failures, 10), 5*time.Second))
	p.failures++
}
