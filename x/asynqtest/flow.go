package asynqtest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
)

// DrainFlow starts a flow, runs Drain, and returns the state of the flow then. It has not ended if
// tasks wait for their time: advance the clock, and run Drain again.
func (b *Broker) DrainFlow(t testing.TB, f *flow.Flow, handler asynq.Handler, opts ...DrainOption) *flow.Info {
	t.Helper()
	if _, err := flow.Start(context.Background(), b.client, f); err != nil {
		t.Fatalf("asynqtest: start a flow: %v", err)
	}
	b.Drain(t, handler, opts...)
	info, err := flow.Inspect(b.inspector).Get(context.Background(), f.ID())
	if err != nil {
		t.Fatalf("asynqtest: flow %q: %v", f.ID(), err)
	}
	return info
}

// RequireFlow requires that a flow has a status, and returns it. Drain runs the tasks of flows like
// others, and returns when no node of a flow may start any more.
func (b *Broker) RequireFlow(t testing.TB, id string, want flow.Status) *flow.Info {
	t.Helper()
	info, err := flow.Inspect(b.inspector).Get(context.Background(), id)
	if err != nil {
		t.Fatalf("asynqtest: flow %q: %v", id, err)
	}
	if info.Status != want {
		var nodes strings.Builder
		for _, n := range info.Nodes {
			fmt.Fprintf(&nodes, "\n  %s: %s, %d of %d tasks succeeded, %d failed, %d deleted", n.Name, n.Status, n.Succeeded, n.Total, n.Failed, n.Deleted)
		}
		t.Fatalf("asynqtest: flow %q is %s, want %s:%s", id, info.Status, want, &nodes)
	}
	return info
}
