// Package asynq is a distributed task queue backed by Redis.
//
// A [Client] enqueues a [Task], which has a type and a payload. A [Server], usually in another
// process, fetches it and calls a [Handler]. Every enqueued task is processed at least once, even
// if processes crash and connections fail, as long as Redis keeps its data. Handlers should be
// idempotent: a task runs again if its server crashed, or was disconnected from Redis for longer
// than [Config.LeaseDuration].
//
// # Enqueueing tasks
//
// [NewClient] returns a Client. [NewTask] creates a task, and [Client.Enqueue] adds it to a queue;
// [Client.EnqueueContext] takes a context, and [Client.BatchEnqueueContext] enqueues many tasks in
// few round trips. [Client.EnqueueAndWait] waits for the end of the task, and returns its result.
// Options of the task and of the call set:
//   - where it goes: [Queue], [PartitionKey], [TaskID], [Header]
//   - when it runs: [ProcessAt], [ProcessIn]
//   - its limits: [MaxRetry], [Timeout], [Deadline], [ExpiresIn]
//   - deduplication: [Unique], [UniqueKey], [OnDuplicate], [IdempotencyKey]
//   - one task for many calls: [Debounce], [Throttle]
//   - aggregation with other tasks: [Group]
//   - how long it is kept with its result: [Retention]
//
// Package [github.com/asynq-go/asynq/flow] enqueues tasks that depend on each other. Module
// github.com/asynq-go/asynq/x/outbox enqueues tasks within SQL transactions.
//
// The errors are [ErrDuplicateTask], [ErrTaskIDConflict] and [ErrRedisFull].
//
// # Processing tasks
//
// [NewServer] returns a Server with a [Config]: its concurrency, queues and priorities, timeouts
// and callbacks. [QueueConfig] limits the concurrency of a queue, processes its tasks strictly in
// order, or divides it into partitions ([PartitionConfig]). [Server.Run] processes tasks until a
// signal arrives; [Server.Start], [Server.Stop] and [Server.Shutdown] control a server within a
// program.
//
// A [ServeMux] is a Handler that selects another one by the task's type, with middleware
// ([ServeMux.Use]). [GetTaskID], [GetRetryCount], [GetMaxRetry] and [GetQueueName] return details
// of the task from the handler's context, and [Task.ResultWriter] stores its result. A handler that
// returns an error is retried after a delay ([Config.RetryDelayFunc]). Special errors change that:
// [SkipRetry], [RevokeTask], [RetryAfter] and [Snooze]. A [GroupAggregator] combines the tasks of a
// group into one. With package [github.com/asynq-go/asynq/step], a retry continues after the steps
// that have succeeded, and a handler sleeps or waits for a signal ([Client.Signal]) without a
// worker.
//
// [Config.ErrorHandler] is called for failed attempts, and [Config.OnArchived] for archived tasks;
// the server logs panics, but no errors that handlers return. [IsPanicError] and [ErrHandlerStuck]
// detect the cause, and [ErrorKind] groups errors by their text. An [Observer] provides data for
// metrics and traces, and a [Logger] receives the log.
//
// # Scheduling
//
// A [Scheduler] enqueues tasks periodically by cron specs ([Scheduler.Register]). Schedulers in the
// same group ([SchedulerOpts.Group]) enqueue each tick once; [MissedTicks] is the policy for ticks
// that were missed. A [PeriodicTaskManager] reads the periodic tasks from a
// [PeriodicTaskConfigProvider].
//
// # Receiving tasks without a Handler
//
// A [Receiver] is for programs that pull tasks instead of registering a handler. [Receiver.Receive]
// returns a [Lease] for each task, which the caller extends and settles with [Lease.Complete],
// [Lease.Fail] or [Lease.Release]. With a [LeaseRef], another process can continue:
// [Receiver.OpenLease], [Receiver.Settle].
//
// # Inspecting
//
// An [Inspector] lists and changes queues, tasks, servers and schedulers:
//   - queues: [Inspector.QueueInfos], [Inspector.PauseQueue], [Inspector.DeleteQueue]
//   - tasks: [Inspector.ListTasks], [Inspector.Tasks], [Inspector.GetTaskInfo], [TaskFilter]
//   - changes: [Inspector.RunTask], [Inspector.ArchiveTask], [Inspector.DeleteTask],
//     [Inspector.RescheduleTask], [Inspector.CancelProcessing], and bulk operations such as
//     [Inspector.RunTasks]
//   - transfer: [Inspector.ExportTasks], [Inspector.ImportTasks]
//   - servers and schedulers: [Inspector.Servers], [Inspector.SchedulerEntries]
//
// Package [github.com/asynq-go/asynq/x/doctor] finds inconsistencies in Redis, and repairs them.
//
// # Connecting to Redis
//
// [RedisClientOpt], [RedisFailoverClientOpt] and [RedisClusterClientOpt] describe a connection to a
// single server, Redis Sentinel and Redis Cluster; [ParseRedisURI] returns one of them from a URI.
// Redis 6.2 or later and Valkey are supported. [SharedRedisClient] and constructors such as
// [NewClientFromRedisClient] use an existing connection. [WithNamespace] separates programs that
// share a Redis. [WithMillisecondTimes] stores times to the millisecond. [ConnectRedis] is for
// packages that store keys of their own.
//
// # Testing
//
// Package [github.com/asynq-go/asynq/x/asynqtest] runs tasks against an in-memory Redis, and has
// assertions for enqueued tasks. [WithClock] sets the clock of a Client.
//
// # Compatibility
//
// The API is source-compatible with github.com/hibiken/asynq: programs change one import path.
// Processes that use either library can share queues.
package asynq
