package asynq

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// SchedulerOpts says how a Scheduler works. The zero value of a field stands for its default.
type SchedulerOpts struct {
	// HeartbeatInterval is how often the scheduler publishes its entries, for the Inspector and other tools to see. They are taken
	// to be gone after two intervals without a sign of life. Default: 10 s.
	HeartbeatInterval time.Duration

	// Logger that the scheduler writes to. NewSlogLogger makes one of a *slog.Logger. Default: lines on standard error.
	Logger Logger

	// LogLevel is the lowest level that is logged. Default: InfoLevel.
	LogLevel LogLevel

	// Location is the time zone in which cron specs are read, where neither the entry nor the spec (CRON_TZ=) names one. Default:
	// UTC.
	Location *time.Location

	// PreEnqueueFunc is called before a task is enqueued. It is to return quickly: other entries wait meanwhile. Default: nobody is.
	PreEnqueueFunc func(task *Task, opts []Option)

	// EnqueueHeaders returns headers that a task gets in addition to its own, and in place of those with the same keys: facts of
	// the tick, such as a trace context. It is called after PreEnqueueFunc for each tick, and again where a tick is tried again, and is
	// to return quickly. Neither the entry nor its ID change. If it panics there are none. Default: none.
	EnqueueHeaders func(task *Task, opts []Option) map[string]string

	// PostEnqueueFunc is called after a task was enqueued, or was not: then with the error, and info is nil. It is to return
	// quickly. Default: nobody is.
	PostEnqueueFunc func(info *TaskInfo, err error)

	// EnqueueErrorHandler is called when a task could not be enqueued. Default: nobody is.
	//
	// Deprecated: PostEnqueueFunc is told of errors and of successes.
	EnqueueErrorHandler func(task *Task, opts []Option, err error)

	// Group is the name of a group of schedulers on the same Redis, usually one in each instance of a program. One of them leads
	// and enqueues; another takes over within 10 s of its death, and within a second of its Shutdown. Each tick of an entry is
	// enqueued once, whoever leads at that time. The schedulers must register the same entries: an entry that only some of
	// them have is enqueued only while one of these leads.
	//
	// In a group, the ticks of "@every" are multiples of the interval since 1970, an entry's ID follows from what it is made of, and
	// a tick whose enqueuing failed is tried again until it succeeds. Default: none; every scheduler enqueues its own entries.
	Group string

	// MissedTicks says what becomes of ticks that came due while no scheduler of the Group led for more than 10 s. Those that
	// came due in shorter gaps are not missed: they are enqueued late. Redis remembers for 30 days where a group was. Without
	// a Group there is no memory, and missed ticks are always skipped. Default: SkipMissed.
	MissedTicks MissedTicks
}

// MissedTicks is what becomes of ticks that nobody could enqueue in time.
type MissedTicks int

// What may become of missed ticks.
const (
	// MissedTicksDefault: for an entry, what the scheduler's options say; for a scheduler, SkipMissed.
	MissedTicksDefault MissedTicks = iota
	// SkipMissed: nothing is enqueued for them.
	SkipMissed
	// EnqueueLastMissed: one task is enqueued, for the last one.
	EnqueueLastMissed
	// EnqueueAllMissed: a task is enqueued for each of them, for the last 1,000 if there are more.
	EnqueueAllMissed
)

// maxMissed bounds the tasks of EnqueueAllMissed.
const maxMissed = 1000

// String returns the name of the constant.
func (m MissedTicks) String() string {
	switch m {
	case MissedTicksDefault:
		return "MissedTicksDefault"
	case SkipMissed:
		return "SkipMissed"
	case EnqueueLastMissed:
		return "EnqueueLastMissed"
	case EnqueueAllMissed:
		return "EnqueueAllMissed"
	default:
		return fmt.Sprintf("MissedTicks(%d)", int(m))
	}
}

func (m MissedTicks) validate() error {
	if m < MissedTicksDefault || m > EnqueueAllMissed {
		return fmt.Errorf("asynq: %v is none of SkipMissed, EnqueueLastMissed and EnqueueAllMissed", m)
	}
	return nil
}

// withDefaults returns a copy of the options with all defaults in it.
func (opts *SchedulerOpts) withDefaults() (SchedulerOpts, error) {
	var o SchedulerOpts
	if opts != nil {
		o = *opts
	}
	positive(&o.HeartbeatInterval, 10*time.Second)
	if o.Location == nil {
		o.Location = time.UTC
	}
	if o.Group != "" && (strings.TrimSpace(o.Group) == "" || strings.ContainsAny(o.Group, "{}")) {
		return o, fmt.Errorf("asynq: SchedulerOpts.Group %q must not be blank and not contain braces", o.Group)
	}
	if err := o.MissedTicks.validate(); err != nil {
		return o, err
	}
	if o.MissedTicks == MissedTicksDefault || o.Group == "" {
		o.MissedTicks = SkipMissed
	}
	return o, nil
}

// PeriodicTaskConfig is a task and when it is to be enqueued.
type PeriodicTaskConfig struct {
	// Cronspec says when, to the minute: five fields, or a descriptor such as "@daily" or "@every 90s". It is required.
	Cronspec string

	// Task to enqueue. It is required.
	Task *Task

	// Opts are options that override those of the task.
	Opts []Option

	// Location is the time zone of the Cronspec, unless that names one itself (CRON_TZ=). Default: SchedulerOpts.Location.
	Location *time.Location

	// MissedTicks says what becomes of ticks that nobody could enqueue in time. Default: SchedulerOpts.MissedTicks.
	MissedTicks MissedTicks
}

var errNoCronspec = errors.New("asynq: the cron spec must not be empty: use five fields, \"@daily\" or \"@every 90s\"")
