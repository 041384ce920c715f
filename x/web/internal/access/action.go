// Package access decides who may do what through the web: users and their roles, read-only mode, requests of other origins,
// the headers that keep a page from being misused, and the audit log of every change.
package access

// Role is what a user may do. Each role includes those before it.
type Role int

// The roles.
const (
	None     Role = iota // nothing
	Viewer               // look at everything
	Operator             // and change tasks, pause queues, run schedules
	Admin                // and remove queues
)

// Verb is what a request does.
type Verb string

// The verbs, with the role that each asks for in verbRoles.
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
	ScheduleRun    Verb = "schedule.run"
)

// Action is what a request wants to do to what.
type Action struct {
	Verb   Verb
	Queue  string // empty: none, or all at once
	Group  string
	TaskID string // empty: none, or more than one
	Entry  string // of a scheduler
	State  string // of the tasks that a bulk change is for
	Filter string // of the tasks that a bulk change is for; those of a selection have none
	Count  int    // how many tasks, where that is known beforehand
}
