package flow_test

import (
	"context"
	"errors"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

// A handler may add members at once: also between the creation of its task and the change of the
// flow that follows.
func TestMemberAddsBeforeItsNodeIsWritten(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		started, written := make(chan struct{}), make(chan struct{})
		added := make(chan error, 1)
		env.Serve(asynq.Config{Concurrency: 4}, func(ctx context.Context, task *asynq.Task) error {
			if task.Type() != "split" {
				return nil
			}
			close(started)
			<-written
			m, _ := flow.FromContext(ctx)
			_, err := m.Enqueue(ctx, []*asynq.Task{asynq.NewTask("row", nil, asynq.Queue("default"))})
			added <- err
			return err
		})
		f := flow.New("import")
		f.AddBatch("rows", []*asynq.Task{asynq.NewTask("split", nil, asynq.MaxRetry(0))})
		start(env, f)
		testenv.Await(env, started, "the first task to start")
		// What Redis has until the process that created the task has written the flow.
		env.NoError(env.RDB.HSet(env.Context(), wire.DefaultNamespace.Flow("import"), "node:rows", `{"s":"waiting"}`).Err())
		close(written)
		env.NoError(testenv.Await(env, added, "the members to be added"))
		if info := awaitStatus(env, "import", flow.Succeeded); info.Nodes[0].Total != 2 {
			t.Errorf("the node is %+v", info.Nodes[0])
		}
	})
}

// A batch that was canceled while a member is active can be closed.
func TestCloseACanceledBatch(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		started, end := make(chan struct{}), make(chan struct{})
		env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error {
			close(started)
			<-end
			return errors.New("canceled")
		})
		ctx := env.Context()
		batch, err := flow.OpenBatch(ctx, env.Client, flow.NewBatch("mails"))
		env.NoError(err)
		_, err = batch.Enqueue(ctx, []*asynq.Task{asynq.NewTask("mail", nil)})
		env.NoError(err)
		testenv.Await(env, started, "the member to start")
		_, err = inspector(env).Cancel(ctx, "mails")
		env.NoError(err)
		env.NoError(batch.Close(ctx))
		close(end)
		awaitStatus(env, "mails", flow.Canceled)
	})
}
