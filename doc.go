// Package asynq is a distributed task queue on Redis.
//
// A [Client] puts a [Task], a type name and a payload, into a queue. A [Server], usually in another process, takes it from there
// and gives it to a [Handler]; a [ServeMux] finds handlers by the task's type. Tasks can be put off ([ProcessIn], [ProcessAt]),
// be unique ([Unique]), have deadlines ([Timeout], [Deadline]) and results ([Retention], [Task.ResultWriter]), and are tried
// again when they fail ([MaxRetry], [Config.RetryDelayFunc], [SkipRetry], [RetryAfter]).
//
// # What is promised
//
// A task that Enqueue accepted runs to an outcome at least once, whatever process or connection dies, as long as Redis keeps it.
// A handler may therefore see a task more than once, and should be idempotent: a task runs again if its server crashed, or was cut
// off from Redis for longer than [Config.LeaseDuration]. It does not run again just because a connection failed at the wrong
// moment.
//
// # Compatibility
//
// The public API is source-compatible with github.com/hibiken/asynq: a program changes one import path. What is in Redis is
// compatible too: processes built on either library can share queues. Additions are marked as such.
//
// # Redis
//
// Redis 6.2 or newer, Valkey, Redis Cluster, Sentinel; and miniredis in tests. See [RedisClientOpt], [RedisFailoverClientOpt],
// [RedisClusterClientOpt] and [ParseRedisURI].
package asynq
