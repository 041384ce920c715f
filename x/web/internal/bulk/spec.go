// Package bulk carries out changes of many tasks in the background: counts them first, tells how far it has come, and can be
// canceled.
package bulk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

// Kind is what is done to each task.
type Kind string

// The kinds of changes.
const (
	Run     Kind = "run"
	Archive Kind = "archive"
	Delete  Kind = "delete"
	Cancel  Kind = "cancel"
)

// MaxIDs bounds the tasks of a selection.
const MaxIDs = 1000

// Spec says what to do to which tasks.
type Spec struct {
	Kind   Kind
	Queue  string   // required
	State  string   // required but for a selection: the name of a state
	Group  string   // only of aggregating tasks; empty: all groups
	Filter string   // in the language of x/filter; empty: all
	IDs    []string // only these; then State, Group and Filter are not used

	// Match has the last word about tasks that the filter lets through, where that is not enough; Like says in words what it is for. A
	// selection does not ask it.
	Match func(*asynq.TaskInfo) bool
	Like  string
}

// fit are the states whose tasks a kind of change is for.
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

// Kinds lists the kinds of changes that tasks of a state can undergo.
func Kinds(state asynq.TaskState) []Kind {
	var kinds []Kind
	for _, kind := range []Kind{Run, Archive, Delete, Cancel} {
		if slices.Contains(fit[kind], state) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// SpecError says which field of a Spec is wrong.
type SpecError struct{ Field, Detail string }

func (e *SpecError) Error() string { return e.Field + ": " + e.Detail }

// plan is a Spec that was checked.
type plan struct {
	Spec
	state  asynq.TaskState
	filter *filter.Filter
}

// Check says what is wrong with a spec; it is a *SpecError.
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
		return wrong("kind", "there is no change %q: use run, archive, delete or cancel", s.Kind)
	case s.Queue == "":
		return wrong("queue", "say the queue of the tasks")
	case len(s.IDs) > MaxIDs:
		return wrong("ids", "%d tasks are selected: at most %d can be at a time", len(s.IDs), MaxIDs)
	case len(s.IDs) > 0:
		return plan{Spec: Spec{Kind: s.Kind, Queue: s.Queue, IDs: s.IDs, State: s.State}}, nil
	}
	state, ok := filter.ParseState(s.State)
	if !ok || !slices.Contains(states, state) {
		names := make([]string, len(states))
		for i, state := range states {
			names[i] = state.String()
		}
		return wrong("state", "cannot %s tasks whose state is %q: use %s", s.Kind, s.State, strings.Join(names, ", "))
	}
	if s.Group != "" && state != asynq.TaskStateAggregating {
		return wrong("group", "only aggregating tasks are in a group")
	}
	f, err := filter.Parse(s.Filter)
	if err != nil {
		return wrong("filter", "%v", err)
	}
	return plan{Spec: s, state: state, filter: f}, nil
}

// taskFilter is the filter of the plan for the Inspector; seen is Config.Seen.
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
