package dash

import (
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
	"github.com/charmbracelet/x/ansi"
)

// The footer shows exactly the keys that the state of the selected task allows, even on a narrow
// screen.
func TestFooterShowsAllowedKeys(t *testing.T) {
	t.Parallel()
	keys := []string{"r", "c", "a", "d", "R", "A", "D"}
	footer := func(m *model) []string {
		lines := m.screen()
		return strings.Fields(strings.ReplaceAll(ansi.Strip(lines[len(lines)-1]), " all", ""))
	}
	for _, state := range states {
		for _, width := range []int{80, 140} {
			for _, where := range []string{"list", "task"} {
				show := func() *model {
					m := stage(width, 24)
					if where == "list" {
						return m.on(page{view: viewTasks, queue: "critical", state: state}, body{tasks: stageTasks(state)})
					}
					task := stageTask()
					task.State = state
					return m.on(page{view: viewTask, queue: "critical", id: task.ID}, body{task: task})
				}
				offered := " " + strings.Join(footer(show()), " ") + " "
				for _, key := range keys {
					m := show()
					m.Update(tea.KeyPressMsg{Code: rune(key[0]), Text: key})
					if allowed := m.dialog != nil; allowed != strings.Contains(offered, " "+key+" ") {
						t.Errorf("%v %s, %d wide: %s allowed is %v, and the footer is %s", state, where, width, key, allowed, offered)
					}
				}
				if m := show(); !strings.Contains(offered, "? help") || ansi.StringWidth(m.footer(width)) > width {
					t.Errorf("%v %s, %d wide: the footer is %s", state, where, width, offered)
				}
			}
		}
	}
}

// On the queue page the footer shows whether the key pauses or resumes.
func TestFooterOfQueues(t *testing.T) {
	t.Parallel()
	m := stage(80, 24).on(page{view: viewQueues}, body{})
	for range m.snap.queues {
		m.Update(keyNamed("down"))
		r, _ := m.selected()
		want := map[bool]string{false: "p pause", true: "p resume"}[r.ref.paused]
		if got := ansi.Strip(m.footer(80)); !strings.Contains(got, want+" ") {
			t.Errorf("queue %q: the footer is %s, want %s", r.ref.queue, got, want)
		}
	}
}

// The dashboard rejects actions that an Inspector would reject before it asks for confirmation.
func TestActionsByState(t *testing.T) {
	t.Parallel()
	m := stage(80, 24)
	for _, state := range states {
		for key, allowed := range map[string]bool{
			"c": state == asynq.TaskStateActive,
			"r": state != asynq.TaskStateActive && state != asynq.TaskStatePending,
			"a": state == asynq.TaskStatePending || state == asynq.TaskStateScheduled || state == asynq.TaskStateRetry || state == asynq.TaskStateAggregating,
			"d": state != asynq.TaskStateActive,
		} {
			a, err := m.action(key, &ref{kind: refTask, queue: "q", id: "1", state: state})
			if (err == nil && a != nil) != allowed {
				t.Errorf("%s of a task that is %v: %v, want %v", verbs[key], state, err, allowed)
			}
		}
	}
}

func TestPlural(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 matches, 0 tasks", 1: "1 match, 1 task", 2000: "2,000 matches, 2,000 tasks"} {
		if got := fmt.Sprintf("%s, %s", plural(n, "match"), plural(n, "task")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
