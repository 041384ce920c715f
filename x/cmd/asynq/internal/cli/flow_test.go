package cli

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/filter"
)

// startFlow starts a flow.
func (w *world) startFlow(f *flow.Flow) {
	w.t.Helper()
	if _, err := flow.Start(w.t.Context(), w.client, f); err != nil {
		w.t.Fatal(err)
	}
}

// awaitFlow waits until a flow has a status.
func (w *world) awaitFlow(id string, want flow.Status) {
	w.t.Helper()
	proctest.Eventually(w.t, fmt.Sprintf("flow %s to be %s", id, want), func() bool {
		f, err := flow.Inspect(w.inspector).Get(w.t.Context(), id)
		if err != nil {
			w.t.Fatal(err)
		}
		return f.Status == want
	})
}

// orderFlow returns a flow whose node pack has three tasks, one of which servers must archive, and
// whose node ship waits for it.
func orderFlow(id string) *flow.Flow {
	in := asynq.Queue("shop")
	f := flow.New(id)
	charge := f.Add("charge", asynq.NewTask("charge", nil), in)
	pack := f.AddBatch("pack", []*asynq.Task{asynq.NewTask("pack", nil), asynq.NewTask("bad", nil), asynq.NewTask("pack", nil)}, in).After(charge)
	f.Add("ship", asynq.NewTask("ship", nil), in).After(pack)
	f.Add("refund", asynq.NewTask("refund", nil), in).AfterFailure(pack)
	f.Add("thank", asynq.NewTask("thank", nil), in).After(pack).OnDependencyFailure(flow.Cancel)
	return f
}

// seedFlows starts flows: order-1, whose node ship waits for a task that failed; a chain that has
// succeeded; mails, an open batch; slow, whose tasks no server runs.
func seedFlows(w *world) {
	w.t.Helper()
	stop := w.serve("shop", func(_ context.Context, t *asynq.Task) error {
		if t.Type() == "bad" {
			return fmt.Errorf("out of stock: %w", asynq.SkipRetry)
		}
		return nil
	})
	w.startFlow(orderFlow("order-1"))
	w.awaitFlow("order-1", flow.Blocked)
	w.startFlow(flow.Chain("chain", asynq.NewTask("a", nil, asynq.Queue("shop")), asynq.NewTask("b", nil, asynq.Queue("shop"))))
	w.awaitFlow("chain", flow.Succeeded)
	stop()
	if _, err := flow.OpenBatch(w.t.Context(), w.client, flow.NewBatch("mails").OnEnd(asynq.NewTask("report", nil))); err != nil {
		w.t.Fatal(err)
	}
	w.startFlow(flow.Chain("slow", asynq.NewTask("a", nil, asynq.Queue("slow")), asynq.NewTask("b", nil)))
}

func TestFlow(t *testing.T) {
	w := newWorld(t)
	w.golden("flow_ls_empty", w.run("flow", "ls"))
	seedFlows(w)
	w.golden("flow_ls", w.run("flow", "ls"))
	w.golden("flow_ls_json", w.run("flow", "ls", "-o", "json", "--filter", "status:blocked"))
	w.golden("flow_inspect", w.run("flow", "inspect", "order-1", "mails", "slow", "none"))
	w.golden("flow_inspect_json", w.run("flow", "inspect", "order-1", "-o", "json"))
	expect := func(out, err string, code int, args ...string) {
		t.Helper()
		if r := w.run(args...); r.out != out || !strings.Contains(r.err, err) || r.code != code {
			t.Errorf("%q: %+v, want %q, %q and exit code %d", args, r, out, err, code)
		}
	}
	failed := strings.TrimSpace(w.run("task", "ls", "-s", "archived", "--ids").out)
	if r := w.run("task", "inspect", failed); !strings.Contains(r.out, "\nFlow:          order-1\nNode:          pack\n") {
		t.Errorf("the task of a flow: %+v", r)
	}
	expect("order-1 pack\n", "", ExitDone, "task", "ls", "-s", "archived", "-o=template={{.flow_id}} {{.flow_node}}")
	expect(failed+"\n", "", ExitDone, "task", "ls", "-q", "shop", "-s", "archived", "--filter", "flow=order-1 node=pack", "--ids")
	const row = "-o=template={{.id}} {{.status}} {{.failed}} {{.deleted}}"
	expect("slow running 0 0\nmails running 0 0\n", "", ExitDone, "flow", "ls", "--size", "2", row)
	expect("chain succeeded 0 0\norder-1 blocked 1 0\n", "", ExitDone, "flow", "ls", "--size", "2", "--page", "2", row)
	expect("order-1 blocked 1 0\nchain succeeded 0 0\n", "", ExitDone, "flow", "ls", "--sort", "-failed,id", "--size", "2", row)
	expect("mails running 0 0\n", "", ExitDone, "flow", "ls", "--filter", "status:running", "--size", "1", "--page", "2", row)
	expect("FLOW  STATUS  NODES  TASKS  SUCCEEDED  FAILED  DELETED  CREATED  CHANGED\n", "no flows on page 3", ExitDone, "flow", "ls", "--page", "3")
	expect("FLOW  STATUS  NODES  TASKS  SUCCEEDED  FAILED  DELETED  CREATED  CHANGED\n", "selects none of 4 flows", ExitDone, "flow", "ls", "--filter", "id:x")
	expect("", "--page and --size", ExitUsage, "flow", "ls", "--page", "0")
	w.outTerminal = true
	if r := w.run("flow", "ls", "--size", "3"); !strings.Contains(r.err, "1–3 of 4; --page 2 shows more, --all all\n") {
		t.Errorf("%+v", r)
	}
	w.outTerminal = false

	expect("", `run 1 archived task of flow "order-1" again: confirm with --yes`, ExitUsage, "flow", "retry", "order-1")
	expect("", `would run 1 archived task of flow "order-1" again`, ExitDone, "flow", "retry", "order-1", "--dry-run")
	expect("", `would let node "pack" of flow "order-1", which is failed, count as succeeded`, ExitDone, "flow", "skip", "order-1", "pack", "--dry-run")
	expect("", "1 archived task of flow \"order-1\" run again\n", ExitDone, "flow", "retry", "order-1", "-y")
	w.awaitFlow("order-1", flow.Running)
	expect("", "runs or has succeeded", ExitFailed, "flow", "skip", "order-1", "pack", "--yes")
	if err := w.inspector.ArchiveTask("shop", w.pendingTask("shop")); err != nil {
		t.Fatal(err)
	}
	if _, err := flow.Inspect(w.inspector).Advance(t.Context(), "order-1"); err != nil {
		t.Fatal(err)
	}
	expect("", "node \"pack\" of flow \"order-1\" skipped\n", ExitDone, "flow", "skip", "order-1", "pack", "--yes")
	expect("", "already skipped", ExitDone, "flow", "skip", "order-1", "pack", "--yes")
	expect("order-1 running 1 0\n", "", ExitDone, "flow", "inspect", "order-1", row)
	expect("", `flow "order-1" has no node "none"`, ExitNotFound, "flow", "skip", "order-1", "none", "--yes")

	expect("", "would cancel flow \"slow\", and delete or cancel 1 task of it\n", ExitDone, "flow", "cancel", "slow", "--dry-run")
	expect("", "flow \"slow\" canceled\n", ExitDone, "flow", "cancel", "slow", "--yes")
	expect("slow canceled 0 1\n", "", ExitDone, "flow", "inspect", "slow", row)
	expect("", `flow "chain" has ended`, ExitFailed, "flow", "cancel", "chain", "--yes")
	expect("", `flow "slow" was canceled`, ExitFailed, "flow", "retry", "slow", "--yes")
	expect("", `flow "slow" was canceled`, ExitFailed, "flow", "skip", "slow", "1", "--yes")
	for _, args := range [][]string{{"cancel"}, {"retry"}, {"skip", "x"}} {
		expect("", "missing argument", ExitUsage, append([]string{"flow"}, args...)...)
	}
	expect("", `flow not found: "none"`, ExitNotFound, "flow", "cancel", "none", "--yes")
	expect("", `flow not found: "none"`, ExitNotFound, "flow", "skip", "none", "x", "--yes")
}

func TestFilterTerm(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"order-1", "-1", `a "b" (c)`, `back\slash`, "star*", "OR", "é:=x", `"`} {
		f, err := filter.Parse(filterTerm("flow", id) + " " + filterTerm("node", id))
		if err != nil || !f.Match(&asynq.TaskInfo{FlowID: id, FlowNode: id}) || f.Match(&asynq.TaskInfo{FlowID: id + "x", FlowNode: id}) {
			t.Errorf("the filter of flow %q: %v, %v", id, f, err)
		}
	}
}

// pendingTask returns the ID of the only pending task of a queue.
func (w *world) pendingTask(queue string) string {
	w.t.Helper()
	tasks, err := w.inspector.ListPendingTasks(queue)
	if err != nil || len(tasks) != 1 {
		w.t.Fatalf("%d tasks, error %v", len(tasks), err)
	}
	return tasks[0].ID
}

// A task that was deleted cannot run again: inspect and retry name the node to skip. IDs in
// commands are quoted for a shell.
func TestFlowDeletedTask(t *testing.T) {
	w := newWorld(t)
	const id = "-o'r 1"
	w.startFlow(flow.Chain(id, asynq.NewTask("a", nil), asynq.NewTask("b", nil)))
	if err := w.inspector.DeleteTask("default", w.pendingTask("default")); err != nil {
		t.Fatal(err)
	}
	if _, err := flow.Inspect(w.inspector).Advance(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	const skip = `asynq flow skip -- '-o'\''r 1' 1` + "\n"
	r := w.run("flow", "inspect", "--", id)
	if !strings.Contains(r.out, "Blocked: node \"2\" waits for the success of \"1\", which has failed: 1 task deleted.\n") || !strings.Contains(r.out, skip) ||
		strings.Contains(r.out, "retry") || r.code != ExitDone {
		t.Errorf("%+v", r)
	}
	r = w.run("flow", "retry", "--yes", "--", id)
	if want := "0 archived tasks of flow \"-o'r 1\" run again\nnode \"1\" has 1 deleted task, which cannot run again: see " + skip; r.err != want || r.code != ExitDone {
		t.Errorf("%+v, want %q", r, want)
	}
	if r := w.run("flow", "skip", "--yes", "--", id, "1"); r.code != ExitDone {
		t.Errorf("%+v", r)
	}
	w.pendingTask("default") // of node 2
}

// The doctor names the commands that let a flow continue.
func TestDoctorFlows(t *testing.T) {
	w := newWorld(t)
	w.startFlow(flow.Chain("lost", asynq.NewTask("a", nil, asynq.Queue("shop")), asynq.NewTask("b", nil)))
	if err := w.redis.Del(t.Context(), w.namespace+":flow:{lost}").Err(); err != nil {
		t.Fatal(err)
	}
	w.startFlow(flow.Chain("failed", asynq.NewTask("a", nil, asynq.Queue("mail")), asynq.NewTask("b", nil)))
	if err := w.inspector.ArchiveTask("mail", w.pendingTask("mail")); err != nil {
		t.Fatal(err)
	}
	if _, err := flow.Inspect(w.inspector).Advance(t.Context(), "failed"); err != nil {
		t.Fatal(err)
	}
	if _, err := flow.OpenBatch(t.Context(), w.client, flow.NewBatch("never closed")); err != nil {
		t.Fatal(err)
	}
	times := regexp.MustCompile(`"(t|e)":\d+`)
	for _, id := range []string{"failed", "never closed"} {
		key := w.namespace + ":flow:{" + id + "}"
		for field, value := range w.redis.HGetAll(t.Context(), key).Val() {
			if field == "changed" || field == "created" {
				value = "1700000000000"
			}
			if err := w.redis.HSet(t.Context(), key, field, times.ReplaceAllString(value, `"$1":1700000000000`)).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.golden("doctor_flows", w.run("doctor", "--sort", "detail"))
}

// Shells complete the IDs of flows, and the nodes that can be skipped.
func TestFlowCompletion(t *testing.T) {
	w := newWorld(t)
	seedFlows(w)
	for line, want := range map[string]string{
		"flow inspect ":              "slow mails chain order-1",
		"flow cancel order-1 m":      "mails",
		"flow skip order-1 ":         "pack ship thank",
		"flow skip order-1 pack s":   "ship",
		"flow ls --sort nodes_":      "nodes_total nodes_ended",
		"flow ls --filter node":      "nodes_total nodes_ended",
		"flow skip none ":            "",
		"flow retry slow mails -- o": "order-1",
	} {
		r := w.run(append([]string{"__complete"}, strings.Split(line, " ")...)...)
		got := strings.Join(strings.Fields(strings.Split(r.out, ":")[0]), " ")
		if got != want {
			t.Errorf("asynq %s<TAB>: got %q, want %q", line, got, want)
		}
	}
}
