package ui

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

func TestServers(t *testing.T) {
	s := newSite(t)
	s.now = today
	worker := func(id string, ago, left time.Duration) *asynq.WorkerInfo {
		return &asynq.WorkerInfo{TaskID: id, TaskType: "email:" + id, TaskPayload: []byte("payload of " + id), Queue: "mail", Started: s.now.Add(-ago), Deadline: s.now.Add(left)}
	}
	s.poller.snapshot = &poll.Snapshot{
		At: s.now,
		Queues: []poll.Queue{
			{Name: "mail", Info: &asynq.QueueInfo{Queue: "mail", Pending: 7, Size: 9}},
			{Name: "left", Info: &asynq.QueueInfo{Queue: "left", Pending: 3, Size: 3}},
		},
		Servers: []*asynq.ServerInfo{
			{ID: "one", Host: "alpha", PID: 11, Concurrency: 4, Queues: map[string]int{"mail": 6, "new": 3}, Status: "active", Started: s.now.Add(-time.Hour),
				ActiveWorkers: []*asynq.WorkerInfo{worker("old", 90*time.Second, -time.Second), worker("young", time.Second, time.Minute)}},
			{ID: "two", Host: "beta", PID: 22, Concurrency: 5, Queues: map[string]int{"mail": 1}, StrictPriority: true, Status: "stopped", Started: s.now,
				ActiveWorkers: []*asynq.WorkerInfo{worker("middle", 30*time.Second, time.Minute)}},
		},
		Health: health.Report{Causes: []health.Cause{{Title: "Server x crashed", Link: health.Link{Page: health.PageServers}}, {Title: "of another page", Link: health.Link{Page: health.PageRedis}}}},
	}
	page := s.get("/servers")
	if got := page.text(".head"); !strings.Contains(got, "1 active server · 3 of 4 slots busy") {
		t.Errorf("the head says %q", got)
	}
	if got := page.row("alpha:11"); !strings.Contains(got, "active 2 / 4 mail 6 new 3 email:old running for 1m 30s 1h ago") {
		t.Errorf("a server is %q", got)
	}
	if got := page.row("beta:22"); !strings.Contains(got, "stopped 1 / 5 strict mail 1") {
		t.Errorf("a stopped server is %q", got)
	}
	if !strings.Contains(page.text(".verdicts"), "crashed") || strings.Contains(page.body, "of another page") {
		t.Errorf("verdicts: %q", page.text(".verdicts"))
	}
	table := textOf(page.all("table")[1])
	if a, b, c := strings.Index(table, "email:old"), strings.Index(table, "email:middle"), strings.Index(table, "email:young"); a < 0 || a > b || b > c {
		t.Errorf("what runs is not sorted by how long it has: %s", table)
	}
	if !strings.Contains(table, "late 1s ago") || !strings.Contains(table, "payload of middle") {
		t.Errorf("what runs: %s", table)
	}
	queues := textOf(page.all("table")[2])
	for _, want := range []string{"left no workers 0 3 0 0", "mail 3 7 1 4", "new no task yet 0 0 1 4"} {
		if !strings.Contains(queues, want) {
			t.Errorf("who works on what lacks %q: %s", want, queues)
		}
	}
	if !page.leads("/task", "queue", "mail", "id", "young") || !page.leads("/servers", "server", "two") {
		t.Error("a link is missing")
	}

	for find, want := range map[string]int{"ALPHA": 1, "middle": 1, "email:": 2, "nothing": 0, "stopped": 1} {
		page := s.get("/servers", "find", find)
		got := strings.Count(page.text("main"), "alpha:11 active") + strings.Count(page.text("main"), "beta:22 stopped")
		if got != want {
			t.Errorf("%q finds %d servers, want %d", find, got, want)
		}
	}
	one := s.get("/servers", "server", "two")
	if got := one.text("main"); strings.Contains(got, "alpha:11") || !strings.Contains(got, "Showing only server beta:22") {
		t.Errorf("one server: %s", got)
	}

	s.gate.refuse = access.TaskCancel
	if strings.Contains(s.get("/servers").text("main"), "Cancel") {
		t.Error("what is refused is offered")
	}
}

func TestServersBounded(t *testing.T) {
	s := newSite(t)
	s.now = today
	server := &asynq.ServerInfo{ID: "one", Host: "h", PID: 1, Concurrency: 1000, Queues: map[string]int{"q": 1}, Status: "active"}
	for n := range 1000 {
		server.ActiveWorkers = append(server.ActiveWorkers, &asynq.WorkerInfo{TaskID: fmt.Sprint("id-", n), TaskType: "t", Queue: "q", Started: s.now.Add(time.Duration(-n) * time.Second)})
	}
	s.poller.snapshot = &poll.Snapshot{Servers: []*asynq.ServerInfo{server}}
	page := s.get("/servers")
	if rows := within(page.all("table")[1], "tr"); len(rows) != mostRunning+1 || !strings.Contains(page.text("main"), "of 1,000") || attr(rows[1], "id") != "task-q-id-999" {
		t.Errorf("%d rows, the first %q", len(rows), attr(rows[1], "id"))
	}
}

// A thousand servers with a hundred tasks each have pages, which are fast.
func TestServersArePaged(t *testing.T) {
	s := newSite(t)
	s.now = today
	var all []*asynq.ServerInfo
	for n := range 1000 {
		server := &asynq.ServerInfo{ID: fmt.Sprint("s", n), Host: "host", PID: n, Concurrency: 100, Queues: map[string]int{"q": 1}, Status: "active", Started: today}
		for k := range 100 {
			server.ActiveWorkers = append(server.ActiveWorkers, &asynq.WorkerInfo{
				TaskID: fmt.Sprintf("%d-%d", n, k), TaskType: "t", TaskPayload: []byte(`{"user_id":1}`), Queue: "q", Started: today.Add(time.Duration(-n-k) * time.Second)})
		}
		all = append(all, server)
	}
	s.poller.snapshot = &poll.Snapshot{At: today, Servers: all}
	rows := func(a *answer, n int) int { return len(within(a.all("table")[n], "tr")) - 1 }
	took, page := time.Hour, (*answer)(nil)
	for range 3 { // the fastest: other load only slows them down
		began := time.Now()
		page = s.get("/servers")
		took = min(took, time.Since(began))
	}
	if rows(page, 0) != mostServers || rows(page, 1) != mostRunning || took > 5*time.Second { // 0.1 s, or 1 s with the race detector beside other tests; minutes if each task is compared with all
		t.Errorf("%d servers, %d tasks in %v", rows(page, 0), rows(page, 1), took)
	}
	for _, part := range []string{"1 to 50 of 1,000", "1 to 200 of 100,000", "1,000 active servers · 100,000 of 100,000 slots busy"} {
		if !strings.Contains(page.text("main"), part) {
			t.Errorf("the page does not say %q", part)
		}
	}
	// Both lists have their own links.
	links := page.all("a", "rel", "next")
	if len(links) != 2 {
		t.Fatalf("%d links to next pages", len(links))
	}
	next := s.get(attr(links[0], "href"))
	if !strings.Contains(next.text("main"), "51 to 100 of 1,000") || !strings.Contains(next.text("main"), "1 to 200 of 100,000") {
		t.Error("the second page of servers")
	}
	both := s.get(attr(next.all("a", "rel", "next")[1], "href"))
	if !strings.Contains(both.text("main"), "51 to 100 of 1,000") || !strings.Contains(both.text("main"), "201 to 400 of 100,000") {
		t.Error("the second page of both")
	}
	if got := s.ask("/servers", "tasks", "x").status; got != http.StatusUnprocessableEntity {
		t.Errorf("an invalid page: %d", got)
	}
}

func TestNoServers(t *testing.T) {
	s := newSite(t)
	s.now = today
	s.poller.snapshot = &poll.Snapshot{Problems: poll.Problems{Servers: fmt.Errorf("refused")}, At: s.now}
	page := s.get("/servers")
	if got := page.text("main"); !strings.Contains(got, "No server is running") || !strings.Contains(got, "Could not list servers") {
		t.Errorf("the page says %q", got)
	}
}

func TestServersHostile(t *testing.T) {
	s := newSite(t)
	s.now = today
	s.ui.Redact = func(queue, _ string, data []byte) []byte { return append([]byte("of "+queue+": "), data...) }
	snapshot := &poll.Snapshot{}
	for n, name := range hostileNames {
		snapshot.Queues = append(snapshot.Queues, poll.Queue{Name: name, Info: &asynq.QueueInfo{Queue: name, Size: 1}})
		snapshot.Servers = append(snapshot.Servers, &asynq.ServerInfo{
			ID: name + fmt.Sprint(n), Host: name, PID: n, Concurrency: 1, Queues: map[string]int{name: 1}, Status: name, Started: s.now,
			ActiveWorkers: []*asynq.WorkerInfo{{TaskID: name, TaskType: name, Queue: name, TaskPayload: []byte(name), Started: s.now}},
		})
	}
	s.poller.snapshot = snapshot
	page := s.get("/servers")
	for _, name := range hostileNames {
		if name == "\xff\xfe" {
			continue // URLs can have these bytes, but parsed pages cannot
		}
		if !page.leads("/task", "queue", name, "id", name) {
			t.Errorf("no link leads to task %q", name)
		}
		s.get("/servers", "find", name, "server", name)
	}
}

func TestCancelFromServers(t *testing.T) {
	s := newSite(t)
	heard := s.redis.NewSubscriber()
	heard.Subscribe("asynq:cancel")
	canceled := make(chan string, 9)
	go func() {
		for m := range heard.Messages() { // the publisher waits for the message
			canceled <- m.Message
		}
	}()
	t.Cleanup(heard.Close)
	receiver := asynq.NewReceiver(s.opt, asynq.ReceiverConfig{Queues: map[string]int{"q": 1}})
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(receiver.Shutdown)
	if _, err := s.client.Enqueue(asynq.NewTask("a", nil), asynq.Queue("q"), asynq.TaskID("the-id")); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if leases, err := receiver.Receive(ctx, 1, "q"); err != nil || len(leases) != 1 {
		t.Fatal(leases, err)
	}
	back := root + "/servers?find=x"

	s.gate.refuse = access.TaskCancel
	if a := s.post("/servers", "do", "cancel", "queue", "q", "id", "the-id", "back", back); a.status != http.StatusForbidden || len(s.gate.log()) != 0 {
		t.Fatalf("refused: status %d, done %v", a.status, s.gate.log())
	}
	s.gate.refuse = ""
	a := s.post("/servers", "do", "cancel", "queue", "q", "id", "the-id", "back", back)
	if a.status != http.StatusSeeOther || a.header.Get("Location") != back {
		t.Errorf("status %d, to %q", a.status, a.header.Get("Location"))
	}
	select {
	case id := <-canceled:
		if id != "the-id" {
			t.Errorf("%q was canceled", id)
		}
	case <-time.After(time.Minute):
		t.Error("no server received the cancellation")
	}
	if want := "task.cancel queue=q state=active task=the-id n=1 ok=true"; len(s.gate.log()) != 1 || s.gate.log()[0] != want || s.poller.woken != 1 {
		t.Errorf("done %q, want %q; woken %d", s.gate.log(), want, s.poller.woken)
	}
	if got := s.get("/servers").text("#said"); !strings.Contains(got, "Cancellation of task the-id") {
		t.Errorf("the next page says %q", got)
	}
	for _, pairs := range [][]string{{"do", "delete", "id", "x"}, {"do", "cancel"}} {
		if a := s.post("/servers", pairs...); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%v: status %d", pairs, a.status)
		}
	}

	s.redis.SetError("LOADING")
	a = s.post("/servers", "do", "cancel", "queue", "q", "id", "the-id", "back", back)
	s.redis.SetError("")
	if !strings.Contains(a.text("main"), "LOADING") || len(s.gate.log()) != 1 {
		t.Errorf("after an error the page says %q, and done is %v", a.text("main"), s.gate.log())
	}
}
