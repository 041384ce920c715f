package asynq

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"time"
	"unicode/utf8"
)

// Config says how a Server processes tasks. The zero value of a field stands for its default, and so does what is below zero. A length of
// time of more than 100 years counts as 100 years.
type Config struct {
	// Concurrency is how many tasks are processed at the same time, at most 1,000,000. Default: the number of CPUs (runtime.NumCPU).
	Concurrency int

	// BaseContext returns the context that handlers' contexts derive from. It is called for each attempt. Default:
	// context.Background. Where it returns nil, the attempt fails.
	BaseContext func() context.Context

	// TaskCheckInterval is how often an idle server looks for tasks from processes of other libraries; those from this one wake
	// it at once. Default: 1 s.
	TaskCheckInterval time.Duration

	// RetryDelayFunc says how long to wait before the next attempt of a task that failed. Default: DefaultRetryDelayFunc.
	RetryDelayFunc RetryDelayFunc

	// IsFailure says whether an error counts as a failed attempt. If it does not, the task is tried again without a used attempt
	// and without a trace in the statistics. A server that crashed counts as ErrLeaseExpired. Default: every error does.
	IsFailure func(error) bool

	// Queues are the queues to process, with their priority: of the free workers, queues with tasks get shares in
	// proportion to it. Priorities above 2³¹−1 count as that. Queues with a priority below 1 are left out, and so are names that no queue
	// can have (see Queue). Default: {"default": 1}, also where none is left.
	Queues map[string]int

	// StrictPriority lets tasks of a queue be taken only if all queues with a higher priority are empty. On a Redis Cluster
	// this holds as far as the shards answer.
	StrictPriority bool

	// ErrorHandler is told of every attempt that ends with an error, but not of those that Snooze ends. Default: nobody is.
	ErrorHandler ErrorHandler

	// Logger that the server writes to. NewSlogLogger makes one of a *slog.Logger. Default: lines on standard error.
	Logger Logger

	// LogLevel is the lowest level that is logged. Default: InfoLevel.
	LogLevel LogLevel

	// ShutdownTimeout is how long Shutdown waits for handlers; the tasks of those that go on go back to the front of their queue.
	// Default: 8 s.
	ShutdownTimeout time.Duration

	// HealthCheckFunc is called every HealthCheckInterval with the error of a ping to Redis, nil if it answered. Default: nobody is.
	HealthCheckFunc func(error)

	// HealthCheckInterval is how often Redis is pinged. Default: 15 s.
	HealthCheckInterval time.Duration

	// DelayedTaskCheckInterval is how often to look for delayed tasks and tasks to retry that other libraries' processes put
	// there; this one's are known. Default: 5 s.
	DelayedTaskCheckInterval time.Duration

	// GroupGracePeriod is how long after the last task that came into a group it is aggregated. Default: 1 minute. NewServer
	// panics if it is set to less than 1 s.
	GroupGracePeriod time.Duration

	// GroupMaxDelay is how long a task waits in a group at most, while others go on coming. Default: as long as others come.
	GroupMaxDelay time.Duration

	// GroupMaxSize is how many tasks are aggregated into one at most: a group that has as many is aggregated at once. Default:
	// any number.
	GroupMaxSize int

	// GroupAggregator makes one task of the tasks of a group. Default: groups are left to other servers.
	GroupAggregator GroupAggregator

	// JanitorInterval is how often completed tasks whose retention is over are deleted. Default: 8 s.
	JanitorInterval time.Duration

	// JanitorBatchSize is how many tasks are deleted by one call, during which Redis does nothing else. All that are due are
	// deleted at each interval, in as many calls as it takes. Default: 100; at most 500.
	JanitorBatchSize int

	// The fields below are additions to the reference's.

	// Namespace is the first part of all keys; WithNamespace says more. Default: that of the connection options, "asynq".
	Namespace string

	// LeaseDuration is how long a task of a server that gives no sign of life stays its own, in whole seconds rounded up.
	// Then another takes the task over. Default: 30 s.
	LeaseDuration time.Duration

	// QueueConcurrency is how many tasks of a queue may be processed at the same time on all servers together, as far as they set
	// the same number. With 1, tasks start in the order of the queue, but one that failed is overtaken while it waits for its retry; with
	// InOrder it is not. Default: any number.
	QueueConcurrency map[string]int

	// GroupConfigs are the settings of the groups of single queues, in place of GroupGracePeriod, GroupMaxDelay, GroupMaxSize and
	// GroupAggregator, by the name of the queue.
	GroupConfigs map[string]GroupConfig

	// StuckGracePeriod is how long a handler may go on after its context ended, before it is reported as stuck and its task
	// fails with ErrHandlerStuck. Until then it keeps its place among the Concurrency. Default: 10 s.
	StuckGracePeriod time.Duration

	// Observer is told of attempts, leases and exchanges with Redis. Default: nobody is, which costs nothing.
	Observer *Observer
}

// InOrder as a number in QueueConcurrency lets a queue's tasks be processed one at a time, and none start while another waits for its
// retry. When its delay is over, that one goes on at the front of the queue. So each task has succeeded, or been archived or deleted,
// before the next one starts: also where servers die, because a task whose lease ended goes to the front, too.
//
// All servers and takers of the queue must set it. Tasks that are to be processed at a later time are not waited for: they come into the
// queue when they are due. Inspector.RunTask puts a task that waits for its retry at the back, as it does with any; Inspector.Reschedule
// to the present lets it go on at the front. A server that is cut off from Redis for longer than its lease cancels its handler's context,
// and only the handler can heed that before the task starts anew elsewhere.
const InOrder = math.MinInt32

// RetryDelayFunc says how long to wait before the next attempt of a task: n attempts of it have failed before the one that ended
// with e.
type RetryDelayFunc func(n int, e error, t *Task) time.Duration

// DefaultRetryDelayFunc waits n⁴ + 15 + r·(n+1) seconds, with a random r from 0 to 29: from about 15 s after the first failure to
// about 4 days after the 25th. The formula is that of existing processes on the same wire format.
func DefaultRetryDelayFunc(n int, _ error, _ *Task) time.Duration {
	n = min(max(n, 0), 300)                 // beyond, it would not fit a time.Duration
	s := n*n*n*n + 15 + rand.IntN(30)*(n+1) //nolint:gosec // Spreads retries; nothing is secured by it.
	return time.Duration(s) * time.Second
}

// ErrorHandler is told of attempts that end with an error; one that Snooze asks for is none.
type ErrorHandler interface {
	HandleError(ctx context.Context, task *Task, err error)
}

// ErrorHandlerFunc is a function that is an ErrorHandler.
type ErrorHandlerFunc func(ctx context.Context, task *Task, err error)

// HandleError calls the function.
func (fn ErrorHandlerFunc) HandleError(ctx context.Context, task *Task, err error) {
	fn(ctx, task, err)
}

// GroupConfig says when the groups of a queue are aggregated, and into what. The zero value of a field stands for the Config's.
type GroupConfig struct {
	GracePeriod time.Duration   // as Config.GroupGracePeriod
	MaxDelay    time.Duration   // as Config.GroupMaxDelay
	MaxSize     int             // as Config.GroupMaxSize
	Aggregator  GroupAggregator // as Config.GroupAggregator
}

// GroupAggregator makes one task of the tasks of a group.
type GroupAggregator interface {
	// Aggregate returns the task to process in place of the group's, which come in the order in which they were added. It
	// must not return nil. The task goes to the queue of the group, whatever its options say; its other options count.
	//
	// If Aggregate panics or returns nil, or if the task is refused (as a duplicate, or because its ID is taken), the tasks go back
	// into their group after two minutes, to be aggregated again.
	Aggregate(group string, tasks []*Task) *Task
}

// GroupAggregatorFunc is a function that is a GroupAggregator.
type GroupAggregatorFunc func(group string, tasks []*Task) *Task

// Aggregate calls the function.
func (fn GroupAggregatorFunc) Aggregate(group string, tasks []*Task) *Task { return fn(group, tasks) }

// maxConcurrency bounds what a server sets aside for its workers before there are any.
const maxConcurrency = 1_000_000

// withDefaults returns the configuration with every field set that has a default.
func (cfg Config) withDefaults() Config {
	if cfg.Concurrency < 1 {
		cfg.Concurrency = runtime.NumCPU()
	}
	cfg.Concurrency = min(cfg.Concurrency, maxConcurrency)
	if cfg.BaseContext == nil {
		cfg.BaseContext = context.Background
	}
	if cfg.RetryDelayFunc == nil {
		cfg.RetryDelayFunc = DefaultRetryDelayFunc
	}
	if cfg.IsFailure == nil {
		cfg.IsFailure = func(err error) bool { return err != nil }
	}
	cfg.Queues = validQueues(cfg.Queues)
	positive(&cfg.TaskCheckInterval, time.Second)
	positive(&cfg.ShutdownTimeout, 8*time.Second)
	positive(&cfg.HealthCheckInterval, 15*time.Second)
	positive(&cfg.DelayedTaskCheckInterval, 5*time.Second)
	positive(&cfg.GroupGracePeriod, time.Minute)
	mustGrace("Config.GroupGracePeriod", cfg.GroupGracePeriod)
	cfg.GroupConfigs = maps.Clone(cfg.GroupConfigs)
	for queue, c := range cfg.GroupConfigs {
		positive(&c.GracePeriod, cfg.GroupGracePeriod)
		mustGrace(fmt.Sprintf("GracePeriod of Config.GroupConfigs[%q]", queue), c.GracePeriod)
		positive(&c.MaxDelay, cfg.GroupMaxDelay)
		if c.MaxSize <= 0 {
			c.MaxSize = cfg.GroupMaxSize
		}
		if c.Aggregator == nil {
			c.Aggregator = cfg.GroupAggregator
		}
		cfg.GroupConfigs[queue] = c
	}
	positive(&cfg.JanitorInterval, 8*time.Second)
	if cfg.JanitorBatchSize <= 0 {
		cfg.JanitorBatchSize = 100
	}
	cfg.JanitorBatchSize = min(cfg.JanitorBatchSize, 500)
	positive(&cfg.LeaseDuration, 30*time.Second)
	cfg.LeaseDuration = time.Duration(ceilSeconds(cfg.LeaseDuration)) * time.Second
	positive(&cfg.StuckGracePeriod, 10*time.Second)
	return cfg
}

// validQueues leaves out what cannot be a queue, as Config.Queues says.
func validQueues(priorities map[string]int) map[string]int {
	queues := make(map[string]int, len(priorities))
	for name, priority := range priorities {
		if validateQueueName(name) == nil && utf8.ValidString(name) && priority > 0 {
			queues[name] = min(priority, math.MaxInt32)
		}
	}
	if len(queues) == 0 {
		queues[defaultQueue] = 1
	}
	return queues
}

func mustGrace(name string, d time.Duration) {
	if d < time.Second {
		panic("asynq: " + name + " must be at least 1 s")
	}
}

// maxInterval bounds the lengths of time of configurations, so that nobody has to fear to add to them.
const maxInterval = 100 * 365 * 24 * time.Hour

// positive puts the default in place of what is not set, and maxInterval in place of what is longer.
func positive(d *time.Duration, fallback time.Duration) {
	if *d <= 0 {
		*d = fallback
	}
	*d = min(*d, maxInterval)
}
