package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
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

// takeFirst takes the first finding of a kind.
func (d *diagnosis) takeFirst(kind string) []finding {
	taken := false
	return d.take(func(f finding) bool {
		first := !taken && f.kind == kind
		taken = taken || first
		return first
	})
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

// explainNoServer takes the symptoms of queues without a server.
func (d *diagnosis) explainNoServer() []Cause {
	own := d.take(func(f finding) bool { return f.kind == "no-worker" })
	if len(own) == 0 {
		return nil
	}
	slices.SortStableFunc(own, func(a, b finding) int {
		return cmp.Or(cmp.Compare(b.severity, a.severity), cmp.Compare(d.tasks(b.queue), d.tasks(a.queue)), cmp.Compare(a.queue, b.queue))
	})
	var queues []string
	tasks := 0
	for _, f := range own {
		queues = append(queues, f.queue)
		tasks += d.tasks(f.queue)
	}
	findings := slices.Concat(own, d.takeKinds(queues,
		"waiting", "backlog-grows", "backlog-drains", "saturated", "retry-overdue", "scheduled-overdue", "orphaned", "unhandled-type"))
	none := len(d.in.Servers) == 0
	if none {
		findings = append(findings, d.take(func(f finding) bool { return f.kind == "server-gone" })...)
	}
	has := fmt.Sprintf("%s %s", have(len(own)), count(tasks, "task", "tasks"))
	switch {
	case none:
		c := newCause("no-server", "", len(own), findings...)
		c.Title, c.Link = "No server is running: "+has, Link{Page: PageServers}
		c.Hint = "Start a server. If servers are running, check that they use the same Redis, database and namespace."
		c.Since = d.lastServer()
		return []Cause{c}
	case len(own) > 1:
		c := newCause("no-worker", "", len(own), findings...)
		c.Title, c.Link = "No server processes "+count(len(own), "queue", "queues")+" with "+count(tasks, "task", "tasks"), Link{Page: PageServers}
		return []Cause{c}
	}
	return []Cause{newCause("no-worker", own[0].queue, 1, findings...)}
}

func have(queues int) string {
	if queues == 1 {
		return "1 queue has"
	}
	return number(queues) + " queues have"
}

// tasks returns the number of tasks that a queue has to run.
func (d *diagnosis) tasks(queue string) int {
	for _, q := range d.in.Queues {
		if q.Name == queue && q.Info != nil {
			return q.Info.Pending + q.Info.Active + q.Info.Retry + q.Info.Scheduled + q.Info.Aggregating
		}
	}
	return 0
}

// lastServer returns when the last server was lost; zero if that is unknown.
func (d *diagnosis) lastServer() (at time.Time) {
	for _, p := range d.in.Processes {
		if !p.Scheduler && p.Expired.After(at) {
			at = p.Expired
		}
	}
	for _, c := range d.m.crashed {
		if c.at.After(at) {
			at = c.at
		}
	}
	return at
}

// explainSlots takes the symptoms of queues whose servers have no free slot, and names the type
// that holds most of them. Queues with the same servers have one cause.
func (d *diagnosis) explainSlots() []Cause {
	symptoms := []string{"waiting", "backlog-grows", "backlog-drains", "saturated"}
	groups := make(map[string][]string) // queues by the IDs of their servers
	var order []string
	for _, q := range d.in.Queues {
		if !d.served[q.Name].saturated() || !d.has(func(f finding) bool { return f.queue == q.Name && slices.Contains(symptoms, f.kind) }) {
			continue
		}
		var ids []string
		for _, s := range d.serversOf(q.Name) {
			ids = append(ids, s.ID)
		}
		slices.Sort(ids)
		group := strings.Join(ids, "\x00")
		if groups[group] == nil {
			order = append(order, group)
		}
		groups[group] = append(groups[group], q.Name)
	}
	var all []Cause
	for _, group := range order {
		all = append(all, d.busy(groups[group], d.takeKinds(groups[group], symptoms...)))
	}
	return all
}

func (d *diagnosis) serversOf(queue string) []*asynq.ServerInfo {
	var all []*asynq.ServerInfo
	for _, s := range d.in.Servers {
		if _, ok := s.Queues[queue]; ok && s.Status == activeStatus {
			all = append(all, s)
		}
	}
	return all
}

// holder is a type of active tasks.
type holder struct {
	queue, typename string
	slots           int
	longest         *asynq.WorkerInfo
}

// busy returns the cause of queues whose servers have no free slot.
func (d *diagnosis) busy(queues []string, findings []finding) Cause {
	by := d.served[queues[0]]
	holders := make(map[[2]string]*holder)
	var list []*holder
	for _, s := range d.serversOf(queues[0]) {
		for _, w := range s.ActiveWorkers {
			k := [2]string{w.Queue, w.TaskType}
			h := holders[k]
			if h == nil {
				h = &holder{queue: w.Queue, typename: w.TaskType}
				holders[k] = h
				list = append(list, h)
			}
			h.slots++
			if h.longest == nil || w.Started.Before(h.longest.Started) {
				h.longest = w
			}
		}
	}
	slices.SortFunc(list, func(a, b *holder) int {
		return cmp.Or(cmp.Compare(b.slots, a.slots), cmp.Compare(a.typename, b.typename), cmp.Compare(a.queue, b.queue))
	})
	top := list[0]
	subject, whose := queues[0], fmt.Sprintf("queue %q", queues[0])
	if len(queues) > 1 {
		whose = fmt.Sprintf("%d queues", len(queues))
	}
	hog := float64(top.slots) >= d.s.HogShare*float64(by.slots)
	if hog {
		subject = top.typename
	}
	slices.SortStableFunc(findings, func(a, b finding) int { return cmp.Compare(b.severity, a.severity) })
	c := newCause("slots-busy", subject, len(findings), findings...)
	c.Queues = queues
	c.Title = fmt.Sprintf("All slots of %s are busy: %s holds %s of %s", whose, top.typename, number(top.slots), number(by.slots))
	c.Link = Link{Page: PageTasks, Queue: top.queue, State: "active", Type: top.typename}
	c.Hint = "Add servers or raise their Concurrency."
	if hog {
		c.Hint = fmt.Sprintf("Process %s on servers of its own, or limit the concurrency of queue %q.", top.typename, top.queue)
		c.Actions = append(c.Actions, Action{Kind: PauseQueue, Queue: top.queue})
	}
	longest := top.longest
	lead := []Evidence{{
		Text: fmt.Sprintf("%s in queue %q holds %s (%s); the longest has been running for %s",
			top.typename, top.queue, count(top.slots, "slot", "slots"), percent(top.slots, by.slots), span(d.in.At.Sub(longest.Started))),
		Link: Link{Page: PageTask, Queue: top.queue, Task: longest.TaskID},
	}}
	if text, ok := d.slower(top.queue, top.typename); ok {
		lead = append(lead, Evidence{Text: text, Link: c.Link})
		d.take(func(f finding) bool { return f.kind == "slower" && f.queue == top.queue && f.subject == top.typename })
	}
	c.Evidence = append(lead, c.Evidence...)
	return c
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
