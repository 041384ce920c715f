// Package history holds what was seen in a run: events that each process writes into a file of its own, outside of the Redis under
// test.
package history

import "time"

// Kind says what an event tells.
type Kind string

// The events of a producer. Each has Task and Queue.
const (
	Offered  Kind = "offered"  // it is about to enqueue the task: Plan, MaxRetry, Retention, UniqueKey, UniqueTTL, Group, Delay
	Accepted Kind = "accepted" // enqueueing it succeeded
	Refused  Kind = "refused"  // enqueueing it failed, and the error says that the task is not there: Err
	Unknown  Kind = "unknown"  // enqueueing it failed, and the task may be there or not: Err
)

// The events of a worker. Each has Task and Queue.
const (
	Started  Kind = "started"  // the first act of a handler: Run, Retried, MaxRetry; Members if it is an aggregated task
	Finished Kind = "finished" // the last act of a handler: Run, Step, and Err unless it succeeded
	Lost     Kind = "lost"     // the handler's context ended because its lease was lost: Run
	Failed   Kind = "failed"   // the library told the ErrorHandler of a failed attempt: Retried, Err
)

// The events of the harness.
const (
	Born    Kind = "born"    // a process began: Process
	Died    Kind = "died"    // a process is gone, whether it was killed or ended by itself: Process
	Fault   Kind = "fault"   // something was broken: Name, Until, Targets, Loses
	Outcome Kind = "outcome" // a task that is in Redis at the end: Task, Queue, State, Retried, Err
	Queue   Kind = "queue"   // the statistics of a queue at the end: Queue, Processed, Failures
	Finding Kind = "finding" // an invariant that does not hold at the end: Queue, Task, Err
)

// Steps of a plan: what a handler does in one attempt. An attempt beyond the plan does its last step.
const (
	Succeed = "succeed"
	Fail    = "fail"   // returns an error
	Panic   = "panic"  // panics
	Goexit  = "goexit" // calls runtime.Goexit
	Hang    = "hang"   // blocks until its context ends, and returns the cause
	Crash   = "crash"  // ends its process
	Huge    = "huge"   // succeeds with a result of 1 MB
)

// Event is something that was seen. Fields that its kind does not name are zero.
type Event struct {
	At      int64  `json:"at"` // unix nanoseconds, by the clock of the machine
	Kind    Kind   `json:"kind"`
	Process string `json:"process,omitempty"` // the process that wrote the event; for born and died, that it is about

	Task  string `json:"task,omitempty"` // its ID
	Queue string `json:"queue,omitempty"`

	Plan      []string      `json:"plan,omitempty"`
	MaxRetry  int           `json:"max_retry,omitempty"`
	Retention time.Duration `json:"retention,omitempty"` // 0: gone when it is completed
	UniqueKey string        `json:"unique_key,omitempty"`
	UniqueTTL time.Duration `json:"unique_ttl,omitempty"`
	Group     string        `json:"group,omitempty"` // it is aggregated with others, and has no run of its own
	Delay     time.Duration `json:"delay,omitempty"` // it must not start earlier after it was offered

	Run     string   `json:"run,omitempty"` // unique among all runs of handlers
	Retried int      `json:"retried,omitempty"`
	Members []string `json:"members,omitempty"` // IDs of the tasks that were aggregated into this one
	Step    string   `json:"step,omitempty"`
	State   string   `json:"state,omitempty"`
	Err     string   `json:"err,omitempty"`

	Name    string        `json:"name,omitempty"`
	Until   int64         `json:"until,omitempty"`   // when the fault was over, unix nanoseconds
	Targets []string      `json:"targets,omitempty"` // processes that could not reach Redis, or could do nothing, for the time; "*" = all
	Loses   time.Duration `json:"loses,omitempty"`   // what was accepted between At - Loses and Until may be lost; 0: nothing may

	Processed int `json:"processed,omitempty"`
	Failures  int `json:"failures,omitempty"`
}
