package apiv2

import (
	"context"
	"fmt"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/proctest"
)

// Flows are listed, retried, skipped and canceled.
func TestFlows(t *testing.T) {
	s := newSite(t, nil)
	f := flow.New("order/7 ü")
	charge := f.Add("charge", asynq.NewTask("charge", nil))
	pack := f.AddBatch("pack", []*asynq.Task{asynq.NewTask("pack", nil), asynq.NewTask("pack", nil)}, asynq.Queue("packing")).After(charge)
	f.Add("ship", asynq.NewTask("ship", nil)).After(pack)
	f.Add("refund", asynq.NewTask("refund", nil)).AfterFailure(pack)
	if _, err := flow.Start(t.Context(), s.client, f); err != nil {
		t.Fatal(err)
	}
	srv := asynq.NewServer(s.opt, asynq.Config{Concurrency: 1, Queues: map[string]int{"default": 1, "packing": 1}, LogLevel: asynq.FatalLevel})
	if err := srv.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		if task.Type() == "pack" {
			return fmt.Errorf("out of stock: %w", asynq.SkipRetry)
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	const at = "/flows/order%2F7%20%C3%BC"
	var got Flow
	proctest.Eventually(t, "the flow to be blocked", func() bool {
		s.want(200, "GET", at, "").into(&got)
		return got.Status == "blocked"
	})
	if n := got.Nodes[1]; n.Name != "pack" || !n.Batch || n.Status != "failed" || n.Failed != 2 || n.Total != 2 || n.Pending != 0 ||
		len(n.After) != 1 || n.OnFailure != "block" || n.Queues[0] != "packing" || n.Ended == nil {
		t.Errorf("node %+v", n)
	}
	if n := got.Nodes[3]; n.Status != "succeeded" || n.AfterFailure[0] != "pack" || len(n.TaskIDs) != 1 {
		t.Errorf("node %+v", n)
	}
	var list FlowList
	s.want(200, "GET", "/flows?limit=1", "").into(&list)
	if list.Total != 1 || len(list.Items) != 1 || list.Items[0].ID != "order/7 ü" {
		t.Errorf("%+v", list)
	}
	s.want(200, "GET", "/flows?offset=1", "").into(&list)
	if len(list.Items) != 0 {
		t.Errorf("%+v", list)
	}
	var retry FlowRetry
	s.want(200, "POST", at+"/retry", "").into(&retry)
	if retry.Tasks != 2 || retry.Flow.ID != "order/7 ü" {
		t.Errorf("%+v", retry)
	}
	proctest.Eventually(t, "the flow to be blocked", func() bool {
		s.want(200, "GET", at, "").into(&got)
		return got.Status == "blocked"
	})
	s.want(200, "POST", at+"/nodes/pack/skip", "").into(&got)
	if got.Nodes[1].Status != "skipped" || got.Nodes[2].Started == nil {
		t.Errorf("%+v", got)
	}
	proctest.Eventually(t, "the flow to succeed", func() bool {
		s.want(200, "GET", at, "").into(&got)
		return got.Status == "succeeded" && got.Ended != nil
	})
	s.want(409, "POST", at+"/cancel", "")
	s.want(409, "POST", at+"/nodes/charge/skip", "")
	s.want(404, "POST", at+"/nodes/none/skip", "")
	for _, path := range []string{"/retry", "/cancel", "/nodes/a/skip"} {
		s.want(404, "POST", "/flows/none"+path, "")
	}
	s.want(404, "GET", "/flows/none", "")
}
