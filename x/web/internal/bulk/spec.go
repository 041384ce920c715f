// Package bulk changes many tasks in the background. Operations can be counted in advance, report
// their progress, and can be canceled.
package bulk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

// Kind is the kind of change of each task.
type Kind string

// The kinds of changes.
const (
	Run     Kind = "run"
	Archive Kind = "archive"
	Delete  Kind = "delete"
	Cancel  Kind = "cancel"
)

// MaxIDs is the maximum number of selected tasks.
const MaxIDs = 1000

// Spec specifies a change and its tasks.
type Spec struct {
	Kind   Kind
	Queue  string   // required
	State  string   // the name of a state; required unless IDs is set
	Group  string   // only for aggregating tasks; empty: all groups
	Filter string   // in the language of x/filter; empty: all
	IDs    []string // only these tasks; State, Group and Filter are then ignored

	// DiscardOldest lets an Archive delete the oldest tasks of a full archive. Otherwise tasks
	// without room are left unchanged.
	DiscardOldest bool

	// Match further restricts the tasks that match the filter. Like describes it. It is not used
	// for IDs.
	Match func(*asynq.TaskInfo) bool
	Like  string
}

// fit maps kinds of changes to the states of tasks that they apply to.
var fit = map[Kind][]asynq.TaskState{
	Run: {
		asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateCompleted, asynq.TaskStateAggregating,
	},
	Archive: {asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateAggregating},
	Delete: {
		asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateCompleted,
		asynq.TaskStateAggregating,
	},
	Cancel: {asynq.TaskStateActive},
}

// Kinds lists the changes that apply to tasks of a state.
func Kinds(state asynq.TaskState) []Kind {
	var kinds []Kind
	for _, kind := range []Kind{Run, Archive, Delete, Cancel} {
		if slices.Contains(fit[kind], state) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// SpecError is the error of a field of a Spec.
type SpecError struct{ Field, Detail string }

func (e *SpecError) Error() string { return e.Field + ": " + e.Detail }

// plan is a validated Spec.
type plan struct {
	Spec
	state  asynq.TaskState
	filter *filter.Filter
}

// Check validates a spec. The error is a *SpecError.
func (s Spec) Check() error {
	_, err := s.plan()
	return err
}

func (s Spec) plan() (plan, error) {
	wrong := func(field, format string, args ...any) (plan, error) {
		return plan{}, &SpecError{field, fmt.Sprintf(format, args...)}
	}
	states, ok := fit[s.Kind]
	switch {
	case !ok:
		return wrong("kind", "unknown kind %q: use run, archive, delete or cancel", s.Kind)
	case s.Queue == "":
		return wrong("queue", "the queue is required")
	case len(s.IDs) > MaxIDs:
		return wrong("ids", "%d tasks are selected: the limit is %d", len(s.IDs), MaxIDs)
	case len(s.IDs) > 0:
		return plan{Spec: Spec{Kind: s.Kind, Queue: s.Queue, IDs: s.IDs, State: s.State, DiscardOldest: s.DiscardOldest}}, nil
	}
	state, ok := filter.ParseState(s.State)
	if !ok || !slices.Contains(states, state) {
		names := make([]string, len(states))
		for i, state := range states {
			names[i] = state.String()
		}
		return wrong("state", "cannot %s tasks in state %q: use %s", s.Kind, s.State, strings.Join(names, ", "))
	}
	if s.Group != "" && state != asynq.TaskStateAggregating {
		return wrong("group", "only aggregating tasks have a group")
	}
	f, err := filter.Parse(s.Filter)
	if err != nil {
		return wrong("filter", "%v", err)
	}
	return plan{Spec: s, state: state, filter: f}, nil
}

// taskFilter returns the filter of the plan for the Inspector. seen is Config.Seen.
func (p *plan) taskFilter(seen func(*asynq.TaskInfo) *asynq.TaskInfo) asynq.TaskFilter {
	f := p.filter.TaskFilter()
	f.Group = p.Group
	if match := f.Match; match != nil && seen != nil {
		f.Match = func(t *asynq.TaskInfo) bool { return match(seen(t)) }
	}
	switch match := f.Match; {
	case p.Match == nil:
	case match == nil:
		f.Match = p.Match
	default:
		f.Match = func(t *asynq.TaskInfo) bool { return match(t) && p.Match(t) }
	}
	return f
}
