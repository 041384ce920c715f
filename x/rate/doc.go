// Package rate limits tasks of github.com/asynq-go/asynq across all processes: a Semaphore limits
// how many run at a time, and a Limiter how many start in a period of time.
//
// Both keep their state in Redis, in one key per scope or bucket, change it with one script per
// call, and use only the clock of Redis. The middlewares snooze limited tasks, which does not use
// an attempt.
package rate
