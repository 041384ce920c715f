package browser_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/asynq-go/asynq"
)

// All tasks that match a filter are changed after their number is typed.
func TestAllThatMatch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for n := range 30 {
		s.add(t, []string{"a", "email:x", "email:y"}[n%3], `{"n":1}`, asynq.ProcessIn(time.Hour))
	}
	s.add(t, "email:x", "", asynq.Queue("second"))
	b := open(t, s.url, "422")
	b.visit(q("/tasks", "queue", "default", "state", "scheduled", "filter", "type:email:*"))
	b.click("main .menu summary", "All")
	b.click("main .menu button", "Archive all…")
	b.asked("Archive 20 tasks?", "type:email:*", "All scheduled tasks in queue default")
	b.write("#ask input[name=confirm]", "19")
	b.until(`document.querySelector("#ask form button").disabled`)
	b.keys("\r")
	if got := s.queue(t, "default"); got.Archived != 0 {
		t.Errorf("%d were archived for a wrong number", got.Archived)
	}
	b.write("#ask input[name=confirm]", "20")
	b.click("#ask form button", "Archive ")
	b.says("20 tasks changed", "done")
	b.accessible("operation")
	if got := s.queue(t, "default"); got.Archived != 20 || got.Scheduled != 10 {
		t.Errorf("%d are archived, %d scheduled", got.Archived, got.Scheduled)
	}
	b.click("main .crumbs a", "Operations")
	b.until(`document.querySelectorAll("main tbody tr").length === 1`)

	// A search covers all queues and states.
	b.visit(q("/search", "filter", "type=email:x"))
	b.says("11 found")
	b.click("main .menu summary", "All that match")
	b.click("main .menu button", "Delete all…")
	b.asked("Delete 11 tasks?", "This cannot be undone.")
	b.write("#ask input[name=confirm]", "11")
	b.click("#ask form button", "Delete ")
	b.until(`location.pathname === "/operations" && [...document.querySelectorAll("main tbody tr")].every((r) => r.innerText.includes("done"))`)
	if first, second := s.queue(t, "default"), s.queue(t, "second"); first.Archived != 10 || first.Scheduled != 10 || second.Pending != 0 {
		t.Errorf("left are %d archived, %d scheduled, %d pending", first.Archived, first.Scheduled, second.Pending)
	}
}

// A long operation shows its progress and can be stopped.
func TestLongOperation(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const many = 2000
	s.fill(t, many, asynq.Queue("slow"), asynq.ProcessIn(time.Hour))
	s.knows(t, "slow")
	b := open(t, s.url)
	b.visit(q("/tasks", "queue", "slow", "state", "scheduled"))
	b.click("main .menu summary", "All")
	b.click("main .menu button", "Delete all…")
	b.asked("Delete 2,000 tasks?")
	b.write("#ask input[name=confirm]", "2000")

	// From now on Redis is slow to change this queue: after some calls, each with the keys of many
	// tasks, it blocks until the test continues.
	resume, blocked := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(resume) })
	t.Cleanup(release)
	var calls atomic.Int32
	s.mini.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		change := len(args) > 100 && (command == "EVALSHA" || command == "EVAL") && slices.ContainsFunc(args[2:], func(arg string) bool { return arg == "asynq:{slow}:scheduled" })
		if !change {
			return false
		}
		switch n := calls.Add(1); {
		case n == 3:
			close(blocked)
			<-resume
		case n > 3:
			<-resume
		}
		return false
	})
	b.click("#ask form button", "Delete ")
	b.says("Scanned", "of 2,000")
	await(t, blocked, "the third call") // by then, some tasks are deleted
	b.click("main button", "Stop")
	b.says("The operation is stopping")
	release()
	b.says("canceled")
	left := s.queue(t, "slow").Scheduled
	if left == 0 || left == many {
		t.Errorf("%d of %d are left", left, many)
	}
	b.says("tasks changed")
}
