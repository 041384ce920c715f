// Package flow runs tasks that depend on each other: chains, fan-outs with a task at the end,
// graphs with branches for failures.
//
// A flow consists of nodes. A node is one task, or a batch of any number of tasks, its members. A
// node starts once the nodes that it depends on have succeeded (After), have failed (AfterFailure)
// or have ended (AfterEnd):
//
//	f := flow.New("order-42")
//	charge := f.Add("charge", asynq.NewTask("charge", payload))
//	pack := f.AddBatch("pack", packTasks).After(charge)
//	f.Add("ship", asynq.NewTask("ship", payload)).After(pack)
//	f.Add("refund", asynq.NewTask("refund", payload)).AfterFailure(pack)
//	info, err := flow.Start(ctx, client, f)
//
// The tasks of a node are created exactly once, whichever processes die and however often Redis
// fails over; like all tasks, they run at least once. Handlers are ordinary handlers of a server of
// this library; it advances the flows whose tasks it runs.
//
// A task has succeeded when its handler has returned nil, and failed when it is archived. A failed
// task is not final: run it again (asynq.Inspector.RunTask, or Inspector.Retry), and the flow
// continues when it succeeds. A task that is deleted before it succeeds counts as failed.
package flow
