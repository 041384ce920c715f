package checker

import (
	"fmt"
	"math"

	"github.com/asynq-go/asynq/x/chaos/history"
)

// verdict says what may follow a run.
type verdict struct {
	overlap  bool   // it had not ended
	certain  bool   // nothing was in its way: its outcome reached Redis
	cause    string // what was in its way
	min, max int    // by how much it changes Retried
	died     bool   // the cause is the end of its process
}

// judge says what may follow a run, from what had happened by the time at.
func (c *checker) judge(r *run, at int64) verdict {
	t, start, process := c.trouble, r.started.At, r.started.Process
	v := verdict{overlap: r.finished == nil || r.finished.At > at}
	// by is when its outcome had reached Redis, had nothing been in its way. A process gives a task back shortly before it ends.
	by, latest := at, at
	if latest <= math.MaxInt64-t.slack {
		latest += t.slack
	}
	if !v.overlap {
		by = t.settledBy(process, r.finished.At)
		latest = by
	}
	death := t.death(process, start)
	if death <= latest {
		v.cause, v.died = t.blame(process, death), true
	} else if fault, ok := t.lapsed(process, start, by, at); ok {
		v.cause = fault
	} else if l := t.loss(t.fetched(process, start), min(by, at)); l != nil {
		v.cause = l.name
	} else if !v.overlap && r.lost != nil {
		v.cause = "lost lease"
	}
	crash := 0
	if c.rules.CrashCounts {
		crash = 1
	}
	switch {
	case v.overlap && v.cause == "":
		// Two runs at once: the caller says so.
		v.max = crash
	case v.overlap || v.cause != "" && r.succeeded():
		v.max = crash
	case v.cause != "":
		v.max = 1
	case r.succeeded():
		v.certain = true
	default:
		v.certain, v.min, v.max = true, 1, 1
	}
	return v
}

// unseen returns how many attempts may have gone by without a trace after a run, beside what the verdict has.
func (c *checker) unseen(r *run, v verdict, at int64) int {
	if !c.rules.CrashCounts {
		return 0
	}
	from := r.started.At
	if !v.overlap {
		from = r.finished.At
	}
	n := c.trouble.unseen(from, at)
	if v.cause != "" && n > 0 {
		n-- // what ended this run
	}
	return n
}

// chain judges the runs of a task, one after the other.
func (c *checker) chain(t *task) {
	limit, limited := t.maxRetry()
	for i, r := range t.runs {
		if limited && r.started.Retried > limit {
			c.wrong(TooManyRetries, t, fmt.Sprintf("It ran with %d retries used, and has %d.", r.started.Retried, limit), t.offered, r.started)
		}
		c.lease(r)
		if i == 0 {
			c.first(t, r)
		} else {
			c.follow(t, i, limit)
		}
	}
}

// lease judges whether the loss of a run's lease is explained.
func (c *checker) lease(r *run) {
	if r.lost == nil {
		return
	}
	c.report.LeasesLost++
	t, at := c.trouble, r.lost.At
	if _, ok := t.lapsed(r.started.Process, r.started.At, at, at+t.slack); ok {
		return
	}
	if t.loss(t.fetched(r.started.Process, r.started.At), at) != nil || t.death(r.started.Process, r.started.At) <= at+t.slack {
		return
	}
	c.wrong(LeaseLost, r.task, fmt.Sprintf("Its lease ended while process %s lived and had Redis, or had been without it for too short a time.", r.started.Process),
		r.started, r.lost)
}

// first judges how many retries a task had used before its first run.
func (c *checker) first(t *task, r *run) {
	from, _ := c.entered(t)
	most := 0
	if c.rules.CrashCounts {
		most = c.trouble.unseen(from, r.started.At)
	}
	if r.started.Retried < 0 || r.started.Retried > most {
		c.wrong(Jump, t, fmt.Sprintf("Its first run has %d retries used; faults explain %d at most.", r.started.Retried, most), t.offered, r.started)
	}
}

// doubtful returns the fault because of which Redis may have known nothing of a run when it started: its process fetched the task, and was
// silenced until the lease had ended, or Redis was set back behind the fetch. The outcome of such a run is refused.
func (c *checker) doubtful(r *run) (string, bool) {
	t, start, process := c.trouble, r.started.At, r.started.Process
	if fault, ok := t.lapsed(process, start, start, start); ok {
		return fault, true
	}
	if l := t.loss(t.fetched(process, start), start); l != nil {
		return l.name, true
	}
	return "", false
}

// isDoubtful reports whether a run is doubtful.
func (c *checker) isDoubtful(r *run) bool {
	_, ok := c.doubtful(r)
	return ok
}

// follow judges run i of a task by the one before it, or, if that is doubtful, by an earlier one.
func (c *checker) follow(t *task, i, limit int) {
	a, b := t.before(i), t.runs[i]
	at := b.started.At
	v := c.judge(a, at)
	if kind, because := c.clash(t, i, a, v, limit); kind != "" {
		if fault, ok := c.doubtful(b); ok {
			b.stale = true
			c.report.Repeats[fault]++
			return
		}
		earlier := c.earlier(t, i, func(r *run) bool {
			kind, _ := c.clash(t, i, r, c.judge(r, at), limit)
			return kind == ""
		})
		if earlier == nil {
			c.wrong(kind, t, because, a.started, a.finished, b.started)
			return
		}
		a, v = earlier, c.judge(earlier, at)
	}
	grown := b.started.Retried - a.started.Retried
	if v.certain || grown > 0 && a.finished != nil && !v.overlap && !a.succeeded() {
		c.report.Retries++
	} else {
		c.report.Repeats[v.cause]++
	}
	if v.died && a.finished == nil {
		c.waits[v.cause] = append(c.waits[v.cause], at-c.trouble.death(a.started.Process, a.started.At))
	}
}

// earlier returns the last of the first n runs that fits, if all those after it are doubtful; nil if there is none.
func (c *checker) earlier(t *task, n int, fits func(r *run) bool) *run {
	for i := n - 1; i >= 0; i-- {
		r := t.runs[i]
		if r.stale {
			continue
		}
		if fits(r) {
			return r
		}
		if !c.isDoubtful(r) {
			return nil
		}
	}
	return nil
}

// clash says why run i of a task cannot follow run a, if it cannot.
func (c *checker) clash(t *task, i int, a *run, v verdict, limit int) (kind Kind, because string) {
	b := t.runs[i]
	switch {
	case v.overlap && v.cause == "":
		return Overlap, fmt.Sprintf("Run %s started while run %s went on in process %s, which lived, and was not silenced for long enough that the lease could have ended.",
			b.started.Run, a.started.Run, a.started.Process)
	case v.certain && a.succeeded():
		return Duplicate, fmt.Sprintf("Run %s had succeeded %s before; its process lived on and had Redis, so the outcome was there.",
			a.started.Run, seconds(b.started.At-a.finished.At))
	case v.certain && a.started.Retried >= limit:
		return AfterArchive, fmt.Sprintf("Run %s was its last attempt, and failed; the task was to be archived.", a.started.Run)
	}
	grown := b.started.Retried - a.started.Retried
	least, most := v.min, v.max+c.unseen(a, v, b.started.At)
	if from, ok := c.trouble.lossFrom(c.trouble.fetched(a.started.Process, a.started.At), b.started.At); ok {
		least = min(least, c.setBack(t, i, from)-a.started.Retried)
	}
	switch {
	case grown > most:
		return Jump, fmt.Sprintf("Retried went from %d to %d; the run before and the faults since explain %d at most.",
			a.started.Retried, b.started.Retried, a.started.Retried+most)
	case grown < least && grown >= 0:
		return NotCounted, fmt.Sprintf("Run %s failed, its process lived on and had Redis, but Retried is still %d.", a.started.Run, b.started.Retried)
	case grown < least:
		return Jump, fmt.Sprintf("Retried went back from %d to %d, and no fault set Redis back.", a.started.Retried, b.started.Retried)
	}
	return "", ""
}

// setBack returns the lowest number of retries that run i of a task may have had when Redis was set back to a moment.
func (c *checker) setBack(t *task, i int, to int64) int {
	lowest := t.runs[i-1].started.Retried
	for j := i - 1; j >= 0; j-- {
		lowest = min(lowest, t.runs[j].started.Retried)
		if t.runs[j].started.At < to-c.trouble.slack {
			break
		}
	}
	return lowest
}

// failing reports whether all steps of a plan end in a failure.
func failing(plan []string) bool {
	for _, step := range plan {
		switch step {
		case history.Fail, history.Panic, history.Goexit:
		default:
			return false
		}
	}
	return len(plan) > 0
}
