package bulk

import "time"

// Status is where an operation is in its life.
type Status string

// What an operation goes through.
const (
	Waiting  Status = "waiting" // others come first
	Running  Status = "running"
	Done     Status = "done" // each task that is left as it was says why in Results, or had gone
	Failed   Status = "failed"
	Canceled Status = "canceled"
)

// Ended reports whether nothing will change any more.
func (s Status) Ended() bool { return s == Done || s == Failed || s == Canceled }

// Operation is what is known of an operation at one moment.
type Operation struct {
	ID     string
	User   string // who started it
	Spec   Spec
	Status Status

	Total   int // tasks that there were to look at when it started; -1 where that is not known
	Looked  int // tasks that it has looked at
	Matched int // tasks that it has found to be changed
	Changed int // tasks that it has changed; where it goes by a filter, that is known only at the end
	Failed  int // tasks of a selection that could not be changed

	Created, Started, Ended time.Time // zero until then
	Err                     string    // why it failed or was canceled
	Results                 []Result  // of a selection, in the order of its IDs, once it has ended
}

// Result is what became of one task of a selection.
type Result struct {
	ID  string
	Err error // nil: it was changed
}

// Count is how many tasks an operation would change.
type Count struct {
	N        int
	Looked   int
	Complete bool // false: there may be more, since the bound was reached
}
