package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
)

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
