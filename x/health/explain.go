package health

import (
	"cmp"
	"fmt"
	"slices"
)

// mostEvidence bounds the evidence of a cause: thousands of queues may have the same symptom.
const mostEvidence = 12

// ranks order causes of the same severity: what explains more comes first. Kinds that are missing
// come after these.
var ranks = []string{
	"redis-unreachable", "redis-node", "redis-memory", "redis-evicted", "look-failed", "poison", "no-server", "clock-skew", "no-worker",
	"queue-error", "slots-busy", "failing", "paused", "no-scheduler", "schedule-missed", "redis-unsaved", "redis-save", "redis-policy",
	"unhandled-type", "handler-overrun", "backlog-grows", "waiting", "orphaned", "retry-overdue", "scheduled-overdue", "archiving",
	"archive-full", "server-gone", "slower",
}

func rank(kind string) int {
	if n := slices.Index(ranks, kind); n >= 0 {
		return n
	}
	return len(ranks)
}

// causes returns the causes of all findings, most severe first.
func (d *diagnosis) causes() []Cause {
	d.find()
	var all []Cause
	for _, explain := range []func() []Cause{d.explainPoison, d.explainNoServer, d.explainSlots, d.explainFailing, d.explainRest} {
		all = append(all, explain()...)
	}
	slices.SortStableFunc(all, func(a, b Cause) int {
		return cmp.Or(
			cmp.Compare(b.Severity, a.Severity), cmp.Compare(rank(a.Kind), rank(b.Kind)), cmp.Compare(len(b.Queues), len(a.Queues)),
			cmp.Compare(a.ID, b.ID),
		)
	})
	return all
}

// take removes and returns the findings that match.
func (d *diagnosis) take(match func(finding) bool) []finding {
	var taken, left []finding
	for _, f := range d.findings {
		if match(f) {
			taken = append(taken, f)
		} else {
			left = append(left, f)
		}
	}
	d.findings = left
	return taken
}

// takeKinds takes the findings of kinds that are about a queue in queues.
func (d *diagnosis) takeKinds(queues []string, kinds ...string) []finding {
	return d.take(func(f finding) bool { return slices.Contains(kinds, f.kind) && slices.Contains(queues, f.queue) })
}

// has reports whether there is a finding that matches.
func (d *diagnosis) has(match func(finding) bool) bool { return slices.ContainsFunc(d.findings, match) }

// newCause returns a cause with findings: the first one is the cause itself, and all of them become
// evidence if there are several. The severity is the worst of all, the start the earliest of own,
// the number of findings that are the cause rather than its symptoms.
func newCause(kind, subject string, own int, findings ...finding) Cause {
	first := findings[0]
	c := Cause{
		ID: kind, Kind: kind, Severity: first.severity, Title: first.text, Hint: first.hint, Link: first.link,
		Queues: []string{}, Evidence: []Evidence{}, Actions: []Action{},
	}
	if subject != "" {
		c.ID += ":" + clip(subject, 200)
	}
	for n, f := range findings {
		c.Severity = max(c.Severity, f.severity)
		if f.queue != "" && !slices.Contains(c.Queues, f.queue) {
			c.Queues = append(c.Queues, f.queue)
		}
		if n < own && !f.since.IsZero() && (c.Since.IsZero() || f.since.Before(c.Since)) {
			c.Since = f.since
		}
		for _, a := range f.actions {
			if !slices.Contains(c.Actions, a) && len(c.Actions) < 4 {
				c.Actions = append(c.Actions, a)
			}
		}
		if len(findings) > 1 || f.series != nil {
			c.addEvidence(Evidence{Text: f.text, Link: f.link, Series: f.series})
		}
	}
	slices.Sort(c.Queues)
	if hidden := len(findings) - mostEvidence; hidden > 0 {
		c.Evidence = append(c.Evidence, Evidence{Text: fmt.Sprintf("and %s more", number(hidden)), Link: Link{Page: PageQueues}})
	}
	return c
}

// addEvidence adds evidence up to the limit. Only the first has a chart.
func (c *Cause) addEvidence(e Evidence) {
	if len(c.Evidence) >= mostEvidence {
		return
	}
	if slices.ContainsFunc(c.Evidence, func(other Evidence) bool { return other.Series != nil }) {
		e.Series = nil
	}
	c.Evidence = append(c.Evidence, e)
}

// takeFirst takes the first finding of a kind.
func (d *diagnosis) takeFirst(kind string) []finding {
	taken := false
	return d.take(func(f finding) bool {
		first := !taken && f.kind == kind
		taken = taken || first
		return first
	})
}

// many are the titles of several findings of one kind; the first is the worst.
var many = map[string]string{
	"paused":              "%d queues are paused although tasks are waiting",
	"waiting":             "Tasks of %d queues have been waiting for long",
	"backlog-grows":       "%d queues are growing",
	"backlog-drains":      "%d queues take long to process their backlog",
	"scheduled-overdue":   "Scheduled tasks of %d queues are overdue",
	"retry-overdue":       "Tasks to retry of %d queues are overdue",
	"orphaned":            "Leases of active tasks have expired in %d queues",
	"archive-full":        "The archives of %d queues are full",
	"archive-nearly-full": "The archives of %d queues are nearly full",
	"archiving":           "Many tasks are archived in %d queues",
	"queue-error":         "Could not read %d queues",
	"unhandled-type":      "%d queues have tasks of types that no running server handles",
	"server-gone":         "%d servers stopped reporting without a shutdown",
	"handler-overrun":     "Handlers of %d servers run past their deadline",
	"slower":              "%d task types take longer than before",
	"redis-memory":        "%d Redis nodes are nearly full",
	"redis-unsaved":       "%d Redis nodes persist nothing",
}

// explainRest returns a cause for each remaining kind.
func (d *diagnosis) explainRest() []Cause {
	byKind := make(map[string][]finding)
	var order []string
	for _, f := range d.findings {
		if byKind[f.kind] == nil {
			order = append(order, f.kind)
		}
		byKind[f.kind] = append(byKind[f.kind], f)
	}
	d.findings = nil
	var all []Cause
	for _, kind := range order {
		same := byKind[kind]
		title, ok := many[kind]
		if len(same) == 1 || !ok {
			for _, f := range same {
				all = append(all, newCause(kind, cmp.Or(f.subject, f.queue), 1, f))
			}
			continue
		}
		slices.SortStableFunc(same, func(a, b finding) int { return cmp.Compare(b.severity, a.severity) })
		c := newCause(kind, "", len(same), same...)
		c.Title = fmt.Sprintf(title, len(same))
		c.Link = Link{Page: PageQueues}
		if same[0].queue == "" {
			c.Link = same[0].link
		}
		all = append(all, c)
	}
	return all
}
