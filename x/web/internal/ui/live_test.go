package ui

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// update requests the changes of a page since a version, and returns the new version.
func (s *site) update(path, version string) (a *answer, now string) {
	s.Helper()
	r := request(path)
	r.Header.Set("HX-Request", "true")
	if version != "page" {
		r.Header.Set(liveHeader, version)
	}
	a = s.send(r)
	for _, n := range a.all("main") {
		now = attr(n, "data-version")
	}
	return a, now
}

// unchanged returns the IDs of the rows of an update that have not changed.
func unchanged(a *answer) (ids []string) {
	for _, n := range a.all("tr") {
		if _, same := attribute(n, "data-same"); same {
			ids = append(ids, attr(n, "id"))
		}
	}
	return ids
}

// queuesWith returns queues with numbers of pending tasks.
func queuesWith(pending ...int) *poll.Snapshot {
	s := &poll.Snapshot{At: time.Now(), DataAt: time.Now()}
	for n, p := range pending {
		name := fmt.Sprintf("q%02d", n)
		s.Queues = append(s.Queues, poll.Queue{Name: name, Info: &asynq.QueueInfo{Queue: name, Pending: p, Size: p}})
	}
	return s
}

// An open page receives nothing if nothing has changed, the changed parts otherwise, and everything
// if the server does not remember its version.
func TestUpdates(t *testing.T) {
	s := newSite(t)
	s.poller.snapshot = queuesWith(1, 2, 3)
	page, version := s.update("/queues", "page")
	if version == "" || len(page.all("header")) == 0 {
		t.Fatalf("the page has version %q", version)
	}
	if a, _ := s.update("/queues", version); a.status != http.StatusNoContent || a.body != "" {
		t.Errorf("without a change: %d %s", a.status, a.body)
	}

	s.poller.snapshot = queuesWith(1, 7, 3)
	a, next := s.update("/queues", version)
	same := unchanged(a)
	if a.status != 200 || next == version || !slices.Equal(same, []string{"queue-q00", "queue-q02"}) || !strings.Contains(a.row("q01"), " 7 ") {
		t.Errorf("after a change: %d, %q are the same: %s", a.status, same, a.body)
	}
	if len(a.all("header")) > 0 || len(a.all("title")) != 1 {
		t.Error("an update has the frame of the page, or no title")
	}

	for _, unknown := range []string{"", "unknown"} {
		if a, again := s.update("/queues", unknown); again != next || len(unchanged(a)) != 0 || a.row("q00") == "" {
			t.Errorf("for version %q: %s", unknown, a.body)
		}
	}
	if len(a.body) >= len(page.body)/2 {
		t.Errorf("an update of one row has %d of %d bytes", len(a.body), len(page.body))
	}
}

// The texts of times change every second, and are no changes. Their moments are.
func TestTimesAreNoChanges(t *testing.T) {
	s := newSite(t)
	s.now = today
	server := &asynq.ServerInfo{ID: "a", Host: "h", Concurrency: 1, Status: "active", Started: today.Add(-time.Minute)}
	s.poller.snapshot = &poll.Snapshot{At: today, Servers: []*asynq.ServerInfo{server}}
	_, version := s.update("/servers", "page")
	s.now = today.Add(5 * time.Second)
	if a, _ := s.update("/servers", version); a.status != http.StatusNoContent {
		t.Errorf("five seconds later: %s", a.body)
	}
	restarted := *server
	restarted.Started = today
	s.poller.snapshot = &poll.Snapshot{At: today, Servers: []*asynq.ServerInfo{&restarted}}
	if a, _ := s.update("/servers", version); a.status != http.StatusOK || len(unchanged(a)) > 0 {
		t.Errorf("after a restart: %d %s", a.status, a.body)
	}
}

// Charts and other parts that scripts maintain are placeholders, and so are parts that moved. Parts
// that share an ID are sent.
func TestParts(t *testing.T) {
	t.Parallel()
	c := newContents()
	page := func(rows ...string) string {
		return `<html><main id="main"><div data-part="still" id="x">` + fmt.Sprint(len(rows)) + `<div>inner</div></div><table><tr><th>Head</th></tr>` + strings.Join(rows, "") + `</table></main></html>`
	}
	row := func(id, text string) string { return `<tr data-part id="` + id + `"><td>` + text + `</td></tr>` }
	first, changed := c.deliver([]byte(page(row("a", "1"), row("b", "2"))), "")
	version := func(page []byte) string {
		_, rest, _ := strings.Cut(string(page), `data-version="`)
		v, _, _ := strings.Cut(rest, `"`)
		return v
	}
	if !changed || strings.Contains(string(first), "data-same") || !strings.HasSuffix(string(first), "</main></html>") {
		t.Fatalf("%s", first)
	}
	same := func(tag, id string) string { return "<" + tag + ` data-same id="` + id + `"></` + tag + ">" }
	for name, tc := range map[string]struct{ page, want string }{
		"moved":    {page(row("b", "2"), row("a", "1")), same("div", "x") + "<table><tr><th>Head</th></tr>" + same("tr", "b") + same("tr", "a") + "</table>"},
		"changed":  {page(row("a", "1"), row("b", "3")), same("tr", "a") + row("b", "3")},
		"added":    {page(row("a", "1"), row("c", "1"), row("b", "2")), same("tr", "a") + row("c", "1") + same("tr", "b")},
		"removed":  {page(row("b", "2")), "</tr>" + same("tr", "b") + "</table>"},
		"repeated": {page(row("a", "1"), row("a", "1")), row("a", "1") + row("a", "1")},
		"hostile":  {page(row("a", "1"), `<tr><td title="&lt;tr data-part id=&#34;b&#34;&gt;">&lt;tr data-part id=&#34;b&#34;&gt;</td></tr>`), `<td title="&lt;tr data-part`},
	} {
		if got, changed := c.deliver([]byte(tc.page), version(first)); !changed || !strings.Contains(string(got), tc.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	for n := range versions {
		c.deliver([]byte(page(fmt.Sprint(n))), "")
	}
	if len(c.known) != versions || len(c.order) != versions {
		t.Errorf("%d versions are remembered", len(c.known))
	}
	if got, _ := c.deliver([]byte(page(row("a", "1"))), version(first)); strings.Contains(string(got), "data-same") {
		t.Errorf("after many other versions: %s", got)
	}
}
