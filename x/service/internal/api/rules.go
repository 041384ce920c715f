package api

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq"
)

// QueueRule holds the settings of a queue. MaxRetry, Timeout and Retention apply to tasks that do
// not set them.
type QueueRule struct {
	// MaxRun is the maximum number of active tasks of the queue. Zero means no limit.
	MaxRun int

	// InOrder processes one task at a time, in order: no task overtakes one that waits for its
	// retry. See asynq.QueueConfig.Ordered. It excludes MaxRun > 1.
	InOrder bool

	// Partitions divides the queue by partition_key, or by type. See asynq.PartitionConfig. It
	// excludes InOrder.
	Partitions *asynq.PartitionConfig

	// Weight of the queue when a worker receives from several queues. The default is 1.
	Weight int

	// MaxRetry, Timeout and Retention are the defaults of the options of these names. If nil, the
	// defaults of the library apply.
	MaxRetry  *int
	Timeout   *time.Duration
	Retention *time.Duration

	// Archive limits the archive of the queue. A field that is zero has the value of the field of
	// Config.Archive.
	Archive asynq.ArchiveConfig
}

// maxMaxRetry is the largest value that a task record holds.
const maxMaxRetry = math.MaxInt32

// Check validates the rule.
func (q *QueueRule) Check() error {
	switch {
	case q.MaxRun < 0:
		return fmt.Errorf("max_run %d is negative", q.MaxRun)
	case q.InOrder && q.MaxRun > 1:
		return fmt.Errorf("in_order and max_run %d contradict each other: remove one", q.MaxRun)
	case q.InOrder && q.Partitions != nil:
		return errors.New("in_order orders the whole queue and excludes partitions: set in_order under partitions, or remove one")
	case q.Weight < 0:
		return fmt.Errorf("weight %d is negative", q.Weight)
	case q.MaxRetry != nil && *q.MaxRetry < 0:
		return fmt.Errorf("max_retry %d is negative", *q.MaxRetry)
	case q.MaxRetry != nil && *q.MaxRetry > maxMaxRetry:
		return fmt.Errorf("max_retry %d exceeds the maximum of %d", *q.MaxRetry, maxMaxRetry)
	case q.Timeout != nil && *q.Timeout < 0:
		return fmt.Errorf("timeout %v is negative", *q.Timeout)
	case q.Retention != nil && *q.Retention < 0:
		return fmt.Errorf("retention %v is negative", *q.Retention)
	}
	if q.Partitions != nil {
		if err := q.Partitions.Validate(); err != nil {
			return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "asynq: "))
		}
	}
	return CheckArchive(q.Archive)
}

// CheckArchive validates the limits of an archive.
func CheckArchive(a asynq.ArchiveConfig) error {
	switch {
	case a.MaxTasks < 0:
		return fmt.Errorf("archive: max_tasks %d is negative", a.MaxTasks)
	case a.MaxAge < 0:
		return fmt.Errorf("archive: max_age %v is negative", a.MaxAge)
	}
	return nil
}

// Limits returns the limits of the queue. archive has those of all archives.
func (q *QueueRule) Limits(archive asynq.ArchiveConfig) asynq.QueueConfig {
	archive.MaxTasks = cmp.Or(q.Archive.MaxTasks, archive.MaxTasks)
	archive.MaxAge = cmp.Or(q.Archive.MaxAge, archive.MaxAge)
	return asynq.QueueConfig{Concurrency: q.MaxRun, Ordered: q.InOrder, Partitions: q.Partitions, Archive: archive}
}

func (q *QueueRule) options() []asynq.Option {
	var opts []asynq.Option
	if q.MaxRetry != nil {
		opts = append(opts, asynq.MaxRetry(*q.MaxRetry))
	}
	if q.Timeout != nil {
		opts = append(opts, asynq.Timeout(*q.Timeout))
	}
	if q.Retention != nil {
		opts = append(opts, asynq.Retention(*q.Retention))
	}
	return opts
}

// Rules are the settings that requests are checked against. They are immutable.
type Rules struct {
	Queues     map[string]QueueRule
	Only       bool // reject all other queues
	TaskQueues map[string]string

	MaxBody    int64
	MaxBatch   int
	MaxTake    int
	MaxWait    time.Duration
	MaxWaiting int
	Shared     bool // more than one token may wait
}

// QueueOf returns the default queue of a task type.
func (r *Rules) QueueOf(typename string) string {
	if queue, ok := r.TaskQueues[typename]; ok {
		return queue
	}
	queue, longest := typename, -1
	for pattern, q := range r.TaskQueues {
		if start, ok := strings.CutSuffix(pattern, "*"); ok && len(start) > longest && strings.HasPrefix(typename, start) {
			queue, longest = q, len(start)
		}
	}
	return queue
}

// Known reports whether the configuration permits the queue.
func (r *Rules) Known(queue string) bool {
	if !r.Only {
		return true
	}
	_, ok := r.Queues[queue]
	return ok
}

// Reserved reports whether the service itself serves a path.
func Reserved(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "v1", "metrics", "healthz", "readyz", "openapi.json":
		return true
	}
	return false
}

// CheckQueueName returns an error if name is not a valid queue name.
func CheckQueueName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return errors.New("a queue name must not be blank")
	case strings.HasPrefix(name, "}"):
		return errors.New("a queue name must not begin with }")
	case !utf8.ValidString(name):
		return errors.New("a queue name must be UTF-8")
	}
	return nil
}
