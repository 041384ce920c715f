package checker

import (
	"time"

	"github.com/asynq-go/asynq/x/chaos/history"
)

// Kind says which rule does not hold.
type Kind string

// The kinds of violations.
const (
	Lost           Kind = "lost"               // an accepted task is gone, and no run succeeded
	NotKept        Kind = "not kept"           // a task that succeeded is gone before its retention was over
	NotDone        Kind = "not done"           // a task still waits, or is active, at the end
	TwoPlaces      Kind = "two places"         // one ID was found twice at the end
	Stranger       Kind = "stranger"           // a task ran, or is there, that nobody offered, or in another queue than its own
	RefusedThere   Kind = "refused, but there" // a refused task ran, or is there
	Overlap        Kind = "overlap"            // two runs of a task at the same time, while the lease of the first one stood
	LeaseLost      Kind = "lease lost"         // a lease ended although its process lived and had Redis
	Duplicate      Kind = "duplicate"          // a run after one that had succeeded, with nothing in its way
	AfterArchive   Kind = "after archive"      // a run after the last failure
	NotCounted     Kind = "not counted"        // a failure that Retried does not show
	Jump           Kind = "jump"               // Retried is higher than failures and faults explain, or lower
	TooManyRetries Kind = "too many retries"   // Retried is above MaxRetry
	ArchivedEarly  Kind = "archived early"     // archived before the attempts were used up
	ArchivedWrong  Kind = "archived wrongly"   // archived, but the runs do not lead there
	NoSuccess      Kind = "no success"         // completed, but no run succeeded
	AgainstPlan    Kind = "against plan"       // succeeded, although its plan has failures only
	Early          Kind = "early"              // started before its delay was over
	Unique         Kind = "unique"             // two tasks with one unique key at the same time
	TwiceInGroups  Kind = "aggregated twice"   // a member of two aggregated tasks
	MemberRan      Kind = "member ran"         // a grouped task ran by itself
	Statistics     Kind = "statistics"         // the counters of a queue do not fit its tasks
	Invariant      Kind = "invariant"          // a finding of the diagnosis at the end
)

// Rules are what a run promises. Durations that are zero allow no time at all.
type Rules struct {
	Lease  time.Duration // how long a lease stands after it was taken or extended
	Extend time.Duration // how often a process extends its leases, at least
	// Slack is how long a process may take for what it does at once: start what it fetched, send what has finished, end after it gave
	// its tasks back. It covers what Redis and the library round, too: a lease may end in whole seconds.
	Slack time.Duration
	// ClockSkew is how far a producer's clock may be behind those of the others when it says when a task is due.
	ClockSkew   time.Duration
	MayLose     bool // false: Redis must lose nothing, whatever a fault says
	CrashCounts bool // a run whose lease ended counts as a failed attempt
	ArchiveSize int  // how many archived tasks a queue keeps; 0: all of them
	Examples    int  // how many violations of a kind are described; 0: 5
}

// Violation is something that must not be.
type Violation struct {
	Kind    Kind            `json:"kind"`
	Task    string          `json:"task,omitempty"` // none for what is about a queue
	Queue   string          `json:"queue,omitempty"`
	Because string          `json:"because"` // a sentence: why nothing explains it
	Events  []history.Event `json:"events"`  // what shows it
}

// Violations are all those of a kind.
type Violations struct {
	Total    int         `json:"total"`
	Examples []Violation `json:"examples"` // the first ones
}

// QueueCount compares a queue's statistics with the history. Where the history is not sure, the expected number is an interval.
type QueueCount struct {
	Queue        string `json:"queue"`
	Processed    int    `json:"processed"`
	Failures     int    `json:"failures"`
	MinProcessed int    `json:"min_processed"`
	MaxProcessed int    `json:"max_processed"`
	MinFailures  int    `json:"min_failures"`
	MaxFailures  int    `json:"max_failures"`
}

// Recovery says how long tasks waited for their next run after the process that ran them had died.
type Recovery struct {
	Name string        `json:"name"` // of the fault
	N    int           `json:"n"`
	P50  time.Duration `json:"p50"`
	Max  time.Duration `json:"max"`
}

// Report is what [Check] came to.
type Report struct {
	Events     int `json:"events"`
	Offered    int `json:"offered"` // tasks; the next three add up to it
	Accepted   int `json:"accepted"`
	Refused    int `json:"refused"`
	Unknown    int `json:"unknown"`    // there was no answer, or one that leaves it open
	Aggregated int `json:"aggregated"` // tasks that were made of others
	Runs       int `json:"runs"`
	Retries    int `json:"retries"` // runs after a failure
	LeasesLost int `json:"leases_lost"`

	Completed int `json:"completed"` // there at the end
	Archived  int `json:"archived"`  // there at the end
	Gone      int `json:"gone"`      // succeeded, and not kept; members of a group, too
	Trimmed   int `json:"trimmed"`   // archived, and trimmed
	Waiting   int `json:"waiting"`   // there at the end, and not done
	Absent    int `json:"absent"`    // unknown, and never seen

	Losses     map[string]int       `json:"losses,omitempty"`  // tasks that a fault explains the loss of, by its name
	Repeats    map[string]int       `json:"repeats,omitempty"` // runs that no failure explains, but a fault, by its name
	Recoveries []Recovery           `json:"recoveries,omitempty"`
	Queues     []QueueCount         `json:"queues,omitempty"`
	Violations map[Kind]*Violations `json:"violations,omitempty"`
	Oddities   map[string]int       `json:"oddities,omitempty"` // events that do not fit together: torn or missing ones
}

// OK reports whether there is no violation.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// Total returns the number of violations of a kind.
func (r *Report) Total(kind Kind) int {
	if v := r.Violations[kind]; v != nil {
		return v.Total
	}
	return 0
}

// Width returns by how much the statistics could be off without a violation, over all queues: 0 if each number was known exactly.
func (r *Report) Width() (processed, failures int) {
	for _, q := range r.Queues {
		processed += q.MaxProcessed - q.MinProcessed
		failures += q.MaxFailures - q.MinFailures
	}
	return processed, failures
}
