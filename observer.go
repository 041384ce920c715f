package asynq

import (
	"time"

	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// Observer is told what a Server does while it does it, for metrics and traces; x/metrics makes one. Fields may be nil, and more may
// come. The functions are called from many goroutines at once, in the way of the tasks: they must return soon. What panics in them is
// logged, and changes nothing.
type Observer struct {
	// AttemptStarted is called before the handler.
	AttemptStarted func(AttemptStart)

	// AttemptEnded is called when the outcome of an attempt is decided, before Redis knows it. A task whose message cannot be read
	// has no start, only this end.
	AttemptEnded func(AttemptEnd)

	// LeaseLost is called when the lease of a task at work was lost, or could not be extended in time: its handler's context was just
	// canceled, and another server may have the task.
	LeaseLost func(ObservedTask)

	// TaskRecovered is called for each task that this server took back from one that crashed.
	TaskRecovered func(ObservedTask)

	// TurnEnded is called after each exchange with Redis that settles tasks and fetches others. The next one waits for it.
	TurnEnded func(TurnStats)
}

// ObservedTask names the task that an Observer is told of.
type ObservedTask struct {
	ID    string
	Queue string
	Type  string // empty if the task's message cannot be read

	// Retried is how many attempts had failed before; in TaskRecovered, the one that the crash ended among them if it counts.
	Retried int
}

// AttemptStart is what an Observer is told when an attempt starts.
type AttemptStart struct {
	ObservedTask

	// Wait is how long the task was pending before it was taken, by the clock of Redis; -1 µs if that is not known. For a task that
	// another library's process enqueued it is off by as much as that process's clock.
	Wait time.Duration
}

// AttemptEnd is what an Observer is told when an attempt ends.
type AttemptEnd struct {
	ObservedTask

	// Duration is how long the attempt took: the handler, and the ErrorHandler if there was an error.
	Duration time.Duration

	// Outcome is what becomes of the task.
	Outcome Outcome

	// Err is what the attempt failed with, nil if it did not. It is ErrHandlerStuck (errors.Is) if the handler was given up.
	Err error
}

// Outcome is what becomes of a task after an attempt.
type Outcome string

// The outcomes of attempts.
const (
	// OutcomeSucceeded: the handler returned nil.
	OutcomeSucceeded Outcome = "succeeded"
	// OutcomeRetried: the attempt failed, and there will be another.
	OutcomeRetried Outcome = "retried"
	// OutcomeDeferred: there will be another attempt, and this one does not count (Snooze, Config.IsFailure).
	OutcomeDeferred Outcome = "deferred"
	// OutcomeArchived: the attempt failed, and was the last one.
	OutcomeArchived Outcome = "archived"
	// OutcomeDropped: the task is deleted without success (RevokeTask, CancelAndDelete).
	OutcomeDropped Outcome = "dropped"
	// OutcomeReturned: the server shut down, and gave the task back.
	OutcomeReturned Outcome = "returned"
	// OutcomeLost: the lease was lost, so what the handler returned changes nothing.
	OutcomeLost Outcome = "lost"
)

var outcomes = map[worker.Ending]Outcome{
	worker.Succeeded: OutcomeSucceeded,
	worker.Retried:   OutcomeRetried,
	worker.Deferred:  OutcomeDeferred,
	worker.Archived:  OutcomeArchived,
	worker.Dropped:   OutcomeDropped,
	worker.Returned:  OutcomeReturned,
	worker.Lost:      OutcomeLost,
}

// TurnStats is one exchange with Redis: what finished goes along, and what there is room for comes back.
type TurnStats struct {
	// Duration is the time from the request to the answer.
	Duration time.Duration

	// Settled is how many outcomes were sent, and Refused how many of them Redis said no to: because the server no longer held the
	// task, or because something is wrong with the queue (they are sent again then).
	Settled, Refused int

	// Wanted is how many tasks there was room for, and Fetched how many came. On several queues with few tasks, the same room is not
	// offered to all of them at once.
	Wanted, Fetched int

	// Err is the error that cut the connection, nil if none did.
	Err error
}

// observer leads what the workers tell to the user's Observer; nil if there is none.
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
		inner.Ended = func(a *worker.Attempt, ending worker.Ending, err error) {
			o.AttemptEnded(AttemptEnd{ObservedTask: observed(a), Duration: time.Since(a.Started), Outcome: outcomes[ending], Err: err})
		}
	}
	if o.LeaseLost != nil {
		inner.LeaseLost = func(a *worker.Attempt) { o.LeaseLost(observed(a)) }
	}
	if o.TurnEnded != nil {
		inner.Turn = func(r worker.TurnReport) {
			o.TurnEnded(TurnStats{
				Duration: r.Took, Settled: r.Settled, Refused: r.Refused, Wanted: r.Wanted, Fetched: r.Fetched, Err: r.Err,
			})
		}
	}
	return inner
}

func observed(a *worker.Attempt) ObservedTask {
	return ObservedTask{ID: a.Message.ID, Queue: a.Queue, Type: a.Message.Type, Retried: a.Retried}
}

// observeRecovered tells the Observer of a task whose server crashed.
func (srv *Server) observeRecovered(queue string, msg *wire.TaskMessage) {
	o := srv.cfg.Observer
	if o == nil || o.TaskRecovered == nil {
		return
	}
	task := ObservedTask{ID: msg.ID, Queue: queue, Type: msg.Type, Retried: msg.Retried}
	if panicked := worker.Contain(func() { o.TaskRecovered(task) }); panicked != nil {
		srv.log.Error("a callback panicked", "callback", "Observer.TaskRecovered", "task", msg.ID, "error", panicked)
	}
}
