package incidents_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/health"
)

// incident is something that went wrong, and what all surfaces must say first.
type incident struct {
	name     string
	redis    []string // arguments of redis-server
	settings string   // thresholds in JSON, so that a test need not wait for minutes
	happen   func(s *scene)

	kind     string
	severity health.Severity
	grows    bool   // the severity may be higher, if the other tasks of the queue ended a minute ago
	title    string // pattern of the title of the first cause
	evidence string // pattern of one of its evidence; empty: any
}

var incidents = []incident{
	{
		name: "no-server",
		happen: func(s *scene) {
			server := s.server("--queues", "mail,reports")
			s.enqueue(1, "mail", "email:send", "take 0s")
			s.until("the task to finish", func() bool { return s.queue("mail").ProcessedTotal == 1 })
			server.kill()
			s.enqueue(30, "mail", "email:send", "take 0s")
			s.enqueue(12, "reports", "report:build", "take 1s")
		},
		kind: "no-server", severity: health.Trouble, title: `^No server is running: 2 queues have 42 tasks$`,
		evidence: `^Queue "mail" has 30 tasks, but no server or worker processes it$`,
	},
	{
		name: "type-hogs", settings: `{"wait_notice": "1s", "wait_warning": "2s"}`,
		happen: func(s *scene) {
			s.server("--concurrency", "24")
			s.enqueue(14, "default", "report:build", "take 1h")
			s.until("the reports to block", func() bool { return s.queue("default").Active == 14 })
			s.enqueue(30, "default", "email:send", "take 1h")
		},
		kind: "slots-busy", severity: health.Warning, title: `^All slots of queue "default" are busy: report:build holds 14 of 24$`,
		evidence: `^report:build in queue "default" holds 14 slots \(58 %\); the longest has been running for \d+ s$`,
	},
	{
		name: "host-fails",
		happen: func(s *scene) {
			s.server("--queues", "hooks,mail")
			s.enqueue(22, "hooks", "webhook:deliver", "take 0s")
			s.enqueue(39, "hooks", "webhook:deliver", "fail 503 from initech")
			s.enqueue(20, "mail", "email:send", "take 0s")
		},
		kind: "failing", severity: health.Warning, title: `^78 % of webhook:deliver fail since \d\d:\d\d UTC with "503 from initech"$`,
		evidence: `^78 % of webhook:deliver fail in queue "hooks": 78 of 100 attempts failed within 10 min$`,
	},
	{
		name: "redis-full", redis: []string{"--maxmemory", "3mb", "--maxmemory-policy", "noeviction"},
		happen: func(s *scene) {
			s.server("--concurrency", "1")
			s.enqueue(1, "default", "report:build", "take 1h")
			s.fill("default", "email:send", "take 0s "+strings.Repeat("x", 2000))
		},
		kind: "redis-memory", severity: health.Trouble, title: `^Redis uses \d\.\d MiB of 3\.0 MiB \(\d+ %\)$`,
	},
	{
		name: "redis-unsaved", settings: `{"unsaved_warning": "1s"}`, redis: []string{"--save", "", "--appendonly", "no"},
		happen: func(s *scene) {
			s.server()
			s.enqueue(100, "default", "email:send", "take 0s")
		},
		kind: "redis-unsaved", severity: health.Warning,
		title: `^Redis persists nothing: no snapshot for \d+ s with [\d,]+ changes since, no append-only file, no replica, and no maxmemory$`,
	},
	{
		name: "tasks-crash",
		happen: func(s *scene) {
			s.restarted("--queues", "images")
			s.enqueue(1, "images", "image:resize", "crash")
			s.enqueue(20, "images", "image:crop", "take 0s")
		},
		kind: "poison", severity: health.Warning, grows: true, title: `^A task crashes its server: it is one of image:resize; one has failed \d+ times$`,
		evidence: `^Server .*:\d+ stopped reporting at about .* without a shutdown$`,
	},
	{
		name: "tasks-panic",
		happen: func(s *scene) {
			s.server("--queues", "images")
			s.enqueue(12, "images", "image:resize", "panic nil map")
			s.enqueue(20, "images", "image:crop", "take 0s")
		},
		kind: "poison", severity: health.Trouble,
		title:    `^12 tasks panic again and again: they are of image:resize with "panic: nil map"; one has failed 2 times$`,
		evidence: `^100 % of image:resize fail in queue "images": 24 of 24 attempts failed within 10 min$`,
	},
	{
		name: "paused-queue-grows",
		happen: func(s *scene) {
			s.server("--queues", "newsletter,mail")
			s.enqueue(40, "newsletter", "email:send", "take 0s")
			s.until("the queue to be empty", func() bool { return s.queue("newsletter").Size == 0 })
			s.must(s.inspector.PauseQueue("newsletter"))
			s.keepEnqueuing("newsletter", "email:send", "take 0s")
		},
		kind: "paused", severity: health.Warning, title: `^Queue "newsletter" is paused, and [\d,]+ tasks are waiting`,
	},
	{
		name: "scheduler-died",
		happen: func(s *scene) {
			s.server()
			scheduler := s.start(s.worker, nil, "--schedule")
			s.until("the scheduler", func() bool {
				entries, err := s.inspector.SchedulerEntries()
				return err == nil && len(entries) == 1
			})
			scheduler.kill()
		},
		kind: "no-scheduler", severity: health.Warning,
		title: `^No scheduler has been running for \d+ s; the last one, .*:\d+, ended without a shutdown$`,
	},
	{
		name: "clock-skew",
		happen: func(s *scene) {
			s.server()
			s.skewed(-3 * time.Minute)
			s.enqueue(20, "default", "email:send", "take 0s")
		},
		kind: "clock-skew", severity: health.Warning, title: `^The clock of server .*:\d+ is 3 min behind that of Redis$`,
	},
}

// The first cause of each incident is the right one, on each surface.
func TestIncidents(t *testing.T) {
	t.Parallel()
	proctest.NeedRedis(t)
	for _, i := range incidents {
		t.Run(i.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, i)
			i.happen(s)
			s.reported(i)
			t.Run("status", func(t *testing.T) { status(s.with(t), i) })
			t.Run("dash", func(t *testing.T) { dash(s.with(t), i) })
			t.Run("web", func(t *testing.T) { overview(s.with(t), i) })
		})
	}
}

// has reports whether the incident may have a severity.
func (i incident) has(s health.Severity) bool { return s == i.severity || i.grows && s > i.severity }

// says returns how a cause differs from that of the incident; "" if it does not.
func (i incident) says(c health.Cause) string {
	switch {
	case c.Kind != i.kind:
		return "the first cause is " + c.Kind + ": " + c.Title
	case !i.has(c.Severity):
		return "the severity is " + c.Severity.String()
	case !regexp.MustCompile(i.title).MatchString(c.Title):
		return "the title is " + c.Title
	}
	evidence := regexp.MustCompile(i.evidence)
	if i.evidence != "" && !slices.ContainsFunc(c.Evidence, func(e health.Evidence) bool { return evidence.MatchString(e.Text) }) {
		var all []string
		for _, e := range c.Evidence {
			all = append(all, e.Text)
		}
		return "the evidence is " + strings.Join(all, " | ")
	}
	return ""
}
