package tasks

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq"
)

// Option is a setting of a task: given to Define, it holds wherever the task is enqueued or worked on.
type Option func(*settings)

// settings are what is known of a task.
type settings struct {
	name       string
	prefix     string
	ownQueue   *string // in place of the name
	maxRun     int     // 0: any number
	inOrder    bool
	weight     int
	codec      Codec
	retryDelay func(n int, err error) time.Duration
	task       []asynq.Option
	errs       []error
}

// settle applies options to the settings of a name, and says in the error what they cannot be.
func settle(name string, opts []Option) (*settings, error) {
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
			s.wrong("its %s is blank", part.what)
		}
		if !utf8.ValidString(part.text) {
			s.wrong("its %s is not UTF-8", part.what)
		}
	}
	if strings.HasPrefix(s.queue(), "}") {
		s.wrong("its queue begins with a closing brace, which no queue's name may do: name another one with Queue")
	}
	if s.inOrder && s.maxRun > 1 {
		s.wrong("InOrder and MaxRun(%d) contradict each other: leave one of them out", s.maxRun)
	}
	if s.codec == nil {
		s.wrong("its Codec is nil")
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

// concurrency is the number of the task's queue in asynq.Config.QueueConcurrency; 0: any number.
func (s *settings) concurrency() int {
	if s.inOrder {
		return asynq.InOrder
	}
	return s.maxRun
}

// newTask makes a task. The options of a single task come last, and may say anything but its queue.
func (s *settings) newTask(params any, opts []asynq.Option) (*asynq.Task, error) {
	for _, opt := range opts {
		if opt != nil && opt.Type() == asynq.QueueOpt {
			return nil, fmt.Errorf("tasks: %q is processed in queue %q: leave %s out", s.name, s.queue(), opt)
		}
	}
	payload, err := s.codec.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("tasks: parameters of %q: %w", s.name, err)
	}
	all := append(append([]asynq.Option{}, s.task...), opts...)
	return asynq.NewTask(s.name, payload, append(all, asynq.Queue(s.queue()))...), nil
}

// Options are several options in one, for what many tasks have in common.
func Options(opts ...Option) Option {
	return func(s *settings) {
		for _, opt := range opts {
			if opt != nil {
				opt(s)
			}
		}
	}
}

// QueuePrefix is put before the names of queues, such as "shop:", where programs that know nothing of each other share a Redis.
func QueuePrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// Queue has the task share a queue with others that name it, too, in place of one that has the task's name. MaxRun and InOrder are then
// of all of them together, and must be the same: so do different tasks keep one order.
func Queue(name string) Option { return func(s *settings) { s.ownQueue = &name } }

// MaxRun sets how many of the task may be worked on at the same time, by all workers together; less than 1 is any number, and the default.
// With 1, tasks start in the order in which they came, and none before the one before it has ended; but one that failed is overtaken
// while it waits for its retry. InOrder keeps the order then, too.
func MaxRun(n int) Option { return func(s *settings) { s.maxRun = max(n, 0) } }

// InOrder has each task succeed, or be archived or deleted, before the next one starts, on all workers together: a task that failed is
// tried again before all others. Mind how long that may take: RetryDelay and MaxRetry say. asynq.InOrder says more, also of what is
// not promised.
func InOrder() Option { return func(s *settings) { s.inOrder = true } }

// Weight sets the share that the task gets of a worker that has too much to do, in proportion to those of the others. Default: 1.
func Weight(n int) Option {
	return func(s *settings) {
		if s.weight = n; n < 1 {
			s.wrong("Weight(%d): must be at least 1", n)
		}
	}
}

// WithCodec sets how parameters and results are encoded. Default: JSON.
func WithCodec(c Codec) Option { return func(s *settings) { s.codec = c } }

// RetryDelay sets how long to wait before the next attempt, after n failed attempts before the one that ended with err. Redis keeps
// whole seconds, rounded up. Default: that of the worker, asynq.DefaultRetryDelayFunc.
func RetryDelay(f func(n int, err error) time.Duration) Option {
	return func(s *settings) { s.retryDelay = f }
}

// With sets options of asynq for each task, such as asynq.Deadline. A queue is set by Queue.
func With(opts ...asynq.Option) Option {
	return func(s *settings) {
		for _, opt := range opts {
			switch {
			case opt == nil:
				s.wrong("an option is nil")
			case opt.Type() == asynq.QueueOpt:
				s.wrong("the queue is set by tasks.Queue, not by %s", opt)
			default:
				s.task = append(s.task, opt)
			}
		}
	}
}

// MaxRetry sets how many failed attempts a task may have after its first. Default: 25.
func MaxRetry(n int) Option { return With(asynq.MaxRetry(n)) }

// Timeout sets how long an attempt may take, rounded up to seconds; 0 is no limit. Default: 30 minutes.
func Timeout(d time.Duration) Option { return With(asynq.Timeout(d)) }

// Retention sets how long a task is kept after it succeeded, with its result. Default: not at all; with DefineResult, an hour.
func Retention(d time.Duration) Option { return With(asynq.Retention(d)) }

// Unique refuses a task with asynq.ErrDuplicateTask while another one with the same parameters waits or runs, for at most ttl.
func Unique(ttl time.Duration) Option { return With(asynq.Unique(ttl)) }
