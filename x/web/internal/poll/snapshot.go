package poll

import (
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
)

// Snapshot is the result of one poll. It is immutable, so any number of requests may read it.
type Snapshot struct {
	Seq      uint64        // 1 for the first poll of this process, then counting up
	At       time.Time     // start of the poll, by the clock of this process
	DataAt   time.Time     // start of the last successful poll; zero: there was none
	Took     time.Duration // duration of the poll
	Err      error         // Redis is unreachable; the other fields are then those of the last successful poll
	Problems Problems      // parts of the poll that failed on their own; their data is from the last successful poll
	Queues   []Queue       // by name
	Servers  []*asynq.ServerInfo
	Entries  []*asynq.SchedulerEntry
	Redis    Redis
	Total    Total
	Health   health.Report
}

// Queue returns a queue by its name.
func (s *Snapshot) Queue(name string) (Queue, bool) {
	n, ok := slices.BinarySearchFunc(s.Queues, name, func(q Queue, name string) int { return strings.Compare(q.Name, name) })
	if !ok {
		return Queue{}, false
	}
	return s.Queues[n], true
}

// Problems are the errors of the parts of a poll. The error of one queue is in its Queue.
type Problems struct {
	Queues, Servers, Entries, Redis error
}

// Queue is one queue in a snapshot.
type Queue struct {
	Name string
	Info *asynq.QueueInfo // nil if Err is not nil; MemoryUsage is up to about a minute older than the other fields
	Err  error
	Rate Rate

	// Last is the last known state, if the queue could be read before but not now. It is nil
	// otherwise.
	Last *asynq.QueueInfo

	// Unhandled are types of waiting tasks that no running server of the queue handles, the most
	// frequent first. They are up to about a minute old.
	Unhandled []asynq.UnhandledType
}

// Drain returns how long the pending tasks take at the current rate. It is unknown if there are
// none or their number does not decrease.
func (q Queue) Drain() (time.Duration, bool) {
	if q.Info == nil || !q.Rate.Known || q.Info.Pending == 0 || q.Rate.Backlog >= 0 {
		return 0, false
	}
	seconds := float64(q.Info.Pending) / -q.Rate.Backlog
	return time.Duration(min(seconds, maxDrain.Seconds()) * float64(time.Second)), true
}

// maxDrain bounds Drain.
const maxDrain = 365 * 24 * time.Hour

// Rate is the rate of a queue since the previous poll, per second. It is smoothed over about ten
// seconds.
type Rate struct {
	Known     bool
	Processed float64 // finished attempts
	Failed    float64 // failed attempts
	Backlog   float64 // change of the number of pending tasks
}

// Total sums up all queues and servers. Queues that could not be read are not included.
type Total struct {
	Queues, Paused, Broken int // Broken: could not be read

	Pending, Active, Scheduled, Retry, Archived, Completed, Aggregating int

	Processed, Failed           int // on this UTC day
	ProcessedTotal, FailedTotal int

	Latency time.Duration // the maximum of all queues that are not paused, since tasks of paused queues wait intentionally
	Memory  int64         // bytes of all sampled queues
	Rate    Rate

	Servers     int // active servers
	Concurrency int // of active servers
	Busy        int // tasks that servers report as being processed
}

// Redis is the state of Redis from INFO. Fields that are not reported, such as most fields of an
// embedded Redis, are zero. For a Cluster it combines all masters: sums, but the shortest uptime
// and the policy that evicts most.
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
	FragmentationPct float64 // memory allocated by the system beyond the used memory, in percent of the used memory
	EvictedKeys      int64   // since Redis started
	SaveFailed       bool    // the last snapshot or write to the append-only file failed
	Nodes            []Node  // the masters; one node without a Cluster
}

// Node is one Redis server. Its Redis has no Nodes.
type Node struct {
	Addr  string
	Err   error // the node is unreachable
	Redis Redis
}
