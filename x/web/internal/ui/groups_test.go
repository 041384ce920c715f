package ui

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

func inGroup(name string, ago time.Duration) *asynq.TaskRecord {
	return &asynq.TaskRecord{State: asynq.TaskStateAggregating, Group: name, At: time.Now().Add(-ago)}
}

func TestGroups(t *testing.T) {
	s := newSite(t)
	s.put("a", inGroup("one", time.Hour), inGroup("one", time.Minute), inGroup("two", 2*time.Minute))
	s.put("b", inGroup("one", 3*time.Minute))
	page := s.get("/groups")
	if rows := page.rows(); len(rows) != 3 || !strings.HasPrefix(rows[0], "one a 2 1h") {
		t.Errorf("rows %q", rows)
	}
	if l := page.links("/tasks")[0].Query(); l.Get("queue") != "a" || l.Get("state") != "aggregating" || l.Get("group") != "one" {
		t.Errorf("it leads to %v", l)
	}
	for _, c := range []struct {
		query []string
		want  []string
	}{
		{[]string{"queue", "b"}, []string{"one b 1 3m"}},
		{[]string{"name", "TW"}, []string{"two a 1 2m"}},
		{[]string{"sort", "oldest", "up", "1"}, []string{"two a", "one b", "one a"}},
		{[]string{"sort", "queue", "up", "1"}, []string{"one b", "one a", "two a"}},
	} {
		if rows := s.get("/groups", c.query...).rows(); !slices.EqualFunc(rows, c.want, strings.HasPrefix) {
			t.Errorf("%q: rows %q, want %q", c.query, rows, c.want)
		}
	}
}

func TestGroupsAreChanged(t *testing.T) {
	s := newSite(t)
	names := hostile[:len(hostile)-1] // without invalid UTF-8, which groups cannot have
	for _, name := range names {
		s.put("q", inGroup(name, time.Minute), inGroup(name, time.Minute))
	}
	if rows := s.get("/groups").rows(); len(rows) != len(names) {
		t.Errorf("%d rows", len(rows))
	}
	for n, name := range names {
		do, answer := "run", "yes"
		switch n % 3 {
		case 1:
			do = "archive"
		case 2:
			do, answer = "delete", "delete"
		}
		a := s.post("/groups", "queue", "q", "group", name, "do", do)
		if a.status != http.StatusOK || !strings.Contains(a.text("h1"), "2 tasks of group") {
			t.Errorf("of %q: status %d, asked %q", name, a.status, a.text("h1"))
		}
		if a := s.post("/groups", "queue", "q", "group", name, "do", do, "confirm", answer, "back", root+"/groups?queue=q"); a.status != http.StatusSeeOther || a.header.Get("Location") != root+"/groups?queue=q" {
			t.Errorf("of %q: status %d to %q", name, a.status, a.header.Get("Location"))
		}
		if groups, err := s.inspector.Groups("q"); err != nil || len(groups) != len(names)-n-1 {
			t.Fatalf("after %q of %q there are %d groups, %v", do, name, len(groups), err)
		}
	}
	if log := s.gate.log(); len(log) != len(names) || !strings.Contains(log[0], "task.run queue=q state=aggregating group=<script>") {
		t.Errorf("done %q", log)
	}
	proctest.Eventually(s, "the list to see it", func() bool { return len(s.get("/groups").rows()) == 0 })
	if a := s.post("/groups", "queue", "q", "group", "none", "do", "run"); a.status != http.StatusSeeOther || a.header.Get("Location") != root+"/groups" {
		t.Errorf("of none: status %d", a.status)
	}
	for _, wrong := range [][]string{{"queue", "q", "group", "g", "do", "paint"}, {"queue", "q", "do", "run"}, {"group", "g", "do", "run"}} {
		if a := s.post("/groups", wrong...); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%q: status %d", wrong, a.status)
		}
	}
}

// Thousands of groups are shown in pages.
func TestManyGroups(t *testing.T) {
	s := newSite(t)
	var tasks []*asynq.TaskRecord
	for n := range 1500 {
		tasks = append(tasks, inGroup(fmt.Sprintf("g%04d", n), time.Minute))
	}
	s.put("q", tasks...)
	page := s.get("/groups", "sort", "group", "page", "15")
	if rows := page.rows(); len(rows) != 100 || !strings.HasPrefix(rows[99], "g1499") || !strings.Contains(page.text("main"), "1,401 to 1,500 of 1,500") {
		t.Errorf("%d rows, the last is %q", len(rows), rows[len(rows)-1])
	}
	if rows := s.get("/groups", "name", "g14").rows(); len(rows) != 100 {
		t.Errorf("%d rows with g14", len(rows))
	}
	s.gate.refuse = "task."
	if page := s.get("/groups"); page.does("run") || page.does("delete") {
		t.Error("it offers what is refused")
	}
}
