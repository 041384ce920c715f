// Package bulk carries out changes of many tasks in the background: counts them first, tells how far it has come, and can be
// canceled.
package bulk

// Kind is what is done to each task.
type Kind string

const (
	Run     Kind = "run"
	Archive Kind = "archive"
	Delete  Kind = "delete"
	Cancel  Kind = "cancel"
)

// Spec says what to do to which tasks.
type Spec struct {
	Kind   Kind
	Queue  string   // required
	State  string   // required: the name of a state
	Group  string   // only of aggregating tasks; empty: all groups
	Filter string   // in the language of x/filter; empty: all
	IDs    []string // only these; then Filter is not used
}
