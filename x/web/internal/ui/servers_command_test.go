package ui

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web/internal/access"
)

// Commands to a server are confirmed, permitted, recorded and executed.
func TestServerCommands(t *testing.T) {
	s := newSite(t)
	server := asynq.NewServer(s.opt, asynq.Config{Concurrency: 3, Queues: map[string]int{"q": 1, "r": 2}, LogLevel: asynq.FatalLevel})
	if err := server.Start(asynq.NewServeMux()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	info := func() *asynq.ServerInfo {
		t.Helper()
		servers, err := s.inspector.Servers()
		if err != nil || len(servers) != 1 {
			t.Fatal(servers, err)
		}
		return servers[0]
	}
	proctest.Eventually(t, "the server", func() bool {
		servers, err := s.inspector.Servers()
		return err == nil && len(servers) == 1 && servers[0].RemoteControl
	})
	id := info().ID
	page := func() *answer {
		s.look()
		return s.get("/servers", "server", id)
	}
	button := func(do string) (form *html.Node) {
		t.Helper()
		for _, f := range page().all("form") {
			if slices.ContainsFunc(within(f, "button"), func(n *html.Node) bool { return attr(n, "value") == do }) {
				return f
			}
		}
		return nil
	}
	confirmed := func(do string, pairs ...string) *answer {
		t.Helper()
		ask := s.submit(button(do), append(pairs, "do", do)...)
		if len(s.gate.log()) != 0 || len(ask.all("form")) == 0 || ask.status != http.StatusOK {
			t.Fatalf("%s was not confirmed: %d, done %v", do, ask.status, s.gate.log())
		}
		a := s.follow(s.submit(ask.all("form")[len(ask.all("form"))-1], "confirm", "yes"))
		return a
	}
	for _, c := range []struct {
		do, said, done string
		pairs          []string
		holds          func(*asynq.ServerInfo) bool
	}{
		{"concurrency", "Concurrency set to 7.", "server.concurrency server=" + id + " n=7 ok=true", []string{"n", "7"},
			func(i *asynq.ServerInfo) bool { return i.Concurrency == 7 }},
		{"pause", "Queue q is paused on this server.", "server.pause queue=q server=" + id + " n=0 ok=true", []string{"queue", "q"},
			func(i *asynq.ServerInfo) bool { return slices.Equal(i.PausedQueues, []string{"q"}) }},
		{"quiet", "The server has stopped fetching tasks.", "server.quiet server=" + id + " n=0 ok=true", nil,
			func(i *asynq.ServerInfo) bool { return i.Status == "stopped" }},
	} {
		a := confirmed(c.do, c.pairs...)
		if got := a.text("#said"); got != c.said || !slices.Equal(s.gate.log(), []string{c.done}) || !c.holds(info()) {
			t.Errorf("%s says %q, done %q, the server is %+v", c.do, got, s.gate.log(), info())
		}
		s.gate.done = nil
	}
	if got := page().row("stopped"); !strings.Contains(got, "q paused") || button("quiet") != nil {
		t.Errorf("the row is %q", got)
	}
	// Resuming needs no confirmation.
	if got := s.follow(s.submit(button("resume"), "do", "resume")).text("#said"); got != "Queue q is resumed on this server." || len(info().PausedQueues) != 0 {
		t.Errorf("resumed: %q, %v", got, info().PausedQueues)
	}
	s.gate.done = nil

	// Without the permission, there is neither a button nor a confirmation.
	for do, verb := range map[string]access.Verb{
		"concurrency": access.ServerConcurrency, "pause": access.ServerPauseQueue, "resume": access.ServerResumeQueue,
		"stop": access.ServerStop, "quiet": access.ServerQuiet,
	} {
		s.gate.refuse = verb
		if a := s.post("/servers", "do", do, "server", id, "queue", "q", "n", "1"); a.status != http.StatusForbidden || button(do) != nil {
			t.Errorf("refused %s: %d, offered %v", do, a.status, button(do) != nil)
		}
	}
	s.gate.refuse = ""
	for _, pairs := range [][]string{{"do", "concurrency", "n", "0"}, {"do", "concurrency", "n", "many"}, {"do", "explode"}} {
		if a := s.post("/servers", append(pairs, "server", id)...); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%v: status %d", pairs, a.status)
		}
	}
	if len(s.gate.log()) != 0 {
		t.Errorf("done: %v", s.gate.log())
	}
	for _, c := range []struct{ server, queue, says string }{{"gone", "q", "not found"}, {id, "other", "other"}} {
		s.post("/servers", "do", "pause", "confirm", "yes", "server", c.server, "queue", c.queue)
		if got := s.get("/servers").text("#said"); !strings.Contains(got, c.says) {
			t.Errorf("%+v: %q", c, got)
		}
	}
	s.gate.done = nil

	if got := confirmed("stop").text("#said"); got != "The server is shutting down." {
		t.Errorf("stopped: %q", got)
	}
	<-server.Done()
}

// A server that accepts no commands has no buttons.
func TestServerWithoutRemoteControl(t *testing.T) {
	s := newSite(t)
	s.poller.snapshot.Servers = []*asynq.ServerInfo{{ID: "one", Host: "h", Queues: map[string]int{"q": 1}, Status: "active"}}
	if got := s.get("/servers", "server", "one").text("main"); strings.Contains(got, "Operate") || strings.Contains(got, "Stop") {
		t.Errorf("the page says %s", got)
	}
}
