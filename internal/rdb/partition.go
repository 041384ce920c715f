package rdb

import (
	"github.com/asynq-go/asynq/internal/script"
)

// Partitions configures the partitions of a queue.
type Partitions struct {
	Limits  string // of partitions without their own; see wire.PartitionLimits
	Ordered bool   // the tasks of a partition run one at a time, in order
	ByType  bool   // the type of a task is its partition key
}

// Releases reports whether a task with this outcome gives up its place in its partition. In order,
// a task that will run again keeps it.
func (p *Partitions) Releases(o Outcome) bool {
	return !p.Ordered || o != Retry && o != Defer && o != Requeue
}

// Ended is a task of a partition whose attempt has ended on the calling server.
type Ended struct{ Partition, ID string }

// MaxEnded is the maximum number of ended tasks of one fetch.
const MaxEnded = script.MaxBatch

// partitionedFetch returns the call for a fetch from a queue with partitions.
func (f *Fetch) partitionedFetch(q *script.Queue) *script.Call {
	k, p := q.Keys, f.Partitions
	c := script.NewCall(fetchPartitionsScript, 13+13+2*len(f.Ended)).
		Key(q.Active, q.Lease, q.Pending, q.Paused, q.Marker, q.Scheduled, k.HeldTasks(), k.ReadyPartitions(),
			k.BlockedPartitions(), k.RunningTasks(), k.PartitionRates(), k.PartitionClock(), k.PartitionSettings())
	c.Once = true
	c.Arg(q.TaskPrefix, min(f.N, script.MaxBatch), script.Seconds(f.Lease), f.Token, f.NotAfter, max(f.MaxActive, 0),
		script.Flag(f.Mark), script.Flag(f.Waits), p.Limits, script.Flag(p.Ordered), script.Flag(p.ByType), script.Flag(f.Sweep), script.Flag(f.BeforeSort))
	for _, e := range f.Ended {
		c.Arg(e.Partition, e.ID)
	}
	return c
}
