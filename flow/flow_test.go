package flow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

// journal records which tasks have started, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (l *journal) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *journal) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

func start(env *testenv.Env, f *flow.Flow) *flow.Info {
	env.T.Helper()
	info, err := flow.Start(context.Background(), env.Client, f)
	env.NoError(err)
	return info
}

func inspector(env *testenv.Env) *flow.Inspector { return flow.Inspect(env.Inspector()) }

// awaitStatus waits until a flow has a status.
func awaitStatus(env *testenv.Env, id string, want flow.Status) *flow.Info {
	env.T.Helper()
	var info *flow.Info
	env.Eventually(func() bool {
		var err error
		info, err = inspector(env).Get(context.Background(), id)
		env.NoError(err)
		return info.Status == want
	}, "flow %s is not %s", id, want)
	return info
}

func statuses(info *flow.Info) string {
	text := ""
	for _, n := range info.Nodes {
		text += fmt.Sprintf("%s %s; ", n.Name, n.Status)
	}
	return text
}

// The tasks of a chain run one after the other, and read the results of those before them.
func TestChain(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		var ran journal
		env.Serve(asynq.Config{Concurrency: 4}, func(ctx context.Context, task *asynq.Task) error {
			m, ok := flow.FromContext(ctx)
			if !ok {
				return errors.New("not a member")
			}
			before := ""
			if m.Node() != "1" {
				b, err := m.Result(ctx, fmt.Sprint(m.Node()[0]-'1'))
				if err != nil {
					return err
				}
				before = string(b)
			}
			ran.add(m.FlowID() + "/" + m.Node() + " " + task.Type() + " after " + before)
			_, err := task.ResultWriter().Write([]byte(task.Type() + " done"))
			return err
		})
		start(env, flow.Chain("audit-1", asynq.NewTask("audit", nil), asynq.NewTask("zip", nil), asynq.NewTask("send", nil)))
		info := awaitStatus(env, "audit-1", flow.Succeeded)
		want := "[audit-1/1 audit after  audit-1/2 zip after audit done audit-1/3 send after zip done]"
		if got := fmt.Sprint(ran.all()); got != want {
			env.T.Errorf("ran %s, want %s", got, want)
		}
		if info.Ended.IsZero() || len(info.Nodes) != 3 || info.Nodes[2].Succeeded != 1 {
			env.T.Errorf("the flow is %+v", info)
		}
		if b, err := inspector(env).Result(context.Background(), "audit-1", "3"); err != nil || string(b) != "send done" {
			env.T.Errorf("the result is %q, %v", b, err)
		}
		if _, err := flow.Start(context.Background(), env.Client, flow.Chain("audit-1", asynq.NewTask("audit", nil))); !errors.Is(err, flow.ErrExists) {
			env.T.Errorf("a second flow with the ID: %v", err)
		}
	})
}

// Validate finds what Start would refuse, without a connection.
func TestValidate(t *testing.T) {
	t.Parallel()
	task := asynq.NewTask("t", nil)
	two := func(f *flow.Flow) *flow.Flow {
		f.Add("a", task)
		f.Add("a", task)
		return f
	}
	for want, f := range map[string]*flow.Flow{
		"":                              flow.Chain("x", task, task),
		"flow ID must not be blank":     flow.New(" "),
		"two nodes have the name \"a\"": two(flow.New("x")),
		"Retention(-1ns) must be":       flow.New("x").Retention(-1),
		"cannot have Unique":            flow.Chain("x", asynq.NewTask("t", nil, asynq.Unique(time.Hour))),
		"nil flow":                      nil,
		"must have at most 100 bytes":   func() *flow.Flow { f := flow.New("x"); f.AddBatch(strings.Repeat("n", 101), nil); return f }(),
		"1001 nodes, the maximum is":    flow.Chain("x", slices.Repeat([]*asynq.Task{task}, 1001)...),
	} {
		err := f.Validate()
		if _, started := flow.Start(context.Background(), nil, f); want != "" && fmt.Sprint(started) != fmt.Sprint(err) {
			t.Errorf("Start returns %v, Validate %v", started, err)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// The result of a lease is that of its node, also if the task is not retained.
func TestResultOfLease(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		receiver := env.Receiver(asynq.ReceiverConfig{Queues: map[string]int{"default": 1}})
		start(env, flow.Chain("f", asynq.NewTask("a", nil), asynq.NewTask("b", nil)))
		for _, want := range []string{"1", "2"} {
			leases, err := receiver.Receive(ctx, 1)
			env.NoError(err)
			if m, ok := flow.FromContext(leases[0].Context()); !ok || m.Node() != want {
				env.T.Fatalf("received the task of %+v, want node %s", m, want)
			}
			env.NoError(leases[0].Complete(ctx, []byte("result of "+want)))
		}
		awaitStatus(env, "f", flow.Succeeded)
		for _, node := range []string{"1", "2"} {
			if b, err := inspector(env).Result(ctx, "f", node); err != nil || string(b) != "result of "+node {
				env.T.Errorf("the result of node %s is %q, %v", node, b, err)
			}
		}
	})
}

// A batch in the middle of a flow fails for one of its members: the refund runs, the shipping
// waits until the member succeeds after all.
func TestFailureIsNotFinal(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		var ran journal
		var fail sync.Map
		fail.Store("pack:2", true)
		env.Serve(asynq.Config{Concurrency: 4}, func(ctx context.Context, task *asynq.Task) error {
			ran.add(task.Type())
			if _, ok := fail.Load(task.Type()); ok {
				return fmt.Errorf("broken: %w", asynq.SkipRetry)
			}
			return nil
		})
		f := flow.New("order-42")
		charge := f.Add("charge", asynq.NewTask("charge", nil))
		var tasks []*asynq.Task
		for i := range 5 {
			tasks = append(tasks, asynq.NewTask(fmt.Sprintf("pack:%d", i), nil))
		}
		pack := f.AddBatch("pack", tasks).After(charge)
		f.Add("ship", asynq.NewTask("ship", nil)).After(pack)
		f.Add("refund", asynq.NewTask("refund", nil)).AfterFailure(pack)
		f.Add("report", asynq.NewTask("report", nil)).AfterEnd(pack)
		f.Add("thank", asynq.NewTask("thank", nil)).After(pack).OnDependencyFailure(flow.Cancel)
		f.Add("log", asynq.NewTask("log", nil)).After(pack).OnDependencyFailure(flow.Ignore)
		start(env, f)
		info := awaitStatus(env, "order-42", flow.Blocked)
		want := "charge succeeded; pack failed; ship waiting; refund succeeded; report succeeded; thank canceled; log succeeded; "
		if got := statuses(info); got != want {
			env.T.Errorf("nodes are %s, want %s", got, want)
		}
		if b := info.Blockers(); len(b) != 1 || b[0] != info.Node("pack") {
			env.T.Errorf("blocked by %v", b)
		}
		fail.Clear()
		n, info, err := inspector(env).Retry(context.Background(), "order-42")
		env.NoError(err)
		if n != 1 {
			env.T.Errorf("retried %d tasks: %s", n, statuses(info))
		}
		info = awaitStatus(env, "order-42", flow.Succeeded)
		if b := info.Blockers(); len(b) > 0 {
			env.T.Errorf("blocked by %v", b)
		}
		want = "charge succeeded; pack succeeded; ship succeeded; refund succeeded; report succeeded; thank succeeded; log succeeded; "
		if got := statuses(info); got != want {
			env.T.Errorf("nodes are %s, want %s", got, want)
		}
		counts := make(map[string]int)
		for _, line := range ran.all() {
			counts[line]++
		}
		for _, typename := range []string{"charge", "ship", "refund", "report", "thank", "log", "pack:0"} {
			if counts[typename] != 1 {
				env.T.Errorf("%s ran %d times", typename, counts[typename])
			}
		}
	})
}

// Members are added by a client until it closes the batch, and by members.
func TestBatch(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		var ran journal
		env.Serve(asynq.Config{Concurrency: 10, Queues: map[string]int{"default": 1, "other": 1}}, func(ctx context.Context, task *asynq.Task) error {
			ran.add(task.Type())
			if task.Type() == "split" {
				m, _ := flow.FromContext(ctx)
				_, err := m.Enqueue(ctx, []*asynq.Task{asynq.NewTask("row", nil), asynq.NewTask("row", nil)}, asynq.Queue("other"))
				return err
			}
			return nil
		})
		spec := flow.NewBatch("mail-10").OnSuccess(asynq.NewTask("success", nil)).OnEnd(asynq.NewTask("end", nil)).
			OnFailure(asynq.NewTask("failure", nil))
		b, err := flow.OpenBatch(ctx, env.Client, spec)
		env.NoError(err)
		for range 3 {
			results, err := b.Enqueue(ctx, []*asynq.Task{asynq.NewTask("split", nil), asynq.NewTask("row", nil)})
			env.NoError(err)
			if len(results) != 2 || results[0].TaskInfo == nil {
				env.T.Errorf("results are %+v", results)
			}
		}
		env.Eventually(func() bool { return len(ran.all()) == 12 }, "ran %v", "all 12")
		if info, err := inspector(env).Get(ctx, "mail-10"); err != nil || info.Status != flow.Running {
			env.T.Errorf("the open batch is %+v, %v", info, err)
		}
		env.NoError(b.Close(ctx))
		info := awaitStatus(env, "mail-10", flow.Succeeded)
		if got, want := statuses(info), "members succeeded; on_success succeeded; on_end succeeded; on_failure omitted; "; got != want {
			env.T.Errorf("nodes are %s, want %s", got, want)
		}
		if n := info.Node("members"); n.Total != 12 || n.Succeeded != 12 || n.Pending() != 0 {
			env.T.Errorf("the members are %+v", n)
		}
		if _, err := b.Enqueue(ctx, []*asynq.Task{asynq.NewTask("row", nil)}); !errors.Is(err, flow.ErrClosed) {
			env.T.Errorf("adding to a closed batch: %v", err)
		}
		if _, err := flow.ResumeBatch(ctx, env.Client, "mail-10"); !errors.Is(err, flow.ErrClosed) {
			env.T.Errorf("resuming a closed batch: %v", err)
		}
	})
}

// A canceled flow deletes its waiting tasks, cancels the active ones, and starts no further ones.
func TestCancel(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		started := make(chan struct{}, 10)
		env.Serve(asynq.Config{Concurrency: 1}, func(ctx context.Context, _ *asynq.Task) error {
			started <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		f := flow.New("long")
		rows := f.AddBatch("rows", []*asynq.Task{asynq.NewTask("row", nil), asynq.NewTask("row", nil), asynq.NewTask("row", nil)})
		f.Add("next", asynq.NewTask("next", nil)).After(rows)
		start(env, f)
		select {
		case <-started:
		case <-time.After(testenv.Timeout):
			env.T.Fatal("nothing started")
		}
		_, err := inspector(env).Cancel(ctx, "long")
		env.NoError(err)
		info := awaitStatus(env, "long", flow.Canceled)
		if got, want := statuses(info), "rows canceled; next canceled; "; got != want {
			env.T.Errorf("nodes are %s, want %s", got, want)
		}
		if n := info.Node("rows"); n.Deleted != 3 {
			env.T.Errorf("rows are %+v", n)
		}
		if _, _, err := inspector(env).Retry(ctx, "long"); !errors.Is(err, flow.ErrCanceled) {
			env.T.Errorf("retrying it: %v", err)
		}
	})
}

// A server may die after it has created the tasks of a node and before it has written so. They may
// even have ended when another process advances the flow, which counts them at once.
func TestTasksOfAnUnwrittenNode(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		srv := env.Serve(asynq.Config{Concurrency: 1}, func(context.Context, *asynq.Task) error { return nil })
		f := flow.New("order")
		charge := f.Add("charge", asynq.NewTask("charge", nil))
		pack := f.Add("pack", asynq.NewTask("pack", nil)).After(charge)
		f.Add("ship", asynq.NewTask("ship", nil), asynq.ProcessIn(time.Hour)).After(pack)
		start(env, f)
		key := wire.DefaultNamespace.Flow("order")
		written := env.RDB.HGetAll(env.Context(), key).Val()
		want := "charge succeeded; pack succeeded; ship running; "
		env.Eventually(func() bool {
			info, err := inspector(env).Get(env.Context(), "order")
			env.NoError(err)
			return statuses(info) == want
		}, "the nodes are not %s", want)
		srv.Shutdown()
		env.NoError(env.RDB.Del(env.Context(), key).Err())
		env.NoError(env.RDB.HSet(env.Context(), key, written).Err())
		info, err := inspector(env).Advance(env.Context(), "order")
		env.NoError(err)
		if got := statuses(info); got != want {
			env.T.Errorf("nodes are %s, want %s", got, want)
		}
	})
}
