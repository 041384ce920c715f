package poll

import (
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// Snapshot is what one look saw. It is never changed, so that any number of requests may read it.
type Snapshot struct {
	Seq      uint64        // 1 for the first look of this process, and one more for each
	At       time.Time     // when the look began, by the clock of this process
	Took     time.Duration // how long it took
	Err      error         // Redis could not be asked; then the rest is that of the last look that could
	Problems Problems      // parts of the look that failed alone; what they tell is that of the last look that could
	Queues   []Queue       // by name
	Servers  []*asynq.ServerInfo
	Entries  []*asynq.SchedulerEntry
	Redis    Redis
	Total    Total
	Health   []Verdict // the worst first
}

// Queue finds a queue by its name.
func (s *Snapshot) Queue(name string) (Queue, bool) {
	n, ok := slices.BinarySearchFunc(s.Queues, name, func(q Queue, name string) int { return strings.Compare(q.Name, name) })
	if !ok {
		return Queue{}, false
	}
	return s.Queues[n], true
}

// Problems says why parts of a look failed. An error of one queue is with the queue.
type Problems struct {
	Queues, Servers, Entries, Redis error
}

// Queue is what a look saw of one queue.
type Queue struct {
	Name string
	Info *asynq.QueueInfo // nil if Err is not nil; MemoryUsage is up to about a minute older than the rest
	Err  error
	Rate Rate
}

// Drain is how long the pending tasks will take at the present rate. It is not known where there are none, or do not become fewer.
func (q Queue) Drain() (time.Duration, bool) {
	if q.Info == nil || !q.Rate.Known || q.Info.Pending == 0 || q.Rate.Backlog >= 0 {
		return 0, false
	}
	seconds := float64(q.Info.Pending) / -q.Rate.Backlog
	return time.Duration(min(seconds, maxDrain.Seconds()) * float64(time.Second)), true
}

// maxDrain bounds Drain: what takes longer takes "more than".
const maxDrain = 365 * 24 * time.Hour

// Rate is how fast a queue moved since the look before, per second. It is smoothed over about ten seconds.
type Rate struct {
	Known     bool
	Processed float64 // attempts that ended
	Failed    float64 // attempts that failed
	Backlog   float64 // change of the number of pending tasks
}

// Total is all queues and servers together. Queues that could not be asked are not in it.
type Total struct {
	Queues, Paused, Broken int // Broken: could not be asked

	Pending, Active, Scheduled, Retry, Archived, Completed, Aggregating int

	Processed, Failed           int // on this UTC day
	ProcessedTotal, FailedTotal int

	Latency time.Duration // the longest of all queues that are not paused: there somebody wants tasks to wait
	Memory  int64         // bytes of all queues that are known
	Rate    Rate

	Servers     int // that are active
	Concurrency int // of these together
	Busy        int // tasks that all servers tell they process
}

// Redis is what Redis tells of itself. What it does not tell (an embedded one tells little) is zero. Of a Cluster it is all masters
// together: sums, but the shortest uptime, and the policy that evicts most.
type Redis struct {
	Version          string
	Mode             string // standalone, cluster, sentinel
	Uptime           time.Duration
	Memory           int64 // bytes used
	MemoryPeak       int64
	MaxMemory        int64 // 0: no limit
	MaxMemoryPolicy  string
	Clients          int
	BlockedClients   int
	OpsPerSecond     float64
	Keys             int64
	FragmentationPct float64 // how much more memory Redis has of the system than it uses, in percent of what it uses
	EvictedKeys      int64   // since Redis started
	SaveFailed       bool    // the last snapshot or write to the append-only file failed
	Nodes            []Node  // the masters; one if Redis is no Cluster
}

// Node is one Redis server of those that were asked. Its Redis has no Nodes.
type Node struct {
	Addr  string
	Err   error // it could not be asked
	Redis Redis
}

// Severity of a verdict.
type Severity int

// The severities.
const (
	Notice  Severity = iota // worth knowing
	Warning                 // will become a trouble
	Trouble                 // tasks are not processed
)

// String is the severity as a word.
func (s Severity) String() string {
	switch s {
	case Trouble:
		return "trouble"
	case Warning:
		return "warning"
	default:
		return "notice"
	}
}

// Verdict is one sentence about the health of something, such as "queue low has no worker".
type Verdict struct {
	Severity Severity
	Queue    string // empty: not about one queue
	Kind     string // a stable word for tests and filters, such as "no-worker"
	Text     string
	Hint     string // what one can do
	Link     string // a page, relative to the root path, that shows more
}
