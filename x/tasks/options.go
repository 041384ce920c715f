package tasks

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq"
)

// Option is a setting of a task. With Define, it applies both to enqueueing and to processing.
type Option func(*settings)

// settings holds the settings of a task.
type settings struct {
	name       string
	prefix     string
	ownQueue   *string // instead of the name
	maxRun     int     // 0 means no limit
	inOrder    bool
	partitions *asynq.PartitionConfig // nil: the queue has none
	key        *partitionKey          // nil: tasks have no key
	weight     int
	codec      Codec
	retryDelay func(n int, err error) time.Duration
	task       []asynq.Option
	errs       []error
}

// partitionKey returns the partition keys of tasks.
type partitionKey struct {
	params reflect.Type // of the parameters that of accepts
	of     func(params any) (key string, ok bool)
}

// newSettings applies options to the settings of a task. params is the type of its parameters, nil
// if unknown. The error wraps ErrDefinition.
func newSettings(name string, params reflect.Type, opts []Option) (*settings, error) {
	s := &settings{name: name, weight: 1, codec: JSON}
	for _, opt := range opts {
		if opt == nil {
			s.wrong("an option is nil")
			continue
		}
		opt(s)
	}
	for _, part := range []struct{ what, text string }{{"name", name}, {"queue", s.queue()}} {
		if strings.TrimSpace(part.text) == "" {
			s.wrong("the %s must not be blank", part.what)
		}
		if !utf8.ValidString(part.text) {
			s.wrong("the %s must be UTF-8", part.what)
		}
	}
	if strings.HasPrefix(s.queue(), "}") {
		s.wrong("the queue must not begin with }: set another one with Queue")
	}
	if s.inOrder && s.maxRun > 1 {
		s.wrong("InOrder and MaxRun(%d) contradict each other: remove one", s.maxRun)
	}
	if s.inOrder && s.partitions != nil {
		s.wrong("InOrder and Partitions exclude each other: remove InOrder, or set Ordered in Partitions")
	}
	if s.partitions != nil {
		if err := s.partitions.Validate(); err != nil {
			s.errs = append(s.errs, err)
		}
	}
	if s.key != nil && params != nil && s.key.params != params {
		s.wrong("PartitionBy takes %v, but the parameters are %v", s.key.params, params)
	}
	if s.codec == nil {
		s.wrong("the Codec is nil")
	}
	if len(s.errs) > 0 {
		return s, fmt.Errorf("%w of %q: %w", ErrDefinition, name, errors.Join(s.errs...))
	}
	return s, nil
}

func (s *settings) wrong(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

func (s *settings) queue() string {
	if s.ownQueue != nil {
		return s.prefix + *s.ownQueue
	}
	return s.prefix + s.name
}

// limits returns the limits of the task's queue.
func (s *settings) limits() asynq.QueueConfig {
	if s.inOrder {
		return asynq.QueueConfig{Ordered: true}
	}
	return asynq.QueueConfig{Concurrency: s.maxRun, Partitions: s.partitions}
}

// sameLimits reports whether two tasks agree on the limits of their queue.
func (s *settings) sameLimits(other *settings) bool {
	a, b := s.limits(), other.limits()
	if a.Partitions != nil && b.Partitions != nil && *a.Partitions == *b.Partitions {
		a.Partitions = b.Partitions
	}
	return a == b
}

// newTask returns a task. The options of the task take precedence, but must not set the queue.
func (s *settings) newTask(params any, opts []asynq.Option) (*asynq.Task, error) {
	for _, opt := range opts {
		if opt != nil && opt.Type() == asynq.QueueOpt {
			return nil, fmt.Errorf("tasks: %q is processed in queue %q: remove %s", s.name, s.queue(), opt)
		}
	}
	payload, err := s.codec.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("tasks: parameters of %q: %w", s.name, err)
	}
	all := append([]asynq.Option{}, s.task...)
	if s.key != nil {
		key, ok := s.key.of(params)
		if !ok {
			return nil, fmt.Errorf("tasks: parameters of %q are %T, but PartitionBy takes %v", s.name, params, s.key.params)
		}
		if key != "" {
			all = append(all, asynq.PartitionKey(key))
		}
	}
	all = append(all, opts...)
	return asynq.NewTask(s.name, payload, append(all, asynq.Queue(s.queue()))...), nil
}

// Options combines several options, for settings that tasks share.
func Options(opts ...Option) Option {
	return func(s *settings) {
		for _, opt := range opts {
			if opt != nil {
				opt(s)
			}
		}
	}
}

// QueuePrefix sets a prefix of queue names, such as "shop:", for unrelated programs that share a
// Redis.
func QueuePrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// Queue sets the queue; the default is the name of the task. Tasks with the same queue share its
// order. MaxRun, InOrder and Partitions apply to the queue and must be the same for all of them.
func Queue(name string) Option { return func(s *settings) { s.ownQueue = &name } }

// MaxRun sets the maximum number of active tasks, across all workers. By default, and for values
// less than 1, there is no limit. With 1, tasks start in the order of the queue, each after the
// previous one has ended, except that tasks overtake a failed one that waits for its retry; see
// InOrder.
func MaxRun(n int) Option { return func(s *settings) { s.maxRun = max(n, 0) } }

// InOrder processes tasks one at a time, in order, across all workers: each task succeeds, is
// archived or is deleted before the next one starts. A failed task is retried before all others,
// and blocks them for as long as RetryDelay and MaxRetry permit. See asynq.QueueConfig.Ordered for
// details.
func InOrder() Option { return func(s *settings) { s.inOrder = true } }

// Partitions divides the queue by the partition keys of the tasks, see PartitionBy, or by their
// names with PartitionConfig.ByType. The partitions share the queue fairly, and c limits each of
// them. It excludes InOrder: set Ordered in c. See asynq.PartitionConfig for the limits.
func Partitions(c asynq.PartitionConfig) Option {
	return func(s *settings) {
		own := c
		s.partitions = &own
	}
}

// PartitionBy sets the partition key of each task to what key returns for its parameters, such as
// the ID of a customer; a task for which it returns "" has none. P is the type of the parameters of
// the Definition. The option asynq.PartitionKey of a single task takes precedence. Without
// Partitions, keys have no effect.
//
// Enqueue and NewTask return an error if params are not of type P; they and the Client reject the
// keys that asynq.PartitionKey rejects.
func PartitionBy[P any](key func(params P) string) Option {
	return func(s *settings) {
		if key == nil {
			s.wrong("the function of PartitionBy is nil")
			return
		}
		s.key = &partitionKey{params: reflect.TypeFor[P](), of: func(params any) (string, bool) {
			p, ok := params.(P)
			if !ok && (params != nil || reflect.TypeFor[P]().Kind() != reflect.Interface) {
				return "", false
			}
			return key(p), true // a nil interface value is a P, too
		}}
	}
}

// Weight sets the share of the task in a busy worker, relative to the other tasks. The default is
// 1.
func Weight(n int) Option {
	return func(s *settings) {
		if s.weight = n; n < 1 {
			s.wrong("Weight(%d): must be at least 1", n)
		}
	}
}

// WithCodec sets the encoding of parameters and results. The default is JSON.
func WithCodec(c Codec) Option { return func(s *settings) { s.codec = c } }

// RetryDelay sets the delay before a retry. n is the number of failed attempts before the one that
// ended with err. The delay is rounded up to whole seconds. The default is that of the worker,
// asynq.DefaultRetryDelayFunc.
func RetryDelay(f func(n int, err error) time.Duration) Option {
	return func(s *settings) { s.retryDelay = f }
}

// With adds options of asynq to each task, such as asynq.Deadline. Use Queue to set the queue.
func With(opts ...asynq.Option) Option {
	return func(s *settings) {
		for _, opt := range opts {
			switch {
			case opt == nil:
				s.wrong("an option is nil")
			case opt.Type() == asynq.QueueOpt:
				s.wrong("use tasks.Queue instead of %s", opt)
			default:
				s.task = append(s.task, opt)
			}
		}
	}
}

// MaxRetry sets the maximum number of retries. The default is 25.
func MaxRetry(n int) Option { return With(asynq.MaxRetry(n)) }

// Timeout limits the duration of an attempt, rounded up to seconds; 0 means no limit. The default
// is 30 minutes.
func Timeout(d time.Duration) Option { return With(asynq.Timeout(d)) }

// Retention sets how long a completed task is kept, with its result. By default it is deleted at
// once; with DefineResult, the default is one hour.
func Retention(d time.Duration) Option { return With(asynq.Retention(d)) }

// Unique rejects tasks with asynq.ErrDuplicateTask while another task with the same parameters is
// pending, active or delayed, for at most ttl.
func Unique(ttl time.Duration) Option { return With(asynq.Unique(ttl)) }
