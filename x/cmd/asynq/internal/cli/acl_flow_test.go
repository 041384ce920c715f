package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/acltest"
)

// A producer starts flows, and a worker runs them, with the additional permissions of docs/ACL.md.
// An observer lists and inspects flows, and an admin changes them.
func TestACLFlow(t *testing.T) {
	t.Parallel()
	r := acltest.Start(t)
	r.Grant("producer", "(package `flow`): add `")
	r.Grant("worker", "to a producer that starts them, and `")
	client := asynq.NewClient(r.As("producer"))
	observer := asynq.NewInspector(r.As("observer"))
	t.Cleanup(func() { _, _ = client.Close(), observer.Close() })
	srv := asynq.NewServer(r.As("worker"), asynq.Config{Queues: map[string]int{"shop": 1}, LogLevel: asynq.FatalLevel})
	if err := srv.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		if task.Type() == "bad" {
			return fmt.Errorf("out of stock: %w", asynq.SkipRetry)
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	for _, id := range []string{"order-1", "order-2"} {
		if _, err := flow.Start(t.Context(), client, orderFlow(id)); err != nil {
			t.Fatal(err)
		}
		proctest.Eventually(t, "the flow to be blocked", func() bool {
			f, err := flow.Inspect(observer).Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return f.Status == flow.Blocked
		})
	}
	run := asRole(t, r, "observer")
	for _, line := range []string{"flow ls", "flow ls --all -o json", "flow inspect order-1", "flow retry order-1 --dry-run", "flow cancel order-1 --dry-run"} {
		if res := run(line); res.code != ExitDone {
			t.Errorf("%s: %+v", line, res)
		}
	}
	for _, entry := range r.Denied() {
		t.Errorf("ACL LOG: %s", entry)
	}
	for _, line := range []string{"flow retry order-1 --yes", "flow skip order-1 pack --yes", "flow cancel order-1 --yes"} {
		if res := run(line); res.code != ExitFailed || !strings.Contains(res.err, "NOPERM") && !strings.Contains(res.err, "can't run this command") {
			t.Errorf("%s: %+v; want it denied", line, res)
		}
	}
	if len(r.Denied()) == 0 {
		t.Error("nothing was denied")
	}
	run = asRole(t, r, "admin")
	for _, line := range []string{"flow retry order-1 --yes", "flow skip order-2 pack --yes", "flow cancel order-1 --yes", "flow ls"} {
		if res := run(line); res.code != ExitDone {
			t.Errorf("%s: %+v", line, res)
		}
	}
}
