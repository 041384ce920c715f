package asynqotel

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
)

// ofNode returns the spans of a node with a name.
func (k *kit) ofNode(name, node string) (found []tracetest.SpanStub) {
	for _, s := range k.named(name) {
		for _, kv := range s.Attributes {
			if kv.Key == FlowNodeKey && kv.Value.AsString() == node {
				found = append(found, s)
			}
		}
	}
	return found
}

// All spans of a flow are in the trace of its start: a span for each node, with links to those of
// its dependencies, and below it the attempts of its tasks, also of those that a handler adds.
func TestFlowIsOneTrace(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	ctx, caller := k.tracer.Start(context.Background(), "caller")
	stale := asynq.NewTaskWithHeaders("charge", nil, map[string]string{
		"own": "1", "otel.traceparent": "00-00000000000000000000000000000001-0000000000000001-01", "otel.tracestate": "a=b",
	})
	f := flow.New("order")
	charge := f.Add("charge", stale)
	pack := f.AddBatch("pack", []*asynq.Task{asynq.NewTask("split", nil, asynq.Queue("low")), asynq.NewTask("pack", nil)}).After(charge)
	f.Add("ship", asynq.NewTask("ship", nil), asynq.Queue("low")).After(pack, charge).AfterEnd(pack)
	f.Add("refund", asynq.NewTask("refund", nil)).AfterFailure(pack)
	if _, err := k.client.StartFlow(ctx, f); err != nil {
		t.Fatal(err)
	}
	caller.End()
	k.drain(func(ctx context.Context, task *asynq.Task) error {
		switch task.Type() {
		case "charge":
			if h := task.Headers(); len(h) != 2 || h["own"] != "1" {
				t.Errorf("the handler sees the headers %v", h)
			}
		case "split":
			m, _ := flow.FromContext(ctx)
			_, err := k.client.EnqueueMembers(ctx, m, []*asynq.Task{asynq.NewTask("pack", nil), asynq.NewTask("pack", nil)})
			return err
		}
		return nil
	})
	k.broker.RequireFlow(t, "order", flow.Succeeded)

	root := k.one("start flow")
	if root.SpanKind != trace.SpanKindProducer || root.Parent.SpanID() != caller.SpanContext().SpanID() || root.Status.Code != codes.Unset {
		t.Errorf("the span of the start is %+v", root)
	}
	has(t, root, map[string]any{"messaging.system": "asynq", "messaging.operation.name": "start flow", "messaging.operation.type": "send", "asynq.flow.id": "order"})
	for _, s := range k.spans.GetSpans() {
		if s.SpanContext.TraceID() != root.SpanContext.TraceID() {
			t.Errorf("%s %v is in another trace", s.Name, s.Attributes)
		}
	}
	nodes := make(map[string]tracetest.SpanStub)
	for node, name := range map[string]string{"charge": "create default", "pack": "create", "ship": "create low", "refund": "create default"} {
		found := k.ofNode(name, node)
		if len(found) != 1 || found[0].Parent.SpanID() != root.SpanContext.SpanID() {
			t.Fatalf("node %s has the spans %+v", node, found)
		}
		nodes[node] = found[0]
		has(t, found[0], map[string]any{"messaging.operation.name": "create", "messaging.operation.type": "create", "asynq.flow.id": "order"})
	}
	has(t, nodes["pack"], map[string]any{"messaging.batch.message_count": 2, "messaging.destination.name": nil})
	has(t, nodes["ship"], map[string]any{"messaging.batch.message_count": nil, "messaging.destination.name": "low"})
	linksTo(t, nodes["charge"])
	linksTo(t, nodes["pack"], nodes["charge"])
	linksTo(t, nodes["ship"], nodes["charge"], nodes["pack"])
	linksTo(t, nodes["refund"], nodes["pack"])

	// The attempts: those of the two added tasks are below the span of the call that added them.
	added := k.one("enqueue default")
	for node, want := range map[string]string{"charge": "1 default", "ship": "1 low", "pack": "3 default, 1 low", "refund": "none"} {
		inDefault, inLow := k.ofNode("process default", node), k.ofNode("process low", node)
		got := ""
		for _, some := range [][]tracetest.SpanStub{inDefault, inLow} {
			if len(some) > 0 {
				if got != "" {
					got += ", "
				}
				got += fmt.Sprint(len(some), some[0].Name[len("process"):])
			}
		}
		if got == "" {
			got = "none"
		}
		if got != want {
			t.Errorf("the attempts of %s are %s, want %s", node, got, want)
		}
		for _, s := range append(inDefault, inLow...) {
			from := nodes[node]
			if s.Parent.SpanID() == added.SpanContext.SpanID() {
				from = added
			}
			if s.Parent.SpanID() != from.SpanContext.SpanID() || !s.Parent.IsRemote() {
				t.Errorf("an attempt of %s has the parent %v", node, s.Parent.SpanID())
			}
			linksTo(t, s, from)
			has(t, s, map[string]any{"asynq.flow.id": "order"})
		}
	}
	if parent := added.Parent.SpanID(); len(k.ofNode("process low", "pack")) != 1 || parent != k.ofNode("process low", "pack")[0].SpanContext.SpanID() {
		t.Errorf("the call of the handler has the parent %v", parent)
	}
	if got := fmt.Sprint(k.points("messaging.client.operation.duration")); got == "map[]" {
		t.Error("the start has no duration")
	}
}

// The members and the callbacks of an open batch are in its trace. A flow that exists is an error,
// whose type the span has, and its tasks stay in their trace.
func TestBatchIsOneTrace(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	ctx, caller := k.tracer.Start(context.Background(), "caller")
	b := flow.NewBatch("mails").OnEnd(asynq.NewTask("report", nil, asynq.Queue("low")))
	batch, err := k.client.OpenBatch(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.client.EnqueueMembers(ctx, batch, []*asynq.Task{asynq.NewTask("mail", nil)}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.client.StartFlow(context.Background(), b.Flow); !errors.Is(err, flow.ErrExists) {
		t.Errorf("a second start: %v", err)
	}
	if err := batch.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := k.client.EnqueueMembers(ctx, batch, []*asynq.Task{asynq.NewTask("mail", nil)}); !errors.Is(err, flow.ErrClosed) {
		t.Errorf("a member of a closed batch: %v", err)
	}
	caller.End()
	k.drain(func(context.Context, *asynq.Task) error { return nil })
	k.broker.RequireFlow(t, "mails", flow.Succeeded)

	opened, refused := k.named("start flow")[0], k.named("start flow")[1]
	if refused.Status.Code != codes.Error || refused.SpanContext.TraceID() == opened.SpanContext.TraceID() {
		t.Errorf("the span of the second start is %+v", refused)
	}
	has(t, refused, map[string]any{"error.type": "flow_exists"})
	sent := k.named("enqueue default")
	has(t, sent[1], map[string]any{"error.type": "flow_closed"})
	mail, report := k.one("process default"), k.one("process low")
	if mail.Parent.SpanID() != sent[0].SpanContext.SpanID() {
		t.Errorf("the attempt of the member has the parent %v", mail.Parent.SpanID())
	}
	for _, s := range []tracetest.SpanStub{mail, report} {
		if s.SpanContext.TraceID() != opened.SpanContext.TraceID() {
			t.Errorf("%s is in another trace", s.Name)
		}
	}
	linksTo(t, k.ofNode("create low", "on_end")[0], k.ofNode("create", "members")[0])
}

// Mistakes of callers have the errors of package flow, and no span.
func TestFlowMistakes(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	if _, err := k.client.StartFlow(nil, flow.New("f")); err == nil { //nolint:staticcheck // a mistake of the caller
		t.Error("a flow without a context is started")
	}
	if _, err := k.client.StartFlow(context.Background(), nil); err == nil {
		t.Error("no flow is started")
	}
	for _, b := range []*flow.BatchFlow{nil, {}} {
		if _, err := k.client.OpenBatch(context.Background(), b); err == nil {
			t.Error("no batch is opened")
		}
	}
	if _, err := k.client.EnqueueMembers(nil, &flow.Batch{}, []*asynq.Task{asynq.NewTask("t", nil)}); err == nil { //nolint:staticcheck // as above
		t.Error("members without a context are enqueued")
	}
	if spans := k.spans.GetSpans(); len(spans) != 0 {
		t.Errorf("there are spans %v", spans)
	}
}
