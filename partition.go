package asynq

import (
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// PartitionConfig configures the partitions of a queue: the tasks with the same PartitionKey are
// one partition, and those without a key are another one. Partitions with waiting tasks share the
// queue fairly: each gets the same number of starts, or a number that is proportional to its
// weight, no matter how many tasks wait. A partition that was idle gains no credit.
//
// All servers and receivers of the queue must set the same PartitionConfig. Servers without it, and
// those of other libraries, process the queue in its order, and the limits do not apply to them.
//
// A task that waits because of its partition is held: other libraries, which do not know held
// tasks, see it as scheduled in a day, and can run, archive and delete it. See TaskInfo.IsHeld and
// QueueInfo.Held.
//
// The limits are those of each partition, unless Inspector.SetPartition sets others for a key.
type PartitionConfig struct {
	// Concurrency is the maximum number of active tasks of a partition across all servers, at most
	// 1,000. If zero or negative, there is no limit. The place of a task whose server crashed
	// becomes free when the task is recovered.
	Concurrency int

	// Rate limits how often tasks of a partition start. The zero value means no limit.
	Rate RateLimit

	// Ordered processes the tasks of a partition one at a time and in order: each task succeeds, is
	// archived or is deleted before the next one of its partition starts, also if it is retried or
	// its server crashes. Other partitions do not wait for it. Concurrency must be 0 or 1.
	Ordered bool

	// ByType partitions the queue by the type of the tasks instead of their PartitionKey.
	ByType bool

	// Weight is the weight of partitions for which Inspector.SetPartition sets none. The default
	// is 1.
	Weight float64
}

// RateLimit limits how many tasks of a partition start in a period: in any period t, at most Burst
// + t·Events/Per. It is the generic cell rate algorithm (GCRA, ITU-T I.371) by the clock of Redis.
type RateLimit struct {
	// Events is the number of starts in each Per, from 1 to 1,000,000.
	Events int

	// Per is a period in whole microseconds, up to 24 hours.
	Per time.Duration

	// Burst is the number of tasks that may start at once after an idle period, up to 1,000,000.
	// The default is 1: starts are Per/Events apart.
	Burst int
}

const (
	maxPartitionConcurrency = 1000
	maxRateEvents           = 1_000_000
	maxRatePeriod           = 24 * time.Hour
	maxPartitionWeight      = 1_000_000
)

// validate returns an error if a limit that is set is out of range.
func (r RateLimit) validate() error {
	switch {
	case r == RateLimit{}:
		return nil
	case r.Events < 1 || r.Events > maxRateEvents:
		return fmt.Errorf("the Events of a Rate must be from 1 to 1,000,000, not %d", r.Events)
	case r.Per < time.Microsecond || r.Per > maxRatePeriod || r.Per%time.Microsecond != 0:
		return fmt.Errorf("the Per of a Rate must be whole microseconds, from 1µs to 24h, not %v", r.Per)
	case r.Burst < 0 || r.Burst > maxRateEvents:
		return fmt.Errorf("the Burst of a Rate must be from 0 to 1,000,000, not %d", r.Burst)
	case float64(r.Per)*float64(max(r.Burst, 1))/float64(r.Events) > float64(maxRatePeriod):
		return errors.New("a Rate must refill its Burst within 24h")
	}
	return nil
}

// validWeight returns an error if a weight that is set is out of range.
func validWeight(w float64) error {
	if w != 0 && !(w >= 1/float64(maxPartitionWeight) && w <= maxPartitionWeight) {
		return fmt.Errorf("a Weight must be from 0.000001 to 1,000,000, not %v", w)
	}
	return nil
}

// Validate returns an error if a limit is out of range, or if limits exclude each other. NewServer
// and NewReceiver panic with it.
func (c *PartitionConfig) Validate() error {
	if _, err := c.partitions(); err != nil {
		return fmt.Errorf("asynq: partitions: %w", err)
	}
	return nil
}

// partitions returns the configuration for the broker.
func (c *PartitionConfig) partitions() (*rdb.Partitions, error) {
	if err := c.Rate.validate(); err != nil {
		return nil, err
	}
	if err := validWeight(c.Weight); err != nil {
		return nil, err
	}
	n := max(c.Concurrency, 0)
	switch {
	case n > maxPartitionConcurrency:
		return nil, fmt.Errorf("the Concurrency of a partition must be at most 1,000, not %d", n)
	case c.Ordered && n > 1:
		return nil, fmt.Errorf("an Ordered partition processes one task at a time: its Concurrency must be 0 or 1, not %d", n)
	case c.Ordered:
		n = 1
	}
	l := wire.PartitionLimits{Concurrency: n, Events: c.Rate.Events, Per: c.Rate.Per, Burst: c.Rate.Burst, Weight: c.Weight}
	if l.Weight == 0 {
		l.Weight = 1
	}
	return &rdb.Partitions{
		Limits: l.Encode(wire.SetsConcurrency | wire.SetsRate | wire.SetsWeight), Ordered: c.Ordered, ByType: c.ByType,
	}, nil
}

// partitionConfig returns the configuration that a server has published.
func partitionConfig(p wire.QueuePartitions) PartitionConfig {
	l, _ := wire.ParsePartitionLimits(p.Limits)
	c := PartitionConfig{Concurrency: l.Concurrency, Ordered: p.Ordered, ByType: p.ByType, Weight: l.Weight}
	if l.Events > 0 {
		c.Rate = RateLimit{Events: l.Events, Per: l.Per, Burst: l.Burst}
	}
	return c
}

// publishedPartitions returns the partitions of some queues as a server publishes them, or nil if
// they have none.
func (srv *Server) publishedPartitions(queues map[string]int, partitions map[string]*rdb.Partitions) []byte {
	all := make(wire.ServerPartitions)
	for queue, p := range partitions {
		if queues[queue] > 0 {
			all[queue] = wire.QueuePartitions{Limits: p.Limits, Ordered: p.Ordered, ByType: p.ByType}
		}
	}
	if len(all) == 0 {
		return nil
	}
	encoded, err := all.Encode()
	if err != nil {
		srv.log.Error("partitions of the server not published", "error", err)
	}
	return encoded
}

// queuePartitions returns the partitions of the queues that have them.
func queuePartitions(configs map[string]QueueConfig) (map[string]*rdb.Partitions, error) {
	var all map[string]*rdb.Partitions
	for queue, c := range configs {
		if c.Partitions == nil {
			continue
		}
		if c.Ordered {
			return nil, fmt.Errorf("asynq: queue %q: Ordered and Partitions exclude each other: use Partitions.Ordered", queue)
		}
		p, err := c.Partitions.partitions()
		if err != nil {
			return nil, fmt.Errorf("asynq: queue %q: Partitions: %w", queue, err)
		}
		if all == nil {
			all = make(map[string]*rdb.Partitions)
		}
		all[queue] = p
	}
	return all, nil
}
