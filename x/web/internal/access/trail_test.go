package access

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTrail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	cfg := Config{Users: []User{{Name: "ann", Password: "p", Role: Admin}, {Name: "bob", Password: "p", Role: Viewer}}, AuditFile: path}
	g, _ := newGuard(t, cfg)
	b := newBrowser(g)
	b.logIn("ann", "p")
	post := func(name string) *http.Request { return newRequest(http.MethodPost, "/", basic(name, "p")) }
	change(t, g, post("ann"), Action{Verb: TaskArchive, Queue: "mail", State: "retry", Filter: "type=a", Count: 7}, errors.New("half of it"))
	change(t, g, post("ann"), Action{Verb: QueuePause, Queue: "mail\xff\n" + strings.Repeat("x", 1<<20)}, nil)
	serve(g, post("bob"), Action{Verb: QueueDelete, Queue: "mail"})
	serve(g, newRequest(http.MethodPost, "/"), Action{Verb: QueueDelete, Queue: "nobody"}) // may come from anyone
	b.send(http.MethodPost, "/logout", "a=b")
	for _, again := range []bool{false, true} {
		if again {
			if g, _ = newGuard(t, cfg); g.trail.path == "" {
				t.Fatal("no file")
			}
		}
		events := g.Events(EventFilter{})
		var got []string
		for _, e := range events {
			got = append(got, e.User+" "+e.Action+" "+e.Outcome+" "+e.Via)
		}
		if want := "ann logout done form, bob queue.delete refused password, ann queue.pause done password, ann task.archive failed password, ann login done form"; strings.Join(got, ", ") != want {
			t.Fatalf("again %v: %s\nwant %s", again, strings.Join(got, ", "), want)
		}
		e := events[3]
		if e.Queue != "mail" || e.State != "retry" || e.Filter != "type=a" || e.Count == nil || *e.Count != 7 || e.Reason != "half of it" || e.Remote != "127.0.0.1" || e.Request == "" || e.Role != "admin" || time.Since(e.At) > time.Hour {
			t.Errorf("%+v", e)
		}
		if len(events[2].Queue) > maxLogged+10 {
			t.Errorf("a name of %d bytes is stored", len(events[2].Queue))
		}
	}
	since := g.Events(EventFilter{})[3].At
	for _, c := range []struct {
		f EventFilter
		n int
	}{
		{EventFilter{User: "ann"}, 4}, {EventFilter{User: "an"}, 0}, {EventFilter{Queue: "mail"}, 2}, {EventFilter{Action: "queue"}, 2}, {EventFilter{Action: "queue.pause"}, 1},
		{EventFilter{Action: "que"}, 0}, {EventFilter{Outcome: "done"}, 3}, {EventFilter{Since: since}, 4}, {EventFilter{Until: since}, 1}, {EventFilter{User: "ann", Outcome: "failed"}, 1},
	} {
		if n := len(g.Events(c.f)); n != c.n {
			t.Errorf("%+v selects %d events, want %d", c.f, n, c.n)
		}
	}
}

// Events beyond MaxEvents displace the oldest. A file that was moved is created again.
func TestTrailIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	cfg := Config{AuditFile: path}
	g, _ := newGuard(t, cfg)
	add := func(n int) {
		for range n {
			g.trail.add(Event{At: time.Now(), Action: "queue.pause", Queue: strings.Repeat("q", 4000)})
		}
	}
	add(MaxEvents)
	g.trail.add(Event{At: time.Now(), Action: "queue.resume"})
	if events := g.Events(EventFilter{}); len(events) != MaxEvents || events[0].Action != "queue.resume" {
		t.Errorf("%d events, the first is %+v", len(events), events[0])
	}
	add(100)
	g, _ = newGuard(t, cfg) // reads a part of the file
	if n := len(g.Events(EventFilter{})); n < 900 || n > MaxEvents {
		t.Errorf("%d events were read", n)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	add(2)
	g, _ = newGuard(t, cfg)
	if n := len(g.Events(EventFilter{})); n != 2 {
		t.Errorf("%d events were read after the rotation", n)
	}
}

// A file that cannot be written is logged once, until it can be written again.
func TestTrailWithoutFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := New(Config{AuditFile: filepath.Join(dir, "missing", "audit.jsonl")}); err == nil || !strings.Contains(err.Error(), "AuditFile") {
		t.Errorf("error %v", err)
	}
	path := filepath.Join(dir, "audit.jsonl")
	g, log := newGuard(t, Config{AuditFile: path})
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		g.trail.add(Event{At: time.Now(), Action: "login"})
	}
	if n := strings.Count(log.String(), "cannot be written"); n != 1 || len(g.Events(EventFilter{})) != 3 {
		t.Errorf("logged %d times", n)
	}
}
