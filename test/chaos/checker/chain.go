package checker

import (
	"fmt"
	"math"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// expectation describes what may follow a run.
type expectation struct {
	overlap  bool   // the run had not ended
	certain  bool   // its outcome reached Redis
	cause    string // what may have prevented that
	min, max int    // change of Retried
	died     bool   // the cause is the death of its process
}

// evaluate returns what may follow a run, given the events until at.
func (c *checker) evaluate(r *run, at int64) expectation {
	t, start, process := c.faults, r.started.At, r.started.Process
	v := expectation{overlap: r.finished == nil || r.finished.At > at}
	// by is when its outcome reaches Redis without faults. A process requeues a task shortly before
	// it exits.
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
		// Concurrent runs: the caller reports them.
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

// unseen returns the number of attempts that may have left no trace after a run, in addition to the
// expectation.
func (c *checker) unseen(r *run, v expectation, at int64) int {
	if !c.rules.CrashCounts {
		return 0
	}
	from := r.started.At
	if !v.overlap {
		from = r.finished.At
	}
	n := c.faults.unseen(from, at)
	if v.cause != "" && n > 0 {
		n-- // the cause of this run's end
	}
	return n
}

// chain checks the runs of a task in order.
func (c *checker) chain(t *task) {
	limit, limited := t.maxRetry()
	for i, r := range t.runs {
		if limited && r.started.Retried > limit {
			c.wrong(TooManyRetries, t, fmt.Sprintf("It ran with %d retries used, but MaxRetry is %d.", r.started.Retried, limit), t.offered, r.started)
		}
		c.lease(r)
		if i == 0 {
			c.first(t, r)
		} else {
			c.follow(t, i, limit)
		}
	}
}

// lease checks whether the loss of a lease is explained.
func (c *checker) lease(r *run) {
	if r.lost == nil {
		return
	}
	c.report.LeasesLost++
	t, at := c.faults, r.lost.At
	if _, ok := t.lapsed(r.started.Process, r.started.At, at, at+t.slack); ok {
		return
	}
	if t.loss(t.fetched(r.started.Process, r.started.At), at) != nil || t.death(r.started.Process, r.started.At) <= at+t.slack {
		return
	}
	c.wrong(LeaseLost, r.task, fmt.Sprintf("Its lease expired although process %s was running and connected, or disconnected for too short a time.", r.started.Process),
		r.started, r.lost)
}

// first checks the number of retries before the first run of a task.
func (c *checker) first(t *task, r *run) {
	from, _ := c.entered(t)
	most := 0
	if c.rules.CrashCounts {
		most = c.faults.unseen(from, r.started.At)
	}
	if r.started.Retried < 0 || r.started.Retried > most {
		c.wrong(Jump, t, fmt.Sprintf("Its first run has %d retries used; faults explain at most %d.", r.started.Retried, most), t.offered, r.started)
	}
}

// staleAtStart returns the fault because of which a run may have been unknown to Redis when it
// started: its process fetched the task and was stopped until the lease expired, or Redis lost the
// fetch. The outcome of such a run is rejected.
func (c *checker) staleAtStart(r *run) (string, bool) {
	t, start, process := c.faults, r.started.At, r.started.Process
	if fault, ok := t.lapsed(process, start, start, start); ok {
		return fault, true
	}
	if l := t.loss(t.fetched(process, start), start); l != nil {
		return l.name, true
	}
	return "", false
}

// isStaleAtStart reports whether a run may have been unknown to Redis when it started.
func (c *checker) isStaleAtStart(r *run) bool {
	_, ok := c.staleAtStart(r)
	return ok
}

// follow checks run i of a task against the previous run, or, if that was unknown to Redis, an
// earlier one.
func (c *checker) follow(t *task, i, limit int) {
	a, b := t.before(i), t.runs[i]
	at := b.started.At
	v := c.evaluate(a, at)
	if kind, because := c.clash(t, i, a, v, limit); kind != "" {
		if fault, ok := c.staleAtStart(b); ok {
			b.stale = true
			c.report.Repeats[fault]++
			return
		}
		earlier := c.earlier(t, i, func(r *run) bool {
			kind, _ := c.clash(t, i, r, c.evaluate(r, at), limit)
			return kind == ""
		})
		if earlier == nil {
			c.wrong(kind, t, because, a.started, a.finished, b.started)
			return
		}
		a, v = earlier, c.evaluate(earlier, at)
	}
	grown := b.started.Retried - a.started.Retried
	if v.certain || grown > 0 && a.finished != nil && !v.overlap && !a.succeeded() {
		c.report.Retries++
	} else {
		c.report.Repeats[v.cause]++
	}
	if v.died && a.finished == nil {
		c.waits[v.cause] = append(c.waits[v.cause], at-c.faults.death(a.started.Process, a.started.At))
	}
}

// earlier returns the last of the first n runs that fits, if all later ones may have been unknown
// to Redis; nil if there is none.
func (c *checker) earlier(t *task, n int, fits func(r *run) bool) *run {
	for i := n - 1; i >= 0; i-- {
		r := t.runs[i]
		if r.stale {
			continue
		}
		if fits(r) {
			return r
		}
		if !c.isStaleAtStart(r) {
			return nil
		}
	}
	return nil
}

// clash returns why run i of a task cannot follow run a; "" if it can.
func (c *checker) clash(t *task, i int, a *run, v expectation, limit int) (kind Kind, because string) {
	b := t.runs[i]
	switch {
	case v.overlap && v.cause == "":
		return Overlap, fmt.Sprintf("Run %s started while run %s was active in process %s, which was running and not stopped for long enough for the lease to expire.",
			b.started.Run, a.started.Run, a.started.Process)
	case v.certain && a.succeeded():
		return Duplicate, fmt.Sprintf("Run %s had succeeded %s before; its process was running and connected, so the outcome had reached Redis.",
			a.started.Run, seconds(b.started.At-a.finished.At))
	case v.certain && a.started.Retried >= limit:
		return AfterArchive, fmt.Sprintf("Run %s was its last attempt and failed, so the task must be archived.", a.started.Run)
	}
	grown := b.started.Retried - a.started.Retried
	least, most := v.min, v.max+c.unseen(a, v, b.started.At)
	if from, ok := c.faults.lossFrom(c.faults.fetched(a.started.Process, a.started.At), b.started.At); ok {
		least = min(least, c.setBack(t, i, from)-a.started.Retried)
	}
	switch {
	case grown > most:
		return Jump, fmt.Sprintf("Retried increased from %d to %d; the previous run and the faults since then explain at most %d.",
			a.started.Retried, b.started.Retried, a.started.Retried+most)
	case grown < least && grown >= 0:
		return NotCounted, fmt.Sprintf("Run %s failed, and its process was running and connected, but Retried is still %d.", a.started.Run, b.started.Retried)
	case grown < least:
		return Jump, fmt.Sprintf("Retried decreased from %d to %d, but Redis lost no writes.", a.started.Retried, b.started.Retried)
	}
	return "", ""
}

// setBack returns the lowest number of retries that run i of a task may have had if Redis lost the
// writes since a time.
func (c *checker) setBack(t *task, i int, to int64) int {
	lowest := t.runs[i-1].started.Retried
	for j := i - 1; j >= 0; j-- {
		lowest = min(lowest, t.runs[j].started.Retried)
		if t.runs[j].started.At < to-c.faults.slack {
			break
		}
	}
	return lowest
}

// failing reports whether all steps of a plan fail.
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
