// Package history stores the events of a run. Each process writes to its own file, outside of the
// Redis under test.
package history

import "time"

// Kind is the kind of an event.
type Kind string

// Events of a producer. Each has Task and Queue.
const (
	Offered  Kind = "offered"  // before the task is enqueued: Plan, MaxRetry, Retention, UniqueKey, UniqueTTL, Group, Delay, Partition, Limits
	Accepted Kind = "accepted" // the task was enqueued
	Refused  Kind = "refused"  // the task was definitely not enqueued: Err
	Unknown  Kind = "unknown"  // the task may have been enqueued: Err
)

// Events of a worker. Each has Task and Queue.
const (
	Started  Kind = "started"  // first action of a handler: Run, Retried, MaxRetry; Members of an aggregated task
	Finished Kind = "finished" // last action of a handler: Run, Step, and Err unless it succeeded
	Lost     Kind = "lost"     // the context was canceled because the lease was lost: Run
	Failed   Kind = "failed"   // the ErrorHandler was called: Retried, Err
)

// Events of the harness.
const (
	Born    Kind = "born"    // a process started: Process
	Died    Kind = "died"    // a process exited or was killed: Process
	Fault   Kind = "fault"   // a fault was injected: Name, Until, Targets, Loses
	Outcome Kind = "outcome" // a task exists at the end: Task, Queue, State, Retried, Err
	Queue   Kind = "queue"   // statistics of a queue at the end: Queue, Processed, Failures
	Finding Kind = "finding" // an invariant is violated at the end: Queue, Task, Err
)

// Steps of a plan, one per attempt. Attempts beyond the plan repeat the last step.
const (
	Succeed = "succeed"
	Fail    = "fail"   // returns an error
	Panic   = "panic"  // panics
	Goexit  = "goexit" // calls runtime.Goexit
	Hang    = "hang"   // blocks until its context is done, and returns the cause
	Crash   = "crash"  // kills its process
	Huge    = "huge"   // succeeds with a result of 1 MB
)

// Limits are the limits of a partition.
type Limits struct {
	Concurrency int           `json:"concurrency,omitempty"`
	Interval    time.Duration `json:"interval,omitempty"` // of starts; 0 means no limit
	Burst       int           `json:"burst,omitempty"`
	Ordered     bool          `json:"ordered,omitempty"`
}

// Event is an event. Fields that its kind does not name are zero.
type Event struct {
	At      int64  `json:"at"` // Unix nanoseconds, by the clock of the machine
	Kind    Kind   `json:"kind"`
	Process string `json:"process,omitempty"` // process that wrote the event, or its subject for born and died

	Task  string `json:"task,omitempty"` // task ID
	Queue string `json:"queue,omitempty"`

	Plan      []string      `json:"plan,omitempty"`
	MaxRetry  int           `json:"max_retry,omitempty"`
	Retention time.Duration `json:"retention,omitempty"` // 0 means deleted when completed
	UniqueKey string        `json:"unique_key,omitempty"`
	UniqueTTL time.Duration `json:"unique_ttl,omitempty"`
	Group     string        `json:"group,omitempty"` // the task is aggregated and does not run itself
	Partition string        `json:"partition,omitempty"`
	Limits    *Limits       `json:"limits,omitempty"` // of the partition; nil: its queue has none
	Delay     time.Duration `json:"delay,omitempty"`  // minimum time from the offer to the start

	Run     string   `json:"run,omitempty"` // unique run ID
	Retried int      `json:"retried,omitempty"`
	Members []string `json:"members,omitempty"` // IDs of the aggregated tasks
	Step    string   `json:"step,omitempty"`
	State   string   `json:"state,omitempty"`
	Err     string   `json:"err,omitempty"`

	Name    string        `json:"name,omitempty"`
	Until   int64         `json:"until,omitempty"`   // end of the fault in Unix nanoseconds
	Targets []string      `json:"targets,omitempty"` // processes that were stopped or could not reach Redis; "*" means all
	Loses   time.Duration `json:"loses,omitempty"`   // tasks accepted between At-Loses and Until may be lost; 0 means none

	Processed int `json:"processed,omitempty"`
	Failures  int `json:"failures,omitempty"`
}
