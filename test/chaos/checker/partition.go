package checker

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// partitions checks the limits of partitions: how many of their tasks run at once, how often they
// start, and in which order.
func (c *checker) partitions() {
	runs, tasks := make(map[string][]*run), make(map[string][]*task)
	var order []string
	for _, t := range c.timeline.order {
		if t.offered == nil || t.offered.Limits == nil {
			continue
		}
		key := t.offered.Queue + "\x00" + t.offered.Partition
		if tasks[key] == nil {
			order = append(order, key)
		}
		tasks[key] = append(tasks[key], t)
		for _, r := range t.runs {
			if !c.isStaleAtStart(r) {
				runs[key] = append(runs[key], r)
			}
		}
	}
	for _, key := range order {
		limits, of := tasks[key][0].offered.Limits, runs[key]
		slices.SortStableFunc(of, func(a, b *run) int { return cmp.Compare(a.started.At, b.started.At) })
		if limits.Concurrency > 0 {
			c.crowded(of, limits.Concurrency)
		}
		if limits.Interval > 0 {
			c.hasty(of, limits)
		}
		if limits.Ordered {
			c.disordered(tasks[key])
		}
	}
}

// heldUntil returns until when a run certainly occupied its place in its partition: its end, the
// death of its process, or the time at which its lease may have expired. It returns 0 if Redis may
// have lost the place.
func (c *checker) heldUntil(r *run) int64 {
	t, start, process := c.faults, r.started.At, r.started.Process
	until := min(c.timeline.until, t.death(process, start))
	if r.finished != nil {
		until = min(until, r.finished.At)
	}
	if r.lost != nil {
		until = min(until, r.lost.At)
	}
	for _, sp := range t.silences(process, start-t.slack) {
		if sp.from > until {
			break
		}
		ends := max(sp.from-t.extend, min(start, sp.from)) - t.slack + t.lease
		if sp.until+t.extend+t.slack >= ends {
			until = min(until, ends)
		}
	}
	if t.loss(t.fetched(process, start), until) != nil {
		return 0
	}
	return until
}

// crowded checks how many runs of a partition there are at once.
func (c *checker) crowded(runs []*run, most int) {
	var active []*run
	ends := make(map[*run]int64, len(runs))
	for _, r := range runs {
		at := r.started.At
		active = slices.DeleteFunc(active, func(a *run) bool { return ends[a] <= at || a.task == r.task })
		if len(active) >= most {
			events := []*history.Event{r.started}
			for _, a := range active {
				events = append(events, a.started)
			}
			c.wrong(Crowded, r.task, fmt.Sprintf("It started while %d other tasks of partition %q ran, but only %d may run at once.",
				len(active), r.task.offered.Partition, most), events...)
			return
		}
		if ends[r] = c.heldUntil(r); ends[r] > at {
			active = append(active, r)
		}
	}
}

// hasty checks how often runs of a partition start. A start is recorded at most [Rules.Slack] after
// Redis permitted it, unless its process was stopped; such a run does not count.
func (c *checker) hasty(runs []*run, limits *history.Limits) {
	interval, allowed := float64(limits.Interval), float64(limits.Interval)*float64(limits.Burst)+float64(c.faults.slack)
	arrival := math.Inf(-1)
	for _, r := range runs {
		start, process := r.started.At, r.started.Process
		if c.faults.fetched(process, start) < start-c.faults.slack {
			continue
		}
		if c.faults.loss(start-c.faults.slack, start) != nil {
			arrival = math.Inf(-1) // Redis may have forgotten all starts
		}
		if arrival = max(arrival, float64(start)) + interval; arrival-float64(start) > allowed {
			c.wrong(Hasty, r.task, fmt.Sprintf("Too many tasks of partition %q have started: one may start every %v, and %d at once.",
				r.task.offered.Partition, limits.Interval, limits.Burst), r.started)
			return
		}
	}
}

// disordered checks whether a task of an ordered partition ran after one that was offered after the
// first had been accepted.
func (c *checker) disordered(tasks []*task) {
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(t *task) bool { return t.accepted == nil })
	slices.SortStableFunc(tasks, func(a, b *task) int { return cmp.Compare(a.accepted.At, b.accepted.At) })
	byOffer := slices.Clone(tasks)
	slices.SortStableFunc(byOffer, func(a, b *task) int { return cmp.Compare(a.offered.At, b.offered.At) })
	var last *run // of those accepted before the offer, the one that started last
	next := 0
	for _, b := range byOffer {
		for ; next < len(tasks) && tasks[next].accepted.At < b.offered.At; next++ {
			if r := tasks[next].last(); r != nil && !c.isStaleAtStart(r) && (last == nil || r.started.At > last.started.At) {
				last = r
			}
		}
		if last == nil || len(b.runs) == 0 {
			continue
		}
		first := b.runs[0].started
		if last.started.At <= first.At || c.faults.loss(b.offered.At, last.started.At) != nil {
			continue
		}
		c.wrong(Disordered, b, fmt.Sprintf("It started before task %s of the same partition %q, which was accepted before it was offered, had ended.",
			last.task.id, b.offered.Partition), last.task.offered, last.task.accepted, b.offered, first, last.started)
		return
	}
}
