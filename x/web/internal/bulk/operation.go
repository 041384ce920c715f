package bulk

import "time"

// Status is the phase of an operation.
type Status string

// The phases of an operation.
const (
	Waiting  Status = "waiting" // queued behind others
	Running  Status = "running"
	Done     Status = "done" // unchanged tasks have an error in Results, or no longer exist
	Failed   Status = "failed"
	Canceled Status = "canceled"
)

// Ended reports whether the operation has finished.
func (s Status) Ended() bool { return s == Done || s == Failed || s == Canceled }

// Operation is the state of an operation.
type Operation struct {
	ID     string
	User   string // the user who started it
	Spec   Spec
	Status Status

	Total   int // tasks to scan, as of its start; -1: unknown
	Scanned int // scanned tasks
	Matched int // tasks that match
	Changed int // changed tasks; for a filter set when it finishes
	Failed  int // selected tasks that could not be changed

	Discarded int // tasks deleted from a full archive, oldest first; may include changed ones

	Created, Started, Ended time.Time // zero until then
	Err                     string    // why it failed or was canceled
	Results                 []Result  // of selected tasks, in the order of their IDs, when finished
}

// Result is the result of one selected task.
type Result struct {
	ID  string
	Err error // nil: the task was changed
}

// Count is the number of tasks that an operation would change.
type Count struct {
	N        int
	Scanned  int
	Complete bool // false: the bound was reached, so there may be more
}
