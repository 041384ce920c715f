package tasks

import (
	"errors"
	"fmt"
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
	weight     int
	codec      Codec
	retryDelay func(n int, err error) time.Duration
	task       []asynq.Option
	errs       []error
}

// newSettings applies options to the settings of a task. The error wraps ErrDefinition.
func newSettings(name string, opts []Option) (*settings, error) {
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
	return asynq.QueueConfig{Concurrency: s.maxRun}
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
	all := append(append([]asynq.Option{}, s.task...), opts...)
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
// order. MaxRun and InOrder apply to the queue and must be the same for all of them.
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
