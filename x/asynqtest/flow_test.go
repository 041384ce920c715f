package asynqtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/asynqtest"
)

// Drain runs all nodes of flows, and RequireFlow names what went wrong.
func TestDrainFlows(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	order := flow.New("order")
	charge := order.Add("charge", asynq.NewTask("charge", nil))
	pack := order.AddBatch("pack", []*asynq.Task{asynq.NewTask("pack", nil), asynq.NewTask("pack", nil)}, asynq.Queue("packing")).After(charge)
	order.Add("ship", asynq.NewTask("ship", nil), asynq.ProcessIn(time.Hour)).After(pack)
	if _, err := flow.Start(context.Background(), b.Client(), order); err != nil {
		t.Fatal(err)
	}
	if _, err := flow.Start(context.Background(), b.Client(), flow.Chain("chain", asynq.NewTask("one", nil), asynq.NewTask("fail", nil))); err != nil {
		t.Fatal(err)
	}
	var ran []string
	handler := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		ran = append(ran, task.Type())
		if task.Type() == "fail" {
			return errors.Join(errors.New("broken"), asynq.SkipRetry)
		}
		return nil
	})
	b.Drain(t, handler)
	b.RequireFlow(t, "chain", flow.Failed)
	if info := b.RequireFlow(t, "order", flow.Running); info.Node("ship").Status != flow.Running {
		t.Errorf("the flow is %+v", info)
	}
	b.Advance(time.Hour)
	b.Drain(t, handler)
	b.RequireFlow(t, "order", flow.Succeeded)
	if len(ran) != 6 || ran[len(ran)-1] != "ship" {
		t.Errorf("ran %v", ran)
	}
	wantFailure(t, func(t testing.TB) { b.RequireFlow(t, "chain", flow.Succeeded) },
		`flow "chain" is failed, want succeeded:`, "2: failed, 0 of 1 tasks succeeded, 1 failed")
}

// DrainFlow runs a flow to its end, or to where a task waits for its time.
func TestDrainFlow(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	f := flow.New("order")
	charge := f.Add("charge", asynq.NewTask("charge", nil))
	f.Add("ship", asynq.NewTask("ship", nil), asynq.ProcessIn(time.Hour)).After(charge)
	info := b.DrainFlow(t, f, asynq.HandlerFunc(succeed))
	if info.Status != flow.Running || info.Node("charge").Status != flow.Succeeded || info.Node("ship").Status != flow.Running {
		t.Errorf("the flow is %+v", info)
	}
	b.Advance(time.Hour)
	b.Drain(t, asynq.HandlerFunc(succeed))
	b.RequireFlow(t, "order", flow.Succeeded)
	if info := b.DrainFlow(t, flow.Chain("mail", asynq.NewTask("a", nil), asynq.NewTask("b", nil)), asynq.HandlerFunc(succeed)); info.Status != flow.Succeeded {
		t.Errorf("the flow is %+v", info)
	}
	wantFailure(t, func(t testing.TB) {
		b.DrainFlow(t, flow.Chain("mail", asynq.NewTask("a", nil)), asynq.HandlerFunc(succeed))
	},
		"start a flow: flow: a flow with this ID exists")
}
