package dash

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
)

func startFlow(t *testing.T, c *asynq.Client, f *flow.Flow) {
	t.Helper()
	if _, err := flow.Start(context.Background(), c, f); err != nil {
		t.Fatal(err)
	}
}

// The flows are listed with their progress, enter shows the nodes of one, and the keys cancel and
// retry a flow and skip a node.
func TestFlowsPage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		var works atomic.Bool
		start(t, r, func(context.Context, *asynq.Task) error {
			if works.Load() {
				return nil
			}
			return fmt.Errorf("out of stock: %w", asynq.SkipRetry)
		}, "shop")
		start(t, r, func(context.Context, *asynq.Task) error { return nil }, "other")
		task := func(typename, queue string) *asynq.Task { return asynq.NewTask(typename, nil, asynq.Queue(queue)) }
		for _, id := range []string{"retried", "skipped", "canceled"} {
			f := flow.New(id)
			pack := f.Add("pack", task("pack", "shop"))
			f.Add("ship", task("ship", "other"), asynq.Retention(flow.DefaultRetention)).After(pack)
			startFlow(t, client, f)
		}

		d := drive(t, quick(client, insp))
		d.see("shop")
		d.keys("F")
		d.see("Flows", "1–3 of 3", "CHANGED")
		d.until("all flows to be blocked", func() bool { return strings.Count(d.screen(), "blocked ") == 3 })
		d.keys("/")
		d.typed("flow:retried")
		d.keys("enter enter")
		d.see("Flows › retried", "blocked · 1 of 2 nodes ended", "success of pack")
		works.Store(true)
		d.keys("r")
		d.see("Run again 1 archived task of flow retried?")
		d.keys("enter")
		d.see("nothing was changed")
		d.keys("r y")
		d.see("1 archived task of flow retried run again", "succeeded · 2 of 2 nodes ended")
		d.keys("r")
		d.see("no task of the flow is archived")
		d.keys("c")
		d.see("the flow has ended")
		d.keys("x")
		d.see("a node that is succeeded cannot be skipped")
		d.keys("end enter")
		d.see("State         completed")
		d.keys("esc esc")
		d.see("1–3 of 3")

		d.keys("esc /")
		d.typed("flow:skipped")
		d.keys("enter x enter")
		d.see("Flows › skipped", "success of pack")
		d.keys("home x")
		d.see("Skip node pack of flow skipped, which is failed?")
		d.keys("y")
		d.see("skipped node pack of flow skipped", "succeeded · 2 of 2 nodes ended")

		d.keys("F esc /")
		d.typed("flow:canceled")
		d.keys("enter")
		d.see("2 rows hidden", "canceled  blocked")
		d.keys("c")
		d.see("Cancel flow canceled?", "This cannot be undone.")
		d.keys("y")
		d.see("canceled flow canceled", "canceled  canceled")
		d.keys("r")
		d.see("a canceled flow cannot be retried")
		d.keys("enter")
		d.see("canceled · 2 of 2 nodes ended")
		d.keys("home x")
		d.see("nodes of a canceled flow cannot be skipped")
		d.keys("1 :")
		d.typed("flows")
		d.keys("enter")
		d.see("1–3 of 3", "▌")
	})
}

// Flows are listed page by page, newest first.
func TestFlowPages(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		for i := range flowsPerPage + 1 {
			startFlow(t, client, flow.Chain(fmt.Sprintf("flow-%03d", i), asynq.NewTask("t", nil)))
		}
		d := drive(t, quick(client, insp))
		d.keys("F <")
		d.see("1–100 of 101")
		d.keys(">")
		d.see("101–101 of 101")
		d.keys(">")
		if n := d.m.page().number; n != 1 {
			t.Errorf("the key > opens page %d behind the last one", n)
		}
		d.keys("<")
		d.see("1–100 of 101")
		d.m.readOnly = true
		d.keys("c")
		d.see("read-only: cancel is disabled")
		d.keys("x")
		d.see("read-only: skip is disabled")
	})
}
