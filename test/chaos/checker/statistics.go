package checker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// counted returns the counters of a queue.
func (c *checker) counted(queue string) *QueueCount {
	n := c.counts[queue]
	if n == nil {
		n = &QueueCount{Queue: queue}
		c.counts[queue] = n
	}
	return n
}

// archivedCount returns the number of archived tasks of a queue at the end.
func (c *checker) archivedCount(queue string) int {
	if c.archivedCounts == nil {
		c.archivedCounts = make(map[string]int)
		for _, t := range c.timeline.order {
			if t.outcome != nil && t.outcome.State == "archived" {
				c.archivedCounts[t.queue()]++
			}
		}
	}
	return c.archivedCounts[queue]
}

// count adds the expected contribution of a task to the statistics of its queue. Each attempt
// counts once, when it ends: a failed one in both counters and in Retried, except the last one,
// which has no retry.
func (c *checker) count(t *task, f outcome) {
	n := c.counted(t.queue())
	add := func(minProcessed, maxProcessed, minFailures, maxFailures int) {
		n.MinProcessed += minProcessed
		n.MaxProcessed += maxProcessed
		n.MinFailures += minFailures
		n.MaxFailures += maxFailures
	}
	if o := t.outcome; o != nil {
		switch f {
		case completed:
			add(o.Retried+1, o.Retried+1, o.Retried, o.Retried)
		case archived:
			add(o.Retried+1, o.Retried+1, o.Retried+1, o.Retried+1)
		default:
			add(o.Retried, o.Retried, o.Retried, o.Retried)
		}
		return
	}
	r := t.last()
	if r == nil {
		return
	}
	lowest, highest := r.started.Retried, r.started.Retried
	for _, r := range t.runs {
		lowest, highest = min(lowest, r.started.Retried), max(highest, r.started.Retried)
	}
	switch {
	case f == trimmed:
		limit, _ := t.maxRetry()
		add(limit+1, limit+1, limit+1, limit+1)
	case f == gone && r.succeeded() && c.undone(t, r):
		add(0, highest+1, 0, highest)
	case f == gone && r.succeeded() && !c.isStaleAtStart(r):
		add(r.started.Retried+1, r.started.Retried+1, r.started.Retried, r.started.Retried)
	case f == gone:
		// It is unknown which of its runs Redis accepted.
		add(lowest, highest+1, lowest, highest+1)
	default:
		add(0, highest+1, 0, highest+1)
	}
}

// undone reports whether a fault may have lost a task with all its effects: it was enqueued and
// fetched for its last run within the lost period. The run may have ended afterwards, when Redis no
// longer had the task.
func (c *checker) undone(t *task, r *run) bool {
	from, until := c.entered(t)
	return c.faults.loss(from, until) != nil && c.faults.loss(c.faults.fetched(r.started.Process, r.started.At), r.started.At) != nil
}

// statistics compares the counters of each queue with the contributions of its tasks.
func (c *checker) statistics() {
	for queue := range c.timeline.queues {
		c.counted(queue)
	}
	for queue, n := range c.counts {
		e := c.timeline.queues[queue]
		if e == nil {
			if n.MaxProcessed > 0 {
				c.timeline.odd["queue without statistics"]++
			}
			continue
		}
		n.Processed, n.Failures = e.Processed, e.Failures
		c.report.Queues = append(c.report.Queues, *n)
	}
	slices.SortFunc(c.report.Queues, func(a, b QueueCount) int { return strings.Compare(a.Queue, b.Queue) })
	for _, n := range c.report.Queues {
		e := c.timeline.queues[n.Queue]
		c.compare(e, "processed", n.Processed, n.MinProcessed, n.MaxProcessed)
		c.compare(e, "failures", n.Failures, n.MinFailures, n.MaxFailures)
	}
}

// compare compares one counter with its expected value.
func (c *checker) compare(e *history.Event, counter string, got, least, most int) {
	if got >= least && got <= most {
		return
	}
	want := fmt.Sprint(least)
	if most > least {
		want = fmt.Sprintf("%d to %d", least, most)
	}
	c.violation(Statistics, "", e.Queue, fmt.Sprintf("Redis counts %d %s, but the attempts of its tasks are %s.", got, counter, want), e)
}

// recoveries summarizes how long tasks waited after their process had died.
func (c *checker) recoveries() {
	for name, waits := range c.waits {
		slices.Sort(waits)
		c.report.Recoveries = append(c.report.Recoveries, Recovery{
			Name: name, N: len(waits), P50: time.Duration(waits[(len(waits)-1)/2]), Max: time.Duration(waits[len(waits)-1]),
		})
	}
	slices.SortFunc(c.report.Recoveries, func(a, b Recovery) int { return strings.Compare(a.Name, b.Name) })
}
