package health

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/asynq-go/asynq"
)

// diagnosis is one check. Rules add findings, which explain.go groups by their cause.
type diagnosis struct {
	in       *Input
	m        *memory
	s        Settings
	served   map[string]service
	findings []finding
}

// finding is one symptom.
type finding struct {
	kind     string
	severity Severity
	queue    string // empty if it is not about one queue
	subject  string // what the ID names beyond the kind; the queue if it is empty
	text     string // one sentence without a period
	hint     string
	link     Link
	since    time.Time
	series   *Series
	actions  []Action
}

func (d *diagnosis) add(f finding) {
	if f.queue != "" && f.link == (Link{}) {
		f.link = Link{Page: PageQueue, Queue: f.queue}
	}
	d.findings = append(d.findings, f)
}

// find runs all rules.
func (d *diagnosis) find() {
	if d.in.Err != nil {
		d.add(finding{
			kind: "redis-unreachable", severity: Trouble, text: unreachable(d.in.Err), link: Link{Page: PageRedis},
			hint: "Check that Redis is running and that this process can connect to it. Data that is shown is from before.",
		})
		return
	}
	d.redis()
	d.unread()
	for _, q := range d.in.Queues {
		d.queue(q)
	}
	d.failingTypes()
	d.failingSamples()
	d.poison()
	d.slowTypes()
	d.servers()
	d.schedulers()
	d.clocks()
}

// unread reports the parts of the input that could not be read.
func (d *diagnosis) unread() {
	p := d.in.Problems
	for _, part := range []struct {
		what string
		page Page
		err  error
	}{{"queues", PageQueues, p.Queues}, {"servers", PageServers, p.Servers}, {"schedulers", PageSchedulers, p.Entries}} {
		if part.err != nil {
			d.add(finding{
				kind: "look-failed", severity: Trouble, subject: part.what, link: Link{Page: part.page},
				text: fmt.Sprintf("Could not list %s: %s", part.what, reason(part.err)),
				hint: "Data that is shown is from before. Run asynq doctor if the error names a type of a key.",
			})
		}
	}
	if p.Redis != nil {
		d.add(finding{
			kind: "no-info", severity: Notice, link: Link{Page: PageRedis},
			text: "No data about Redis: INFO is not available: " + reason(p.Redis),
			hint: "Its memory and settings are not monitored. Allow INFO, DBSIZE and TIME for the Redis user of this process.",
		})
	}
}

// service describes the servers of a queue.
type service struct {
	servers, stopped int // active servers, and servers that are stopping
	slots, busy      int // of active servers
}

// saturated reports whether the queue has no free slot.
func (s service) saturated() bool { return s.slots > 0 && s.busy >= s.slots }

// activeStatus is the status of a server that fetches tasks.
const activeStatus = "active"

func serving(in *Input) map[string]service {
	served := make(map[string]service, len(in.Queues))
	for _, server := range in.Servers {
		for queue := range server.Queues {
			by := served[queue]
			if server.Status == activeStatus {
				by.servers++
				by.slots += server.Concurrency
				by.busy += len(server.ActiveWorkers)
			} else {
				by.stopped++
			}
			served[queue] = by
		}
	}
	return served
}

// running returns the number of active servers.
func (d *diagnosis) running() int {
	n := 0
	for _, server := range d.in.Servers {
		if server.Status == activeStatus {
			n++
		}
	}
	return n
}

func (d *diagnosis) servers() {
	reported := make(map[string]bool)
	for _, c := range d.m.crashed {
		reported[c.name] = true
		d.add(finding{
			kind: "server-gone", severity: Warning, subject: c.name, link: Link{Page: PageServers}, since: c.at,
			text: fmt.Sprintf("Server %s stopped reporting at about %s, while it was processing %s",
				c.name, clockTime(c.at), count(c.tasks, "task", "tasks")),
			hint: "It probably crashed. Other servers recover its tasks when their leases expire.",
		})
	}
	for _, p := range d.in.Processes {
		name := processName(p)
		if p.Scheduler || p.Expired.IsZero() || reported[name] || d.in.At.Sub(p.Expired) > d.s.CrashReported {
			continue
		}
		d.add(finding{
			kind: "server-gone", severity: Notice, subject: name, link: Link{Page: PageServers}, since: p.Expired,
			text: fmt.Sprintf("Server %s stopped reporting at about %s without a shutdown", name, clockTime(p.Expired)),
			hint: "It crashed, was killed, or lost its connection. Other servers recover its tasks when their leases expire.",
		})
	}
	if d.in.Problems.Servers == nil {
		d.overruns()
	}
}

// overruns reports handlers that run past their deadline.
func (d *diagnosis) overruns() {
	for _, server := range d.in.Servers {
		late, longest := 0, time.Duration(0)
		var first *asynq.WorkerInfo
		for _, w := range server.ActiveWorkers {
			if over := d.in.At.Sub(w.Deadline); !w.Deadline.IsZero() && over > d.s.OverrunWarning {
				late++
				if over > longest {
					first, longest = w, over
				}
			}
		}
		if late == 0 {
			continue
		}
		d.add(finding{
			kind: "handler-overrun", severity: Warning, subject: serverName(server), link: Link{Page: PageServers},
			text: fmt.Sprintf("Server %s has %s past the deadline; the longest, of type %q in queue %q, by %s",
				serverName(server), count(late, "handler running", "handlers running"), first.TaskType, first.Queue, span(longest)),
			hint: "Handlers must return when their context is canceled. Each of these occupies a slot.",
		})
	}
}

func (d *diagnosis) schedulers() {
	if d.in.Problems.Entries != nil {
		return
	}
	if len(d.in.Entries) == 0 {
		d.noScheduler()
		return
	}
	missed, longest := 0, time.Duration(0)
	var first *asynq.SchedulerEntry
	for _, e := range d.in.Entries {
		if late := d.in.At.Sub(e.Next); !e.Next.IsZero() && late > d.s.MissedWarning {
			missed++
			if late > longest {
				first, longest = e, late
			}
		}
	}
	if missed == 0 {
		return
	}
	name := first.Spec
	if first.Task != nil {
		name = fmt.Sprintf("%q (%s)", first.Task.Type(), first.Spec)
	}
	d.add(finding{
		kind: "schedule-missed", severity: Warning, link: Link{Page: PageSchedulers}, since: first.Next,
		text: fmt.Sprintf("%s overdue; the longest, %s, for %s", count(missed, "periodic task is", "periodic tasks are"), name, span(longest)),
		hint: "The scheduler is running but not enqueueing. Check its log and the clock of its host.",
	})
}

// noScheduler reports that the last scheduler has ended: after a crash, its registration remains; a
// Monitor has seen its entries.
func (d *diagnosis) noScheduler() {
	f := finding{
		kind: "no-scheduler", severity: Warning, link: Link{Page: PageSchedulers},
		hint: "Restart the scheduler if its tasks are still needed.",
	}
	if gone := d.in.At.Sub(d.m.entriesAt); !d.m.entriesAt.IsZero() && gone < d.s.NoSchedulerReported {
		f.since = d.m.entriesAt
		f.text = fmt.Sprintf("No scheduler has been running for %s; the last one had %s", span(gone), count(d.m.entries, "periodic task", "periodic tasks"))
	}
	for _, p := range d.in.Processes {
		if !p.Scheduler {
			continue
		}
		if p.Expired.IsZero() {
			return // it has no entries
		}
		if gone := d.in.At.Sub(p.Expired); gone < d.s.NoSchedulerReported && f.text == "" {
			f.since = p.Expired
			f.text = fmt.Sprintf("No scheduler has been running for %s; the last one, %s, ended without a shutdown", span(gone), processName(p))
		}
	}
	if f.text != "" {
		d.add(f)
	}
}

// clocks reports processes whose clock differs from that of Redis.
func (d *diagnosis) clocks() {
	var off []asynq.ProcessInfo
	running := 0
	for _, p := range d.in.Processes {
		if !p.Expired.IsZero() {
			continue
		}
		running++
		if p.ClockSkew.Abs() >= d.s.ClockNotice {
			off = append(off, p)
		}
	}
	if len(off) == 0 {
		return
	}
	slices.SortStableFunc(off, func(a, b asynq.ProcessInfo) int {
		return int(b.ClockSkew.Abs()/time.Second - a.ClockSkew.Abs()/time.Second)
	})
	worst := off[0]
	f := finding{
		kind: "clock-skew", severity: Notice, link: Link{Page: PageServers},
		text: fmt.Sprintf("The clock of %s is %s that of Redis", kindName(worst), skew(worst.ClockSkew)),
		hint: "Synchronize the clocks of all hosts, for example with NTP. Until then, delayed and periodic tasks of these processes run at the wrong time.",
	}
	switch least := off[len(off)-1].ClockSkew; {
	case len(off) == running && running > 1 && (worst.ClockSkew-least).Abs() < 2*time.Second:
		f.text = fmt.Sprintf("The clock of Redis is %s those of all %d processes", skew(-worst.ClockSkew), running)
	case len(off) > 1:
		f.text += fmt.Sprintf("; those of %s also differ", count(len(off)-1, "other process", "other processes"))
	}
	if worst.ClockSkew.Abs() >= d.s.ClockWarning {
		f.severity = Warning
	}
	d.add(f)
}

// skew describes by how much a clock is off.
func skew(d time.Duration) string {
	if d < 0 {
		return span(-d) + " behind"
	}
	return span(d) + " ahead of"
}

func kindName(p asynq.ProcessInfo) string {
	if p.Scheduler {
		return "scheduler " + processName(p)
	}
	return "server " + processName(p)
}

func processName(p asynq.ProcessInfo) string { return p.Host + ":" + strconv.Itoa(p.PID) }
