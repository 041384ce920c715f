package node

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// The prefixes of the names of queues with partitions.
const (
	LimitedQueue = "limited" // a few tasks of a partition at once
	CappedQueue  = "capped"  // the same, and a rate
	OrderedQueue = "ordered" // the tasks of a partition in order
)

// partitionKeys is the number of partitions of a queue.
const partitionKeys = 100

// limitsOf returns the limits of the partitions of a queue; nil if it has none.
func limitsOf(queue string) *history.Limits {
	switch {
	case strings.HasPrefix(queue, LimitedQueue):
		return &history.Limits{Concurrency: 2}
	case strings.HasPrefix(queue, CappedQueue):
		return &history.Limits{Concurrency: 2, Interval: 20 * time.Millisecond, Burst: 3}
	case strings.HasPrefix(queue, OrderedQueue):
		return &history.Limits{Concurrency: 1, Ordered: true}
	}
	return nil
}

// assign assigns the task to a partition of its queue, if the queue has partitions. One of them is
// that of the tasks without a key.
func (t *task) assign(r *rand.Rand) {
	l := limitsOf(t.queue)
	if l == nil {
		return
	}
	if key := r.IntN(partitionKeys); key > 0 {
		t.partition = fmt.Sprint("key", key)
	}
	if t.group = ""; l.Ordered {
		t.delay, t.unique = 0, 0
	}
}
