package ui

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

func queueNames(a *answer) string {
	var names []string
	for _, th := range within(a.all("tbody")[0], "th") {
		names = append(names, textOf(within(th, "a")[0]))
	}
	return strings.Join(names, " ")
}

func TestQueuesSorted(t *testing.T) {
	s := newSite(t)
	s.poller.snapshot = &poll.Snapshot{Queues: []poll.Queue{
		{Name: "a", Info: &asynq.QueueInfo{Pending: 2, Latency: time.Second, Failed: 1}},
		{Name: "b", Info: &asynq.QueueInfo{Pending: 9, Latency: time.Minute}},
		{Name: "broken", Err: errors.New("WRONGTYPE")},
		{Name: "c", Info: &asynq.QueueInfo{Pending: 2, MemoryUsage: 5}, Rate: poll.Rate{Known: true, Processed: 3}},
	}}
	for _, test := range []struct{ sort, desc, want, mark string }{
		{"", "", "a b broken c", "ascending"},
		{"queue", "1", "c broken b a", "descending"},
		{"pending", "1", "broken b a c", "descending"},
		{"pending", "", "broken a c b", "ascending"},
		{"latency", "1", "broken b a c", "descending"},
		{"processed", "1", "broken c a b", "descending"},
		{"memory", "1", "broken c a b", "descending"},
		{"failed", "1", "broken a b c", "descending"},
		{"nonsense", "1", "a b broken c", ""},
	} {
		page := s.get("/queues", "sort", test.sort, "desc", test.desc)
		if got := queueNames(page); got != test.want {
			t.Errorf("by %s %q: %s, want %s", test.sort, test.desc, got, test.want)
		}
		var marks []string
		for _, th := range page.all("th") {
			if m := attr(th, "aria-sort"); m != "" {
				marks = append(marks, m)
			}
		}
		if got := strings.Join(marks, " "); got != test.mark {
			t.Errorf("by %s %q: marked %q, want %q", test.sort, test.desc, got, test.mark)
		}
	}
	page := s.get("/queues", "sort", "pending", "desc", "1", "name", "b")
	if got := queueNames(page); got != "broken b" || !page.leads("/queues", "sort", "pending", "name", "b") || !page.leads("/queues", "sort", "latency", "desc", "1", "name", "b") {
		t.Errorf("found %s; or a heading loses what is looked for", got)
	}
	if got := s.get("/queues", "name", "none").text("main"); !strings.Contains(got, "No queue matches") {
		t.Errorf("nothing found: %s", got)
	}
	s.get("/")
}

func TestManyQueues(t *testing.T) {
	s := newSite(t)
	snapshot := new(poll.Snapshot)
	for n := range 1000 {
		snapshot.Queues = append(snapshot.Queues, poll.Queue{Name: fmt.Sprintf("queue-%04d", n), Info: &asynq.QueueInfo{Pending: n}})
	}
	s.poller.snapshot = snapshot
	page := s.get("/queues", "sort", "pending", "desc", "1", "page", "2")
	names := strings.Fields(queueNames(page))
	if len(names) != mostQueues || names[0] != "queue-0799" || !strings.Contains(page.text(".pages"), "201 to 400 of 1,000") {
		t.Errorf("%d queues from %s on: %s", len(names), names[0], page.text(".pages"))
	}
	if !page.leads("/queues", "sort", "pending", "desc", "1", "page", "3") {
		t.Error("no link leads to the next page")
	}
	for asked, first := range map[string]string{"-1": "queue-0000", "x": "queue-0000", "99": "queue-0800"} {
		if got := strings.Fields(queueNames(s.get("/queues", "page", asked)))[0]; got != first {
			t.Errorf("page %s begins with %s, want %s", asked, got, first)
		}
	}
}

func TestQueuesHostile(t *testing.T) {
	s := newSite(t)
	snapshot := new(poll.Snapshot)
	for _, name := range hostileNames {
		snapshot.Queues = append(snapshot.Queues, poll.Queue{Name: name, Info: &asynq.QueueInfo{Queue: name, Pending: 1}})
	}
	s.poller.snapshot = snapshot
	page := s.get("/queues")
	s.get("/")
	for _, name := range hostileNames {
		if name != "\xff\xfe" && !page.leads("/queue", "queue", name) {
			t.Errorf("no link leads to %q", name)
		}
		s.get("/queues", "name", name, "sort", name, "desc", name)
	}
}

func TestOverviewShowsTheWorstCauses(t *testing.T) {
	s := newSite(t)
	for n := range 1224 {
		name := fmt.Sprintf("q%04d", n)
		s.poller.snapshot.Queues = append(s.poller.snapshot.Queues, poll.Queue{Name: name, Info: &asynq.QueueInfo{Queue: name}})
		s.poller.snapshot.Health.Causes = append(s.poller.snapshot.Health.Causes, health.Cause{ID: name, Severity: health.Trouble, Queues: []string{name}, Title: name + " has no server"})
	}
	s.poller.snapshot.Queues = append(s.poller.snapshot.Queues, poll.Queue{Name: "well", Info: new(asynq.QueueInfo)})
	a := s.get("/")
	if n := len(a.all(".verdict")); n != mostCauses || !strings.Contains(a.text("main"), "and 1,204 more") || !a.leads("/queues", "trouble", "yes") {
		t.Errorf("%d verdicts: %s", n, a.text("main"))
	}
	a = s.get("/queues", "trouble", "yes")
	if !strings.Contains(a.text("main"), "1,224 queues") || !a.leads("/queues", "trouble", "yes", "page", "2") || !a.leads("/queues") {
		t.Errorf("queues in trouble: %.300s", a.text("main"))
	}
	if a = s.get("/queues", "trouble", "yes", "name", "WELL"); strings.Contains(a.text("main"), "1 queue") {
		t.Errorf("a queue with no trouble: %s", a.text("main"))
	}
	s.poller.snapshot.Health.Causes = nil
	if a = s.get("/queues", "trouble", "yes"); !strings.Contains(a.text("main"), "No queue has problems") {
		t.Errorf("without trouble: %s", a.text("main"))
	}
}

// The latency on the overview excludes paused queues, whose tasks wait intentionally, and includes
// queues without servers.
func TestOverviewLatency(t *testing.T) {
	s := newSite(t)
	for _, tc := range []struct {
		queues []poll.Queue
		want   []string
		leads  string
	}{
		{[]poll.Queue{{Name: "mail", Info: &asynq.QueueInfo{}}}, []string{"0 ready to run", "0s age of the oldest pending task"}, ""},
		{[]poll.Queue{
			{Name: "mail", Info: &asynq.QueueInfo{Pending: 2, Latency: 3 * time.Second}},
			{Name: "paused", Info: &asynq.QueueInfo{Pending: 40, Latency: time.Hour, Paused: true}},
			{Name: "empty", Info: &asynq.QueueInfo{Paused: true}},
		}, []string{"42 40 of them in paused queues", "3.0s oldest pending task in mail , excluding 1 paused queue"}, "mail"},
		{[]poll.Queue{
			{Name: "paused", Info: &asynq.QueueInfo{Pending: 1, Latency: time.Hour, Paused: true}},
		}, []string{"1 1 of them in paused queues", "0s age of the oldest pending task, excluding 1 paused queue"}, ""},
		{[]poll.Queue{
			{Name: "mail", Info: &asynq.QueueInfo{Pending: 2, Latency: 3 * time.Second}},
			{Name: "unserved", Info: &asynq.QueueInfo{Pending: 1, Latency: time.Hour}},
		}, []string{"3 ready to run", "in unserved"}, "unserved"},
	} {
		s.poller.snapshot.Queues = tc.queues
		a := s.get("/")
		a.sound()
		text := strings.Join(strings.Fields(a.text(".figures")), " ")
		for _, want := range tc.want {
			if !strings.Contains(text, want) {
				t.Errorf("the figures are %q, want %q", text, want)
			}
		}
		if tc.leads != "" && !a.leads("/queue", "queue", tc.leads) {
			t.Errorf("there is no way to %s", tc.leads)
		}
	}
}

// Titles clip long names, with the full name in a fold. Causes clip them as well.
func TestLongQueueName(t *testing.T) {
	s := newSite(t)
	long := strings.Repeat("long-", 40) + "end"
	for _, name := range []string{long, "short"} {
		s.enqueue(asynq.NewTask("a", nil), asynq.Queue(name))
		s.poller.snapshot.Queues = append(s.poller.snapshot.Queues, poll.Queue{Name: name, Info: &asynq.QueueInfo{Queue: name}})
		s.poller.snapshot.Health.Causes = append(s.poller.snapshot.Health.Causes, health.Cause{ID: name, Severity: health.Trouble, Queues: []string{name}, Title: fmt.Sprintf("Queue %q is in trouble", name)})
	}
	a := s.get("/queue", "queue", long)
	if title := a.text("h1"); !strings.HasPrefix(long, strings.TrimSuffix(title, "…")) || utf8.RuneCountInString(title) != 81 {
		t.Errorf("the title is %q", title)
	}
	if whole := a.text("pre"); whole != long {
		t.Errorf("the whole name is %q", whole)
	}
	if verdict := a.text(".verdict"); strings.Contains(verdict, long) || !strings.Contains(verdict, `long-…" is in trouble`) {
		t.Errorf("the verdict says %q", verdict)
	}
	if a = s.get("/queue", "queue", "short"); a.text("h1") != "short" || len(a.all("pre")) > 0 || !strings.Contains(a.text(".verdict"), `Queue "short" is`) {
		t.Errorf("the page of a short name says %s", a.text("main"))
	}
}
