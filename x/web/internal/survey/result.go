package survey

import (
	"time"

	"github.com/asynq-go/asynq"
)

// Result is what a survey saw. It is never changed.
type Result struct {
	At       time.Time // when it began; zero: nothing was looked at yet
	Took     time.Duration
	Whole    bool // it has ended: no more is looked at
	Extents  []Extent
	Failures []*Failure // the most frequent first
	Types    []*Type    // by name
	Broken   []Broken
}

// Extent is how much of a state was looked at.
type Extent struct {
	State         asynq.TaskState
	Looked, Total int
	Cut           bool // there were more, which were not looked at
}

// Broken is a queue that could not be looked at.
type Broken struct {
	Queue string
	Err   error
}

// Of adds up what was looked at of some states, or of all if none is named.
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
	sum.Total = max(sum.Total, sum.Looked) // some have come meanwhile
	return sum
}

func (e *Extent) add(other Extent) {
	e.Looked += other.Looked
	e.Total += other.Total
	e.Cut = e.Cut || other.Cut
}

// Failure finds a kind of error by its ID.
func (r *Result) Failure(id string) *Failure {
	for _, f := range r.Failures {
		if f.ID == id {
			return f
		}
	}
	return nil
}

// Type finds a task type by its name.
func (r *Result) Type(name string) *Type {
	for _, t := range r.Types {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Share is how many tasks there are in a queue and state.
type Share struct {
	Queue string
	State asynq.TaskState
	N     int
}

// Sum adds up the shares of a queue and a state; empty and 0 stand for any.
func Sum(shares []Share, queue string, state asynq.TaskState) int {
	n := 0
	for _, s := range shares {
		if (queue == "" || s.Queue == queue) && (state == 0 || s.State == state) {
			n += s.N
		}
	}
	return n
}

// Ref is a task as far as a list of examples tells.
type Ref struct {
	Queue, ID         string
	State             asynq.TaskState
	At                time.Time // of its last failure, or of its success
	Retried, MaxRetry int
}

// Hours is how many hours a Failure tells apart.
const Hours = 24

// Failure is a kind of error: of one task type, and with the same fingerprint.
type Failure struct {
	ID     string // a short name of it, from Identify
	Print  string // the fingerprint
	Type   string
	N      int
	Shares []Share // the largest first
	First  time.Time
	Last   time.Time
	ByHour [Hours]int // of the last failures, by how many hours ago: the last one is the present hour
	Texts  []Text     // some of the exact texts, the most frequent first
	Tasks  []Ref      // some of the tasks, the latest failure first
}

// Text is the text of an error, cut off where it is very long.
type Text struct {
	Text string
	N    int
}

// Type is what is known of the tasks of a type.
type Type struct {
	Name     string
	N        int
	Shares   []Share   // the largest first
	LastHour int       // that have succeeded within the last hour, of those that are kept
	Failing  time.Time // the earliest last failure of those in retry or archived
	Tasks    []Ref     // some of them, the latest first
}

// Failed is how many tasks of the type are in retry, or archived.
func (t *Type) Failed() int {
	return Sum(t.Shares, "", asynq.TaskStateRetry) + Sum(t.Shares, "", asynq.TaskStateArchived)
}
