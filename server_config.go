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

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// Config configures a Server. A field that is zero or negative has its default. Durations of more
// than 100 years count as 100 years.
type Config struct {
	// Concurrency is the maximum number of tasks that are processed at the same time, up to
	// 1,000,000. The default is the number of CPUs (runtime.NumCPU).
	Concurrency int

	// BaseContext returns the parent of the handlers' contexts. It is called once per attempt; an
	// attempt for which it returns nil fails. The default is context.Background.
	BaseContext func() context.Context

	// TaskCheckInterval is how often an idle server polls for tasks that were enqueued with other
	// libraries. Tasks enqueued with this library wake it immediately. The default is 1 second.
	TaskCheckInterval time.Duration

	// RetryDelayFunc returns the delay before the next attempt of a failed task. The default is
	// DefaultRetryDelayFunc.
	RetryDelayFunc RetryDelayFunc

	// IsFailure reports whether an error counts as a failed attempt. If it does not, the task is
	// retried without using up an attempt, and the statistics do not count it. It is called with
	// ErrLeaseExpired for a task whose server crashed. By default, every error counts.
	IsFailure func(error) bool

	// Queues maps the names of the queues to process to their priorities. Free workers are shared
	// among the queues with pending tasks in proportion to the priorities. A priority is at most
	// 2³¹−1; higher ones count as that. Queues with a priority below 1 or an invalid name (see
	// Queue) are ignored. If none is left, the default is {"default": 1}.
	Queues map[string]int

	// StrictPriority fetches tasks from a queue only while all queues with a higher priority are
	// empty. On Redis Cluster, queues on shards that cannot be reached do not block the others.
	StrictPriority bool

	// ErrorHandler is called after each failed attempt. Attempts ended by Snooze do not count as
	// failed. If nil, errors are not reported.
	ErrorHandler ErrorHandler

	// Logger receives the log of the server. NewSlogLogger converts a *slog.Logger. By default, the
	// server logs to standard error.
	Logger Logger

	// LogLevel is the minimum level that is logged. The default is InfoLevel.
	LogLevel LogLevel

	// ShutdownTimeout is how long Shutdown waits for active tasks. Tasks that are still active
	// afterwards are returned to the front of their queues. The default is 8 seconds.
	ShutdownTimeout time.Duration

	// HealthCheckFunc is called every HealthCheckInterval with the result of a ping to Redis, which
	// is nil on success. If nil, Redis is not pinged.
	HealthCheckFunc func(error)

	// HealthCheckInterval is the time between health checks. The default is 15 seconds.
	HealthCheckInterval time.Duration

	// DelayedTaskCheckInterval is how often the server polls for scheduled tasks and retries that
	// other processes stored. It tracks its own. The default is 5 seconds.
	DelayedTaskCheckInterval time.Duration

	// GroupGracePeriod is how long a group waits for further tasks after the last one before it is
	// aggregated. The default is 1 minute. NewServer panics if it is positive and less than 1
	// second.
	GroupGracePeriod time.Duration

	// GroupMaxDelay is the maximum time that a task waits in its group while further tasks arrive.
	// By default, there is no limit.
	GroupMaxDelay time.Duration

	// GroupMaxSize is the maximum number of tasks that are aggregated into one. A group that
	// reaches it is aggregated immediately. By default, there is no limit.
	GroupMaxSize int

	// GroupAggregator combines the tasks of a group into one. If nil, this server does not
	// aggregate groups.
	GroupAggregator GroupAggregator

	// JanitorInterval is how often completed tasks are deleted whose retention has passed. The
	// default is 8 seconds.
	JanitorInterval time.Duration

	// JanitorBatchSize is the maximum number of tasks that one call to Redis deletes; no other
	// command runs meanwhile. Each interval makes as many calls as needed. The default is 100, the
	// maximum 500.
	JanitorBatchSize int

	// The fields below do not exist in the original library.

	// Namespace is the prefix of all keys, see WithNamespace. The default is that of the connection
	// options, "asynq".
	Namespace string

	// LeaseDuration is how long an active task stays assigned to a server that has stopped
	// extending its lease, because it crashed or lost its connection. Another server then takes
	// over. It is rounded up to whole seconds. The default is 30 seconds.
	LeaseDuration time.Duration

	// QueueConcurrency limits the number of active tasks per queue across all servers, provided
	// that all set the same limit. It is the short form of QueueConfig.Concurrency. By default,
	// there is no limit.
	QueueConcurrency map[string]int

	// QueueConfigs configures individual queues, by name. NewServer panics if a QueueConfig
	// contradicts itself or QueueConcurrency.
	QueueConfigs map[string]QueueConfig

	// StuckGracePeriod is how long a handler may keep running after its context ended. Then its
	// attempt fails with ErrHandlerStuck, and another task may start in its place. The default is
	// 10 seconds.
	StuckGracePeriod time.Duration

	// UnhandledFor is how long tasks whose type has no handler in the ServeMux of this server are
	// returned, so that another server can process them, for example while a new version is being
	// deployed. A returned task does not use up an attempt, does not count as processed or failed,
	// and ErrorHandler is not called. It is fetched again after 5 seconds, and then after growing
	// delays of up to a minute, by any server. When UnhandledFor has passed since the first server
	// returned it, it is archived with ErrHandlerNotFound. The servers log one warning per type and
	// minute. See also ServerInfo.Handles.
	//
	// In an Ordered queue, a returned task blocks the tasks behind it. By default, UnhandledFor is
	// zero: a missing handler is an error like any other, and uses up attempts.
	UnhandledFor time.Duration

	// DisableRemoteControl makes the server refuse the commands of Inspector.QuietServer,
	// StopServer, SetServerConcurrency, PauseServerQueue and ResumeServerQueue. By default, it
	// executes them.
	DisableRemoteControl bool

	// AttemptLog is the number of failed attempts that are kept with a task, at most 100, for
	// TaskInfo.Attempts. A failed attempt takes 100 bytes to 1.5 kB in Redis until the task is
	// deleted. The default is 0: none are kept, except in TaskInfo.LastErr the last error. After a
	// change to a smaller number, tasks keep the older ones until they have failed often enough.
	AttemptLog int

	// Archive limits the archives of the queues. QueueConfigs overrides it for single queues.
	Archive ArchiveConfig

	// DisableStats turns off the statistics over time. By default, the server counts its attempts
	// by queue, task type and minute, and adds the numbers to Redis every 5 seconds, for
	// Inspector.TypeStats, QueueHistory, TypeHistory and ErrorStats. There they take 150 to 600
	// bytes for each type and minute with an attempt, for 49 hours, and as much for each hour, for
	// 31 days.
	DisableStats bool

	// Observer is notified of attempts, leases and round trips to Redis. If nil, there is no
	// overhead.
	Observer *Observer

	// OnArchived is called after this server has archived a task and Redis has confirmed it: after
	// its last attempt, SkipRetry or CancelAndArchive, after a crash of its server used up its last
	// attempt (err is ErrLeaseExpired), because it expired after a failed attempt (ErrTaskExpired),
	// or because its message cannot be decoded (t then has only the ID and the queue). err is the
	// error of the last attempt, never nil. t has no Result, Attempts or Progress; GetTaskInfo
	// returns them. OnArchived is not called for tasks that an Inspector archives, nor if this
	// process ends before the call. If nil, archived tasks are not reported.
	//
	// Up to 10 calls run at the same time, each on a goroutine of its own. While 1,000 calls have
	// not returned, attempts that are about to archive further tasks keep their workers. A panic is
	// logged and has no other effect. When OnArchived is called, the task may have been run or
	// deleted by an Inspector.
	//
	// ctx derives from BaseContext and is accepted by GetTaskID and the like. Shutdown waits for
	// the calls within its timeout, then cancels ctx and drops calls that have not started.
	OnArchived func(ctx context.Context, t *TaskInfo, err error)
}

// QueueConfig configures one queue of a Server or Receiver.
type QueueConfig struct {
	// Concurrency is the maximum number of active tasks of the queue across all servers, provided
	// that all set the same limit. With 1, tasks start in the order of the queue, except that later
	// tasks overtake a task that waits for its retry; see Ordered. If zero or negative, there is no
	// limit.
	Concurrency int

	// Ordered processes the tasks of the queue one at a time and in order: each task succeeds, is
	// archived or is deleted before the next one starts. While a task waits for its retry, no other
	// task starts. When the delay has passed, the task continues at the front of the queue, and so
	// does a task whose server crashed. Concurrency must be 0 or 1.
	//
	// All servers and receivers of the queue must set it. Scheduled tasks enter the queue when they
	// are due and do not block it before. Inspector.RunTask moves a task that waits for its retry
	// to the back of the queue, as it does with every task; Inspector.RescheduleTask with the
	// current time lets it continue at the front. A server that is disconnected from Redis for
	// longer than its lease cancels the contexts of its handlers; a handler that ignores this may
	// overlap with the next attempt on another server.
	Ordered bool

	// Partitions divides the queue by PartitionKey, or by type. If nil, it has no partitions. It
	// excludes Ordered, which orders the whole queue.
	Partitions *PartitionConfig

	// Group overrides how groups of the queue are aggregated. A Receiver ignores it.
	Group GroupConfig

	// Archive limits the archive of the queue. A field that is zero has the value of the field of
	// Config.Archive or ReceiverConfig.Archive.
	Archive ArchiveConfig
}

// ArchiveConfig limits the archive of a queue, which keeps the newest tasks. Older ones are deleted
// when a task is archived, and within about a minute otherwise. NewServer and NewReceiver panic if
// a field is negative.
//
// All servers and receivers of a queue must set the same limits: each deletes what exceeds its own.
// They publish the limits in Redis, for at least 30 days, so that every Inspector honors them, and
// with it the command line tool, the web UI and the queue service. Processes of other libraries
// keep to the defaults: an archive that they use, too, loses tasks beyond these.
type ArchiveConfig struct {
	// MaxTasks is the maximum number of archived tasks of a queue. The default is 10,000.
	MaxTasks int

	// MaxAge is the time after which an archived task is deleted, rounded up to whole seconds. The
	// default is 90 days.
	MaxAge time.Duration
}

// GroupConfig configures how the groups of a queue are aggregated. A field that is zero or negative
// has the value of the Config field in parentheses.
type GroupConfig struct {
	GracePeriod time.Duration   // time to wait after the last task (GroupGracePeriod)
	MaxDelay    time.Duration   // maximum time that a task waits (GroupMaxDelay)
	MaxSize     int             // maximum number of tasks per aggregation (GroupMaxSize)
	Aggregator  GroupAggregator // combines the tasks (GroupAggregator)
}

// RetryDelayFunc returns the delay before the next attempt of t, which has just failed with e. n is
// the number of attempts that failed before.
type RetryDelayFunc func(n int, e error, t *Task) time.Duration

// DefaultRetryDelayFunc returns a delay of n⁴ + 15 + r·(n+1) seconds, with a random r from 0 to 29:
// about 15 seconds after the first failure, about 4 days after the 25th.
func DefaultRetryDelayFunc(n int, _ error, _ *Task) time.Duration {
	n = min(max(n, 0), 300)                 // prevents overflow
	s := n*n*n*n + 15 + rand.IntN(30)*(n+1) //nolint:gosec // Spreads retries; nothing is secured by it.
	return time.Duration(s) * time.Second
}

// ErrorHandler handles the errors of failed attempts.
type ErrorHandler interface {
	// HandleError is called after an attempt of task failed with err. ctx derives from
	// Config.BaseContext and is accepted by GetTaskID and the like; it does not end with the
	// handler's context.
	HandleError(ctx context.Context, task *Task, err error)
}

// ErrorHandlerFunc adapts a function to an ErrorHandler.
type ErrorHandlerFunc func(ctx context.Context, task *Task, err error)

// HandleError calls fn(ctx, task, err).
func (fn ErrorHandlerFunc) HandleError(ctx context.Context, task *Task, err error) {
	fn(ctx, task, err)
}

// GroupAggregator combines the tasks of a group into one.
type GroupAggregator interface {
	// Aggregate returns the task that replaces tasks, which are in the order in which they joined
	// the group. The new task is enqueued to the queue of the group, even if it has a Queue option;
	// its other options apply.
	//
	// If Aggregate panics or returns nil, or if the new task is rejected (ErrDuplicateTask,
	// ErrTaskIDConflict), the tasks return to their group after two minutes.
	Aggregate(group string, tasks []*Task) *Task
}

// GroupAggregatorFunc adapts a function to a GroupAggregator.
type GroupAggregatorFunc func(group string, tasks []*Task) *Task

// Aggregate calls fn(group, tasks).
func (fn GroupAggregatorFunc) Aggregate(group string, tasks []*Task) *Task { return fn(group, tasks) }

// maxConcurrency bounds the memory that a server allocates in advance.
const maxConcurrency = 1_000_000

// withDefaults returns a copy of cfg with all defaults set. It panics if cfg is invalid.
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
	setDefault(&cfg.TaskCheckInterval, time.Second)
	setDefault(&cfg.ShutdownTimeout, 8*time.Second)
	setDefault(&cfg.HealthCheckInterval, 15*time.Second)
	setDefault(&cfg.DelayedTaskCheckInterval, 5*time.Second)
	setDefault(&cfg.GroupGracePeriod, time.Minute)
	mustGrace("Config.GroupGracePeriod", cfg.GroupGracePeriod)
	cfg.QueueConfigs = maps.Clone(cfg.QueueConfigs)
	for queue := range cfg.QueueConfigs {
		mustGrace(fmt.Sprintf("Config.QueueConfigs[%q].Group.GracePeriod", queue), cfg.group(queue).GracePeriod)
	}
	setDefault(&cfg.JanitorInterval, 8*time.Second)
	if cfg.JanitorBatchSize <= 0 {
		cfg.JanitorBatchSize = 100
	}
	cfg.JanitorBatchSize = min(cfg.JanitorBatchSize, 500)
	setDefault(&cfg.LeaseDuration, 30*time.Second)
	cfg.LeaseDuration = time.Duration(ceilSeconds(cfg.LeaseDuration)) * time.Second
	setDefault(&cfg.StuckGracePeriod, 10*time.Second)
	setDefault(&cfg.UnhandledFor, 0)
	cfg.AttemptLog = min(max(cfg.AttemptLog, 0), wire.MaxLog)
	return cfg
}

// group returns the settings for the groups of a queue.
func (cfg *Config) group(queue string) GroupConfig {
	c := cfg.QueueConfigs[queue].Group
	setDefault(&c.GracePeriod, cfg.GroupGracePeriod)
	setDefault(&c.MaxDelay, cfg.GroupMaxDelay)
	if c.MaxSize <= 0 {
		c.MaxSize = cfg.GroupMaxSize
	}
	if c.Aggregator == nil {
		c.Aggregator = cfg.GroupAggregator
	}
	return c
}

// queueLimits merges QueueConcurrency and QueueConfigs into the limits that the broker takes: the
// maximum number of active tasks, or rdb.InOrder. It omits queues without a limit.
func queueLimits(concurrency map[string]int, configs map[string]QueueConfig) (map[string]int, error) {
	limits := make(map[string]int, len(concurrency)+len(configs))
	for queue, n := range concurrency {
		if n > 0 {
			limits[queue] = n
		}
	}
	for queue, c := range configs {
		short, n := limits[queue], max(c.Concurrency, 0)
		if short > 0 && n > 0 && short != n {
			return nil, fmt.Errorf("asynq: queue %q: QueueConcurrency is %d, but QueueConfigs sets Concurrency to %d: remove one of them", queue, short, n)
		}
		n = max(short, n)
		switch {
		case c.Ordered && n > 1:
			return nil, fmt.Errorf("asynq: queue %q: an Ordered queue processes one task at a time: its Concurrency must be 0 or 1, not %d", queue, n)
		case c.Ordered:
			limits[queue] = rdb.InOrder
		case n > 0:
			limits[queue] = n
		}
	}
	return limits, nil
}

// archiveLimits returns the limits of archives: those of queues that have their own, and those of
// all others.
func archiveLimits(common ArchiveConfig, configs map[string]QueueConfig) (fallback wire.ArchiveLimits, queues map[string]wire.ArchiveLimits, err error) {
	if fallback, err = common.limits("", wire.DefaultArchiveLimits); err != nil {
		return fallback, nil, err
	}
	queues = make(map[string]wire.ArchiveLimits)
	for queue, c := range configs {
		limits, err := c.Archive.limits(fmt.Sprintf("queue %q: ", queue), fallback)
		if err != nil {
			return fallback, nil, err
		}
		if limits != fallback {
			queues[queue] = limits
		}
	}
	return fallback, queues, nil
}

func (c ArchiveConfig) limits(where string, fallback wire.ArchiveLimits) (wire.ArchiveLimits, error) {
	switch {
	case c.MaxTasks < 0:
		return fallback, fmt.Errorf("asynq: %sArchive.MaxTasks is %d: it must be at least 1; 0 means the default", where, c.MaxTasks)
	case c.MaxAge < 0:
		return fallback, fmt.Errorf("asynq: %sArchive.MaxAge is %v: it must be positive; 0 means the default", where, c.MaxAge)
	}
	limits := fallback
	if c.MaxTasks > 0 {
		limits.Tasks = c.MaxTasks
	}
	if c.MaxAge > 0 {
		limits.Age = time.Duration(ceilSeconds(min(c.MaxAge, maxInterval))) * time.Second
	}
	return limits, nil
}

// validQueues omits invalid queues, as documented at Config.Queues.
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

// maxInterval bounds configured durations, so that adding to them cannot overflow.
const maxInterval = 100 * 365 * 24 * time.Hour

// setDefault replaces a duration that is zero or negative by its default, and limits it to
// maxInterval.
func setDefault(d *time.Duration, fallback time.Duration) {
	if *d <= 0 {
		*d = fallback
	}
	*d = min(*d, maxInterval)
}
