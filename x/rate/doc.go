// Package rate limits what tasks of github.com/asynq-go/asynq do, over all processes together: how many at a time, with a Semaphore,
// and how many in a length of time, with a Limiter.
//
// Both keep their state in Redis, in one key for each scope or bucket, change it by one script a call, and go by the clock of Redis
// alone. The middlewares put a task that is limited off without using one of its attempts.
package rate
