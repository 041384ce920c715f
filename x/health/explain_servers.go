package health

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

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
			return q.Info.Pending + q.Info.Held + q.Info.Active + q.Info.Retry + q.Info.Scheduled + q.Info.Aggregating
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
