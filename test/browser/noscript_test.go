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

// withoutScripts disables scripts.
func (b *tab) withoutScripts() *tab {
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.noScript = true
	return b
}

// All pages work without scripts.
func TestPagesWithoutScripts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ids := s.seed(t)
	s.knows(t, "default", hostile)
	proctest.Eventually(t, "the web UI to list the server's tasks", func() bool {
		_, page := s.get(t, "/servers")
		return strings.Contains(page, "block")
	})
	b := open(t, s.url).withoutScripts()
	for path, says := range pages(ids) {
		if path == "/errors" { // its content is sampled in the background
			says = "Errors"
		}
		// A page may be a first part, for example of a search or a survey, on a busy machine.
		proctest.Eventually(t, path+" to say "+says, func() bool {
			b.visit(path)
			return eval[bool](b, contains(says))
		})
	}
}

// knows waits until the web UI lists queues.
func (s *site) knows(t *testing.T, queues ...string) {
	t.Helper()
	for _, name := range queues {
		proctest.Eventually(t, "the web UI to list the queue "+name, func() bool {
			status, _ := s.get(t, q("/queue", "queue", name))
			return status == 200
		})
	}
}

// All actions work without scripts.
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
	b.says("Queue paused")
	if !s.queue(t, hostile).Paused {
		t.Error("it is not paused")
	}
	b.click("main button", "Delete…")
	b.says("Delete queue")
	b.write("input[name=confirm]", "another")
	b.keys("\r")
	b.says("The text does not match. Nothing was changed.")
	s.queue(t, hostile)
	b.write("input[name=confirm]", strings.ReplaceAll(hostile, "\n", " "))
	b.click("main button", "Delete queue")
	b.says("Queue and tasks deleted.")
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
	b.click(".selection button", "Delete…")
	b.says("Delete 2 tasks?")
	b.click(".question form button", "Delete")
	b.says("2 tasks deleted.")
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
