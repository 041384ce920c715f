package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// explainPoison takes failures and crashes that poison tasks explain.
func (d *diagnosis) explainPoison() []Cause {
	var all []Cause
	for {
		own := d.takeFirst("poison")
		if len(own) == 0 {
			return all
		}
		f := own[0]
		crash := strings.Contains(f.text, "crash")
		symptoms := d.take(func(o finding) bool {
			switch o.kind {
			case "failing-type":
				return o.queue == f.queue && o.subject == f.subject
			case "failing":
				kind := d.topError(f.queue, "")
				return o.queue == f.queue && (crashes(kind) || panics(kind))
			case "orphaned":
				return crash && o.queue == f.queue
			case "server-gone":
				return crash
			}
			return false
		})
		symptoms = describeTypes(symptoms)
		all = append(all, newCause("poison", f.subject, 1, append(own, symptoms...)...))
		if crash && d.running() == 0 { // it has crashed all of them
			all[len(all)-1].Severity = Trouble
		}
	}
}

// explainFailing groups types and queues that fail by the kind of their errors.
func (d *diagnosis) explainFailing() []Cause {
	types := d.take(func(f finding) bool { return f.kind == "failing-type" })
	groups := make(map[string][]finding)
	var order []string
	add := func(kind string, f finding) {
		group := kind
		if kind == "" {
			group = "\x00" + f.queue + "\x00" + f.subject
		}
		if groups[group] == nil {
			order = append(order, group)
		}
		groups[group] = append(groups[group], f)
	}
	for _, f := range types {
		add(d.topError(f.queue, f.subject), f)
	}
	// A queue fails because of its types, unless servers count none.
	for _, f := range d.take(func(f finding) bool { return f.kind == "failing" }) {
		if !slices.ContainsFunc(types, func(t finding) bool { return t.queue == f.queue }) {
			add(d.topError(f.queue, ""), f)
		}
	}
	var all []Cause
	for _, group := range order {
		kind := group
		if strings.HasPrefix(group, "\x00") {
			kind = ""
		}
		all = append(all, d.failingCause(kind, groups[group]))
	}
	return all
}

// failingCause returns the cause of findings whose errors are mostly of one kind; "" if there is
// none.
func (d *diagnosis) failingCause(kind string, own []finding) Cause {
	first := own[0]
	title, hint := first.text, "See the most frequent errors."
	var queues []string
	for _, f := range own {
		queues = append(queues, f.queue)
	}
	retries := d.takeKinds(queues, "archiving", "retry-overdue")
	subject := cmp.Or(kind, first.subject, first.queue)
	c := newCause("failing", subject, len(own), append(describeTypes(slices.Clone(own)), retries...)...)
	if len(own) > 1 {
		title = fmt.Sprintf("%s fail", count(len(own), "task type", "task types"))
	}
	if !c.Since.IsZero() && (first.kind == "failing-type" || len(own) > 1) {
		title += " since " + minute(d.in.At, c.Since)
	}
	if kind != "" {
		title += fmt.Sprintf(" with %q", clip(kind, 160))
		hint = "One error explains most failures. Fix it or what it depends on; retries continue by themselves."
	}
	c.Title, c.Hint, c.Link = title, hint, Link{Page: PageErrors, Queue: first.queue}
	if len(c.Evidence) == 0 {
		c.addEvidence(Evidence{Text: first.text, Link: first.link})
	}
	c.Actions = []Action{{Kind: SeeErrors, Queue: first.queue, Type: first.subject}}
	if len(c.Queues) == 1 {
		c.Actions = append(c.Actions, Action{Kind: PauseQueue, Queue: first.queue})
		if len(retries) > 0 {
			c.Actions = append(c.Actions, Action{Kind: RunArchived, Queue: first.queue})
		}
	}
	return c
}

// describeTypes returns findings of failing types as evidence, with their numbers.
func describeTypes(findings []finding) []finding {
	for n, f := range findings {
		if f.kind == "failing-type" {
			findings[n].text, findings[n].hint = fmt.Sprintf("%s in queue %q: %s", f.text, f.queue, f.hint), ""
		}
	}
	return findings
}
