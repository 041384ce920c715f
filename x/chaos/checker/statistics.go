package checker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/chaos/history"
)

// counted returns the numbers of a queue.
func (c *checker) counted(queue string) *QueueCount {
	n := c.counts[queue]
	if n == nil {
		n = &QueueCount{Queue: queue}
		c.counts[queue] = n
	}
	return n
}

// full returns how many archived tasks of a queue are there at the end.
func (c *checker) full(queue string) int {
	if c.shelves == nil {
		c.shelves = make(map[string]int)
		for _, t := range c.story.order {
			if t.outcome != nil && t.outcome.State == "archived" {
				c.shelves[t.queue()]++
			}
		}
	}
	return c.shelves[queue]
}

// count adds what a task must have added to the statistics of its queue. Each attempt is counted once, with its end: a failed one in
// both counters and in Retried, but for the last one, which has no retry after it.
func (c *checker) count(t *task, f fate) {
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
	case f == gone && r.succeeded() && !c.isDoubtful(r):
		add(r.started.Retried+1, r.started.Retried+1, r.started.Retried, r.started.Retried)
	case f == gone:
		// It is not known which of its runs Redis took.
		add(lowest, highest+1, lowest, highest+1)
	default:
		add(0, highest+1, 0, highest+1)
	}
}

// undone reports whether a fault may have lost a task with all that it did: it came, and was fetched for its last run, within the time
// that is lost. The run may well have ended after that, and then Redis knew nothing of it.
func (c *checker) undone(t *task, r *run) bool {
	from, until := c.entered(t)
	return c.trouble.loss(from, until) != nil && c.trouble.loss(c.trouble.fetched(r.started.Process, r.started.At), r.started.At) != nil
}

// statistics compares each queue's counters with what its tasks must have added.
func (c *checker) statistics() {
	for queue := range c.story.queues {
		c.counted(queue)
	}
	for queue, n := range c.counts {
		e := c.story.queues[queue]
		if e == nil {
			if n.MaxProcessed > 0 {
				c.story.odd["queue without statistics"]++
			}
			continue
		}
		n.Processed, n.Failures = e.Processed, e.Failures
		c.report.Queues = append(c.report.Queues, *n)
	}
	slices.SortFunc(c.report.Queues, func(a, b QueueCount) int { return strings.Compare(a.Queue, b.Queue) })
	for _, n := range c.report.Queues {
		e := c.story.queues[n.Queue]
		c.compare(e, "processed", n.Processed, n.MinProcessed, n.MaxProcessed)
		c.compare(e, "failures", n.Failures, n.MinFailures, n.MaxFailures)
	}
}

// compare holds one counter against what it must be.
func (c *checker) compare(e *history.Event, counter string, got, least, most int) {
	if got >= least && got <= most {
		return
	}
	want := fmt.Sprint(least)
	if most > least {
		want = fmt.Sprintf("%d to %d", least, most)
	}
	c.violation(Statistics, "", e.Queue, fmt.Sprintf("Redis counts %d %s, and the attempts of its tasks are %s.", got, counter, want), e)
}

// recoveries sums up how long tasks waited after their process had died.
func (c *checker) recoveries() {
	for name, waits := range c.waits {
		slices.Sort(waits)
		c.report.Recoveries = append(c.report.Recoveries, Recovery{
			Name: name, N: len(waits), P50: time.Duration(waits[(len(waits)-1)/2]), Max: time.Duration(waits[len(waits)-1]),
		})
	}
	slices.SortFunc(c.report.Recoveries, func(a, b Recovery) int { return strings.Compare(a.Name, b.Name) })
}
