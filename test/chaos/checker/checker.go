package checker

import (
	"slices"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// defaultExamples is the default of Rules.Examples.
const defaultExamples = 5

// checker holds the shared state of the rules.
type checker struct {
	rules          Rules
	timeline       *timeline
	faults         *faultIndex
	report         *Report
	counts         map[string]*QueueCount
	waits          map[string][]int64 // from the end of a process to the next run, by cause
	archivedCounts map[string]int     // archived tasks at the end by queue; computed lazily
}

// Check checks a run. The events may be in any order and are not changed. Check does not panic on
// incomplete histories: it counts inconsistencies as Oddities and checks the rest.
func Check(events []history.Event, rules Rules) *Report {
	if rules.Examples <= 0 {
		rules.Examples = defaultExamples
	}
	s := read(events)
	c := &checker{
		rules: rules, timeline: s, faults: newFaultIndex(s, rules), counts: make(map[string]*QueueCount), waits: make(map[string][]int64),
		report: &Report{
			Events: len(events), Losses: make(map[string]int), Repeats: make(map[string]int), Violations: make(map[Kind]*Violations), Oddities: s.odd,
		},
	}
	for _, t := range s.order {
		c.place(t)
		c.chain(t)
	}
	// The outcome of a member depends on its aggregated tasks, so these come first.
	ends := make(map[*task]outcome, len(s.order))
	for _, members := range []bool{false, true} {
		for _, t := range s.order {
			if grouped(t) == members {
				ends[t] = c.end(t, ends)
				c.count(t, ends[t])
			}
		}
	}
	c.unique()
	c.partitions()
	c.statistics()
	c.recoveries()
	for _, f := range s.findings {
		c.violation(Invariant, f.Task, f.Queue, "The final diagnosis found: "+f.Err+".", f)
	}
	return c.report
}

// violation adds a violation to the report. It ignores nil events.
func (c *checker) violation(kind Kind, task, queue, because string, events ...*history.Event) {
	v := c.report.Violations[kind]
	if v == nil {
		v = &Violations{}
		c.report.Violations[kind] = v
	}
	v.Total++
	if len(v.Examples) >= c.rules.Examples {
		return
	}
	example := Violation{Kind: kind, Task: task, Queue: queue, Because: because}
	for _, e := range events {
		if e != nil {
			example.Events = append(example.Events, *e)
		}
	}
	slices.SortStableFunc(example.Events, func(a, b history.Event) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	v.Examples = append(v.Examples, example)
}

// wrong adds a violation of a task.
func (c *checker) wrong(kind Kind, t *task, because string, events ...*history.Event) {
	c.violation(kind, t.id, t.queue(), because, events...)
}

// grouped reports whether a task belongs to a group.
func grouped(t *task) bool { return t.offered != nil && t.offered.Group != "" }
