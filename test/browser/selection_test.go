package browser_test

import (
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// Tasks are selected one by one, as a range, and all of a page, and then run, archived and deleted.
func TestSelectedTasks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ids := make([]string, 8)
	for n := range ids {
		ids[n] = s.add(t, "a", "", asynq.ProcessIn(time.Duration(n+1)*time.Hour)) // in the order of the list
	}
	states := func() []asynq.TaskState {
		var all []asynq.TaskState
		for _, id := range ids {
			all = append(all, s.state(t, "default", id))
		}
		return all
	}
	const (
		planned  = asynq.TaskStateScheduled
		pending  = asynq.TaskStatePending
		archived = asynq.TaskStateArchived
	)
	b := open(t, s.url)
	b.visit(q("/tasks", "queue", "default", "state", "scheduled"))
	box := func(id string) string { return `input[name=id][value="` + id + `"]` }

	b.click(box(ids[1]), "")
	b.click(box(ids[4]), "", withShift())
	b.click(box(ids[2]), "") // deselects this one
	b.until(`document.querySelectorAll("input[name=id]:checked").length === 3 && document.querySelector("[data-all]").indeterminate`)
	b.click(".selection button", "Run")
	b.says("3 tasks moved to pending.")
	if got, want := states(), []asynq.TaskState{planned, pending, planned, pending, pending, planned, planned, planned}; !slices.Equal(got, want) {
		t.Errorf("after some were run: %v", got)
	}

	b.click(box(ids[0]), "")
	b.click(".selection button", "Archive")
	b.says("1 task archived.")
	if got := states()[0]; got != archived {
		t.Errorf("the one to be archived is %v", got)
	}

	b.click("[data-all]", "")
	b.until(`document.querySelectorAll("input[name=id]:checked").length === 4`)
	b.click(".selection button", "Delete…")
	b.asked("Delete 4 tasks?")
	if got := s.queue(t, "default").Scheduled; got != 4 {
		t.Errorf("%d are scheduled before the answer", got)
	}
	b.click("#ask button", "Delete")
	b.says("4 tasks deleted.", "No scheduled tasks.")
	if got, want := states(), []asynq.TaskState{archived, pending, 0, pending, pending, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("after all others were deleted: %v", got)
	}
}

// Tasks of several queues are selected in search results.
func TestSelectedHits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, c := s.add(t, "find:me", "", asynq.Queue(hostile), asynq.TaskID(hostile)), s.add(t, "find:me", "", asynq.ProcessIn(time.Hour))
	s.add(t, "other", "")
	b := open(t, s.url)
	b.visit(q("/search", "filter", "type:find:me"))
	b.says("2 found")
	b.click("[data-all]", "")
	b.click(".selection button", "Archive")
	b.says("2 tasks archived.")
	if x, y := s.state(t, hostile, a), s.state(t, "default", c); x != asynq.TaskStateArchived || y != asynq.TaskStateArchived {
		t.Errorf("they are %v and %v", x, y)
	}
}
