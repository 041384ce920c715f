package script_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/rollup"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/x/doctor"
)

// callEverything calls every method that runs a script, with two tasks if it takes many.
func callEverything(t *testing.T, r *redistest.Redis, b *rdb.Broker) {
	in := inspect.New(b)
	t.Helper()
	ctx := context.Background()
	task := func(id, group string, processAt int64) *rdb.NewTask {
		task := redistest.NewTask(t, "q", id)
		task.Group, task.ProcessAt = group, processAt
		return task
	}
	later := time.Now().Add(time.Hour).Unix()
	b.Enqueue(ctx, task("a", "", 0), task("b", "", 0), task("c", "g", 0), task("d", "h", 0), task("e", "", later), task("f", "", later))
	redistest.Fetch(t, b, rdb.Fetch{N: 2, Token: "lost"})
	redistest.Reclaim(t, b, "lost")
	redistest.Fetch(t, b, rdb.Fetch{N: 2})
	results := []*rdb.ResultWrite{{Queue: "q", ID: "a", Token: "f"}, {Queue: "q", ID: "b", Token: "f"}}
	if b.WriteResults(ctx, results); results[0].Err != nil || results[1].Code != script.CodeOK {
		t.Errorf("results: %+v, %+v", results[0], results[1])
	}
	b.WriteProgress(ctx, results)
	if _, err := b.ReadSteps(ctx, "q", "a", "f"); err != nil {
		t.Error(err)
	}
	if err := b.WriteStep(ctx, &rdb.StepWrite{Queue: "q", ID: "a", Token: "f", Name: "s", Kind: wire.StepWait, For: time.Hour}); err != nil {
		t.Error(err)
	}
	if err := b.Signal(ctx, "q", "a", "s", []byte("1")); err != nil {
		t.Error(err)
	}
	b.RoundTrip(ctx, &rdb.RoundTrip{Settle: []*rdb.Settlement{
		{Queue: "q", ID: "a", Token: "another", Outcome: rdb.Defer, Extra: &rdb.Extra{Await: true}},
	}})
	b.Extend(ctx, "q", time.Minute, []rdb.Held{{ID: "a", Token: "f"}, {ID: "b", Token: "f"}})
	var settlements []*rdb.Settlement
	for _, outcome := range []rdb.Outcome{rdb.Done, rdb.Complete, rdb.Retry, rdb.Defer, rdb.Archive, rdb.Requeue, rdb.Revoke, rdb.Expire, rdb.Discard} {
		for _, id := range []string{"a", "b"} {
			settlements = append(settlements, &rdb.Settlement{Queue: "q", ID: id, Token: "another", Outcome: outcome})
		}
	}
	b.RoundTrip(ctx, &rdb.RoundTrip{Settle: settlements})
	b.RoundTrip(ctx, &rdb.RoundTrip{Settle: settlements[:2], Fetch: []*rdb.Fetch{{Queue: "q", N: 1, Token: "none"}}})
	for _, s := range settlements {
		if s.Err != nil || s.Code != script.CodeLost {
			t.Errorf("%v: code %d, error %v", s.Outcome, s.Code, s.Err)
		}
	}
	redistest.ExpireLeases(t, r, time.Hour, "a", "b")
	if tasks, _, _, err := b.Expired(ctx, "q", 0, 10); err != nil || len(tasks) != 2 {
		t.Errorf("expired: %v, error %v", tasks, err)
	}
	recovery := []*rdb.Settlement{
		{Queue: "q", ID: "a", Token: "f", Outcome: rdb.Requeue}, {Queue: "q", ID: "b", Token: "f", Outcome: rdb.Archive},
	}
	b.Recover(ctx, recovery)
	for _, item := range recovery {
		if item.Err != nil || item.Code != script.CodeOK {
			t.Errorf("recover: %+v", item)
		}
	}
	redistest.Forward(t, b)
	if _, err := in.TaskInfo(ctx, "q", "a"); err != nil {
		t.Error(err)
	}
	look(t, b)
	redistest.Fetch(t, b, rdb.Fetch{N: 1, Token: "last"})
	if code := redistest.Settle(t, b, rdb.Settlement{ID: "a", Token: "last", Outcome: rdb.Complete, Retention: 60}); code != script.CodeOK {
		t.Errorf("complete: code %d", code)
	}
	for _, state := range []wire.State{wire.StateCompleted, wire.StateArchived} {
		if _, err := b.Purge(ctx, "q", state, 10); err != nil {
			t.Error(err)
		}
	}
	if err := b.PassMarker(ctx, "q"); err != nil {
		t.Error(err)
	}
	if err := b.CancelTo(ctx, "a", wire.CancelDelete); err != nil {
		t.Error(err)
	}
	batch := &rollup.Batch{Queue: "q", Number: 1, Sizes: true, Entries: []rollup.Entry{
		{Table: rollup.TypeTable, Type: "t", Stats: &rollup.Stats{}}, {Table: rollup.ErrorTable, Kind: "k", Count: 1},
	}}
	if replies := b.AddStats(ctx, "sender", []*rollup.Batch{batch}); replies[0].Err != nil || replies[0].Code != script.CodeOK {
		t.Errorf("statistics: %+v", replies[0])
	}
	callPartitions(t, b)
	callFlows(t, b)
	callDoctor(t, r, b)
	callGroups(t, r, b)
	if lead, err := b.AcquireLeadership(ctx, "g", "p", time.Minute); err != nil || !lead.Leads {
		t.Errorf("lead: %+v, error %v", lead, err)
	}
	if err := b.ReleaseLeadership(ctx, "g", "p"); err != nil {
		t.Error(err)
	}
	if ok, err := b.DeleteSchedulerGroup(ctx, "g"); !ok || err != nil {
		t.Errorf("delete the group: %v, error %v", ok, err)
	}
	for i, kind := range []*rdb.NewTask{task("tick1", "", 0), task("tick2", "g", 0), task("tick3", "", later)} {
		kind.Tick = &rdb.Tick{Entry: "e", At: int64(i + 1), Deadline: time.Now().Add(time.Hour).UnixMilli()}
		if b.Enqueue(ctx, kind); kind.Err != nil {
			t.Error(kind.Err)
		}
	}
	once := []*rdb.NewTask{task("once1", "", 0), task("once2", "g", later)}
	for _, n := range once {
		n.Mode = &rdb.Mode{Key: n.ID, TTL: 3600}
	}
	if b.Enqueue(ctx, once...); once[0].Err != nil || once[1].Err != nil {
		t.Errorf("errors: %v, %v", once[0].Err, once[1].Err)
	}
	mode := task("mode", "", 0)
	mode.Lock, mode.Mode = "asynq:{q}:unique:mode", &rdb.Mode{Policy: rdb.Replace}
	if b.Enqueue(ctx, mode); mode.Err != nil {
		t.Error(mode.Err)
	}
	memory := &rdb.TickRecord{Entry: "e", Queue: "q"}
	if b.LoadTickRecord(ctx, memory); memory.Err != nil || memory.Last != 3 {
		t.Errorf("recall: %+v", memory)
	}
	changeEverything(t, b)
	stored, err := in.ExportTasks(ctx, "q", []string{"e", "nobody"})
	if err != nil || len(stored) != 2 || stored[1] != nil {
		t.Fatalf("export: %+v, error %v", stored, err)
	}
	tasks := []*inspect.StoredTask{
		{ID: "import1", State: wire.StatePending, Message: []byte("m")}, {ID: "import2", State: wire.StateScheduled, Score: "1", Message: []byte("m")},
	}
	if codes, err := in.ImportTasks(ctx, "q", "name", false, []int64{0, 1}, tasks); err != nil || codes[0] != script.CodeOK {
		t.Errorf("import: %v, error %v", codes, err)
	}
}

// callPartitions calls every method that runs a script for partitions.
func callPartitions(t *testing.T, b *rdb.Broker) {
	t.Helper()
	ctx, in := context.Background(), inspect.New(b)
	if err := in.SetPartition(ctx, "q", "k", "weight=2"); err != nil {
		t.Error(err)
	}
	for _, read := range []string{"weight=3", "weight=2"} {
		if ok, err := in.ReplacePartition(ctx, "q", "k", read, "weight=4"); err != nil || ok != (read == "weight=2") {
			t.Errorf("replacing %q: %v, %v", read, ok, err)
		}
	}
	f := &rdb.Fetch{
		Queue: "q", Token: "partitions", Partitions: &rdb.Partitions{Limits: "concurrency=1"}, Sweep: true,
		Ended: []rdb.Ended{{Partition: "k", ID: "x"}, {Partition: "l", ID: "y"}},
	}
	if b.RoundTrip(ctx, &rdb.RoundTrip{Fetch: []*rdb.Fetch{f}}); f.Err != nil {
		t.Error(f.Err)
	}
	if _, err := in.Partitions(ctx, "q", "", false); err != nil {
		t.Error(err)
	}
	if _, err := in.Partition(ctx, "q", "k"); err != nil {
		t.Error(err)
	}
}

// callFlows calls every method that runs a script for flows.
func callFlows(t *testing.T, b *rdb.Broker) {
	t.Helper()
	ctx, part := context.Background(), wire.FlowPart{Run: "r", Node: "n", Flow: "f"}
	record := &wire.FlowRecord{Run: "r", Nodes: map[string]*wire.FlowNode{"n": {}, "m": {}}}
	if err := b.StartFlow(ctx, &wire.FlowPlan{ID: "f", Run: "r"}, record); err != nil {
		t.Error(err)
	}
	record.Version = 1
	if err := b.WriteFlow(ctx, "f", record, 60); err != nil {
		t.Error(err)
	}
	calls := []*rdb.Members{
		{Queue: "q", Part: part, Chunk: "0", Tasks: []*rdb.NewTask{redistest.NewTask(t, "q", "m1"), redistest.NewTask(t, "q", "m2")}},
		{Queue: "q", Part: part, Tasks: []*rdb.NewTask{redistest.NewTask(t, "q", "m3"), redistest.NewTask(t, "q", "m4")}},
	}
	if b.CreateMembers(ctx, calls...); calls[0].Err != nil || calls[1].Err != nil {
		t.Errorf("members: %v, %v", calls[0].Err, calls[1].Err)
	}
	in := &rdb.PartState{Queue: "q", Part: part, Compare: rdb.CompareAll}
	if b.ReadParts(ctx, in); in.Err != nil || in.Made != 4 || in.Planned != 2 || in.Open != 4 {
		t.Errorf("the part is %+v", in)
	}
	if state, reported, err := b.Await(ctx, "c", "q", "m1"); state != wire.StatePending || reported || err != nil {
		t.Errorf("await: %v, %v, %v", state, reported, err)
	}
	if states, err := b.States(ctx, "q", []string{"m1", "missing"}); err != nil || states[0] != wire.StatePending || states[1] != 0 {
		t.Errorf("states: %v, %v", states, err)
	}
	if has, err := b.ClosePart(ctx, "q", part); !has || err != nil {
		t.Errorf("closed a part with members %v, error %v", has, err)
	}
	var ended []*rdb.Settlement
	for _, id := range []string{"m1", "m2"} {
		ended = append(ended, &rdb.Settlement{
			Queue: "q", ID: id, Token: "another", Outcome: rdb.Done, Member: &rdb.Member{Part: part.String(), Only: true, Client: "c"},
		})
	}
	if b.RoundTrip(ctx, &rdb.RoundTrip{Settle: ended}); ended[0].Err != nil || ended[0].Code != script.CodeLost {
		t.Errorf("settled a member: %+v", ended[0])
	}
}

// callGroups calls every method that runs a script for groups.
func callGroups(t *testing.T, r *redistest.Redis, b *rdb.Broker) {
	t.Helper()
	ctx := context.Background()
	enqueue := func(group string, n int) {
		tasks := make([]*rdb.NewTask, n)
		for i := range tasks {
			tasks[i] = redistest.NewTask(t, "q", fmt.Sprint(group, i+1))
			tasks[i].Group = group
		}
		r.Make(t, tasks...)
	}
	handOver := func(rule rdb.GroupRule, n int, id string) []*rdb.StagedSet {
		sets, _, err := b.Stage(ctx, "q", rule)
		if err != nil || len(sets) < n {
			t.Fatalf("staged %d sets, error %v", len(sets), err)
		}
		b.ReadSets(ctx, "q", sets)
		item := &rdb.Aggregation{Set: sets[n-1], Task: *redistest.NewTask(t, "q", id)}
		if b.CommitAggregations(ctx, "q", []*rdb.Aggregation{item}); item.Err != nil || item.Code != script.CodeOK {
			t.Errorf("commit: code %d, error %v", item.Code, item.Err)
		}
		return sets
	}
	atOnce := rdb.GroupRule{Grace: time.Minute, MaxSize: 1}
	enqueue("g", 1)
	enqueue("h", 1)
	if err := b.SweepGroups(ctx, "q", atOnce, time.Minute); err != nil {
		t.Error(err)
	}
	sets := handOver(atOnce, 2, "sum")
	if err := b.ExtendSets(ctx, "q", []string{sets[0].Key, sets[1].Key}); err != nil {
		t.Error(err)
	}
	if _, err := b.ArchiveInvalid(ctx, sets[0], sets[0].Tasks[0].ID); err != nil {
		t.Error(err)
	}
	if err := b.ReturnToGroup(ctx, "q", sets); err != nil {
		t.Error(err)
	}
	enqueue("large", 501)
	handOver(rdb.GroupRule{Grace: time.Minute, MaxSize: 501}, 1, "large")
	for more := true; more; {
		var err error
		if more, err = b.PurgeConsumed(ctx, "q"); err != nil {
			t.Fatal(err)
		}
	}
}

// changeEverything calls every method of the inspector that changes tasks.
func changeEverything(t *testing.T, b *rdb.Broker) {
	in := inspect.New(b)
	t.Helper()
	ctx := context.Background()
	if err := in.Update(ctx, &inspect.Update{Queue: "q", ID: "e", Edit: func(*wire.TaskMessage) error { return nil }}); err != nil {
		t.Error(err)
	}
	if err := in.UpdateMessage(ctx, "q", "e", func(m *wire.TaskMessage) error { m.Payload = nil; return nil }); err != nil {
		t.Error(err)
	}
	for _, verb := range []inspect.Verb{inspect.Run, inspect.Archive, inspect.Reschedule, inspect.Delete} {
		change := inspect.Change{Verb: verb, Queue: "q", At: time.Now().Unix()}
		for _, pair := range [][]string{{"c", "d"}, {"e", "f"}} {
			if codes, err := in.Change(ctx, change, pair); err != nil || !slices.Equal(codes, []script.Code{script.CodeOK, script.CodeOK}) {
				t.Errorf("change of %v: codes %v, error %v", pair, codes, err)
			}
		}
	}
	redistest.Must(t, b.Client().HSet(ctx, b.Keys("q").Task("orphan"), "state", "retry"))
	redistest.Must(t, b.Client().Set(ctx, b.Keys("q").Unique("orphan", nil), "gone", 0))
	if err := in.RemoveQueue(ctx, "q", true); err != nil {
		t.Error(err)
	}
}

// callDoctor creates broken data for which a diagnosis calls each of its scripts, with two tasks if
// it takes many.
func callDoctor(t *testing.T, r *redistest.Redis, b *rdb.Broker) {
	t.Helper()
	r.AllowViolations()
	ctx, k := context.Background(), b.Keys("q")
	_, err := r.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.LPush(ctx, k.Pending(), "x", "y", "z", "z")
		pipe.HSet(ctx, k.Task("z"), "state", "pending", "msg", redistest.Encode(t, redistest.Message("q", "z")))
		pipe.ZAdd(ctx, k.Scheduled(), redis.Z{Member: "x"}, redis.Z{Member: "y"})
		pipe.ZAdd(ctx, k.HeldTasks(), redis.Z{Member: "a\x000000000000000001x"}, redis.Z{Member: "a\x000000000000000002y"})
		pipe.HSet(ctx, k.Task("v"), "state", "retry")
		pipe.HSet(ctx, k.Task("w"), "state", "retry")
		pipe.SAdd(ctx, k.Groups(), "x")
		pipe.Set(ctx, k.Unique("x", nil), "x", 0)
		pipe.Set(ctx, k.Unique("y", nil), "y", 0)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, err := range doctor.Diagnose(ctx, asynq.SharedRedisClient(b.Client()), doctor.Options{}) {
		if err != nil {
			t.Error(err)
		}
		found++
	}
	if found != 13 {
		t.Errorf("the doctor found %d things", found)
	}
}

// look calls every method that lists tasks or counts them, with two tasks or more where it takes
// many.
func look(t *testing.T, b *rdb.Broker) {
	in := inspect.New(b)
	t.Helper()
	ctx := context.Background()
	for _, state := range []wire.State{wire.StatePending, wire.StateScheduled} {
		if tasks, err := in.ListTasks(ctx, "q", state, "", 0, 10, false); err != nil || len(tasks) == 0 {
			t.Errorf("%v: %v, error %v", state, tasks, err)
		}
	}
	for _, state := range []wire.State{wire.StatePending, wire.StateScheduled, wire.StateAggregating} {
		walk, err := in.Walk("q", state, "", false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tasks, _, err := walk.Next(ctx, 10); err != nil || len(tasks) == 0 {
			t.Errorf("%v: %v, error %v", state, tasks, err)
		}
	}
	stats, errs := in.Stats(ctx, []string{"q"})
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	if _, errs := in.Memory(ctx, []string{"q"}, stats, 10); errs[0] != nil {
		t.Error(errs[0])
	}
	if _, err := in.Groups(ctx, "q"); err != nil {
		t.Error(err)
	}
}

// Every script gets the keys and arguments that its header declares, in their order.
func TestScriptCallers(t *testing.T) {
	r := redistest.Mini(t)
	b, recorded := redistest.RecordingBroker(t, r)
	callEverything(t, r, b)
	calls := recorded.Calls
	for _, path := range luaFiles(t) {
		f := readLua(t, path)
		t.Run(f.name, func(t *testing.T) {
			if len(calls[f.name]) == 0 {
				t.Fatal("nothing calls it")
			}
			for _, call := range calls[f.name] {
				for i, name := range f.keys.names {
					if i >= len(call.Keys) || !keyIs(call.Keys[i].(string), name) {
						t.Errorf("KEYS[%d] is called %s, and the caller sends %v", i+1, name, call.Keys)
					}
				}
				keys, args := len(call.Keys)-len(f.keys.names), len(call.Args)-len(f.args.names)
				if f.args.each == nil && f.keys.each == nil {
					if keys != 0 || args != 0 {
						t.Errorf("the caller sends %d keys and %d arguments too many", keys, args)
					}
					continue
				}
				if keys == 0 && args == 0 {
					continue // a call for the sake of the fixed keys: that an empty group loses its name
				}
				tasks, locks := 0, 0
				if len(f.keys.each) > 0 {
					tasks = keys / len(f.keys.each)
				} else {
					tasks = args / len(f.args.each)
				}
				rest := args - tasks*len(f.args.each)
				if n := len(f.args.locks); n > 0 {
					locks, rest = rest/n, rest%n
				}
				if tasks == 0 || rest != 0 || keys != tasks*len(f.keys.each) || locks > 3*tasks {
					t.Fatalf("the caller sends %d keys and %d arguments for each task, which the header names %q, %q and %q",
						keys, args, f.keys.each, f.args.each, f.args.locks)
				}
				for i := range tasks {
					if len(f.keys.each) == 0 || !strings.HasSuffix(f.keys.each[0], "hash") || len(f.args.each) == 0 || f.args.each[0] != "id" {
						continue
					}
					key := call.Keys[len(f.keys.names)+i*len(f.keys.each)].(string)
					id := call.Args[len(f.args.names)+i*len(f.args.each)]
					if key != "asynq:{q}:t:"+id.(string) {
						t.Errorf("the hash of task %d is %s, and its ID is %v", i, key, id)
					}
				}
			}
		})
	}
}

// keyIs reports whether a key is the one with this name in a header.
func keyIs(key, name string) bool {
	name = strings.TrimSuffix(name, " of the target")
	today := ":" + time.Now().UTC().Format(time.DateOnly)
	switch name {
	case "scheduled or retry":
		return key == "asynq:{q}:scheduled" || key == "asynq:{q}:retry"
	case "completed, archived or a consumed set":
		return key == "asynq:{q}:completed" || key == "asynq:{q}:archived" || strings.HasPrefix(key, "asynq:{q}:g:")
	case "the set":
		return strings.HasPrefix(key, "asynq:{q}:g:")
	case "another key":
		return strings.HasPrefix(key, "asynq:{q}:")
	case "a lock":
		return strings.HasPrefix(key, "asynq:{q}:unique:")
	case "the tasks' collection":
		return key == "asynq:{q}:pending" || key == "asynq:{q}:active" || key == "asynq:{q}:scheduled" || strings.HasPrefix(key, "asynq:{q}:g:")
	case "the task's hash":
		return strings.HasPrefix(key, "asynq:{q}:t:")
	case "statistics of minutes":
		return key == "asynq:{q}:stats:m:1970-01-01T00"
	case "statistics of hours":
		return key == "asynq:{q}:stats:h:1970-01-01"
	case "errors of minutes":
		return key == "asynq:{q}:errors:m:1970-01-01T00"
	case "errors of hours":
		return key == "asynq:{q}:errors:h:1970-01-01"
	case "scheduler group":
		return key == "asynq:scheduler_groups:{g}"
	case "pending or active", "the list":
		return key == "asynq:{q}:pending" || key == "asynq:{q}:active"
	case "a collection":
		return key == "asynq:{q}:lease" || strings.HasPrefix(key, "asynq:{q}:g:") || key == "asynq:{q}:scheduled"
	case "the group or aggregation set":
		return strings.HasPrefix(key, "asynq:{q}:g:")
	case "marks of the import":
		return key == "asynq:{q}:import:name"
	case "idempotency record, of the client or of the scheduler entry":
		return strings.HasPrefix(key, "asynq:{q}:answer:") || key == "asynq:{q}:tick:e"
	case "the flow", "its plan":
		return strings.HasPrefix(key, "asynq:flow:{f}")
	case "the part":
		return key == "asynq:{q}:flows:part:r:n:f"
	case "its open members":
		return key == "asynq:{q}:flows:open:r:n:f"
	case "its failed members":
		return key == "asynq:{q}:flows:failed:r:n:f"
	case "idempotency record; the part, if the tasks are of the plan":
		return strings.HasPrefix(key, "asynq:{q}:answer:") || key == "asynq:{q}:flows:part:r:n:f"
	case "idempotency record":
		return strings.HasPrefix(key, "asynq:{q}:answer:")
	}
	if counter, ok := strings.CutSuffix(name, ", total"); ok {
		return key == "asynq:{q}:"+counter
	}
	if counter, ok := strings.CutSuffix(name, ", today"); ok {
		return key == "asynq:{q}:"+counter+today
	}
	return key == "asynq:{q}:"+name
}

// No call carries more than a megabyte of messages, unless one message alone does, nor more than
// 500 tasks.
func TestCallsAreBounded(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b, recorded := redistest.RecordingBroker(t, r)
		var tasks []*rdb.NewTask
		for i := range 1200 {
			m := redistest.Message("q", fmt.Sprint("a", i))
			if i < 23 {
				m.Payload = make([]byte, 400_000)
			}
			tasks = append(tasks, &rdb.NewTask{ID: m.ID, Queue: "q", Message: redistest.Encode(t, m)})
		}
		b.Enqueue(ctx, tasks...)
		var batch []*rdb.Settlement
		for len(batch) < 100 {
			for _, task := range redistest.Fetch(t, b, rdb.Fetch{N: 100}).Tasks {
				batch = append(batch, &rdb.Settlement{Queue: "q", ID: task.ID, Token: "f", Outcome: rdb.Retry, Message: task.Message})
			}
		}
		b.RoundTrip(ctx, &rdb.RoundTrip{Settle: batch})
		for i, s := range batch {
			if tasks[i].Err != nil || s.Err != nil || s.Code != script.CodeOK {
				t.Fatalf("task %d: %v; code %d, %v", i, tasks[i].Err, s.Code, s.Err)
			}
		}
		results := make([]*rdb.ResultWrite, 1200)
		for i := range results {
			results[i] = &rdb.ResultWrite{Queue: "q", ID: tasks[i].ID, Result: make([]byte, 1000)}
			if i < 23 {
				results[i].Result = make([]byte, 400_000)
			}
		}
		b.WriteResults(ctx, results)
		for _, name := range []string{"enqueue", "settle", "write_results"} {
			for i, call := range recorded.Calls[name] {
				bytes := 0
				for _, arg := range call.Args {
					if message, ok := arg.([]byte); ok {
						bytes += len(message)
					}
				}
				if bytes == 0 || bytes > 1<<20 || len(call.Keys) > 500+11 {
					t.Errorf("call %d of %s carries %d bytes and %d keys", i, name, bytes, len(call.Keys))
				}
			}
		}
	})
}

// If Redis has lost its scripts, they are sent again.
func TestScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	for name, flush := range map[string]bool{"known": false, "flushed": true} {
		t.Run(name, func(t *testing.T) {
			s := redistest.StartServer(t)
			ctx, client := context.Background(), s.Client(t)
			b := rdb.New(client, "")
			forget := func() {
				if flush {
					redistest.Must(t, client.ScriptFlush(ctx))
				}
			}
			for i, id := range []string{"a", "b", "c"} {
				forget()
				task := redistest.NewTask(t, "q", id)
				if b.Enqueue(ctx, task); task.Err != nil {
					t.Fatal(task.Err)
				}
				forget()
				if f := redistest.Fetch(t, b, rdb.Fetch{N: 1}); f.Err != nil || !slices.Equal(redistest.IDs(f), []string{id}) {
					t.Fatalf("fetched %v, error %v", redistest.IDs(f), f.Err)
				}
				forget()
				if code := redistest.Settle(t, b, rdb.Settlement{ID: id, Token: "f", Outcome: rdb.Done}); code != script.CodeOK {
					t.Errorf("code %d", code)
				}
				if n := client.IncrBy(ctx, "asynq:{q}:processed", 0).Val(); n != int64(i+1) {
					t.Errorf("%d processed, want %d", n, i+1)
				}
			}
			redistest.CheckServer(t, client)
		})
	}
}

// Only the commands of a bounded client run on goroutines of their own.
func TestNoGoroutines(t *testing.T) {
	files := token.NewFileSet()
	var paths []string
	for _, dir := range []string{"script", "rdb", "inspect", "../x/doctor"} {
		found, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	parsed := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed++
		ast.Inspect(file, func(n ast.Node) bool {
			if stmt, ok := n.(*ast.GoStmt); ok && filepath.Base(path) != "bound.go" {
				t.Errorf("%v: a goroutine is started", files.Position(stmt.Pos()))
			}
			return true
		})
	}
	if parsed == 0 {
		t.Error(fs.ErrNotExist)
	}
}
