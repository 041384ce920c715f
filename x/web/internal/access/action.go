// Package access controls access to the web UI: users and their roles, read-only mode, requests
// from other origins, security headers, and the audit log of all changes.
package access

// Role is the set of permissions of a user. Each role includes the ones before it.
type Role int

// The roles.
const (
	None     Role = iota // nothing
	Viewer               // view everything
	Operator             // also change tasks, pause queues, run and pause schedules, change the load of servers
	Admin                // also delete queues, stop servers, view the audit log
)

// Verb is a kind of action.
type Verb string

// The verbs. verbRoles has the role that each requires.
const (
	View           Verb = "view"
	TaskRun        Verb = "task.run"
	TaskArchive    Verb = "task.archive"
	TaskDelete     Verb = "task.delete"
	TaskCancel     Verb = "task.cancel"
	TaskReschedule Verb = "task.reschedule"
	TaskEdit       Verb = "task.edit"
	TaskEnqueue    Verb = "task.enqueue"
	QueuePause     Verb = "queue.pause"
	QueueResume    Verb = "queue.resume"
	QueueDelete    Verb = "queue.delete"
	PartitionSet   Verb = "partition.set" // also pause and resume
	FlowChange     Verb = "flow.change"   // cancel, retry, skip
	ScheduleRun    Verb = "schedule.run"
	SchedulePause  Verb = "schedule.pause"
	ScheduleResume Verb = "schedule.resume"

	ServerPauseQueue  Verb = "server.pause"
	ServerResumeQueue Verb = "server.resume"
	ServerConcurrency Verb = "server.concurrency"
	ServerQuiet       Verb = "server.quiet"
	ServerStop        Verb = "server.stop"
	AuditView         Verb = "audit.view"
	HealthMute        Verb = "health.mute"
)

// reads reports whether the verb changes nothing.
func (v Verb) reads() bool { return v == View || v == AuditView }

// Action is a requested action and its target.
type Action struct {
	Verb   Verb
	Queue  string // empty: none, or all queues
	Group  string
	Part   *string // key of a partition; nil: none, or all
	Flow   string  // ID of a flow
	Node   string  // of the flow; empty: all
	TaskID string  // empty: none, or several
	Entry  string  // ID of a scheduler entry
	Cause  string  // ID of a cause of x/health
	Server string  // ID of a server
	State  string  // of the tasks of a bulk change
	Filter string  // of the tasks of a bulk change; empty for selected tasks
	Count  int     // number of tasks if known in advance; of ServerConcurrency: the concurrency
}
