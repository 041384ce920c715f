package checker

import (
	"time"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// Kind is the violated rule.
type Kind string

// The kinds of violations.
const (
	Lost           Kind = "lost"               // an accepted task is gone, and no run succeeded
	NotKept        Kind = "not kept"           // a task that succeeded is gone before its retention ended
	NotDone        Kind = "not done"           // a task is pending, delayed or active at the end
	TwoPlaces      Kind = "two places"         // an ID was found twice at the end
	Stranger       Kind = "stranger"           // a task ran or exists that was not offered, or in another queue
	RefusedThere   Kind = "refused, but there" // a rejected task ran or exists
	Overlap        Kind = "overlap"            // concurrent runs of a task before the lease of the first one expired
	LeaseLost      Kind = "lease lost"         // a lease expired although its process was running and connected
	Duplicate      Kind = "duplicate"          // a run after a successful one whose outcome reached Redis
	AfterArchive   Kind = "after archive"      // a run after the last failure
	NotCounted     Kind = "not counted"        // a failure that Retried does not include
	Jump           Kind = "jump"               // Retried is higher or lower than failures and faults explain
	TooManyRetries Kind = "too many retries"   // Retried exceeds MaxRetry
	ArchivedEarly  Kind = "archived early"     // archived before retries were exhausted
	ArchivedWrong  Kind = "archived wrongly"   // archived, but the runs do not explain it
	NoSuccess      Kind = "no success"         // completed, but no run succeeded
	AgainstPlan    Kind = "against plan"       // succeeded, although its plan has only failures
	Early          Kind = "early"              // started before its delay was over
	Unique         Kind = "unique"             // two tasks with the same unique key at the same time
	TwiceInGroups  Kind = "aggregated twice"   // a member of two aggregated tasks
	MemberRan      Kind = "member ran"         // a grouped task ran by itself
	Crowded        Kind = "crowded"            // more tasks of a partition at once than its concurrency
	Hasty          Kind = "hasty"              // more starts of a partition than its rate
	Disordered     Kind = "disordered"         // a task of an ordered partition started before its predecessor had ended
	Statistics     Kind = "statistics"         // the counters of a queue do not match its tasks
	Invariant      Kind = "invariant"          // a finding of the final diagnosis
)

// Rules describes the guarantees of a run. Zero durations permit no time at all.
type Rules struct {
	Lease  time.Duration // lease duration
	Extend time.Duration // maximum interval between extensions
	// Slack is the maximum duration of immediate actions: starting a fetched task, sending an
	// outcome, exiting after requeueing tasks. It also covers rounding by Redis and the library:
	// leases may expire at whole seconds.
	Slack time.Duration
	// ClockSkew is how far the clock of a producer may be behind the others when it sets the due
	// time of a task.
	ClockSkew   time.Duration
	MayLose     bool // if false, Redis must lose nothing, regardless of faults
	CrashCounts bool // a run whose lease expired counts as a failed attempt
	ArchiveSize int  // archived tasks that a queue keeps; 0 means all
	Examples    int  // violations described per kind; 0 means 5
}

// Violation is a violation of a rule.
type Violation struct {
	Kind    Kind            `json:"kind"`
	Task    string          `json:"task,omitempty"` // empty for violations of a queue
	Queue   string          `json:"queue,omitempty"`
	Because string          `json:"because"` // explanation, as a sentence
	Events  []history.Event `json:"events"`  // evidence
}

// Violations holds all violations of a kind.
type Violations struct {
	Total    int         `json:"total"`
	Examples []Violation `json:"examples"` // the first ones
}

// QueueCount compares the statistics of a queue with the history. Expected numbers are intervals if
// the history is ambiguous.
type QueueCount struct {
	Queue        string `json:"queue"`
	Processed    int    `json:"processed"`
	Failures     int    `json:"failures"`
	MinProcessed int    `json:"min_processed"`
	MaxProcessed int    `json:"max_processed"`
	MinFailures  int    `json:"min_failures"`
	MaxFailures  int    `json:"max_failures"`
}

// Recovery describes how long tasks waited for their next run after the death of their process.
type Recovery struct {
	Name string        `json:"name"` // name of the fault
	N    int           `json:"n"`
	P50  time.Duration `json:"p50"`
	Max  time.Duration `json:"max"`
}

// Report is the result of [Check].
type Report struct {
	Events     int `json:"events"`
	Offered    int `json:"offered"` // tasks; the sum of the next three
	Accepted   int `json:"accepted"`
	Refused    int `json:"refused"`
	Unknown    int `json:"unknown"`    // no result, or an ambiguous one
	Aggregated int `json:"aggregated"` // tasks created from groups
	Runs       int `json:"runs"`
	Retries    int `json:"retries"` // runs after a failure
	LeasesLost int `json:"leases_lost"`

	Completed int `json:"completed"` // exist at the end
	Archived  int `json:"archived"`  // exist at the end
	Gone      int `json:"gone"`      // succeeded without retention, including group members
	Trimmed   int `json:"trimmed"`   // archived and trimmed
	Waiting   int `json:"waiting"`   // exist at the end and have not ended
	Absent    int `json:"absent"`    // unknown result, never seen

	Losses     map[string]int       `json:"losses,omitempty"`  // lost tasks explained by a fault, by its name
	Repeats    map[string]int       `json:"repeats,omitempty"` // repeated runs explained by a fault, by its name
	Recoveries []Recovery           `json:"recoveries,omitempty"`
	Queues     []QueueCount         `json:"queues,omitempty"`
	Violations map[Kind]*Violations `json:"violations,omitempty"`
	Oddities   map[string]int       `json:"oddities,omitempty"` // inconsistent events: torn or missing ones
}

// OK reports whether there are no violations.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// Total returns the number of violations of a kind.
func (r *Report) Total(kind Kind) int {
	if v := r.Violations[kind]; v != nil {
		return v.Total
	}
	return 0
}

// Width returns by how much the statistics could deviate without a violation, over all queues: 0 if
// each number was known exactly.
func (r *Report) Width() (processed, failures int) {
	for _, q := range r.Queues {
		processed += q.MaxProcessed - q.MinProcessed
		failures += q.MaxFailures - q.MinFailures
	}
	return processed, failures
}
