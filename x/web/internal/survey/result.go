package survey

import (
	"time"

	"github.com/asynq-go/asynq"
)

// Result is the result of a survey. It is immutable.
type Result struct {
	At       time.Time // start of the survey; zero: nothing was scanned yet
	Took     time.Duration
	Whole    bool // the survey is complete
	Extents  []Extent
	Failures []*Failure // most frequent first
	Types    []*Type    // by name
	Broken   []Broken
}

// Extent is how much of a state was scanned.
type Extent struct {
	State          asynq.TaskState
	Scanned, Total int
	Cut            bool // not all tasks were scanned
}

// Broken is a queue that could not be read.
type Broken struct {
	Queue string
	Err   error
}

// Of sums up the extents of some states, or of all if none is named.
func (r *Result) Of(states ...asynq.TaskState) Extent {
	var sum Extent
	for _, e := range r.Extents {
		for _, state := range states {
			if e.State == state {
				sum.add(e)
			}
		}
		if len(states) == 0 {
			sum.add(e)
		}
	}
	sum.Total = max(sum.Total, sum.Scanned) // tasks may have been added in the meantime
	return sum
}

func (e *Extent) add(other Extent) {
	e.Scanned += other.Scanned
	e.Total += other.Total
	e.Cut = e.Cut || other.Cut
}

// Failure returns a kind of error by its ID.
func (r *Result) Failure(id string) *Failure {
	for _, f := range r.Failures {
		if f.ID == id {
			return f
		}
	}
	return nil
}

// Type returns a task type by its name.
func (r *Result) Type(name string) *Type {
	for _, t := range r.Types {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Share is a number of tasks in a queue and state.
type Share struct {
	Queue string
	State asynq.TaskState
	N     int
}

// Sum sums up the shares of a queue and a state; "" and 0 stand for any.
func Sum(shares []Share, queue string, state asynq.TaskState) int {
	n := 0
	for _, s := range shares {
		if (queue == "" || s.Queue == queue) && (state == 0 || s.State == state) {
			n += s.N
		}
	}
	return n
}

// Ref is an example task.
type Ref struct {
	Queue, ID         string
	State             asynq.TaskState
	At                time.Time // time of its last failure or of its completion
	Retried, MaxRetry int
}

// Hours is the number of hours in Failure.ByHour.
const Hours = 24

// Failure is a kind of error: errors of all task types with the same asynq.ErrorKind.
type Failure struct {
	ID     string // from Identify
	Kind   string
	N      int
	Shares []Share      // largest first
	Types  []TypeShares // most frequent first
	First  time.Time
	Last   time.Time
	ByHour [Hours]int // last failures by hour; the last element is the current hour
	Texts  []Text     // examples, most frequent first
	Tasks  []Ref      // examples, latest failure first
}

// TypeShares are the tasks of one type.
type TypeShares struct {
	Name   string
	N      int
	Shares []Share // largest first
}

// Of returns the shares of a task type, or nil if it has none.
func (f *Failure) Of(typename string) []Share {
	for _, t := range f.Types {
		if t.Name == typename {
			return t.Shares
		}
	}
	return nil
}

// Text is the text of an error, truncated if very long.
type Text struct {
	Text    string
	N       int
	ByQueue map[string]int
}

// Type is the tasks of one type.
type Type struct {
	Name     string
	N        int
	Shares   []Share   // largest first
	LastHour int       // tasks completed within the last hour, of those with a retention
	Failing  time.Time // the earliest last failure of retry and archived tasks
	Tasks    []Ref     // examples, newest first
}

// Failed returns the number of retry and archived tasks.
func (t *Type) Failed() int {
	return Sum(t.Shares, "", asynq.TaskStateRetry) + Sum(t.Shares, "", asynq.TaskStateArchived)
}
