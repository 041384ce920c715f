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
)

// judge says what is wrong, the worst first. It depends on the snapshot and on what is remembered of those before only.
func judge(s *Snapshot, m *memory) []Verdict {
	j := &judgement{s: s, m: m, served: serving(s)}
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

// judgement collects verdicts.
type judgement struct {
	s        *Snapshot
	m        *memory
	served   map[string]service
	verdicts []Verdict
}

func (j *judgement) add(severity Severity, kind, link, text, hint string) {
	j.verdicts = append(j.verdicts, Verdict{Severity: severity, Kind: kind, Link: link, Text: text, Hint: hint})
}

func (j *judgement) addQueue(severity Severity, kind, queue, text, hint string) {
	j.verdicts = append(j.verdicts, Verdict{Severity: severity, Queue: queue, Kind: kind, Text: text, Hint: hint, Link: queueLink(queue)})
}

func queueLink(queue string) string { return "/queue?queue=" + url.QueryEscape(queue) }

const (
	redisLink      = "/redis"
	serversLink    = "/servers"
	schedulersLink = "/schedulers"
)

// problems tells which parts of the look failed alone.
func (j *judgement) problems() {
	p := j.s.Problems
	for _, part := range []struct {
		what, link string
		err        error
	}{
		{"queues", "/queues", p.Queues}, {"servers", serversLink, p.Servers}, {"schedulers", schedulersLink, p.Entries},
	} {
		if part.err != nil {
			j.add(Trouble, "look-failed", part.link, fmt.Sprintf("The %s cannot be listed: %v", part.what, part.err),
				"What is shown of them is from before.")
		}
	}
	if p.Redis != nil {
		j.add(Notice, "no-info", redisLink, fmt.Sprintf("Redis does not tell of itself: %v", p.Redis),
			"Its memory and its settings are not watched. Let the user that is logged in with use INFO and DBSIZE.")
	}
}

// service is who serves a queue.
type service struct {
	servers, stopped int // those that take tasks, and those that no longer do
	slots, busy      int // of those that take tasks
}

// saturated says that there is no free worker for the queue.
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

func (j *judgement) servers() {
	for _, c := range j.m.crashed {
		j.add(Warning, "server-gone", serversLink,
			fmt.Sprintf("Server %s has not been heard of since about %s, when it was processing %s",
				c.name, clockTime(c.at), count(c.tasks, "task", "tasks")),
			"If nobody shut it down, it crashed. Other servers take its tasks over when their leases end.")
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
			fmt.Sprintf("Server %s has %s beyond the deadline, one of type %q in queue %q by %s",
				serverName(server), count(late, "handler that runs", "handlers that run"), first.TaskType, first.Queue, span(longest)),
			"Handlers should end when their context does. Each of these keeps a worker from other tasks.")
	}
}

func (j *judgement) schedulers() {
	if j.s.Problems.Entries != nil {
		return
	}
	if len(j.s.Entries) == 0 {
		if gone := j.s.At.Sub(j.m.entriesAt); !j.m.entriesAt.IsZero() && gone < noSchedulerTold {
			j.add(Warning, "no-scheduler", schedulersLink,
				fmt.Sprintf("No scheduler has been running for %s; before, there were %s", span(gone), count(j.m.entries, "periodic task", "periodic tasks")),
				"Start the scheduler again, unless it is not needed any more.")
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
		fmt.Sprintf("%s overdue, of %s for %s", count(missed, "periodic task is", "periodic tasks are"), name, span(longest)),
		"The scheduler lives, and does not enqueue: look at its log, and at the clock of its host.")
}

func serverName(s *asynq.ServerInfo) string { return s.Host + ":" + strconv.Itoa(s.PID) }

func clockTime(t time.Time) string { return t.UTC().Format("15:04:05") + " UTC" }

// count is a number with its noun: "1 task", "12,000 tasks".
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// number writes a number with commas.
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

// span writes a duration as one says it, rounded down: "45 s", "14 min", "3 h 20 min", "2 days".
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
