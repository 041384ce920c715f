package browser_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// withoutScripts has the browser run none.
func (b *tab) withoutScripts() *tab {
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.noScript = true
	return b
}

// Without scripts each page can be read.
func TestPagesWithoutScripts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ids := s.seed(t)
	s.knows(t, "default", hostile)
	proctest.Eventually(t, "the web UI to know of the server's tasks", func() bool {
		_, page := s.get(t, "/servers")
		return strings.Contains(page, "block")
	})
	b := open(t, s.url).withoutScripts()
	for path, says := range pages(ids) {
		if path == "/errors" { // what it says is found in the background
			says = "Errors"
		}
		b.visit(path)
		b.until(`document.getElementById("main").innerText.includes(` + quote(says) + `) || [...document.querySelectorAll("main textarea, main input, main select")].some((e) => e.value.includes(` + quote(says) + `))`)
	}
}

// knows waits until the web UI knows of queues, which it is told of by no one.
func (s *site) knows(t *testing.T, queues ...string) {
	t.Helper()
	for _, name := range queues {
		proctest.Eventually(t, "the web UI to know of the queue "+name, func() bool {
			status, _ := s.get(t, q("/queue", "queue", name))
			return status == 200
		})
	}
}

// Without scripts all can be done, too.
func TestActionsWithoutScripts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var ids []string
	for n := range 25 {
		ids = append(ids, s.add(t, "a", "", asynq.ProcessIn(time.Duration(n+1)*time.Hour)))
	}
	s.add(t, "find:me", "", asynq.Queue(hostile))
	s.knows(t, "default", hostile)
	b := open(t, s.url, "422").withoutScripts()

	b.visit(q("/queue", "queue", hostile))
	b.click("main button", "Pause")
	b.says("No tasks of the queue are taken now")
	if !s.queue(t, hostile).Paused {
		t.Error("it is not paused")
	}
	b.click("main button", "Delete…")
	b.says("Delete the queue")
	b.write("input[name=confirm]", "another")
	b.keys("\r")
	b.says("That is not it: nothing was done.")
	s.queue(t, hostile)
	b.write("input[name=confirm]", strings.ReplaceAll(hostile, "\n", " "))
	b.click("main button", "Delete the queue")
	b.says("The queue is deleted, with its tasks.")
	if _, err := s.inspector.GetQueueInfo(hostile); !errors.Is(err, asynq.ErrQueueNotFound) {
		t.Errorf("it is still there: %v", err)
	}

	b.visit("/")
	b.write(".find input", "type:a")
	b.keys("\r")
	b.says("25 found")

	b.visit(q("/tasks", "queue", "default", "state", "scheduled", "size", "20"))
	b.says("Page 1 of 2")
	b.click("main a[rel=next]", "Next")
	b.says("Page 2 of 2")
	for _, id := range ids[20:22] {
		b.click(`input[name=id][value="`+id+`"]`, "")
	}
	b.click(".picked button", "Delete…")
	b.says("Delete 2 tasks?")
	b.click(".question form button", "Delete")
	b.says("2 tasks: deleted.")
	var left []string
	tasks, err := s.inspector.ListScheduledTasks("default", asynq.PageSize(100))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		left = append(left, task.ID)
	}
	if !slices.Equal(left, slices.Delete(slices.Clone(ids), 20, 22)) {
		t.Errorf("left are %d tasks: %v", len(left), left)
	}

	ground := func() string { return eval[string](b, `getComputedStyle(document.body).backgroundColor`) }
	light := ground()
	b.click(".look button", "")
	b.until(`document.documentElement.dataset.theme === "light"`)
	b.click(".look button", "")
	b.until(`document.documentElement.dataset.theme === "dark"`)
	if dark := ground(); dark == light {
		t.Errorf("both looks are %s", dark)
	}
}
