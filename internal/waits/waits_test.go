package waits

import (
	"context"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// silent is a broker that reports nothing, and whose tasks have the given states.
type silent struct {
	Broker
	states map[string]wire.State
}

func (silent) ID() string                                 { return "client" }
func (silent) Lane(string) string                         { return "" }
func (silent) EndReplies(context.Context, string, string) {}
func (s silent) state(id string) wire.State               { return s.states[id] }
func (s silent) States(_ context.Context, _ string, ids []string) (states []wire.State, err error) {
	for _, id := range ids {
		states = append(states, s.state(id))
	}
	return states, nil
}

func (silent) Replies(context.Context, string, []string, time.Duration, func(rdb.Reply)) error {
	select {} // the test calls read itself
}

// A task that does not exist yet is not deleted.
func TestStateOfTasksBeforeTheirCreation(t *testing.T) {
	t.Parallel()
	broker := silent{states: make(map[string]wire.State)}
	w := &Waits{Broker: broker}
	early, known := w.Begin("default", "t"), w.Begin("default", "t")
	known.Created()
	read := func() {
		t.Helper()
		if err := early.lane.read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := func(w *Wait, outcome rdb.ReplyOutcome) {
		t.Helper()
		reply := rdb.Reply{}
		select {
		case reply = <-w.End:
		default:
		}
		if reply.Outcome != outcome {
			t.Errorf("the wait has ended with %q, want %q", reply.Outcome, outcome)
		}
	}
	read()
	want(known, rdb.ReplyDeleted)
	want(early, "")
	broker.states["t"] = wire.StateArchived
	early.Created()
	read()
	want(early, rdb.ReplyFailed)
	read()
	early.Stop()
	known.Stop()
}
