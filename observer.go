package asynq

import (
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/worker"
)

// Observer is a set of callbacks for metrics and tracing of a Server or Receiver; x/metrics
// provides one. Each field may be nil. Callbacks run synchronously on worker goroutines,
// concurrently, and must return quickly. A panic in a callback is logged and has no other effect.
type Observer struct {
	// AttemptStarted is called before the handler starts.
	AttemptStarted func(AttemptStart)

	// AttemptEnded is called when the outcome of an attempt is decided, before it is sent to Redis.
	// For a task that has expired or whose message cannot be decoded, AttemptStarted is not called
	// before.
	AttemptEnded func(AttemptEnd)

	// LeaseLost is called when the lease of an active task was lost or could not be extended in
	// time. The context of its handler is canceled, and another server may have taken over the
	// task.
	LeaseLost func(ObservedTask)

	// TaskRecovered is called for each task that this server recovered after another one crashed.
	TaskRecovered func(ObservedTask)

	// RoundTripEnded is called after each round trip to Redis that settles or fetches tasks. The
	// next one starts when it returns.
	RoundTripEnded func(RoundTripStats)
}

// ObservedTask identifies the task of an event.
type ObservedTask struct {
	ID    string // ID of the task
	Queue string // queue of the task
	Type  string // type of the task; empty if its message cannot be decoded

	// Retried is the number of failed attempts before this one. For TaskRecovered, it includes the
	// attempt that crashed, if that counts as failed.
	Retried int
}

// AttemptStart describes the start of an attempt.
type AttemptStart struct {
	ObservedTask

	// Wait is how long the task was pending, by the clock of Redis; -1 µs if unknown. For tasks
	// that were enqueued with other libraries, it includes the clock skew of their process.
	Wait time.Duration
}

// AttemptEnd describes the end of an attempt.
type AttemptEnd struct {
	ObservedTask

	Duration time.Duration // how long the attempt took, including ErrorHandler if it failed
	Outcome  Outcome       // outcome of the attempt

	// Err is the error of the attempt; nil if it succeeded. It wraps ErrHandlerStuck if the handler
	// did not return.
	Err error
}

// Outcome is the outcome of an attempt.
type Outcome string

// The outcomes of attempts.
const (
	// OutcomeSucceeded: the handler returned nil.
	OutcomeSucceeded Outcome = "succeeded"
	// OutcomeRetried: the attempt failed, and the task is going to be retried.
	OutcomeRetried Outcome = "retried"
	// OutcomeDeferred: the task is going to run again without using up an attempt (Snooze,
	// Config.IsFailure, Config.UnhandledFor).
	OutcomeDeferred Outcome = "deferred"
	// OutcomeArchived: the attempt failed, and the task is archived.
	OutcomeArchived Outcome = "archived"
	// OutcomeRevoked: the task is deleted without success (RevokeTask, CancelAndDelete).
	OutcomeRevoked Outcome = "revoked"
	// OutcomeExpired: the task expired before its first attempt, and is deleted (ExpiresIn).
	OutcomeExpired Outcome = "expired"
	// OutcomeRequeued: the server shut down and returned the task to its queue.
	OutcomeRequeued Outcome = "requeued"
	// OutcomeLeaseLost: the lease was lost, and the result of the handler is discarded.
	OutcomeLeaseLost Outcome = "lease_lost"
)

// RoundTripStats describes one round trip to Redis, which settles finished tasks and fetches new
// ones.
type RoundTripStats struct {
	// Duration is the time from the request to the reply.
	Duration time.Duration

	// Settled is the number of outcomes that were sent, and Rejected the number of them that Redis
	// rejected: because the server no longer held the task, or because of an error of the queue,
	// in which case they are sent again.
	Settled, Rejected int

	// Requested is the number of tasks that were requested, and Fetched the number that were
	// returned. Of several queues with few tasks, only some are queried in a round trip.
	Requested, Fetched int

	// Err is the network error of the round trip; nil if it succeeded.
	Err error
}

// observer connects the workers to the user's Observer; nil if there is none.
func (srv *Server) observer() *worker.Observer {
	o := srv.cfg.Observer
	if o == nil {
		return nil
	}
	inner := &worker.Observer{}
	if o.AttemptStarted != nil {
		inner.Started = func(a *worker.Attempt) {
			o.AttemptStarted(AttemptStart{ObservedTask: observed(a), Wait: a.Wait})
		}
	}
	if o.AttemptEnded != nil {
		inner.Ended = func(a *worker.Attempt, outcome rdb.Outcome, err error) {
			o.AttemptEnded(AttemptEnd{ObservedTask: observed(a), Duration: time.Since(a.Started), Outcome: Outcome(outcome.String()), Err: attemptError(err)})
		}
	}
	if o.LeaseLost != nil {
		inner.LeaseLost = func(a *worker.Attempt) { o.LeaseLost(observed(a)) }
	}
	if o.RoundTripEnded != nil {
		inner.RoundTrip = func(r worker.RoundTripReport) { o.RoundTripEnded(RoundTripStats(r)) }
	}
	return inner
}

func observed(a *worker.Attempt) ObservedTask {
	return ObservedTask{ID: a.Message.ID, Queue: a.Queue, Type: a.Message.Type, Retried: a.Retried}
}
