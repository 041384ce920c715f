package metrics

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
)

var (
	queuePartitions = queueDesc("queue_partitions", "Partitions with held or active tasks.")
	partitionTasks  = queueDesc("partition_tasks", "Held and active tasks of the partitions with the most of them.", "partition", "state")
	partitionWait   = queueDesc("partition_wait_seconds", "Age of the first held task of a partition; 0 if there is none.", "partition")
)

// mostPartitions is the number of partitions of a queue that a scrape reads.
const mostPartitions = 20_000

// partitionReader reads the partitions of all queues.
type partitionReader struct{ most int } // limit of the partitions with series of their own

// partitionSums are the tasks of a partition, or of all others of a queue.
type partitionSums struct {
	queue, label string
	held, active int
	wait         float64 // in seconds
}

// collect reads the partitions and sends the metrics of those with the most tasks. Queues without
// partitions have no series. It returns the errors of queues that it could not read.
func (r *partitionReader) collect(ctx context.Context, i *asynq.Inspector, ch chan<- prometheus.Metric) error {
	queues, err := i.WithContext(ctx).Queues()
	if err != nil {
		return err
	}
	var all []*partitionSums
	var failed []error
	for _, queue := range queues {
		found, err := readPartitions(ctx, i, queue)
		if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
			failed = append(failed, err)
		} else if len(found) > 0 {
			ch <- gauge(queuePartitions, float64(len(found)), label(queue))
			all = append(all, found...)
		}
	}
	slices.SortStableFunc(all, func(a, b *partitionSums) int { return cmp.Compare(b.held+b.active, a.held+a.active) })
	others := make(map[string]*partitionSums)
	for _, p := range all[min(len(all), r.most):] {
		sum := others[p.queue]
		if sum == nil {
			sum = &partitionSums{queue: p.queue, label: other}
			others[p.queue] = sum
		}
		sum.held, sum.active, sum.wait = sum.held+p.held, sum.active+p.active, max(sum.wait, p.wait)
	}
	for _, p := range all[:min(len(all), r.most)] {
		p.send(ch)
	}
	for _, p := range others {
		p.send(ch)
	}
	return errors.Join(failed...)
}

// readPartitions returns the partitions of a queue with tasks.
func readPartitions(ctx context.Context, i *asynq.Inspector, queue string) (found []*partitionSums, err error) {
	for p, err := range i.Partitions(ctx, queue) {
		if err != nil {
			return nil, err
		}
		if len(found) == mostPartitions {
			break
		}
		found = append(found, &partitionSums{label(queue), partitionLabel(p.Key), p.Held, p.Active, p.Latency.Seconds()})
	}
	return found, nil
}

// partitionLabel returns the label of a partition. A key that is the label of all others is quoted.
func partitionLabel(key string) string {
	if key == other {
		return strconv.Quote(key)
	}
	return label(key)
}

func (p *partitionSums) send(ch chan<- prometheus.Metric) {
	ch <- gauge(partitionTasks, float64(p.held), p.queue, p.label, "held")
	ch <- gauge(partitionTasks, float64(p.active), p.queue, p.label, "active")
	ch <- gauge(partitionWait, p.wait, p.queue, p.label)
}
