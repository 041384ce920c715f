package poll

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// diagnose returns the current problems, most severe first. It depends only on the snapshot and on
// the memory of earlier ones.
func diagnose(s *Snapshot, m *memory) []Verdict {
	j := &diagnosis{s: s, m: m, served: serving(s)}
	j.redis()
	if s.Err == nil {
		j.problems()
		for _, q := range s.Queues {
			j.queue(q)
		}
		j.servers()
		j.schedulers()
	}
	slices.SortStableFunc(j.verdicts, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Queue, b.Queue))
	})
	return j.verdicts
}

// diagnosis collects verdicts.
type diagnosis struct {
	s        *Snapshot
	m        *memory
	served   map[string]service
	verdicts []Verdict
}

func (j *diagnosis) add(severity Severity, kind, link, text, hint string) {
	j.verdicts = append(j.verdicts, Verdict{Severity: severity, Kind: kind, Link: link, Text: text, Hint: hint})
}

func (j *diagnosis) addQueue(severity Severity, kind, queue, text, hint string) {
	j.verdicts = append(j.verdicts, Verdict{Severity: severity, Queue: queue, Kind: kind, Text: text, Hint: hint, Link: queueLink(queue)})
}

func queueLink(queue string) string { return "/queue?queue=" + url.QueryEscape(queue) }

const (
	redisLink      = "/redis"
	serversLink    = "/servers"
	schedulersLink = "/schedulers"
)

// problems reports the parts of the poll that failed on their own.
func (j *diagnosis) problems() {
	p := j.s.Problems
	for _, part := range []struct {
		what, link string
		err        error
	}{
		{"queues", "/queues", p.Queues}, {"servers", serversLink, p.Servers}, {"schedulers", schedulersLink, p.Entries},
	} {
		if part.err != nil {
			j.add(Trouble, "look-failed", part.link, fmt.Sprintf("Could not list %s: %s", part.what, show.Cause(part.err)),
				"Showing their last known state.")
		}
	}
	if p.Redis != nil {
		j.add(Notice, "no-info", redisLink, fmt.Sprintf("No data about Redis: INFO is not available: %s", show.Cause(p.Redis)),
			"Its memory and settings are not monitored. Allow INFO and DBSIZE for the Redis user of this process.")
	}
}

// service describes the servers of a queue.
type service struct {
	servers, stopped int // active servers, and servers that are stopping
	slots, busy      int // of active servers
}

// saturated reports whether the queue has no free worker slot.
func (s service) saturated() bool { return s.slots > 0 && s.busy >= s.slots }

func serving(s *Snapshot) map[string]service {
	served := make(map[string]service, len(s.Queues))
	for _, server := range s.Servers {
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

func (j *diagnosis) servers() {
	for _, c := range j.m.crashed {
		j.add(Warning, "server-gone", serversLink,
			fmt.Sprintf("Server %s stopped reporting at about %s, while it was processing %s",
				c.name, clockTime(c.at), count(c.tasks, "task", "tasks")),
			"It probably crashed. Other servers recover its tasks when their leases expire.")
	}
	if j.s.Problems.Servers != nil {
		return
	}
	for _, server := range j.s.Servers {
		late, longest := 0, time.Duration(0)
		var first *asynq.WorkerInfo
		for _, w := range server.ActiveWorkers {
			if over := j.s.At.Sub(w.Deadline); !w.Deadline.IsZero() && over > overrunWarning {
				late++
				if over > longest {
					first, longest = w, over
				}
			}
		}
		if late == 0 {
			continue
		}
		j.add(Warning, "handler-overrun", serversLink,
			fmt.Sprintf("Server %s has %s past the deadline; the longest, of type %q in queue %q, by %s",
				serverName(server), count(late, "handler running", "handlers running"), first.TaskType, first.Queue, span(longest)),
			"Handlers must return when their context is canceled. Each of these occupies a worker slot.")
	}
}

func (j *diagnosis) schedulers() {
	if j.s.Problems.Entries != nil {
		return
	}
	if len(j.s.Entries) == 0 {
		if gone := j.s.At.Sub(j.m.entriesAt); !j.m.entriesAt.IsZero() && gone < noSchedulerReported {
			j.add(Warning, "no-scheduler", schedulersLink,
				fmt.Sprintf("No scheduler has been running for %s; the last one had %s", span(gone), count(j.m.entries, "periodic task", "periodic tasks")),
				"Restart the scheduler if its tasks are still needed.")
		}
		return
	}
	missed, longest := 0, time.Duration(0)
	var first *asynq.SchedulerEntry
	for _, e := range j.s.Entries {
		if late := j.s.At.Sub(e.Next); !e.Next.IsZero() && late > missedWarning {
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
	j.add(Warning, "schedule-missed", schedulersLink,
		fmt.Sprintf("%s overdue; the longest, %s, for %s", count(missed, "periodic task is", "periodic tasks are"), name, span(longest)),
		"The scheduler is running but not enqueueing. Check its log and the clock of its host.")
}

// serverName returns the display name of a server or polling worker.
func serverName(s *asynq.ServerInfo) string {
	if s.Worker != "" {
		return s.Worker
	}
	return s.Host + ":" + strconv.Itoa(s.PID)
}

func clockTime(t time.Time) string { return t.UTC().Format("15:04:05") + " UTC" }

// count formats a number with its noun: "1 task", "12,000 tasks".
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// number formats a number with commas.
func number(n int) string {
	text := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	var out []string
	for len(text) > 3 {
		out = append(out, text[len(text)-3:])
		text = text[:len(text)-3]
	}
	out = append(out, text)
	slices.Reverse(out)
	return sign + strings.Join(out, ",")
}

// span formats a duration, rounded down: "45 s", "14 min", "3 h 20 min", "2 days".
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return count(int(d/(24*time.Hour)), "day", "days")
	}
}
