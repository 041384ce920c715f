package asynq

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// The defaults of options.
const (
	defaultQueue    = "default"
	defaultMaxRetry = 25
	defaultTimeout  = 30 * time.Minute // of tasks without a deadline
)

// OptionType is the type of an option.
type OptionType int

// The types of options. The comment names the type of Option.Value.
const (
	MaxRetryOpt  OptionType = iota // int
	QueueOpt                       // string
	TimeoutOpt                     // time.Duration
	DeadlineOpt                    // time.Time
	UniqueOpt                      // time.Duration
	ProcessAtOpt                   // time.Time
	ProcessInOpt                   // time.Duration
	TaskIDOpt                      // string
	RetentionOpt                   // time.Duration
	GroupOpt                       // string
	HeaderOpt                      // [2]string: key and value

	IdempotencyKeyOpt // [2]string: key and TTL, as in "1h30m0s"
	UniqueKeyOpt      // [2]string: key and TTL
	OnDuplicateOpt    // DuplicatePolicy
	DebounceOpt       // [3]string: key, quiet and maxWait
	ThrottleOpt       // [2]string: key and window
	ExpiresInOpt      // time.Duration
	PartitionKeyOpt   // string
	AwaitableOpt      // bool: true
	CancelOnReturnOpt // bool: true
)

// Option configures how a task is processed. Options are comparable: options created with equal
// arguments are equal, and can be keys of a map. A nil Option is ignored.
//
// Options implemented in other packages are applied by their Type and Value. An unknown Type, or a
// Value of another Go type than that listed at the constants, is an error.
type Option interface {
	// String returns the option as Go source.
	String() string

	// Type returns the type of the option.
	Type() OptionType

	// Value returns the argument of the option.
	Value() interface{}
}

// taskOptions is the result of applying options.
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
	rare      *rareOptions // nil if there are none
}

// composeOptions applies lists of options in order: later options override earlier ones.
func composeOptions(now time.Time, lists ...[]Option) (*taskOptions, error) {
	o := &taskOptions{maxRetry: defaultMaxRetry, queue: defaultQueue, processAt: now}
	for _, list := range lists {
		for _, opt := range list {
			if err := o.apply(opt, now); err != nil {
				return nil, err
			}
		}
	}
	return o, nil
}

// apply applies one option.
func (o *taskOptions) apply(opt Option, now time.Time) error {
	switch v := opt.(type) {
	case maxRetryOption:
		o.maxRetry = min(int(v), math.MaxInt32)
	case queueOption:
		o.queue = string(v)
		return validateQueueName(o.queue)
	case taskIDOption:
		o.taskID = string(v)
		if strings.TrimSpace(o.taskID) == "" {
			return errors.New("asynq: task ID must not be empty: omit it for a random one")
		}
	case timeoutOption:
		o.timeout = time.Duration(v)
		return notNegative(opt, o.timeout)
	case deadlineOption:
		o.deadline = time.Time(v)
	case uniqueOption:
		o.uniqueTTL = time.Duration(v)
		if o.rare != nil {
			o.rare.key = ownKey{} // the last option that sets the lock applies
		}
		if v <= 0 {
			return fmt.Errorf("asynq: %v: the TTL must be positive", opt)
		}
	case processAtOption:
		o.processAt = time.Time(v)
	case processInOption:
		o.processAt = now.Add(time.Duration(v))
	case retentionOption:
		o.retention = time.Duration(v)
		return notNegative(opt, o.retention)
	case groupOption:
		o.group = string(v)
		if strings.TrimSpace(o.group) == "" {
			return errors.New("asynq: group name must not be empty")
		}
	case headerOption:
		if o.headers == nil {
			o.headers = make(map[string]string)
		}
		o.headers[v[0]] = v[1]
	case idempotencyKeyOption, uniqueKeyOption, onDuplicateOption, debounceOption, throttleOption, expiresInOption,
		partitionKeyOption, awaitableOption, cancelOnReturnOption:
		if o.rare == nil {
			o.rare = &rareOptions{}
		}
		return o.rare.apply(opt)
	default:
		own, err := ownOption(opt)
		if err != nil || own == nil {
			return err
		}
		return o.apply(own, now)
	}
	return nil
}

func notNegative(opt Option, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("asynq: %v: must not be negative", opt)
	}
	return nil
}

// MaxRetry sets the maximum number of retries, after which the task is archived. The default is 25.
// Negative values mean 0; the maximum is 2³¹−1.
func MaxRetry(n int) Option { return maxRetryOption(max(n, 0)) }

// Queue sets the queue of the task. The default is "default". Queue names are case-sensitive.
// Enqueue returns an error if the name is blank, begins with "}" or is not valid UTF-8.
func Queue(name string) Option { return queueOption(name) }

// TaskID sets the ID of the task. The default is a random UUID. Enqueue returns ErrTaskIDConflict
// if the queue contains a task with this ID, and another error if the ID is blank or not valid
// UTF-8.
func TaskID(id string) Option { return taskIDOption(id) }

// Timeout limits the duration of each attempt. It is rounded up to whole seconds. If the task also
// has a Deadline, the earlier of the two applies. If both are zero or not set, the default is 30
// minutes. Enqueue returns an error if d is negative.
func Timeout(d time.Duration) Option { return timeoutOption(d) }

// Deadline sets the time by which every attempt must end. It is rounded up to whole seconds. If the
// task also has a Timeout, the earlier of the two applies. The zero time and Unix time 0 mean no
// deadline.
func Deadline(t time.Time) Option { return deadlineOption(t) }

// Unique makes Enqueue return ErrDuplicateTask if another task with the same type, payload and
// queue holds the uniqueness lock. The task holds the lock until it succeeds or is deleted, at most
// until ttl after it is due. ttl is rounded up to whole seconds. Enqueue returns an error if ttl is
// not positive. OnDuplicate changes what Enqueue does instead. Of Unique, UniqueKey, Debounce and
// Throttle, the last one applies.
func Unique(ttl time.Duration) Option { return uniqueOption(ttl) }

// ProcessAt delays the task until t, rounded up to whole seconds, or to milliseconds if the options
// of the connection are WithMillisecondTimes. If t is in the past, the task is enqueued without
// delay. If ProcessAt and ProcessIn are both given, the last one applies.
func ProcessAt(t time.Time) Option { return processAtOption(t) }

// ProcessIn delays the task by d from now, rounded up as with ProcessAt. If d is not positive, the
// task is enqueued without delay. If ProcessAt and ProcessIn are both given, the last one applies.
func ProcessIn(d time.Duration) Option { return processInOption(d) }

// Retention sets how long the task is kept after it succeeds, rounded up to whole seconds. The
// default is zero: the task is deleted when it succeeds. Enqueue returns an error if d is negative.
func Retention(d time.Duration) Option { return retentionOption(d) }

// Group adds the task to a group, whose tasks are aggregated into one task (see
// Config.GroupAggregator). Enqueue returns an error if the name is blank or not valid UTF-8.
func Group(name string) Option { return groupOption(name) }

// Header sets one header of the task and replaces any with the same key. Enqueue returns an error
// if key or value is not valid UTF-8.
func Header(key, value string) Option { return headerOption{key, value} }

// IdempotencyKey makes Enqueue create at most one task per key and queue within ttl. A call with a
// key that was used returns no error and the TaskInfo of the first task: its current state, and
// IsRepeated. If that task no longer exists, only its ID and Queue are set. So a request can be
// repeated until it succeeds, and an event that arrives several times creates one task.
//
// The key is used once a task was created; a rejected task leaves it free. ttl begins then, is
// rounded up to whole seconds, and is at least two minutes. All other settings of a repeated call
// are ignored. Enqueue returns an error if the key is blank or not valid UTF-8, or if ttl is not
// positive. A Scheduler and the task of a GroupAggregator reject the option.
func IdempotencyKey(key string, ttl time.Duration) Option {
	return idempotencyKeyOption{key, ttl.String()}
}

// validateQueueName returns an error if a queue cannot have the name.
func validateQueueName(name string) error {
	if err := wire.ValidateQueueName(name); err != nil {
		return fmt.Errorf("asynq: %w", err)
	}
	return nil
}

// The options are comparable values, usable as keys of a map and with reflect.DeepEqual. Their
// kinds are those of the original library.
type (
	maxRetryOption  int
	queueOption     string
	taskIDOption    string
	timeoutOption   time.Duration
	deadlineOption  time.Time
	uniqueOption    time.Duration
	processAtOption time.Time
	processInOption time.Duration
	retentionOption time.Duration
	groupOption     string
	headerOption    [2]string

	idempotencyKeyOption [2]string
	uniqueKeyOption      [2]string
	onDuplicateOption    DuplicatePolicy
	debounceOption       [3]string
	throttleOption       [2]string
	expiresInOption      time.Duration
	partitionKeyOption   string
)

func (o maxRetryOption) Value() interface{}  { return int(o) }
func (o queueOption) Value() interface{}     { return string(o) }
func (o taskIDOption) Value() interface{}    { return string(o) }
func (o timeoutOption) Value() interface{}   { return time.Duration(o) }
func (o deadlineOption) Value() interface{}  { return time.Time(o) }
func (o uniqueOption) Value() interface{}    { return time.Duration(o) }
func (o processAtOption) Value() interface{} { return time.Time(o) }
func (o processInOption) Value() interface{} { return time.Duration(o) }
func (o retentionOption) Value() interface{} { return time.Duration(o) }
func (o groupOption) Value() interface{}     { return string(o) }
func (o headerOption) Value() interface{}    { return [2]string(o) }

func (o idempotencyKeyOption) Value() interface{} { return [2]string(o) }
func (o uniqueKeyOption) Value() interface{}      { return [2]string(o) }
func (o onDuplicateOption) Value() interface{}    { return DuplicatePolicy(o) }
func (o debounceOption) Value() interface{}       { return [3]string(o) }
func (o throttleOption) Value() interface{}       { return [2]string(o) }
func (o expiresInOption) Value() interface{}      { return time.Duration(o) }
func (o partitionKeyOption) Value() interface{}   { return string(o) }

func (maxRetryOption) Type() OptionType  { return MaxRetryOpt }
func (queueOption) Type() OptionType     { return QueueOpt }
func (taskIDOption) Type() OptionType    { return TaskIDOpt }
func (timeoutOption) Type() OptionType   { return TimeoutOpt }
func (deadlineOption) Type() OptionType  { return DeadlineOpt }
func (uniqueOption) Type() OptionType    { return UniqueOpt }
func (processAtOption) Type() OptionType { return ProcessAtOpt }
func (processInOption) Type() OptionType { return ProcessInOpt }
func (retentionOption) Type() OptionType { return RetentionOpt }
func (groupOption) Type() OptionType     { return GroupOpt }
func (headerOption) Type() OptionType    { return HeaderOpt }

func (idempotencyKeyOption) Type() OptionType { return IdempotencyKeyOpt }
func (uniqueKeyOption) Type() OptionType      { return UniqueKeyOpt }
func (onDuplicateOption) Type() OptionType    { return OnDuplicateOpt }
func (debounceOption) Type() OptionType       { return DebounceOpt }
func (throttleOption) Type() OptionType       { return ThrottleOpt }
func (expiresInOption) Type() OptionType      { return ExpiresInOpt }
func (partitionKeyOption) Type() OptionType   { return PartitionKeyOpt }

func (o maxRetryOption) String() string { return fmt.Sprintf("MaxRetry(%d)", int(o)) }
func (o queueOption) String() string    { return fmt.Sprintf("Queue(%q)", string(o)) }
func (o taskIDOption) String() string   { return fmt.Sprintf("TaskID(%q)", string(o)) }
func (o timeoutOption) String() string  { return fmt.Sprintf("Timeout(%v)", time.Duration(o)) }
func (o deadlineOption) String() string {
	return fmt.Sprintf("Deadline(%v)", time.Time(o).Format(time.UnixDate))
}
func (o uniqueOption) String() string { return fmt.Sprintf("Unique(%v)", time.Duration(o)) }
func (o processAtOption) String() string {
	return fmt.Sprintf("ProcessAt(%v)", time.Time(o).Format(time.UnixDate))
}
func (o processInOption) String() string { return fmt.Sprintf("ProcessIn(%v)", time.Duration(o)) }
func (o retentionOption) String() string { return fmt.Sprintf("Retention(%v)", time.Duration(o)) }
func (o groupOption) String() string     { return fmt.Sprintf("Group(%q)", string(o)) }
func (o headerOption) String() string    { return fmt.Sprintf("Header(%q, %q)", o[0], o[1]) }
func (o idempotencyKeyOption) String() string {
	return fmt.Sprintf("IdempotencyKey(%q, %s)", o[0], o[1])
}
func (o uniqueKeyOption) String() string   { return fmt.Sprintf("UniqueKey(%q, %s)", o[0], o[1]) }
func (o onDuplicateOption) String() string { return fmt.Sprintf("OnDuplicate(%v)", DuplicatePolicy(o)) }
func (o debounceOption) String() string {
	return fmt.Sprintf("Debounce(%q, %s, %s)", o[0], o[1], o[2])
}
func (o throttleOption) String() string     { return fmt.Sprintf("Throttle(%q, %s)", o[0], o[1]) }
func (o expiresInOption) String() string    { return fmt.Sprintf("ExpiresIn(%v)", time.Duration(o)) }
func (o partitionKeyOption) String() string { return fmt.Sprintf("PartitionKey(%q)", string(o)) }

// Equal reports whether both times are equal, for go-cmp.
func (o deadlineOption) Equal(p deadlineOption) bool { return time.Time(o).Equal(time.Time(p)) }

// Equal reports whether both times are equal, for go-cmp.
func (o processAtOption) Equal(p processAtOption) bool { return time.Time(o).Equal(time.Time(p)) }
