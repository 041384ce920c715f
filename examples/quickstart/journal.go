package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/asynq-go/asynq"
)

// counts holds the outcomes of a run.
type counts struct {
	enqueued   int // accepted by Redis
	duplicates int // refused as duplicates
	processed  int // attempts that ended
	failed     int // attempts that ended with an error
	retried    int // attempts that followed a failed one
	succeeded  int // attempts that ended without an error
	withResult int // completed tasks that hold a result
}

// expected holds the outcomes of a successful run.
var expected = counts{
	enqueued: 5, duplicates: 1, processed: 6, failed: 1, retried: 1, succeeded: 5, withResult: 1,
}

// check returns an error for each count that is not as expected.
func (c counts) check() error {
	var errs []error
	want := expected.rows()
	for i, row := range c.rows() {
		if row.n != want[i].n {
			errs = append(errs, fmt.Errorf("%s: %d, want %d", row.name, row.n, want[i].n))
		}
	}
	return errors.Join(errs...)
}

// A row is one line of the summary.
type row struct {
	name string
	n    int
}

func (c counts) rows() []row {
	return []row{
		{"enqueued", c.enqueued},
		{"duplicates refused", c.duplicates},
		{"processed", c.processed},
		{"failed attempts", c.failed},
		{"retried", c.retried},
		{"succeeded", c.succeeded},
		{"with result", c.withResult},
	}
}

// A journal prints one line for each event, with the time since the start, and counts the events.
// It is not safe for concurrent use.
type journal struct {
	out   io.Writer
	start time.Time
	got   counts
}

func newJournal(out io.Writer) *journal {
	return &journal{out: out, start: time.Now()}
}

func (j *journal) title(s string) {
	fmt.Fprintf(j.out, "%s\n\n", s)
}

func (j *journal) line(what, typename, text string) {
	fmt.Fprintf(j.out, "%7.3f s  %-9s  %-15s  %s\n", time.Since(j.start).Seconds(), what, typename, text)
}

func (j *journal) enqueue(t *asynq.Task, note string, info *asynq.TaskInfo) {
	j.got.enqueued++
	j.line("enqueued", t.Type(), fmt.Sprintf("%s (%s, %s)", t.Payload(), info.State, note))
}

func (j *journal) duplicate(t *asynq.Task, note string, err error) {
	j.got.duplicates++
	j.line("refused", t.Type(), fmt.Sprintf("%s: %v", note, err))
}

// handle prints and counts the start or the end of an attempt.
func (j *journal) handle(e event) {
	attempt := fmt.Sprintf("attempt %d", e.retried+1)
	if !e.ended {
		if e.retried > 0 {
			j.got.retried++
		}
		j.line("started", e.task.Type(), attempt)
		return
	}
	j.got.processed++
	if e.err != nil {
		j.got.failed++
		j.line("failed", e.task.Type(), fmt.Sprintf("%s: %v; retry in %v", attempt, e.err, retryDelay))
		return
	}
	j.got.succeeded++
	j.line("succeeded", e.task.Type(), attempt)
}

func (j *journal) result(info *asynq.TaskInfo) {
	j.got.withResult++
	j.line("result", info.Type, string(info.Result))
}

func (j *journal) summary() {
	fmt.Fprintf(j.out, "\nSummary after %.1f s\n", time.Since(j.start).Seconds())
	for _, row := range j.got.rows() {
		fmt.Fprintf(j.out, "  %-18s  %d\n", row.name, row.n)
	}
}
