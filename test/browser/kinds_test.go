package browser_test

import (
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// The tasks of a group, and those with one kind of error, are run together. A periodic task is run
// ahead of its schedule.
func TestActionsOnKinds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.seed(t)
	failed := s.queue(t, "default").Retry

	b := open(t, s.url, "404 (Not Found) "+s.url+"/error?") // a kind of error without tasks has no page
	b.visit("/groups")
	b.click(`main button[aria-label="Run the tasks of users…"]`, "")
	b.asked("Run 1 task")
	b.click("#ask form button", "Run ")
	b.says("1 task moved to pending.")
	if groups, err := s.inspector.Groups("default"); err != nil || len(groups) != 0 {
		t.Errorf("the groups are %v, %v", groups, err)
	}

	b.visit("/errors")
	b.click("main tbody th a", "smtp: 421")
	b.click("main button", "Run")
	b.asked("with this error")
	b.click("#ask form button", "Run ")
	b.says("moved to pending.")
	if got := s.queue(t, "default").Retry; got >= failed {
		t.Errorf("%d tasks were in retry, and %d are", failed, got)
	}

	pending := s.queue(t, "default").Pending
	b.visit("/schedulers")
	b.click("main tbody tr button", "Run now")
	b.says("report:monthly")
	proctest.Eventually(t, "the periodic task to be enqueued", func() bool { return s.queue(t, "default").Pending == pending+1 })
	b.click("main tbody th a", "report:monthly")
	b.until(`document.querySelectorAll('main [aria-label="Table of runs"] tbody tr').length === 1`)
}

// Settings are stored in the browser: the theme, and the rows per page.
func TestSettings(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	scheduler := asynq.NewScheduler(s.redis, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	id, err := scheduler.Register("@every 24h", asynq.NewTask("a", nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scheduler.Shutdown)
	proctest.Eventually(t, "the entry of the scheduler", func() bool {
		entries, err := s.inspector.SchedulerEntries()
		return err == nil && len(entries) == 1
	})
	for range 25 {
		if _, err := s.inspector.RunSchedulerEntry(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, s.url)
	b.visit("/settings")
	b.click(".options label", "Dark")
	b.click(`fieldset label`, "20")
	b.click("main button", "Save")
	b.says("The settings are saved in this browser.")
	b.until(`document.documentElement.dataset.theme === "dark"`)
	b.visit(q("/schedule", "id", id))
	b.until(`document.querySelectorAll("main tbody tr").length === 20 && document.documentElement.dataset.theme === "dark"`)
	b.accessible("dark by choice")
	b.visit("/settings")
	b.until(`document.querySelector("input[name=theme][value=dark]").checked && document.querySelector("input[name=size][value='20']").checked`)
	b.click("main button", "Reset to defaults")
	b.says("All settings are reset.")
	b.until(`document.documentElement.dataset.theme === undefined`)
}
