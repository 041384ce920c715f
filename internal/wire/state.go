package wire

import (
	"fmt"
	"slices"
)

// State is the state of a task, which says which collection has its ID. Its text is the value of
// the state field of the task hash.
type State int

// The states of a task, with the numbers of the public API.
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

// States returns all states.
func States() []State {
	return []State{StateActive, StatePending, StateScheduled, StateRetry, StateArchived, StateCompleted, StateAggregating}
}

// String returns the text of the state in the task hash.
func (s State) String() string {
	if s < StateActive || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// ParseState is the inverse of String.
func ParseState(s string) (State, error) {
	if i := slices.Index(stateNames[StateActive:], s); i >= 0 {
		return StateActive + State(i), nil
	}
	return 0, fmt.Errorf("wire: unknown task state %q", s)
}

// The fields of a task hash. Other fields belong to other libraries and are not changed.
const (
	FieldMessage      = "msg"
	FieldState        = "state"
	FieldPendingSince = "pending_since" // Unix nanoseconds in decimal; only while pending
	FieldUniqueKey    = "unique_key"    // only if the task holds a unique lock
	FieldGroup        = "group"         // only if the task has a group
	FieldHeld         = "held"          // its place in a partition, without the ID; only while scheduled because of it
	FieldResult       = "result"
	FieldToken        = "token"    // extension: the lease token; only while active
	FieldPosition     = "position" // extension: of the ID in a long active list, counted from the tail
	FieldSettled      = "settled"  // extension: the token of the last settled attempt, or the ID of its recovery
	FieldLog          = "log:"     // extension: prefix of the fields of the last failed attempts, see LogField
	FieldProgress     = "progress" // extension: what the handler reported last, see Progress
	FieldStep         = "step:"    // extension: prefix of the fields of the steps of the task, see Step
	FieldSignal       = "sig:"     // extension: prefix of the fields of signals; each has a value as JSON
	FieldAwaits       = "awaits"   // extension: the signal that the task waits for, see DecodeAwaits
)
