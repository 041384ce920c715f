package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// StepKind says what a step is, and how far it is.
type StepKind string

// The kinds of steps.
const (
	StepRun     StepKind = "run"     // a function, which has returned
	StepSleep   StepKind = "sleep"   // a wait for a time
	StepWait    StepKind = "wait"    // a wait for a signal; over when the signal is there
	StepTimeout StepKind = "timeout" // a wait for a signal that has timed out
)

// Step is the record of a step in the hash of its task: its kind, when it was recorded, and the
// value or the end, separated by spaces.
type Step struct {
	Kind  StepKind
	At    int64  // unix milliseconds
	Value []byte // JSON; only StepRun
	Until int64  // unix milliseconds; not StepRun
}

// The limits of the steps of a task.
const (
	MaxSteps      = 500      // steps
	MaxSignals    = 100      // signals
	MaxStepName   = 200      // bytes of a name
	MaxStepValue  = 1 << 20  // bytes of a value of a step or signal, as JSON
	MaxStepValues = 16 << 20 // bytes of the values of all steps
)

// ValidateStepName returns an error if name is not a valid name of a step or signal.
func ValidateStepName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return errors.New("name must not be empty")
	case len(name) > MaxStepName:
		return fmt.Errorf("name of %d bytes is too long: at most %d bytes are allowed", len(name), MaxStepName)
	case !utf8.ValidString(name):
		return fmt.Errorf("name %q is not valid UTF-8", name)
	}
	return nil
}

// Encode is the inverse of DecodeStep.
func (s Step) Encode() string {
	rest := string(s.Value)
	if s.Kind != StepRun {
		rest = strconv.FormatInt(s.Until, 10)
	}
	return string(s.Kind) + " " + strconv.FormatInt(s.At, 10) + " " + rest
}

// DecodeStep reads the record of a step. It reports false if it is malformed.
func DecodeStep(record string) (Step, bool) {
	kind, rest, ok := strings.Cut(record, " ")
	if !ok {
		return Step{}, false
	}
	at, rest, ok := strings.Cut(rest, " ")
	if !ok {
		return Step{}, false
	}
	s := Step{Kind: StepKind(kind)}
	var err error
	if s.At, err = strconv.ParseInt(at, 10, 64); err != nil {
		return Step{}, false
	}
	switch s.Kind {
	case StepRun:
		s.Value = []byte(rest)
	case StepSleep, StepWait, StepTimeout:
		if s.Until, err = strconv.ParseInt(rest, 10, 64); err != nil {
			return Step{}, false
		}
	default:
		return Step{}, false
	}
	return s, true
}

// DecodeAwaits returns the signal that a task waits for and when its wait ends, in unix
// milliseconds. It reports false if the value is none.
func DecodeAwaits(value string) (name string, until int64, ok bool) {
	end, name, ok := strings.Cut(value, " ")
	until, err := strconv.ParseInt(end, 10, 64)
	return name, until, ok && err == nil
}
