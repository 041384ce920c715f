package asynq

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Values that a task has where no option says otherwise.
const (
	defaultQueue    = "default"
	defaultMaxRetry = 25
	defaultTimeout  = 30 * time.Minute // where there is neither a timeout nor a deadline
)

// OptionType tells the kinds of options apart.
type OptionType int

// The kinds of options.
const (
	MaxRetryOpt OptionType = iota
	QueueOpt
	TimeoutOpt
	DeadlineOpt
	UniqueOpt
	ProcessAtOpt
	ProcessInOpt
	TaskIDOpt
	RetentionOpt
	GroupOpt
	HeaderOpt
)

// Option says how a task is to be processed.
type Option interface {
	// String returns the option as Go source.
	String() string

	// Type returns the kind of the option.
	Type() OptionType

	// Value returns what the option was made from.
	Value() interface{}
}

// option is an Option of any kind.
type option struct {
	kind   OptionType
	value  any
	source string
	apply  func(o *taskOptions, now time.Time) error
}

func (o *option) String() string     { return o.source }
func (o *option) Type() OptionType   { return o.kind }
func (o *option) Value() interface{} { return o.value }

// taskOptions is what all options of a task come to.
type taskOptions struct {
	maxRetry  int
	queue     string
	taskID    string
	timeout   time.Duration
	deadline  time.Time
	uniqueTTL time.Duration
	processAt time.Time
	retention time.Duration
	group     string
	headers   map[string]string
}

// composeOptions applies lists of options in their order: where two say different things, the later one holds. It writes to none
// of the lists.
func composeOptions(now time.Time, lists ...[]Option) (*taskOptions, error) {
	o := &taskOptions{maxRetry: defaultMaxRetry, queue: defaultQueue, processAt: now}
	for _, list := range lists {
		for _, opt := range list {
			own, ok := opt.(*option)
			if !ok {
				return nil, fmt.Errorf("asynq: option %v was not made by this package: use Queue, MaxRetry, …", opt)
			}
			if err := own.apply(o, now); err != nil {
				return nil, err
			}
		}
	}
	return o, nil
}

// MaxRetry sets how many failed attempts the task may have after its first, 25 unless set. Negative values are taken for 0, and no
// more than 2³¹−1 are counted.
func MaxRetry(n int) Option {
	n = max(n, 0)
	return &option{MaxRetryOpt, n, fmt.Sprintf("MaxRetry(%d)", n), func(o *taskOptions, _ time.Time) error {
		o.maxRetry = min(n, math.MaxInt32)
		return nil
	}}
}

// Queue sets the queue to put the task into, "default" unless set. Queue names are case-sensitive; a blank one, one that begins with
// "}", or one that is not UTF-8 is refused by Enqueue.
func Queue(name string) Option {
	return &option{QueueOpt, name, fmt.Sprintf("Queue(%q)", name), func(o *taskOptions, _ time.Time) error {
		o.queue = name
		return validateQueueName(name)
	}}
}

// TaskID sets the task's ID, a random UUID unless set. Enqueue returns ErrTaskIDConflict if the queue has a task with this ID, and refuses
// one that is blank or not UTF-8.
func TaskID(id string) Option {
	return &option{TaskIDOpt, id, fmt.Sprintf("TaskID(%q)", id), func(o *taskOptions, _ time.Time) error {
		o.taskID = id
		if strings.TrimSpace(id) == "" {
			return errors.New("asynq: task ID must not be empty: leave TaskID out for a random one")
		}
		return nil
	}}
}

// Timeout sets how long an attempt may take, rounded up to seconds. Zero is no limit. If there is a Deadline too, the earlier of
// both holds; if there is neither, the timeout is 30 minutes. A negative one is refused by Enqueue.
func Timeout(d time.Duration) Option {
	return &option{TimeoutOpt, d, fmt.Sprintf("Timeout(%v)", d), func(o *taskOptions, _ time.Time) error {
		o.timeout = d
		return notNegative("Timeout", d)
	}}
}

// Deadline sets when an attempt must end, rounded up to seconds. If there is a Timeout too, the earlier of both holds. The zero time is
// no deadline, and neither is Unix time 0, which stands for none on the wire.
func Deadline(t time.Time) Option {
	return &option{DeadlineOpt, t, fmt.Sprintf("Deadline(%v)", t.Format(time.UnixDate)), func(o *taskOptions, _ time.Time) error {
		o.deadline = t
		return nil
	}}
}

// Unique lets the task be enqueued only if no other one with the same type, payload and queue holds the uniqueness lock; Enqueue
// returns ErrDuplicateTask otherwise. The lock is given up when the task succeeds or is deleted, and at the latest after ttl, rounded
// up to seconds and counted from when the task is to be processed. Enqueue refuses a ttl that is not positive.
func Unique(ttl time.Duration) Option {
	return &option{UniqueOpt, ttl, fmt.Sprintf("Unique(%v)", ttl), func(o *taskOptions, _ time.Time) error {
		o.uniqueTTL = ttl
		if ttl <= 0 {
			return fmt.Errorf("asynq: Unique(%v): the TTL must be positive", ttl)
		}
		return nil
	}}
}

// ProcessAt sets when to process the task: not before t, rounded up to seconds; at once if t is over. Of ProcessAt and ProcessIn, the last
// one given holds.
func ProcessAt(t time.Time) Option {
	return &option{ProcessAtOpt, t, fmt.Sprintf("ProcessAt(%v)", t.Format(time.UnixDate)), func(o *taskOptions, _ time.Time) error {
		o.processAt = t
		return nil
	}}
}

// ProcessIn sets when to process the task: not before d has passed from now, rounded up to seconds. Of ProcessAt and ProcessIn, the
// last one given holds.
func ProcessIn(d time.Duration) Option {
	return &option{ProcessInOpt, d, fmt.Sprintf("ProcessIn(%v)", d), func(o *taskOptions, now time.Time) error {
		o.processAt = now.Add(d)
		return nil
	}}
}

// Retention sets how long the task is kept after it succeeded, rounded up to seconds. Zero: not at all. A negative one is refused by
// Enqueue.
func Retention(d time.Duration) Option {
	return &option{RetentionOpt, d, fmt.Sprintf("Retention(%v)", d), func(o *taskOptions, _ time.Time) error {
		o.retention = d
		return notNegative("Retention", d)
	}}
}

// Group lets the task wait in a group, to be aggregated with others of the group into one task (see Config.GroupAggregator). A name
// that is blank or not UTF-8 is refused by Enqueue.
func Group(name string) Option {
	return &option{GroupOpt, name, fmt.Sprintf("Group(%q)", name), func(o *taskOptions, _ time.Time) error {
		o.group = name
		if strings.TrimSpace(name) == "" {
			return errors.New("asynq: group name must not be empty")
		}
		return nil
	}}
}

// Header sets one header of the task, in place of one with the same key. Enqueue refuses what is not UTF-8.
func Header(key, value string) Option {
	pair := [2]string{key, value}
	return &option{HeaderOpt, pair, fmt.Sprintf("Header(%q, %q)", key, value), func(o *taskOptions, _ time.Time) error {
		if o.headers == nil {
			o.headers = make(map[string]string)
		}
		o.headers[key] = value
		return nil
	}}
}

func notNegative(option string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("asynq: %s(%v): must not be negative", option, d)
	}
	return nil
}

// validateQueueName refuses names that cannot be a queue's.
func validateQueueName(name string) error {
	if strings.TrimSpace(name) == "" {
		return errors.New("asynq: queue name must not be empty")
	}
	if strings.HasPrefix(name, "}") {
		// {} around the name makes all keys of the queue live in one slot of a cluster, and an empty {} does not.
		return fmt.Errorf("asynq: queue name %q must not begin with a closing brace", name)
	}
	return nil
}
