package api

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq"
)

// QueueRule is what is set for a queue. The defaults are for tasks whose clients say nothing about it.
type QueueRule struct {
	// MaxRun is how many tasks of the queue may be worked on at the same time. Zero: any number.
	MaxRun int

	// InOrder has one task of the queue worked on at a time, and no other overtake one that waits for its retry: asynq.InOrder. MaxRun is
	// then 0 or 1.
	InOrder bool

	// Weight of the queue where a worker takes from several. Default: 1.
	Weight int

	// MaxRetry, Timeout and Retention are the defaults of the options of these names. Nil: the defaults of the library.
	MaxRetry  *int
	Timeout   *time.Duration
	Retention *time.Duration
}

// maxMaxRetry is the most that the record of a task holds.
const maxMaxRetry = math.MaxInt32

// Check tells what is wrong with the rule.
func (q *QueueRule) Check() error {
	switch {
	case q.MaxRun < 0:
		return fmt.Errorf("max_run %d is less than zero", q.MaxRun)
	case q.InOrder && q.MaxRun > 1:
		return fmt.Errorf("in_order and max_run %d contradict each other: leave one of them out", q.MaxRun)
	case q.Weight < 0:
		return fmt.Errorf("weight %d is less than zero", q.Weight)
	case q.MaxRetry != nil && *q.MaxRetry < 0:
		return fmt.Errorf("max_retry %d is less than zero", *q.MaxRetry)
	case q.MaxRetry != nil && *q.MaxRetry > maxMaxRetry:
		return fmt.Errorf("max_retry %d is more than %d, the most that a task can have", *q.MaxRetry, maxMaxRetry)
	case q.Timeout != nil && *q.Timeout < 0:
		return fmt.Errorf("timeout %v is less than zero", *q.Timeout)
	case q.Retention != nil && *q.Retention < 0:
		return fmt.Errorf("retention %v is less than zero", *q.Retention)
	}
	return nil
}

// Limit is how many tasks of the queue may be active at the same time, as asynq.Config.QueueConcurrency has it; 0 if there is no limit.
func (q *QueueRule) Limit() int {
	if q.InOrder {
		return asynq.InOrder
	}
	return q.MaxRun
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

// Rules are what requests are held against: one configuration. They do not change.
type Rules struct {
	Queues     map[string]QueueRule
	Only       bool // no other queues than these
	TaskQueues map[string]string

	MaxBody    int64
	MaxBatch   int
	MaxTake    int
	MaxWait    time.Duration
	MaxWaiting int
	Shared     bool // several tokens may wait
}

// QueueOf is the queue of tasks of a type, where the client names none.
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

// Known reports whether the configuration lets anybody use the queue.
func (r *Rules) Known(queue string) bool {
	if !r.Only {
		return true
	}
	_, ok := r.Queues[queue]
	return ok
}

// Reserved reports whether the service itself answers at a path, or below it.
func Reserved(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "v1", "metrics", "healthz", "readyz", "openapi.json":
		return true
	}
	return false
}

// CheckQueueName tells why a queue cannot have this name.
func CheckQueueName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return errors.New("the name of a queue must not be blank")
	case strings.HasPrefix(name, "}"):
		return errors.New("the name of a queue must not begin with }")
	case !utf8.ValidString(name):
		return errors.New("the name of a queue must be UTF-8")
	}
	return nil
}
