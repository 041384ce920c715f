package checker

import (
	"slices"

	"github.com/asynq-go/asynq/x/chaos/history"
)

// defaultExamples is how many violations of a kind are described.
const defaultExamples = 5

// checker holds what the rules share.
type checker struct {
	rules   Rules
	story   *story
	trouble *trouble
	report  *Report
	counts  map[string]*QueueCount
	waits   map[string][]int64 // by what ended the process: from there to the next run
	shelves map[string]int     // archived tasks that are there at the end, by queue; nil until somebody asks
}

// Check judges a run. The events may come in any order; they are not changed. It panics on no history, however torn: what does not fit
// together is counted under Oddities, and judged as far as it goes.
func Check(events []history.Event, rules Rules) *Report {
	if rules.Examples <= 0 {
		rules.Examples = defaultExamples
	}
	s := read(events)
	c := &checker{
		rules: rules, story: s, trouble: newTrouble(s, rules), counts: make(map[string]*QueueCount), waits: make(map[string][]int64),
		report: &Report{
			Events: len(events), Losses: make(map[string]int), Repeats: make(map[string]int), Violations: make(map[Kind]*Violations), Oddities: s.odd,
		},
	}
	for _, t := range s.order {
		c.place(t)
		c.chain(t)
	}
	// How a member ended follows from how its aggregated tasks did, so these come first.
	ends := make(map[*task]fate, len(s.order))
	for _, members := range []bool{false, true} {
		for _, t := range s.order {
			if grouped(t) == members {
				ends[t] = c.end(t, ends)
				c.count(t, ends[t])
			}
		}
	}
	c.unique()
	c.statistics()
	c.recoveries()
	for _, f := range s.findings {
		c.violation(Invariant, f.Task, f.Queue, "The diagnosis at the end found: "+f.Err+".", f)
	}
	return c.report
}

// violation adds one to the report. Events that are nil are left out.
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

// wrong adds a violation that is about a task.
func (c *checker) wrong(kind Kind, t *task, because string, events ...*history.Event) {
	c.violation(kind, t.id, t.queue(), because, events...)
}

// grouped reports whether a task was to be aggregated with others.
func grouped(t *task) bool { return t.offered != nil && t.offered.Group != "" }
