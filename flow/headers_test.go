package flow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/testenv"
)

// The headers of WithHeaders go to the tasks of each node, and replace or remove those of the same
// key. They are not requested for a validation, and the original flow has none.
func TestWithHeaders(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		f := flow.New("f")
		own := asynq.NewTaskWithHeaders("t", nil, map[string]string{"own": "1", "node": "x", "old": "1"})
		first := f.Add("first", own, asynq.Queue("default"))
		batch := f.AddBatch("batch", []*asynq.Task{own, asynq.NewTask("t", nil)})
		f.Add("last", asynq.NewTask("t", nil), asynq.Queue("low")).After(first).AfterEnd(batch).AfterFailure(first)
		var calls strings.Builder
		with := f.WithHeaders(func(n flow.NodeInfo) map[string]string {
			fmt.Fprintln(&calls, n.Name, n.Batch, n.Total, n.Queues, n.After, n.AfterFailure, n.AfterEnd)
			return map[string]string{"node": n.Name, "old": ""}
		})
		env.NoError(with.Validate())
		if calls.Len() > 0 {
			t.Errorf("a validation calls it for %s", &calls)
		}
		info := start(env, with)
		if got, want := calls.String(), "first false 1 [default] [] [] []\nbatch true 2 [default] [] [] []\nlast false 1 [low] [first] [first] [batch]\n"; got != want {
			t.Errorf("called for %s, want %s", got, want)
		}
		got := env.Message(info.Node("first").TaskIDs[0]).Headers
		if delete(got, "asynq-ext"); fmt.Sprint(got) != "map[node:first own:1]" {
			t.Errorf("the headers are %v", got)
		}
		if h := own.Headers(); len(h) != 3 || h["node"] != "x" {
			t.Errorf("the task of the caller has the headers %v", h)
		}
		again := flow.New("again")
		again.Add("n", own)
		reserved := again.WithHeaders(func(flow.NodeInfo) map[string]string { return map[string]string{"asynq-ext": ""} })
		if _, err := flow.Start(env.Context(), env.Client, reserved); err == nil || !strings.Contains(err.Error(), "reserved") {
			t.Errorf("a reserved header: %v", err)
		}
		invalid := again.WithHeaders(func(flow.NodeInfo) map[string]string { return map[string]string{"x": "\xff"} })
		if _, err := flow.Start(env.Context(), env.Client, invalid); err == nil {
			t.Error("a header that is not UTF-8 is accepted")
		}
		info = start(env, again)
		if h := env.Message(info.Nodes[0].TaskIDs[0]).Headers; h["node"] != "x" {
			t.Errorf("the original flow has the headers %v", h)
		}
	})
}
