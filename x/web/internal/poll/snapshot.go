// Package poll looks at one Redis for all pages: one poller, however many tabs are open. It keeps the latest snapshot, a bounded
// history of numbers, and tells its subscribers of each new snapshot.
package poll

import (
	"time"

	"github.com/asynq-go/asynq"
)

// Snapshot is what one look saw. It is never changed, so that any number of requests may read it.
type Snapshot struct {
	Seq     uint64
	At      time.Time
	Took    time.Duration
	Err     error // Redis could not be asked; then the rest is that of the last look that could
	Queues  []Queue
	Servers []*asynq.ServerInfo
	Entries []*asynq.SchedulerEntry
	Redis   Redis
	Health  []Verdict
}

// Queue is what a look saw of one queue.
type Queue struct {
	Name string
	Info *asynq.QueueInfo // nil if Err is not nil
	Err  error
	Rate Rate
}

// Rate is how fast a queue moved since the look before, per second.
type Rate struct {
	Known     bool
	Processed float64 // attempts that ended
	Failed    float64 // attempts that failed
	Backlog   float64 // change of the number of pending tasks
}

// Redis is what Redis tells of itself. What it does not tell (an embedded one tells little) is zero.
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
	FragmentationPct float64
}

// Severity of a verdict.
type Severity int

const (
	Notice  Severity = iota // worth knowing
	Warning                 // will become a trouble
	Trouble                 // tasks are not processed
)

// Verdict is one sentence about the health of something, such as "queue low has no worker".
type Verdict struct {
	Severity Severity
	Queue    string // empty: not about one queue
	Kind     string // a stable word for tests and filters, such as "no-worker"
	Text     string
	Hint     string // what one can do
	Link     string // a page, relative to the root path, that shows more
}
