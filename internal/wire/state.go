package wire

import "fmt"

// State says which collection a task is in. Its text is what the task hash's state field holds.
type State int

// The states of a task, in the numbering of the public API.
const (
	StateActive State = iota + 1
	StatePending
	StateScheduled
	StateRetry
	StateArchived
	StateCompleted
	StateAggregating
)

var stateNames = [...]string{
	StateActive:      "active",
	StatePending:     "pending",
	StateScheduled:   "scheduled",
	StateRetry:       "retry",
	StateArchived:    "archived",
	StateCompleted:   "completed",
	StateAggregating: "aggregating",
}

// States lists every state.
func States() []State {
	return []State{StateActive, StatePending, StateScheduled, StateRetry, StateArchived, StateCompleted, StateAggregating}
}

// String is the state as it stands in the task hash.
func (s State) String() string {
	if s < StateActive || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// ParseState is the inverse of String.
func ParseState(s string) (State, error) {
	for _, st := range States() {
		if stateNames[st] == s {
			return st, nil
		}
	}
	return 0, fmt.Errorf("wire: %q is not a task state", s)
}

// The fields of a task hash. Fields that are not listed belong to others and are left alone.
const (
	FieldMessage      = "msg"
	FieldState        = "state"
	FieldPendingSince = "pending_since" // unix nanoseconds in decimal, only while pending
	FieldUniqueKey    = "unique_key"    // only if the task holds a lock
	FieldGroup        = "group"         // only if the task has a group
	FieldResult       = "result"
	FieldToken        = "token"   // ours: the fetch that took the task; only while active
	FieldSettled      = "settled" // ours: the token of the attempt that ended last, or the name of its recovery
)
