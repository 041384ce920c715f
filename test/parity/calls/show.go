package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

// show formats a value in the same way for both libraries: only what the reference has as well, and
// points in time as distances from the start of the row, which the test compares with a tolerance.
func (s *site) show(v any) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case string:
		if v == "" {
			return `""`
		}
		return s.plain(v)
	case []byte:
		if v == nil {
			return "nil"
		}
		return strconv.Quote(string(v))
	case []string:
		if v == nil {
			return "nil"
		}
		return s.plain(fmt.Sprintf("%q", v))
	case map[string]string:
		if v == nil {
			return "nil"
		}
		return fmt.Sprintf("%q", v)
	case map[string]int:
		return fmt.Sprint(v)
	case time.Time:
		return s.time(v)
	case *asynq.TaskInfo:
		return s.info(v)
	case []*asynq.TaskInfo:
		return list(v, s.info)
	case *asynq.QueueInfo:
		return s.queue(v)
	case []*asynq.GroupInfo:
		groups := slices.SortedFunc(slices.Values(v), func(a, b *asynq.GroupInfo) int { return cmp.Compare(a.Group, b.Group) })
		if v == nil {
			groups = nil
		} else if groups == nil {
			groups = []*asynq.GroupInfo{}
		}
		return list(groups, func(g *asynq.GroupInfo) string { return fmt.Sprintf("%q %d", g.Group, g.Size) })
	case []*asynq.DailyStats:
		return list(v, func(d *asynq.DailyStats) string {
			return fmt.Sprintf("%q processed %d failed %d", d.Queue, d.Processed, d.Failed)
		})
	case []*asynq.SchedulerEntry:
		return list(v, s.entry)
	case []*asynq.SchedulerEnqueueEvent:
		return list(v, func(e *asynq.SchedulerEnqueueEvent) string {
			return s.plain(e.TaskID) + " at " + s.time(e.EnqueuedAt)
		})
	case []*asynq.ServerInfo:
		return list(v, s.server)
	case []*asynq.ClusterNode:
		return list(v, func(n *asynq.ClusterNode) string { return s.plain(n.Addr) })
	case []asynq.Option:
		return list(v, func(o asynq.Option) string { return s.plain(o.String()) })
	case error:
		return s.plain(v.Error())
	default:
		return s.plain(fmt.Sprint(v))
	}
}

func list[T any](all []T, show func(T) string) string {
	if all == nil {
		return "nil"
	}
	var b strings.Builder
	for _, v := range all {
		b.WriteString("\n  " + show(v))
	}
	return fmt.Sprintf("%d:%s", len(all), b.String())
}

// distance formats a point in time, which the test compares with a tolerance.
func (s *site) distance(t time.Time) string {
	return fmt.Sprintf("⟦%.1f⟧", t.Sub(s.start).Seconds())
}

// near reports whether a point in time depends on the start of the row.
func (s *site) near(t time.Time) bool {
	return math.Abs(float64(t.Unix()-s.start.Unix())) < (20 * 365 * 24 * time.Hour).Seconds()
}

func (s *site) time(t time.Time) string {
	switch {
	case t.IsZero():
		return "zero"
	case s.near(t):
		return s.distance(t) + t.Location().String()
	default:
		return t.UTC().Format(time.RFC3339Nano) + " " + t.Location().String()
	}
}

func (s *site) info(i *asynq.TaskInfo) string {
	if i == nil {
		return "nil"
	}
	next := s.time(i.NextProcessAt)
	return fmt.Sprintf("%s %s/%q %v payload %s headers %s max retry %d retried %d last error %q at %s timeout %v deadline %s group %q "+
		"next %s orphaned %t retention %v completed %s result %s",
		s.plain(i.ID), i.Queue, i.Type, i.State, s.show(i.Payload), s.show(i.Headers), i.MaxRetry, i.Retried, i.LastErr, s.time(i.LastFailedAt),
		i.Timeout, s.time(i.Deadline), i.Group, next, i.IsOrphaned, i.Retention, s.time(i.CompletedAt), s.show(i.Result))
}

func (s *site) queue(q *asynq.QueueInfo) string {
	if q == nil {
		return "nil"
	}
	return fmt.Sprintf("%q memory>0 %t latency ⟦%.1f⟧ size %d groups %d pending %d active %d scheduled %d retry %d archived %d completed %d "+
		"aggregating %d processed %d failed %d total %d failed %d paused %t at %s",
		q.Queue, q.MemoryUsage > 0, q.Latency.Seconds(), q.Size, q.Groups, q.Pending, q.Active, q.Scheduled, q.Retry, q.Archived, q.Completed,
		q.Aggregating, q.Processed, q.Failed, q.ProcessedTotal, q.FailedTotal, q.Paused, s.time(q.Timestamp))
}

func (s *site) entry(e *asynq.SchedulerEntry) string {
	return fmt.Sprintf("%s %q type %q payload %s options %s next %s prev %s",
		s.plain(e.ID), e.Spec, e.Task.Type(), s.show(e.Task.Payload()), s.show(e.Opts), s.time(e.Next), s.time(e.Prev))
}

func (s *site) server(i *asynq.ServerInfo) string {
	host, _ := os.Hostname()
	workers := slices.SortedFunc(slices.Values(i.ActiveWorkers), func(a, b *asynq.WorkerInfo) int { return cmp.Compare(a.TaskID, b.TaskID) })
	return fmt.Sprintf("own host %t own process %t concurrency %d queues %v strict %t started %s %q workers %s",
		i.Host == host, i.PID == os.Getpid(), i.Concurrency, i.Queues, i.StrictPriority, s.time(i.Started), i.Status,
		list(workers, func(w *asynq.WorkerInfo) string {
			return fmt.Sprintf("%s type %q payload %s queue %q started %s deadline %s",
				s.plain(w.TaskID), w.TaskType, s.show(w.TaskPayload), w.Queue, s.time(w.Started), s.time(w.Deadline))
		}))
}

var (
	uuids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	hosts   = regexp.MustCompile(`\{[^{}:]+:\d+:‹uuid›\}`)
	days    = regexp.MustCompile(`\b20\d\d-\d\d-\d\d\b`)
	places  = regexp.MustCompile(`\S+\.go:\d+`)
	calls   = regexp.MustCompile(`:answer:[A-Z0-9]+-\d+-\d+`)
	scripts = regexp.MustCompile(`script: [0-9a-f]{40}, on @user_script:\d+\.?`)
	moments = regexp.MustCompile(`\b[A-Z][a-z][a-z] [A-Z][a-z][a-z] [ \d]\d \d\d:\d\d:\d\d \S+ \d{4}\b`)
)

// plain replaces text that differs between runs.
func (s *site) plain(text string) string {
	text = uuids.ReplaceAllString(text, "‹uuid›")
	text = hosts.ReplaceAllString(text, "{‹process›}")
	text = calls.ReplaceAllString(text, ":answer:‹call›")
	text = scripts.ReplaceAllString(text, "‹script›")
	text = places.ReplaceAllString(text, "‹place›")
	text = strings.ReplaceAll(text, s.addr, "‹redis›")
	text = moments.ReplaceAllStringFunc(text, func(moment string) string {
		if t, err := time.Parse(time.UnixDate, moment); err == nil && s.near(t) {
			return s.distance(t)
		}
		return moment
	})
	return days.ReplaceAllStringFunc(text, func(day string) string {
		t, err := time.Parse(time.DateOnly, day)
		if err != nil || !s.near(t) {
			return day
		}
		today := s.start.UTC().Truncate(24 * time.Hour)
		return fmt.Sprintf("‹day %d›", int(t.Sub(today)/(24*time.Hour)))
	})
}

// number formats an integer, with points in time as distances.
func (s *site) number(n int64) string {
	if t := time.Unix(n, 0); s.near(t) {
		return s.distance(t)
	}
	if t := time.Unix(0, n); n > 1<<59 && n < math.MaxInt64/2 && s.near(t) {
		return s.distance(t)
	}
	return strconv.FormatInt(n, 10)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
