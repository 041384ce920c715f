package browser_test

import (
	"testing"

	"github.com/asynq-go/asynq"
)

// Open charts are updated in place.
func TestChartsAreLive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	add := func(n int) {
		t.Helper()
		for range n {
			s.add(t, "a", "")
		}
	}
	add(3)
	s.knows(t, "default")
	b := open(t, s.url)
	b.visit(q("/queue", "queue", "default"))
	latest := func(chart, values string) {
		t.Helper()
		b.until(`[...document.querySelectorAll("#chart-` + chart + ` .values span")].map((e) => e.textContent).join(", ") === ` + quote(values))
	}
	latest("waiting", "pending 3, retry 0")
	latest("working", "active 0")
	const plots = `document.querySelectorAll("figure[data-chart] .uplot")`
	b.until(plots + `.length === 4`)
	eval[bool](b, `(`+plots+`.forEach((e) => e.marked = true), true)`)
	drawn := eval[string](b, `document.querySelector("#chart-waiting canvas").toDataURL()`)

	add(400)
	latest("waiting", "pending 403, retry 0")
	if eval[string](b, `document.querySelector("#chart-waiting canvas").toDataURL()`) == drawn {
		t.Error("the new values are shown, but not drawn")
	}
	s.worker(t, "default", 2)
	latest("working", "active 2")
	latest("waiting", "pending 401, retry 0")
	tasks, err := s.inspector.ListActiveTasks("default")
	if err != nil || len(tasks) != 2 {
		t.Fatal(tasks, err)
	}
	if err := s.inspector.PauseQueue("default"); err != nil { // tasks stay pending
		t.Fatal(err)
	}
	if err := s.inspector.CancelProcessing(tasks[0].ID); err != nil {
		t.Fatal(err)
	}
	latest("working", "active 1")
	latest("waiting", "pending 401, retry 1")
	if !eval[bool](b, `[...`+plots+`].filter((e) => e.marked === true).length === 4`) {
		t.Error("the charts were recreated instead of updated")
	}
	s.reaches(t, tasks[0].ID, asynq.TaskStateRetry)
}
