package checker

import (
	"fmt"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// place checks whether a task may exist at all, and counts it.
func (c *checker) place(t *task) {
	r := c.report
	r.Runs += len(t.runs)
	refused := t.refused()
	switch {
	case t.offered == nil && len(t.members) > 0:
		r.Aggregated++
	case t.offered == nil && t.accepted == nil && t.answer == nil:
		if len(t.runs) == 0 && t.outcome == nil {
			break
		}
		var started *history.Event
		if len(t.runs) > 0 {
			started = t.runs[0].started
		}
		c.wrong(Stranger, t, "No producer offered this task, and it names no members.", started, t.outcome)
	default:
		if t.offered == nil {
			c.timeline.odd["answer without an offer"]++
		}
		r.Offered++
		switch {
		case t.accepted != nil:
			r.Accepted++
		case refused:
			r.Refused++
		default:
			r.Unknown++
		}
	}
	if refused {
		c.refused(t)
	}
	c.elsewhere(t)
	c.early(t)
}

// refused checks a task whose producer received a definite error.
func (c *checker) refused(t *task) {
	switch {
	case len(t.runs) > 0:
		c.wrong(RefusedThere, t, "Its producer received a definite error, but it ran.", t.offered, t.answer, t.runs[0].started)
	case len(t.groups) > 0:
		c.wrong(RefusedThere, t, "Its producer received a definite error, but it was aggregated.", t.offered, t.answer, t.groups[0].runs[0].started)
	case t.outcome != nil:
		c.wrong(RefusedThere, t, "Its producer received a definite error, but it is.", t.offered, t.answer, t.outcome)
	}
}

// elsewhere checks whether a task was found only in its queue.
func (c *checker) elsewhere(t *task) {
	if t.outcomes > 1 {
		c.wrong(TwoPlaces, t, fmt.Sprintf("It was found %d times at the end, but an ID must be unique.", t.outcomes), t.offered, t.outcome)
	}
	queue := t.queue()
	if t.outcome != nil && t.outcome.Queue != queue {
		c.wrong(Stranger, t, fmt.Sprintf("It belongs to queue %q, but was found in %q.", queue, t.outcome.Queue), t.offered, t.outcome)
	}
	for _, r := range t.runs {
		if r.started.Queue != queue {
			c.wrong(Stranger, t, fmt.Sprintf("It belongs to queue %q, but ran in %q.", queue, r.started.Queue), t.offered, r.started)
			break
		}
	}
	if !grouped(t) {
		return
	}
	if len(t.runs) > 0 {
		c.wrong(MemberRan, t, "It is in a group, and only the task that it is aggregated into may run.", t.offered, t.runs[0].started)
	}
	for i := 1; i < len(t.groups); i++ {
		first, second := t.groups[0].runs[0].started, t.groups[i].runs[0].started
		from, _ := t.entered()
		if c.faults.loss(from, second.At) == nil {
			c.wrong(TwiceInGroups, t, "Two aggregated tasks name it as a member. A group hands its members over once, and nothing was lost that could have undone it.",
				t.offered, first, second)
		}
	}
}

// early checks whether a task, or its aggregated task, started before its delay was over. Only the
// first start matters.
func (c *checker) early(t *task) {
	if t.offered == nil || t.offered.Delay <= 0 {
		return
	}
	runs := t.runs
	for _, group := range t.groups {
		runs = append(runs[:len(runs):len(runs)], group.runs[0])
	}
	for _, r := range runs {
		due := t.offered.At + int64(t.offered.Delay)
		if r.started.At < due-int64(c.rules.ClockSkew) {
			c.wrong(Early, t, fmt.Sprintf("It was offered with a delay of %v, but started %s too early.", t.offered.Delay, seconds(due-r.started.At)),
				t.offered, r.started)
			return
		}
	}
}
