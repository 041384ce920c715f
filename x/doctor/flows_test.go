package doctor_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/x/doctor"
)

// flowFault is a flow with the ID f in queue q, after all that a test does to it.
type flowFault struct {
	env  *testenv.Env
	keys wire.Queue
	part wire.FlowPart // of the node first
	id   string        // of its task
}

// startFlow starts a flow of the nodes first and second, the second after the success of the first.
func startFlow(env *testenv.Env) *flowFault {
	f := flow.New("f")
	first := f.Add("first", asynq.NewTask("a", nil), asynq.Queue("q"))
	f.Add("second", asynq.NewTask("b", nil), asynq.Queue("q")).After(first)
	info, err := flow.Start(env.Context(), env.Client, f)
	if err != nil {
		env.T.Fatal(err)
	}
	return newFault(env, "first", info.Nodes[0].TaskIDs[0])
}

func newFault(env *testenv.Env, node, id string) *flowFault {
	run := env.RDB.HGet(env.Context(), wire.DefaultNamespace.Flow("f"), wire.FieldFlowRun).Val()
	return &flowFault{env, wire.DefaultNamespace.Queue("q"), wire.FlowPart{Run: run, Node: node, Flow: "f"}, id}
}

// edit changes the state of the flow.
func (f *flowFault) edit(change func(r *wire.FlowRecord)) {
	f.env.T.Helper()
	key := wire.DefaultNamespace.Flow("f")
	r, err := wire.DecodeFlowRecord(f.env.RDB.HGetAll(f.env.Context(), key).Val())
	f.env.NoError(err)
	change(r)
	fields, err := r.Changes()
	f.env.NoError(err)
	f.env.NoError(f.env.RDB.HSet(f.env.Context(), key, fields...).Err())
}

// age makes the flow look as if it had last changed some time ago.
func (f *flowFault) age(d time.Duration) {
	f.env.T.Helper()
	f.edit(func(r *wire.FlowRecord) {
		for _, n := range r.Nodes {
			for _, at := range []*int64{&n.Started, &n.Ended} {
				if *at > 0 {
					*at -= d.Milliseconds()
				}
			}
		}
		r.Created, r.Changed = r.Created-d.Milliseconds(), r.Changed-d.Milliseconds()
	})
}

// addQueue makes a node look as if a caller had died before it added tasks in queue other.
func (f *flowFault) addQueue() {
	f.env.T.Helper()
	f.edit(func(r *wire.FlowRecord) {
		n := r.Nodes[f.part.Node]
		n.Queues = append([]string{"other"}, n.Queues...)
	})
}

func (f *flowFault) do(args ...any) {
	f.env.T.Helper()
	f.env.NoError(f.env.RDB.Do(f.env.Context(), args...).Err())
}

// lateBy makes the part overdue.
func (f *flowFault) lateBy(d time.Duration) {
	f.do("ZADD", f.keys.FlowsDue(), time.Now().Add(-d).UnixMilli(), f.part.String())
}

// runElsewhere completes the task as a server does that knows no flows.
func (f *flowFault) runElsewhere() {
	f.do("LREM", f.keys.Pending(), 0, f.id)
	f.do("DEL", f.keys.Task(f.id))
}

// archive archives the task, and lets a server notice it.
func (f *flowFault) archive() {
	f.env.NoError(f.env.Inspector().ArchiveTask("q", f.id))
	_, err := flow.Inspect(f.env.Inspector()).Advance(f.env.Context(), "f")
	f.env.NoError(err)
}

// Flows that nothing continues are found and, if possible, repaired.
func TestDiagnoseFlows(t *testing.T) {
	for _, tt := range []struct {
		name  string
		plant func(f *flowFault)
		want  string // the finding
		after string // the statuses of the nodes after the repair; "": it cannot be repaired
	}{
		{"nothing", func(f *flowFault) { f.age(time.Hour) }, "", ""},
		{"blocked for minutes", func(f *flowFault) { f.archive(); f.age(50 * time.Minute) }, "", ""},
		{"blocked for hours", func(f *flowFault) { f.archive(); f.age(2 * time.Hour) }, "flow-stuck asynq:flow:{f} first", ""},
		{
			"not due", func(f *flowFault) { f.do("DEL", f.keys.FlowsDue()); f.age(time.Hour) },
			"flow-stuck flows:due first", "running waiting",
		},
		{"not due yet", func(f *flowFault) { f.do("DEL", f.keys.FlowsDue()); f.age(50 * time.Second) }, "", ""},
		{
			"due elsewhere", func(f *flowFault) {
				f.do("DEL", f.keys.FlowsDue())
				f.age(time.Hour)
				f.do("ZADD", wire.DefaultNamespace.FlowsToCheck(), 1, "f")
				f.do("EXPIRE", wire.DefaultNamespace.FlowsToCheck(), 1000)
			}, "", "",
		},
		{
			"lost by a failover", func(f *flowFault) {
				f.do("DEL", f.keys.Pending(), f.keys.Task(f.id), f.keys.FlowPart(f.part), f.keys.FlowOpen(f.part), f.keys.FlowsDue())
				f.age(time.Hour)
			}, "flow-stuck PART first", "running waiting",
		},
		{
			"run by other servers", func(f *flowFault) { f.runElsewhere(); f.lateBy(10 * time.Minute); f.age(time.Hour) },
			"flow-stuck flows:due first", "failed waiting",
		},
		{"run just now by other servers", func(f *flowFault) { f.runElsewhere(); f.lateBy(4 * time.Minute); f.age(time.Hour) }, "", ""},
		{"a queue without tasks", func(f *flowFault) { f.addQueue(); f.age(time.Hour) }, "", ""},
		{"no server, but tasks wait", func(f *flowFault) { f.lateBy(10 * time.Minute); f.age(time.Hour) }, "", ""},
		{
			"flow gone", func(f *flowFault) { f.do("DEL", wire.DefaultNamespace.Flow("f"), wire.DefaultNamespace.FlowPlan("f")) },
			"flow-orphan OPEN first", "",
		},
		{
			"flow gone, and its ID used again", func(f *flowFault) { f.do("HSET", wire.DefaultNamespace.Flow("f"), "run", "other") },
			"flow-orphan OPEN first", "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				f := startFlow(env)
				tt.plant(f)
				checkFault(f, tt.want, tt.after)
			})
		})
	}
}

// flowFindings returns the findings as "kind key node".
func flowFindings(f *flowFault, o doctor.Options) (found []string) {
	f.env.T.Helper()
	for finding, err := range doctor.Diagnose(f.env.Context(), f.env.Opt(), o) {
		if err != nil {
			f.env.T.Error(err)
			continue
		}
		key := finding.Key
		switch key {
		case f.keys.FlowPart(f.part):
			key = "PART"
		case f.keys.FlowOpen(f.part):
			key = "OPEN"
		case f.keys.FlowsDue():
			key = "flows:due"
		}
		found = append(found, fmt.Sprintf("%s %s %s", finding.Kind, key, finding.Node))
		if finding.Flow != "f" || finding.Detail == "" || finding.Repaired != (o.Repair && finding.Repair != "") {
			f.env.T.Errorf("found %+v", finding)
		}
	}
	return found
}

func checkFault(f *flowFault, want, after string) {
	f.env.T.Helper()
	f.env.AllowViolations()
	var all []string
	if want != "" {
		all = []string{want}
	}
	redistest.Unchanged(f.env.T, f.env.Redis, "a diagnosis", func() {
		if diff := cmp.Diff(all, flowFindings(f, doctor.Options{})); diff != "" {
			f.env.T.Errorf("the diagnosis (-want +got):\n%s", diff)
		}
	})
	if diff := cmp.Diff(all, flowFindings(f, doctor.Options{Repair: true})); diff != "" {
		f.env.T.Errorf("the repair (-want +got):\n%s", diff)
	}
	if got := flowFindings(f, doctor.Options{}); (after == "") != (len(got) == len(all)) && want != "" {
		f.env.T.Errorf("after the repair: %q", got)
	}
	if got := flowFindings(f, doctor.Options{Queues: []string{"other"}}); len(got) > 0 {
		f.env.T.Errorf("of another queue: %q", got)
	}
	if after == "" {
		return
	}
	info, err := flow.Inspect(f.env.Inspector()).Get(f.env.Context(), "f")
	f.env.NoError(err)
	if got := fmt.Sprint(info.Nodes[0].Status, " ", info.Nodes[1].Status); got != after {
		f.env.T.Errorf("the nodes are %s, want %s", got, after)
	}
	if info.Nodes[0].Status == flow.Running && f.env.RDB.ZCard(f.env.Context(), f.keys.FlowsDue()).Val() != 1 {
		f.env.T.Error("no server checks the flow")
	}
	if n := f.env.RDB.LLen(f.env.Context(), f.keys.Pending()).Val(); info.Nodes[0].Status == flow.Running && n != 1 {
		f.env.T.Errorf("%d tasks wait", n)
	}
}

// A batch that remains open is found once a day has passed and its tasks have ended.
func TestDiagnoseOpenBatch(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		batch, err := flow.OpenBatch(env.Context(), env.Client, flow.NewBatch("f").OnEnd(asynq.NewTask("report", nil)))
		if err != nil {
			env.T.Fatal(err)
		}
		f := newFault(env, "members", "")
		f.age(23 * time.Hour)
		if got := flowFindings(f, doctor.Options{}); len(got) > 0 {
			env.T.Errorf("after 23 hours: %q", got)
		}
		f.age(2 * time.Hour)
		want := []string{"flow-stuck asynq:flow:{f} "}
		if got := flowFindings(f, doctor.Options{Repair: true}); !slices.Equal(got, want) {
			env.T.Errorf("without members: %q", got)
		}
		f.age(-24 * time.Hour)
		f.addQueue()
		if got := flowFindings(f, doctor.Options{}); len(got) > 0 {
			env.T.Errorf("after an hour, with a queue without members: %q", got)
		}
		if _, err := batch.Enqueue(env.Context(), []*asynq.Task{asynq.NewTask("m", nil, asynq.Queue("q"), asynq.TaskID("m"))}); err != nil {
			env.T.Fatal(err)
		}
		f.age(25 * time.Hour)
		if got := flowFindings(f, doctor.Options{}); len(got) > 0 {
			env.T.Errorf("with a member that waits: %q", got)
		}
		env.NoError(env.Inspector().DeleteTask("q", "m"))
		if _, err := flow.Inspect(env.Inspector()).Advance(env.Context(), "f"); err != nil {
			env.T.Fatal(err)
		}
		if got := flowFindings(f, doctor.Options{}); !slices.Equal(got, want) {
			env.T.Errorf("after its end: %q", got)
		}
	})
}

// While servers run flows that fail, are canceled and expire, a diagnosis finds nothing.
func TestDiagnoseBusyFlows(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Serve(asynq.Config{Concurrency: 8, Queues: map[string]int{"q": 1, "r": 1}}, func(ctx context.Context, task *asynq.Task) error {
			if task.Type() == "bad" {
				return asynq.SkipRetry
			}
			return nil
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 60 {
				id := fmt.Sprint("f", i)
				f := flow.New(id).Retention(time.Second)
				first := f.Add("a", asynq.NewTask([]string{"good", "bad"}[i%2], nil), asynq.Queue("q"))
				rows := f.AddBatch("rows", []*asynq.Task{asynq.NewTask("row", nil), asynq.NewTask("row", nil, asynq.Queue("r"))}, asynq.Queue("q")).AfterEnd(first)
				f.Add("z", asynq.NewTask("last", nil), asynq.Queue("r")).AfterEnd(rows)
				if _, err := flow.Start(env.Context(), env.Client, f); err != nil {
					env.T.Errorf("starting: %v", err)
				}
				if i%5 == 0 {
					_, _ = flow.Inspect(env.Inspector()).Cancel(env.Context(), id) // it may have ended
				}
			}
		}()
		for busy := true; busy; {
			select {
			case <-done:
				busy = false
			default:
			}
			for f, err := range doctor.Diagnose(env.Context(), env.Opt(), doctor.Options{}) {
				if err != nil {
					env.T.Error(err)
				} else {
					env.T.Errorf("found %+v", f)
				}
			}
		}
	})
}
