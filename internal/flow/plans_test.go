package flow_test

import (
	"context"
	"testing"

	"github.com/asynq-go/asynq/internal/flow"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// planned is a broker with a flow for each ID, whose plan has the given bytes. It records the plans
// that the engine has not kept.
type planned struct {
	flow.Broker
	size int
	read []string
}

func (b *planned) ReadFlow(_ context.Context, id string, known func(run string) *wire.FlowPlan) (rdb.StoredFlow, error) {
	plan := known(id)
	if plan == nil {
		b.read = append(b.read, id)
		plan = &wire.FlowPlan{ID: id, Run: id, Nodes: []wire.FlowPlanNode{{Name: "a", Tasks: []wire.FlowTask{{Message: make([]byte, b.size)}}}}}
	}
	return rdb.StoredFlow{Plan: plan, Record: &wire.FlowRecord{Run: id}}, nil
}

// The engine keeps the plans of flows, but not large ones of many.
func TestPlansInMemory(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{1 << 10: 3, 12 << 20: 6} {
		b := &planned{size: size}
		e := &flow.Engine{Broker: b}
		for _, id := range []string{"a", "a", "b", "c", "a", "b", "c"} {
			if _, err := e.Read(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if len(b.read) != want {
			t.Errorf("with %d bytes, the plans %v were read, want %d", size, b.read, want)
		}
	}
}
