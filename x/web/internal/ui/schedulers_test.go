package ui

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

func TestSchedulers(t *testing.T) {
	s := newSite(t)
	s.now = today
	at := func(hour, minute int) time.Time { return time.Date(2026, 11, 21, hour, minute, 0, 0, time.UTC) }
	entry := func(spec, typename string, prev, next time.Time, opts ...asynq.Option) *asynq.SchedulerEntry {
		return &asynq.SchedulerEntry{ID: "id-" + typename, Spec: spec, Task: asynq.NewTask(typename, []byte("payload")), Opts: opts, Prev: prev, Next: next}
	}
	s.poller.snapshot = &poll.Snapshot{At: s.now, Entries: []*asynq.SchedulerEntry{
		entry("0 * * * *", "hourly", at(12, 0), at(13, 0), asynq.Queue("low"), asynq.MaxRetry(3)),
		entry("0 * * * *", "stuck", at(9, 0), at(10, 0)),
		entry("@every 10s", "often", at(12, 29).Add(45*time.Second), at(12, 29).Add(55*time.Second)), // reported within the last ten seconds
		entry("* * * * *", "minutely", at(12, 28), at(12, 29)),                                       // its scheduler may report the run at 12:29 later
		entry("30 4 * * *", "daily", time.Time{}, at(4, 30).AddDate(0, 0, 1)),
		entry("0 0 31 2 *", "never", time.Time{}, time.Time{}),
		entry("bad spec", "unread", time.Time{}, at(12, 0)),
	}}
	page := s.get("/schedulers")
	for typename, want := range map[string]string{
		"hourly":   "hourly low every hour 0 * * * * in 30m 30m ago 0 payload MaxRetry(3)",
		"stuck":    "stuck default every hour 0 * * * * 2h 30m ago 3h 30m ago 3 payload", // 10:00, 11:00 and 12:00
		"often":    "often default every 10s @every 10s 5s ago 15s ago 0 payload",
		"minutely": "minutely default every minute * * * * * 1m ago 2m ago 0 payload",
		"daily":    "daily default every day at 04:30 30 4 * * * in 16h not yet 0 payload",
		"never":    "never default on the 31st of February at 00:00 0 0 31 2 * never not yet 0 payload",
		"unread":   "unread default bad spec 30m ago not yet 1 payload",
	} {
		if got := page.row(typename + " "); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := page.text(".head"); !strings.Contains(got, "7 periodic tasks · 2 overdue · next in 30m") {
		t.Errorf("the head says %q", got)
	}
	text := page.text("tbody")
	if !strings.HasPrefix(text, "stuck") || strings.Index(text, "never default") < strings.Index(text, "daily default") {
		t.Errorf("not sorted by what comes next: %s", text)
	}
	if got := s.get("/schedulers", "find", "04:30").text("tbody"); !strings.HasPrefix(got, "daily") || strings.Contains(got, "hourly") {
		t.Errorf("found by its words: %s", got)
	}

	one := s.get("/schedule", "id", "id-hourly")
	if got := one.text("ol"); got != "in 30m in 1h 30m in 2h 30m in 3h 30m in 4h 30m" {
		t.Errorf("the next runs are %q", got)
	}
	if got := one.text(".facts"); !strings.Contains(got, "Time zone UTC (inferred from its run times) Next run in 30m Last run 30m ago Missed runs 0 Queue low Options MaxRetry(3)") {
		t.Errorf("facts: %s", got)
	}
	for _, e := range s.poller.snapshot.Entries {
		s.get("/schedule", "id", e.ID)
	}
}

func TestSchedulersHostile(t *testing.T) {
	s := newSite(t)
	s.now = today
	snapshot := new(poll.Snapshot)
	for _, name := range hostileNames {
		snapshot.Entries = append(snapshot.Entries, &asynq.SchedulerEntry{ID: name, Spec: name, Task: asynq.NewTask(name, []byte(name)), Opts: []asynq.Option{asynq.Queue(name), asynq.Group(name)}, Next: s.now, Prev: s.now.Add(-time.Hour)})
	}
	snapshot.Entries = append(snapshot.Entries, &asynq.SchedulerEntry{ID: "empty"})
	s.poller.snapshot = snapshot
	page := s.get("/schedulers")
	for _, name := range hostileNames {
		if name != "\xff\xfe" && !page.leads("/schedule", "id", name) {
			t.Errorf("no link leads to the entry %q", name)
		}
		s.get("/schedule", "id", name)
		s.get("/schedulers", "find", name)
	}
	s.poller.snapshot = new(poll.Snapshot)
	if got := s.get("/schedulers").text("main"); !strings.Contains(got, "No scheduler is running") {
		t.Errorf("without a scheduler: %s", got)
	}
	if a := s.ask("/schedule?id=gone"); a.status != http.StatusNotFound {
		t.Errorf("an entry that never was: status %d", a.status)
	}
}

func TestRunSchedule(t *testing.T) {
	s := newSite(t)
	scheduler := asynq.NewScheduler(s.opt, &asynq.SchedulerOpts{HeartbeatInterval: 20 * time.Millisecond, LogLevel: asynq.FatalLevel})
	id, err := scheduler.Register("0 0 1 1 *", asynq.NewTask("report", []byte("p")), asynq.Queue("low"))
	if err != nil {
		t.Fatal(err)
	}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scheduler.Shutdown)
	var entries []*asynq.SchedulerEntry
	for until, tick := time.Now().Add(time.Minute), time.NewTicker(5*time.Millisecond); len(entries) == 0; <-tick.C {
		if entries, err = s.inspector.SchedulerEntries(); err != nil || time.Now().After(until) {
			t.Fatalf("no entry is listed: %v", err)
		}
	}
	s.poller.snapshot = &poll.Snapshot{Entries: entries}
	if got := s.get("/schedule", "id", id).text("main"); !strings.Contains(got, "No runs yet") {
		t.Errorf("before: %s", got)
	}

	s.gate.refuse = access.ScheduleRun
	if a := s.post("/schedule", "do", "run", "id", id); a.status != http.StatusForbidden {
		t.Errorf("refused: status %d", a.status)
	}
	if got := s.get("/schedulers").text("main"); strings.Contains(got, "Run now") {
		t.Error("what is refused is offered")
	}
	s.gate.refuse = ""
	back := root + "/schedule?id=" + id
	a := s.post("/schedule", "do", "run", "id", id, "back", back)
	if a.status != http.StatusSeeOther || a.header.Get("Location") != back {
		t.Fatalf("status %d, to %q", a.status, a.header.Get("Location"))
	}
	tasks, err := s.inspector.ListPendingTasks("low")
	if err != nil || len(tasks) != 1 || tasks[0].Type != "report" {
		t.Fatalf("enqueued: %v, %v", tasks, err)
	}
	if want := fmt.Sprintf("schedule.run queue=low task=%s entry=%s n=0 ok=true", tasks[0].ID, id); len(s.gate.log()) != 1 || s.gate.log()[0] != want {
		t.Errorf("done %q, want %q", s.gate.log(), want)
	}
	page := s.get("/schedule", "id", id)
	if !strings.Contains(page.text("#said"), "enqueued") || len(within(page.all("#said")[0], "a")) != 1 {
		t.Errorf("the page says %q", page.text("#said"))
	}
	if !page.leads("/task", "queue", "low", "id", tasks[0].ID) || len(page.all(".ran")) != 1 {
		t.Errorf("the history: %s", page.text("main"))
	}
	if again := s.get("/schedule", "id", id); again.text("#said") != "" {
		t.Errorf("it is said again: %s", again.text("#said"))
	}

	// The history of a removed entry is kept.
	s.poller.snapshot = new(poll.Snapshot)
	if got := s.get("/schedule", "id", id).text("main"); !strings.Contains(got, "removed") || !strings.Contains(got, tasks[0].ID) {
		t.Errorf("gone: %s", got)
	}
	s.post("/schedule", "do", "run", "id", "unknown")
	if got := s.get("/schedulers").text("#said"); got == "" || !strings.Contains(got, "unknown") {
		t.Errorf("of an unknown one it says %q", got)
	}
	if a := s.post("/schedule", "do", "drop", "id", id); a.status != http.StatusUnprocessableEntity {
		t.Errorf("another change: status %d", a.status)
	}
}

// A schedule is paused after confirmation, and resumed.
func TestPauseSchedule(t *testing.T) {
	s := newSite(t)
	scheduler := asynq.NewScheduler(s.opt, &asynq.SchedulerOpts{HeartbeatInterval: 20 * time.Millisecond, LogLevel: asynq.FatalLevel})
	id, err := scheduler.Register("0 0 1 1 *", asynq.NewTask("report", nil), asynq.Queue("low"))
	if err != nil {
		t.Fatal(err)
	}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scheduler.Shutdown)
	proctest.Eventually(t, "the entry", func() bool {
		s.look()
		return len(s.poller.snapshot.Entries) == 1
	})
	back := root + "/schedule?id=" + id
	for _, verb := range []access.Verb{access.SchedulePause, access.ScheduleResume} {
		_, do, _ := strings.Cut(string(verb), ".")
		s.gate.refuse = verb
		if a := s.post("/schedule", "do", do, "id", id, "back", back); a.status != http.StatusForbidden {
			t.Errorf("refused %s: %d", do, a.status)
		}
	}
	s.gate.refuse = access.SchedulePause
	if got := s.get("/schedule", "id", id).text(".actions"); got != "Run now" {
		t.Errorf("without the permission, the actions are %q", got)
	}
	s.gate.refuse = ""
	if got := s.get("/schedule", "id", id).text(".actions"); got != "Run now Pause…" {
		t.Errorf("the actions are %q", got)
	}
	ask := s.post("/schedule", "do", "pause", "id", id, "back", back)
	if !strings.Contains(ask.text("main"), "Pause this schedule?") || len(s.gate.log()) != 0 {
		t.Fatalf("not confirmed: %s", ask.text("main"))
	}
	form := ask.all("form")
	a := s.follow(s.submit(form[len(form)-1], "confirm", "yes"))
	s.look()
	if got := a.text("#said"); !strings.HasPrefix(got, "Schedule paused.") || !s.poller.snapshot.Entries[0].Paused {
		t.Errorf("paused: %q, %+v", got, s.poller.snapshot.Entries[0])
	}
	if got := s.get("/schedulers").row("report"); !strings.Contains(got, "paused") {
		t.Errorf("the row is %q", got)
	}
	if got := s.get("/schedule", "id", id).text(".actions"); got != "Run now Resume" {
		t.Errorf("the actions of a paused schedule are %q", got)
	}
	s.post("/schedule", "do", "resume", "id", id, "back", back)
	s.look()
	if s.poller.snapshot.Entries[0].Paused {
		t.Error("the schedule was not resumed")
	}
	want := []string{"schedule.pause queue=low entry=" + id + " n=0 ok=true", "schedule.resume queue=low entry=" + id + " n=0 ok=true"}
	if !slices.Equal(s.gate.log(), want) {
		t.Errorf("done %q, want %q", s.gate.log(), want)
	}
	s.post("/schedule", "do", "resume", "id", "gone", "back", back)
	if got := s.get("/schedulers").text("#said"); !strings.Contains(got, "gone") {
		t.Errorf("of an unknown one it says %q", got)
	}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var events []*asynq.SchedulerEnqueueEvent
	for n := range 150 {
		events = append(events, &asynq.SchedulerEnqueueEvent{EnqueuedAt: now.Add(time.Duration(-n) * time.Minute)})
	}
	line := newTimeline(events, []time.Time{now.Add(time.Minute), now.Add(time.Hour)}, now)
	if line.Count != mostDots || strings.Count(string(line.SVG), `"ran"`) != mostDots || strings.Count(string(line.SVG), `"comes"`) != 1 || !line.To.Equal(now.Add(time.Minute)) {
		t.Errorf("%d events, to %v: %s", line.Count, line.To, line.SVG)
	}
	ahead := newTimeline(nil, []time.Time{now.Add(time.Hour)}, now)
	if !ahead.To.Equal(now.Add(time.Hour)) || strings.Count(string(ahead.SVG), `"comes"`) != 1 {
		t.Errorf("only what comes: %+v", ahead)
	}
	if none := newTimeline(nil, nil, now); none.SVG != "" {
		t.Errorf("nothing: %s", none.SVG)
	}
	late := newTimeline([]*asynq.SchedulerEnqueueEvent{{EnqueuedAt: now.Add(time.Hour)}}, nil, now) // another host's clock
	if strings.Contains(string(late.SVG), "NaN") || strings.Contains(string(late.SVG), "Inf") {
		t.Errorf("an event of the future: %s", late.SVG)
	}
}
