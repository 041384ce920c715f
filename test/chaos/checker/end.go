package checker

import (
	"fmt"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// outcome is the outcome of a task.
type outcome int

const (
	nothing   outcome = iota // it never existed, or other tasks determine it
	absent                   // it may never have existed
	completed                // it exists
	archived                 // it exists
	gone                     // it succeeded, or what it was aggregated into ended
	trimmed                  // it was archived
	waiting                  // it exists and has not ended
	excused                  // a fault explains its loss
	missing                  // nothing explains its loss
)

// entered returns the interval in which a task was created, if it was. An aggregated task is
// created when its last member exists.
func (c *checker) entered(t *task) (from, until int64) {
	from, until = t.entered()
	if t.offered != nil || len(t.members) == 0 {
		return from, until
	}
	from = 0
	for _, id := range t.members {
		if m := c.timeline.tasks[id]; m != nil {
			at, _ := m.entered()
			from = max(from, min(at, until))
		}
	}
	return from, until
}

// end checks the outcome of a task.
func (c *checker) end(t *task, ends map[*task]outcome) outcome {
	if t.outcome != nil {
		return c.there(t)
	}
	if t.refused() || t.offered == nil && t.accepted == nil && t.answer == nil && len(t.runs) == 0 {
		return nothing
	}
	if grouped(t) {
		if f, ok := c.aggregated(t, ends); ok {
			return f
		}
	}
	if s := t.success(); s != nil {
		return c.succeeded(t, s)
	}
	if len(t.runs) == 0 && t.accepted == nil {
		if grouped(t) && len(t.groups) > 0 {
			// It existed: treat it as accepted.
			return c.missed(t)
		}
		c.report.Absent++
		return absent
	}
	return c.missed(t)
}

// aggregated derives the outcome of a member from its aggregated tasks; false if they do not
// determine it.
func (c *checker) aggregated(t *task, ends map[*task]outcome) (outcome, bool) {
	open := false
	for _, group := range t.groups {
		switch ends[group] {
		case completed, archived, gone, trimmed:
			c.report.Gone++
			return gone, true
		case waiting, missing:
			open = true
		}
	}
	// The violation of the aggregated task stands for its members.
	return nothing, open
}

// there checks a task that exists at the end.
func (c *checker) there(t *task) outcome {
	switch t.outcome.State {
	case "completed":
		c.report.Completed++
		c.completed(t)
		return completed
	case "archived":
		c.report.Archived++
		c.archived(t)
		return archived
	}
	c.report.Waiting++
	events := []*history.Event{t.offered, t.accepted}
	if r := t.last(); r != nil {
		events = append(events, r.started, r.finished)
	}
	c.wrong(NotDone, t, fmt.Sprintf("At the end, when no more progress was expected, it is %q.", t.outcome.State), append(events, t.outcome)...)
	return waiting
}

// completed checks a task that was retained after its success.
func (c *checker) completed(t *task) {
	s := t.success()
	if s == nil {
		c.wrong(NoSuccess, t, "It is completed, but none of its runs returned without an error.", t.offered, t.outcome)
		return
	}
	c.plan(t, s)
	for _, r := range t.runs {
		if r.succeeded() && r.started.Retried == t.outcome.Retried {
			return
		}
	}
	c.wrong(Jump, t, fmt.Sprintf("It is completed with %d retries used, unlike any of its successful runs.", t.outcome.Retried), s.started, s.finished, t.outcome)
}

// plan checks whether a task could succeed at all.
func (c *checker) plan(t *task, s *run) {
	if t.offered != nil && failing(t.offered.Plan) {
		c.wrong(AgainstPlan, t, "All steps of its plan fail, but it succeeded.", t.offered, s.started, s.finished)
	}
}

// archived checks whether the runs of a task lead to the archive.
func (c *checker) archived(t *task) {
	at, failures := t.outcome.At, t.outcome.Retried+1
	if limit, ok := t.maxRetry(); ok && t.outcome.Retried != limit {
		c.wrong(ArchivedEarly, t, fmt.Sprintf("It is archived with %d of %d retries used.", t.outcome.Retried, limit), t.offered, t.outcome)
		return
	}
	r := t.last()
	if r == nil {
		from, _ := c.entered(t)
		if most := c.faults.unseen(from, at); !c.rules.CrashCounts || failures > most {
			c.wrong(ArchivedWrong, t, fmt.Sprintf("It is archived after %d failures, but has no runs, and faults explain at most %d attempts.", failures, most),
				t.offered, t.outcome)
		}
		return
	}
	because := c.notLed(r, at, failures)
	if because == "" || c.earlier(t, len(t.runs), func(r *run) bool { return c.notLed(r, at, failures) == "" }) != nil {
		return
	}
	c.wrong(ArchivedWrong, t, because, r.started, r.finished, t.outcome)
}

// notLed returns why a task cannot have been archived after a run with this number of failures; ""
// if it can.
func (c *checker) notLed(r *run, at int64, failures int) string {
	v := c.evaluate(r, at)
	switch {
	case v.overlap && v.cause == "":
		return fmt.Sprintf("It is archived, but run %s has no recorded end, and its process is running.", r.started.Run)
	case v.certain && r.succeeded():
		return fmt.Sprintf("It is archived, but its last run %s succeeded, and nothing prevented the outcome from reaching Redis.", r.started.Run)
	}
	// Fewer failures than its last run reported need no rule: it would have used more retries than
	// it has.
	if most := v.max + c.unseen(r, v, at); failures-r.started.Retried > most {
		return fmt.Sprintf("It is archived after %d failures; its last run was attempt %d, and that run and the faults since then explain at most %d failures.",
			failures, r.started.Retried+1, most)
	}
	return ""
}

// succeeded checks a task that is gone after a successful run.
func (c *checker) succeeded(t *task, s *run) outcome {
	c.plan(t, s)
	if t.offered != nil && t.offered.Retention > 0 && s.finished.At+int64(t.offered.Retention) > c.timeline.until {
		from, until := c.entered(t)
		if l := c.faults.loss(from, until); l != nil {
			c.report.Losses[l.name]++
			return excused
		}
		c.wrong(NotKept, t, fmt.Sprintf("It succeeded and must be retained for %v, but it is gone.", t.offered.Retention), t.offered, s.started, s.finished)
		return gone
	}
	c.report.Gone++
	return gone
}

// missed checks a task that existed and is gone without a success.
func (c *checker) missed(t *task) outcome {
	from, until := c.entered(t)
	if l := c.faults.loss(from, until); l != nil {
		c.report.Losses[l.name]++
		return excused
	}
	events := []*history.Event{t.offered, t.accepted}
	because := "It is gone, and never ran."
	switch r := t.last(); {
	case grouped(t) && len(t.groups) == 0:
		because = "It is gone, and no aggregated task names it as a member."
	case grouped(t):
		because = "It is gone, and what it was aggregated into was lost with a fault that came after the group had it."
	case r != nil:
		if c.trims(t, r) {
			c.report.Trimmed++
			return trimmed
		}
		because = "It is gone, and none of its runs returned without an error."
		events = append(events, r.started, r.finished)
	}
	c.wrong(Lost, t, because+" No fault explains the loss of what was accepted then.", events...)
	return missing
}

// trims reports whether a task may have been archived after its last run and trimmed since then.
func (c *checker) trims(t *task, r *run) bool {
	limit, ok := t.maxRetry()
	if !ok || c.rules.ArchiveSize <= 0 || c.archivedCount(t.queue()) < c.rules.ArchiveSize {
		return false
	}
	v := c.evaluate(r, c.timeline.until)
	return r.started.Retried+v.max+c.unseen(r, v, c.timeline.until) > limit
}
