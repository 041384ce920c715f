package health

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// The starts of errors of attempts that ended without an error of the handler.
var (
	leaseExpired = strings.TrimPrefix(asynq.ErrLeaseExpired.Error(), "asynq: ")
	panicked     = (&asynq.PanicError{Value: ""}).Error()
)

// crashes reports whether an error means that the server of an attempt crashed.
func crashes(kind string) bool { return strings.Contains(kind, leaseExpired) }

// panics reports whether an error means that the handler panicked.
func panics(kind string) bool { return strings.HasPrefix(kind, panicked) }

// poison finds types whose tasks crash their server or panic, again and again.
func (d *diagnosis) poison() {
	type key struct {
		queue, typename string
		crash           bool
	}
	type found struct {
		tasks, failed int
		task, kind    string
		since         time.Time
	}
	all := make(map[key]*found)
	for _, s := range d.in.Samples {
		crash := crashes(s.Kind)
		if !crash && !panics(s.Kind) || s.Failed < d.s.PoisonAttempts {
			continue
		}
		k := key{s.Queue, s.Type, crash}
		f := all[k]
		if f == nil {
			f = &found{kind: s.Kind, since: s.First, failed: -1}
			all[k] = f
		}
		f.tasks += s.Tasks
		if s.Failed > f.failed {
			f.failed, f.task = s.Failed, s.Task
		}
		if s.First.Before(f.since) {
			f.since = s.First
		}
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b key) int {
		return cmp.Or(cmp.Compare(all[b].tasks, all[a].tasks), cmp.Compare(a.queue, b.queue), cmp.Compare(a.typename, b.typename))
	})
	for _, k := range keys {
		f := all[k]
		what, hint := fmt.Sprintf("%s of %s with %q", panicWord(f.tasks), k.typename, clip(f.kind, 120)),
			"Fix the handler. Until then, archive these tasks: each attempt fails the same way."
		if k.crash {
			what = fmt.Sprintf("%s of %s", crashWord(f.tasks), k.typename)
			hint = "The handler kills the process (out of memory, os.Exit, a fatal error) or blocks its heartbeat. Archive these tasks, then see the logs of the servers."
		}
		d.add(finding{
			kind: "poison", severity: Warning, queue: k.queue, subject: k.typename, since: f.since, hint: hint,
			text:    fmt.Sprintf("%s; one has failed %s", what, count(f.failed, "time", "times")),
			link:    Link{Page: PageTask, Queue: k.queue, Task: f.task},
			actions: []Action{{Kind: SeeErrors, Queue: k.queue, Type: k.typename}, {Kind: PauseQueue, Queue: k.queue}},
		})
	}
}

func crashWord(n int) string {
	if n == 1 {
		return "A task crashes its server: it is one"
	}
	return fmt.Sprintf("%s crash their servers: they are", count(n, "task", "tasks"))
}

func panicWord(n int) string {
	if n == 1 {
		return "A task panics again and again: it is one"
	}
	return fmt.Sprintf("%s panic again and again: they are", count(n, "task", "tasks"))
}

// failingTypes finds task types of which too many attempts fail.
func (d *diagnosis) failingTypes() {
	if d.in.Stats == nil {
		return
	}
	for _, t := range failingTypes(d.in.Stats.Recent, d.s) {
		if t.Type == "" {
			continue // types that are not counted by themselves
		}
		attempts, failed := t.Attempts(), t.Failed()
		severity, _ := d.failure(attempts, failed)
		d.add(finding{
			kind: "failing-type", severity: severity, queue: t.Queue, subject: t.Type, since: d.failingSince(t),
			text: fmt.Sprintf("%.0f %% of %s fail", 100*float64(failed)/float64(attempts), t.Type),
			hint: fmt.Sprintf("%s of %s failed within %s", number(int(failed)), count(int(attempts), "attempt", "attempts"), span(recentStats)),
			link: Link{Page: PageErrors, Queue: t.Queue, Type: t.Type}, series: &Series{Metric: "failed", Queue: t.Queue},
		})
	}
}

// failingSince returns the start of the minutes until now in which too many attempts of a type
// failed.
func (d *diagnosis) failingSince(t *asynq.TypeStats) (start time.Time) {
	for _, p := range slices.Backward(d.in.Stats.History) {
		n := p.Attempts()
		if p.Queue != t.Queue || p.Type != t.Type || n == 0 {
			continue
		}
		if float64(p.Failed()) <= d.s.FailingWarning*float64(n) {
			break
		}
		start = p.Start
	}
	return start
}

// failingSamples finds types of which many tasks failed recently, in queues of which the number of
// attempts is unknown: their servers count none, and no Monitor has watched them for long enough.
func (d *diagnosis) failingSamples() {
	for _, s := range d.in.Samples {
		counted := d.in.Stats != nil && slices.ContainsFunc(d.in.Stats.Recent, func(t *asynq.TypeStats) bool { return t.Queue == s.Queue })
		_, watched := d.m.queues[s.Queue].before(d.in.At, d.s.Trend, leastData)
		if counted || watched || s.Tasks < d.s.FailingAttempts || d.in.At.Sub(s.Last) > d.s.Trend {
			continue
		}
		d.add(finding{
			kind: "failing-type", severity: Warning, queue: s.Queue, subject: s.Type, since: s.First,
			text: fmt.Sprintf("At least %s of %s failed", count(s.Tasks, "task", "tasks"), s.Type),
			hint: fmt.Sprintf("the last one at %s", clockTime(s.Last)),
			link: Link{Page: PageErrors, Queue: s.Queue, Type: s.Type}, series: &Series{Metric: "failed", Queue: s.Queue},
		})
	}
}

// topError returns the kind of at least half of the errors of a type; "" if there is none.
func (d *diagnosis) topError(queue, typename string) string {
	counts, all := make(map[string]int64), int64(0)
	if d.in.Stats != nil {
		for _, e := range d.in.Stats.Errors {
			if e.Queue == queue && e.Type == typename && e.Kind != "" {
				counts[e.Kind] += e.Count
				all += e.Count
			}
		}
	}
	if all == 0 { // servers of other libraries count nothing
		for _, s := range d.in.Samples {
			if s.Queue == queue && (s.Type == typename || typename == "") {
				counts[s.Kind] += int64(s.Tasks)
				all += int64(s.Tasks)
			}
		}
	}
	for kind, n := range counts {
		if 2*n >= all && (2*n > all || len(counts) == 1) {
			return kind
		}
	}
	return ""
}

// Durations are compared if there are this many, and if the 95th percentile is at least a second.
const (
	slowAttempts = 20
	slowLeast    = time.Second
)

// slower describes by how much the attempts of a type take longer than before.
func (d *diagnosis) slower(queue, typename string) (string, bool) {
	if d.in.Stats == nil {
		return "", false
	}
	one := func(all []*asynq.TypeStats) (p95 time.Duration, n int64) {
		for _, t := range all {
			if t.Queue == queue && t.Type == typename {
				return t.Duration.Quantile(0.95), t.Duration.Count()
			}
		}
		return 0, 0
	}
	now, n := one(d.in.Stats.Recent)
	then, before := one(d.in.Stats.Earlier)
	if min(n, before) < slowAttempts || now < slowLeast || float64(now) < d.s.SlowFactor*float64(then) {
		return "", false
	}
	return fmt.Sprintf("p95 of %s rose from %s to %s", typename, short(then), short(now)), true
}

// slowTypes finds types whose attempts take longer than before.
func (d *diagnosis) slowTypes() {
	if d.in.Stats == nil {
		return
	}
	for _, t := range d.in.Stats.Recent {
		text, ok := d.slower(t.Queue, t.Type)
		if !ok || t.Type == "" {
			continue
		}
		d.add(finding{
			kind: "slower", severity: Notice, queue: t.Queue, subject: t.Type, text: text,
			hint: "Compare with a deployment or a slow dependency at that time.",
			link: Link{Page: PageTasks, Queue: t.Queue, State: "active", Type: t.Type},
		})
	}
}
