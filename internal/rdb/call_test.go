package rdb_test

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
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// scriptCalls records the script calls of a client.
type scriptCalls struct {
	mu    sync.Mutex
	calls map[string][]scriptCall // by the script's name
}

type scriptCall struct {
	sha        any
	keys, args []any
}

func (c *scriptCalls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *scriptCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.record(cmd)
		return next(ctx, cmd)
	}
}

func (c *scriptCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			c.record(cmd)
		}
		return next(ctx, cmds)
	}
}

func (c *scriptCalls) record(cmd redis.Cmder) {
	args := cmd.Args()
	if cmd.Name() != "evalsha" {
		return
	}
	name := rdb.ScriptNames()[args[1].(string)]
	n := args[2].(int)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[name] = append(c.calls[name], scriptCall{args[1], args[3 : 3+n : 3+n], args[3+n:]})
}

// callEverything calls every method that calls a script, with two tasks where it takes many.
func callEverything(t *testing.T, r *redistest.Redis, b *rdb.Broker) {
	t.Helper()
	ctx := context.Background()
	task := func(id, group string, processAt int64) *rdb.NewTask {
		task := redistest.NewTask(t, "q", id)
		task.Group, task.ProcessAt = group, processAt
		return task
	}
	later := time.Now().Add(time.Hour).Unix()
	b.Enqueue(ctx, task("a", "", 0), task("b", "", 0), task("c", "g", 0), task("d", "h", 0), task("e", "", later), task("f", "", later))
	fetch(t, b, rdb.Fetch{N: 2, Token: "lost"})
	undo(t, b, "lost")
	fetch(t, b, rdb.Fetch{N: 2})
	if err := b.WriteResult(ctx, "q", "a", "f", []byte("result")); err != nil {
		t.Error(err)
	}
	b.Extend(ctx, "q", time.Minute, []rdb.Held{{ID: "a", Token: "f"}, {ID: "b", Token: "f"}})
	var settlements []*rdb.Settlement
	for _, outcome := range []rdb.Outcome{rdb.Done, rdb.Complete, rdb.Retry, rdb.Archive, rdb.Requeue, rdb.Discard} {
		for _, id := range []string{"a", "b"} {
			settlements = append(settlements, &rdb.Settlement{Queue: "q", ID: id, Token: "another", Outcome: outcome})
		}
	}
	b.Turn(ctx, &rdb.Turn{Settle: settlements})
	b.Turn(ctx, &rdb.Turn{Settle: settlements[:2], Fetch: []*rdb.Fetch{{Queue: "q", N: 1, Token: "none"}}})
	for _, s := range settlements {
		if s.Err != nil || s.Code != rdb.CodeLost {
			t.Errorf("%v: code %d, error %v", s.Outcome, s.Code, s.Err)
		}
	}
	expire(t, r, time.Hour, "a", "b")
	if tasks, _, _, err := b.Expired(ctx, "q", 0, 10); err != nil || len(tasks) != 2 {
		t.Errorf("expired: %v, error %v", tasks, err)
	}
	recovery := []*rdb.Recovery{{ID: "a", Token: "f"}, {ID: "b", Token: "f", Archive: true}}
	b.Recover(ctx, "q", recovery)
	for _, item := range recovery {
		if item.Err != nil || item.Code != rdb.CodeOK {
			t.Errorf("recover: %+v", item)
		}
	}
	forward(t, b)
	if _, err := b.TaskInfo(ctx, "q", "a"); err != nil {
		t.Error(err)
	}
	look(t, b)
	fetch(t, b, rdb.Fetch{N: 1, Token: "last"})
	if code := settle(t, b, rdb.Settlement{ID: "a", Token: "last", Outcome: rdb.Complete, Retention: 60}); code != rdb.CodeOK {
		t.Errorf("complete: code %d", code)
	}
	for _, call := range []func(context.Context, string, int) (int, error){b.ExpireCompleted, b.TrimArchived} {
		if _, err := call(ctx, "q", 10); err != nil {
			t.Error(err)
		}
	}
	if err := b.PassMarker(ctx, "q"); err != nil {
		t.Error(err)
	}
	if err := b.CancelTo(ctx, "a", wire.FateDelete); err != nil {
		t.Error(err)
	}
	callDoctor(t, r, b)
	callGroups(t, r, b)
	if lead, err := b.Lead(ctx, "g", "p", time.Minute); err != nil || !lead.Leads {
		t.Errorf("lead: %+v, error %v", lead, err)
	}
	if err := b.Abdicate(ctx, "g", "p"); err != nil {
		t.Error(err)
	}
	if ok, err := b.ForgetGroup(ctx, "g"); !ok || err != nil {
		t.Errorf("forget the group: %v, error %v", ok, err)
	}
	for i, kind := range []*rdb.NewTask{task("tick1", "", 0), task("tick2", "g", 0), task("tick3", "", later)} {
		tick := &rdb.Tick{Entry: "e", At: int64(i + 1), Deadline: time.Now().Add(time.Hour).UnixMilli(), Task: kind}
		if b.EnqueueTick(ctx, tick); tick.Task.Err != nil {
			t.Error(tick.Task.Err)
		}
	}
	memory := &rdb.TickMemory{Entry: "e", Queue: "q"}
	if b.RecallTick(ctx, memory); memory.Err != nil || memory.Last != 3 {
		t.Errorf("recall: %+v", memory)
	}
	changeEverything(t, b)
	stored, err := b.ExportTasks(ctx, "q", []string{"e", "nobody"})
	if err != nil || len(stored) != 2 || stored[1] != nil {
		t.Fatalf("export: %+v, error %v", stored, err)
	}
	tasks := []*rdb.StoredTask{
		{ID: "import1", State: wire.StatePending, Message: []byte("m")}, {ID: "import2", State: wire.StateScheduled, Score: "1", Message: []byte("m")},
	}
	if codes, err := b.ImportTasks(ctx, "q", "name", false, []int64{0, 1}, tasks); err != nil || codes[0] != rdb.CodeOK {
		t.Errorf("import: %v, error %v", codes, err)
	}
}

// changeEverything calls every method that changes tasks from outside.
func changeEverything(t *testing.T, b *rdb.Broker) {
	t.Helper()
	ctx := context.Background()
	if err := b.UpdateMessage(ctx, "q", "e", func(m *wire.TaskMessage) error { m.Payload = nil; return nil }); err != nil {
		t.Error(err)
	}
	reschedule := func(ctx context.Context, queue string, ids []string) ([]rdb.Code, error) {
		return b.RescheduleTasks(ctx, queue, ids, time.Now().Unix())
	}
	for _, change := range []func(context.Context, string, []string) ([]rdb.Code, error){
		b.RunTasks, b.ArchiveTasks, reschedule, b.DeleteTasks,
	} {
		for _, pair := range [][]string{{"c", "d"}, {"e", "f"}} {
			if codes, err := change(ctx, "q", pair); err != nil || !slices.Equal(codes, []rdb.Code{rdb.CodeOK, rdb.CodeOK}) {
				t.Errorf("change of %v: codes %v, error %v", pair, codes, err)
			}
		}
	}
	must(t, b.Client().HSet(ctx, b.Keys("q").Task("orphan"), "state", "retry"))
	must(t, b.Client().Set(ctx, b.Keys("q").Unique("orphan", nil), "gone", 0))
	if err := b.RemoveQueue(ctx, "q", true); err != nil {
		t.Error(err)
	}
}

// callDoctor plants what has a diagnosis call its scripts, each with two tasks where it takes many.
func callDoctor(t *testing.T, r *redistest.Redis, b *rdb.Broker) {
	t.Helper()
	r.AllowViolations()
	ctx, k := context.Background(), b.Keys("q")
	_, err := r.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.LPush(ctx, k.Pending(), "x", "y", "z", "z")
		pipe.HSet(ctx, k.Task("z"), "state", "pending", "msg", redistest.Encode(t, redistest.Message("q", "z")))
		pipe.ZAdd(ctx, k.Scheduled(), redis.Z{Member: "x"}, redis.Z{Member: "y"})
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
	for _, err := range b.Diagnose(ctx, rdb.Diagnosis{}) {
		if err != nil {
			t.Error(err)
		}
		found++
	}
	if found != 10 {
		t.Errorf("the doctor found %d things", found)
	}
}

// look calls every method that lists tasks or counts them, with two tasks or more where it takes many.
func look(t *testing.T, b *rdb.Broker) {
	t.Helper()
	ctx := context.Background()
	for _, state := range []wire.State{wire.StatePending, wire.StateScheduled} {
		if tasks, err := b.ListTasks(ctx, "q", state, "", 0, 10); err != nil || len(tasks) == 0 {
			t.Errorf("%v: %v, error %v", state, tasks, err)
		}
	}
	for _, state := range []wire.State{wire.StatePending, wire.StateScheduled, wire.StateAggregating} {
		walk, err := b.Walk("q", state, "")
		if err != nil {
			t.Fatal(err)
		}
		if tasks, _, err := walk.Next(ctx, 10); err != nil || len(tasks) == 0 {
			t.Errorf("%v: %v, error %v", state, tasks, err)
		}
	}
	stats, err := b.Stats(ctx, "q")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Memory(ctx, "q", stats, 10); err != nil {
		t.Error(err)
	}
	if _, err := b.Groups(ctx, "q"); err != nil {
		t.Error(err)
	}
}

// recordingBroker returns a broker whose script calls are recorded.
func recordingBroker(t *testing.T, r *redistest.Redis) (*rdb.Broker, *scriptCalls) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.Addr, DB: r.DB, ReadTimeout: time.Minute}) // miniredis is slow under the race detector
	t.Cleanup(func() { _ = client.Close() })
	recorded := &scriptCalls{calls: make(map[string][]scriptCall)}
	client.AddHook(recorded)
	return rdb.New(client, ""), recorded
}

// Every script gets the keys and arguments that its header declares, in their order.
func TestScriptCallers(t *testing.T) {
	r := redistest.Mini(t)
	b, recorded := recordingBroker(t, r)
	callEverything(t, r, b)
	calls := recorded.calls
	for _, path := range luaFiles(t) {
		f := readLua(t, path)
		t.Run(f.name, func(t *testing.T) {
			if len(calls[f.name]) == 0 {
				t.Fatal("nothing calls it")
			}
			for _, call := range calls[f.name] {
				for i, name := range f.keys.names {
					if i >= len(call.keys) || !keyIs(call.keys[i].(string), name) {
						t.Errorf("KEYS[%d] is called %s, and the caller sends %v", i+1, name, call.keys)
					}
				}
				keys, args := len(call.keys)-len(f.keys.names), len(call.args)-len(f.args.names)
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
				if tasks == 0 || rest != 0 || keys != tasks*len(f.keys.each) || locks > tasks {
					t.Fatalf("the caller sends %d keys and %d arguments for each task, which the header names %q, %q and %q",
						keys, args, f.keys.each, f.args.each, f.args.locks)
				}
				for i := range tasks {
					if len(f.keys.each) == 0 || !strings.HasSuffix(f.keys.each[0], "hash") || len(f.args.each) == 0 || f.args.each[0] != "id" {
						continue
					}
					key := call.keys[len(f.keys.names)+i*len(f.keys.each)].(string)
					id := call.args[len(f.args.names)+i*len(f.args.each)]
					if key != "asynq:{q}:t:"+id.(string) {
						t.Errorf("the hash of task %d is %s, and its ID is %v", i, key, id)
					}
				}
			}
		})
	}
}

// keyIs reports whether a key is the one that a header calls by this name.
func keyIs(key, name string) bool {
	today := ":" + time.Now().UTC().Format(time.DateOnly)
	switch name {
	case "scheduled or retry":
		return key == "asynq:{q}:scheduled" || key == "asynq:{q}:retry"
	case "the set":
		return strings.HasPrefix(key, "asynq:{q}:g:")
	case "another key":
		return strings.HasPrefix(key, "asynq:{q}:")
	case "a lock":
		return strings.HasPrefix(key, "asynq:{q}:unique:")
	case "the tasks' collection":
		return key == "asynq:{q}:pending" || key == "asynq:{q}:active" || key == "asynq:{q}:scheduled"
	case "the group":
		return strings.HasPrefix(key, "asynq:{q}:g:")
	case "the task's hash":
		return strings.HasPrefix(key, "asynq:{q}:t:")
	case "scheduler group":
		return key == "asynq:scheduler_groups:{g}"
	case "record of the entry's last tick":
		return key == "asynq:{q}:tick:e"
	case "where the ID goes: pending, scheduled or the group":
		return key == "asynq:{q}:pending" || key == "asynq:{q}:scheduled" || key == "asynq:{q}:g:g"
	case "pending or active":
		return key == "asynq:{q}:pending" || key == "asynq:{q}:active"
	case "a collection":
		return key == "asynq:{q}:lease" || strings.HasPrefix(key, "asynq:{q}:g:") || key == "asynq:{q}:scheduled"
	case "the group or aggregation set":
		return strings.HasPrefix(key, "asynq:{q}:g:")
	case "marks of the import":
		return key == "asynq:{q}:import:name"
	case "record of the sender's last call":
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

// No call carries more than a megabyte of messages, unless one message alone does, nor more than 500 tasks.
func TestCallsAreBounded(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b, recorded := recordingBroker(t, r)
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
			for _, task := range fetch(t, b, rdb.Fetch{N: 100}).Tasks {
				batch = append(batch, &rdb.Settlement{Queue: "q", ID: task.ID, Token: "f", Outcome: rdb.Retry, Message: task.Message})
			}
		}
		b.Turn(ctx, &rdb.Turn{Settle: batch})
		for i, s := range batch {
			if tasks[i].Err != nil || s.Err != nil || s.Code != rdb.CodeOK {
				t.Fatalf("task %d: %v; code %d, %v", i, tasks[i].Err, s.Code, s.Err)
			}
		}
		for _, name := range []string{"enqueue", "retry"} {
			for i, call := range recorded.calls[name] {
				bytes := 0
				for _, arg := range call.args {
					if message, ok := arg.([]byte); ok {
						bytes += len(message)
					}
				}
				if bytes == 0 || bytes > 1<<20 || len(call.keys) > 500+7 {
					t.Errorf("call %d of %s carries %d bytes and %d keys", i, name, bytes, len(call.keys))
				}
			}
		}
	})
}

// A Redis that has forgotten its scripts is sent them again.
func TestScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	for name, flush := range map[string]bool{"known": false, "flushed": true} {
		t.Run(name, func(t *testing.T) {
			s := redistest.StartServer(t)
			ctx, client := context.Background(), s.Client(t)
			b := rdb.New(client, "")
			forget := func() {
				if flush {
					must(t, client.ScriptFlush(ctx))
				}
			}
			for i, id := range []string{"a", "b", "c"} {
				forget()
				task := redistest.NewTask(t, "q", id)
				if b.Enqueue(ctx, task); task.Err != nil {
					t.Fatal(task.Err)
				}
				forget()
				if f := fetch(t, b, rdb.Fetch{N: 1}); f.Err != nil || !slices.Equal(ids(f), []string{id}) {
					t.Fatalf("fetched %v, error %v", ids(f), f.Err)
				}
				forget()
				if code := settle(t, b, rdb.Settlement{ID: id, Token: "f", Outcome: rdb.Done}); code != rdb.CodeOK {
					t.Errorf("code %d", code)
				}
				if n := client.IncrBy(ctx, "asynq:{q}:processed", 0).Val(); n != int64(i+1) {
					t.Errorf("%d processed, want %d", n, i+1)
				}
			}
			checkServer(t, client)
		})
	}
}

// The package's promise: it starts no goroutines.
func TestNoGoroutines(t *testing.T) {
	files := token.NewFileSet()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
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
			if stmt, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%v: a goroutine is started", files.Position(stmt.Pos()))
			}
			return true
		})
	}
	if parsed == 0 {
		t.Error(fs.ErrNotExist)
	}
}
