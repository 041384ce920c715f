package dash

import (
	"testing"

	"github.com/asynq-go/asynq"
)

// In a protected context, each change requires the name of the context. The screen and the dialog
// show the target.
func TestProtectedContext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		enqueue(t, client, asynq.NewTask("x", nil), asynq.Queue("mail"), asynq.TaskID("first"))
		o := quick(client, insp)
		o.Target, o.Context, o.Protected = `context "prod" (redis:6379, database 0)`, "prod", true
		d := drive(t, o)
		d.see(`─ context "prod" (redis:6379, database 0) ─`, "mail")
		d.keys("p")
		d.see("Pause queue mail?", `In context "prod" (redis:6379, database 0)`, "Type prod to confirm:")
		d.keys("y enter")
		if d.m.dialog == nil {
			t.Fatal("another text than the name confirms")
		}
		d.keys("esc")
		d.see("nothing was changed")
		d.keys("enter")
		d.see("▌first")
		d.keys("d")
		d.typed("prod")
		d.keys("enter")
		d.see("deleted task first")
		if got := stateOf(t, insp, "mail", "first"); got != "" {
			t.Errorf("the task is %q", got)
		}
	})
}
