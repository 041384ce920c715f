package health

import (
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
)

// Report is the result of a check.
type Report struct {
	At     time.Time `json:"at"`     // start of the check, by the clock of this process
	Causes []Cause   `json:"causes"` // most severe first
	Muted  []Cause   `json:"muted"`  // causes that are muted or acknowledged

	// Problems are the parts that could not be read, such as "servers: connection refused". Causes
	// that depend on them may be missing.
	Problems []string `json:"problems"`

	// Ended are the IDs of acknowledged causes that have been gone for as long as Settings.Trend.
	// Only a Monitor reports them. Pass them to Inspector.UnmuteCause.
	Ended []string `json:"-"`
}

// Severity returns the highest severity of the causes, without muted ones. ok is false if there are
// none.
func (r *Report) Severity() (worst Severity, ok bool) {
	for _, c := range r.Causes {
		worst = max(worst, c.Severity)
	}
	return worst, len(r.Causes) > 0
}

// Severity is the severity of a cause.
type Severity int

// The severities.
const (
	Notice  Severity = iota // worth knowing
	Warning                 // will cause problems
	Trouble                 // tasks are not processed
)

var severities = [...]string{"notice", "warning", "trouble"}

// String returns "notice", "warning" or "trouble".
func (s Severity) String() string {
	if s < Notice || s > Trouble {
		return fmt.Sprintf("Severity(%d)", int(s))
	}
	return severities[s]
}

// MarshalText returns the text of String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the text of String.
func (s *Severity) UnmarshalText(text []byte) error {
	for n, word := range severities {
		if word == string(text) {
			*s = Severity(n)
			return nil
		}
	}
	return fmt.Errorf("health: unknown severity %q: it must be notice, warning or trouble", text)
}

// Cause is something that is wrong, and what it leads to.
type Cause struct {
	// ID is the kind and the subject, such as "paused:mail". It stays the same while the cause
	// lasts. Mute causes by it.
	ID       string   `json:"id"`
	Kind     string   `json:"kind"` // see docs/HEALTH.md
	Severity Severity `json:"severity"`
	Queues   []string `json:"queues"` // affected queues, sorted; empty if it is not about queues

	Title string    `json:"title"`          // one sentence without a period
	Hint  string    `json:"hint"`           // what to do
	Since time.Time `json:"since,omitzero"` // zero: unknown
	Link  Link      `json:"link"`           // details
	Mute  *Mute     `json:"mute,omitempty"` // set in Report.Muted

	Evidence []Evidence `json:"evidence"`
	Actions  []Action   `json:"actions"`
}

// Mute is why a cause is muted.
type Mute struct {
	Until time.Time `json:"until,omitzero"` // zero: acknowledged until the cause is gone
	By    string    `json:"by,omitempty"`
	Note  string    `json:"note,omitempty"`
}

func newMute(m *asynq.Mute) *Mute { return &Mute{Until: m.Until, By: m.By, Note: m.Note} }

// Evidence is an observation that a cause explains.
type Evidence struct {
	Text   string  `json:"text"`
	Link   Link    `json:"link"`
	Series *Series `json:"series,omitempty"` // to show as a small chart; nil if there is none
}

// Series names a metric over time.
type Series struct {
	Metric string `json:"metric"` // pending, failed, processed, latency, archived, redis_memory
	Queue  string `json:"queue"`  // empty: of all queues
}

// Link is where details are. Each surface turns it into an address of its own.
type Link struct {
	Page  Page   `json:"page"`
	Queue string `json:"queue,omitempty"`
	State string `json:"state,omitempty"` // of tasks
	Type  string `json:"type,omitempty"`
	Task  string `json:"task,omitempty"` // ID
}

// Page is a kind of details.
type Page string

// The pages.
const (
	PageQueues     Page = "queues"
	PageQueue      Page = "queue"
	PageTasks      Page = "tasks" // of Queue in State, of Type if it is set
	PageTask       Page = "task"
	PageErrors     Page = "errors" // of Queue, or of all queues
	PageServers    Page = "servers"
	PageSchedulers Page = "schedulers"
	PageRedis      Page = "redis"
)

// Action is something that may help.
type Action struct {
	Kind  ActionKind `json:"kind"`
	Queue string     `json:"queue"`
	Type  string     `json:"type,omitempty"` // only tasks of this type; empty: all types
}

// ActionKind is what an Action does.
type ActionKind string

// The actions.
const (
	PauseQueue  ActionKind = "pause-queue"
	ResumeQueue ActionKind = "resume-queue"
	SeeErrors   ActionKind = "see-errors"
	RunArchived ActionKind = "run-archived" // run the archived tasks of the queue
)
