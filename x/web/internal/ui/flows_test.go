package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/proctest"
)

const orderID = "order<7>&ü"

// order starts a flow whose packing fails, and waits until it is blocked.
func (s *site) order() {
	s.Helper()
	f := flow.New(orderID)
	charge := f.Add("charge", asynq.NewTask("charge", nil))
	pack := f.AddBatch("pack<i>", []*asynq.Task{asynq.NewTask("pack", []byte("a")), asynq.NewTask("pack", []byte("b"))}).After(charge)
	f.Add("ship", asynq.NewTask("ship", nil)).After(pack)
	f.Add("refund", asynq.NewTask("refund", nil)).AfterFailure(pack)
	f.Add("report", asynq.NewTask("report", nil)).AfterEnd(charge, pack)
	if _, err := flow.Start(context.Background(), s.client, f); err != nil {
		s.Fatal(err)
	}
	srv := asynq.NewServer(s.opt, asynq.Config{Concurrency: 1, LogLevel: asynq.FatalLevel})
	if err := srv.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		if string(task.Payload()) == "b" {
			return fmt.Errorf("out of stock: %w", asynq.SkipRetry)
		}
		return nil
	})); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(srv.Shutdown)
	s.awaitFlow(flow.Blocked)
}

func (s *site) awaitFlow(want flow.Status) {
	s.Helper()
	proctest.Eventually(s.T, "the flow to be "+string(want), func() bool {
		info, err := flow.Inspect(s.inspector).Get(context.Background(), orderID)
		return err == nil && info.Status == want
	})
}

// The pages show flows with their graphs, and say why one is blocked.
func TestFlows(t *testing.T) {
	s := newSite(t)
	if got := s.get("/flows").text("main"); !strings.Contains(got, "There are no flows.") {
		t.Errorf("without flows, it says %s", got)
	}
	s.order()
	rows := s.get("/flows").rows()
	if len(rows) != 1 || !strings.HasPrefix(rows[0], orderID+" blocked 5 4 of 6 1 ") {
		t.Errorf("rows %q", rows)
	}
	page := s.get("/flow", "id", orderID)
	got := page.text("main")
	for _, want := range []string{
		"1 task of pack<i> failed, and other nodes wait for this. Correct the cause and retry the flow, or skip the node.",
		"4 of 6 succeeded", "Retry failed tasks", "Cancel…",
		"failed · 1 of 2, 1 failed", // in the graph
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q: %s", want, got)
		}
	}
	for n, want := range []string{
		"charge default succeeded – 1 of 1 0 ", "pack<i> default failed success of charge 1 of 2 1 ", "ship default waiting success of pack<i> 0 of 1 0 – – ",
		"refund default succeeded failure in pack<i> 1 of 1 0 ", "report default succeeded end of charge, pack<i> 1 of 1 0 ",
	} {
		if rows := page.rows(); len(rows) != 5 || !strings.HasPrefix(rows[n], want) {
			t.Fatalf("row %d of %q, want %q", n, rows, want)
		}
	}
	archived, err := s.inspector.ListArchivedTasks("default")
	if err != nil || len(archived) != 1 {
		t.Fatal(archived, err)
	}
	if got := s.get("/task", "queue", "default", "id", archived[0].ID).text("main"); !strings.Contains(got, orderID+" , node pack<i>") {
		t.Errorf("the page of a task says %s", got)
	}
	if a := s.ask("/flow?id=none"); a.status != http.StatusNotFound {
		t.Errorf("status %d", a.status)
	}
	s.gate.refuse = "flow."
	if page := s.get("/flow", "id", orderID); page.does("retry") || page.does("cancel") || page.does("skip") {
		t.Error("it offers what is refused")
	}
}

// Flows are retried and canceled, and nodes are skipped, after a question.
func TestFlowsAreChanged(t *testing.T) {
	s := newSite(t)
	s.order()
	back := root + "/flow?id=" + url.QueryEscape(orderID)
	do := func(what string, fields ...string) *answer {
		t.Helper()
		return s.post("/flow", append([]string{"id", orderID, "do", what, "back", back}, fields...)...)
	}
	said := func(want string) {
		t.Helper()
		if got := s.get("/flow", "id", orderID).text("main"); !strings.Contains(got, want) {
			t.Errorf("it says %s, want %q", got, want)
		}
	}
	if a := do("retry"); a.status != http.StatusSeeOther || a.header.Get("Location") != back {
		t.Errorf("status %d to %q", a.status, a.header.Get("Location"))
	}
	said("1 task will run again.")
	s.awaitFlow(flow.Blocked)
	if got := do("skip", "node", "pack<i>").text("main"); !strings.Contains(got, "Skip the node pack<i>?") {
		t.Errorf("it asks %s", got)
	}
	do("skip", "node", "pack<i>", "confirm", "yes")
	said("Node skipped.")
	s.awaitFlow(flow.Succeeded)
	if got := do("cancel").text("main"); !strings.Contains(got, "Cancel the flow "+orderID+"?") {
		t.Errorf("it asks %s", got)
	}
	do("cancel", "confirm", "yes")
	said("The flow has ended.")
	if a := do("fly"); a.status != http.StatusUnprocessableEntity {
		t.Errorf("status %d", a.status)
	}
	s.gate.refuse = "flow."
	if a := do("retry"); a.status != http.StatusForbidden {
		t.Errorf("status %d", a.status)
	}
}

// Nodes of a failed flow may be skipped: then it continues. Those of a canceled one may not.
func TestSkippableNodes(t *testing.T) {
	s := newSite(t)
	s.order()
	if _, err := flow.Inspect(s.inspector).Skip(t.Context(), orderID, "ship"); err != nil {
		t.Fatal(err)
	}
	s.awaitFlow(flow.Failed)
	if page := s.get("/flow", "id", orderID); !page.does("skip") || !page.does("retry") || page.does("cancel") {
		t.Error("it does not offer what can be done with a failed flow")
	}
}
