package rdb_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/rdbcheck"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// TestPartitionModel makes random changes of a queue with partitions, and compares the tasks that
// start with a model: no partition exceeds its limit or starts while it is paused, ordered ones
// start in order, and in the end each task has run.
func TestPartitionModel(t *testing.T) {
	redistest.LimitChecks(t, 40)
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		rapid.Check(t, func(rt *rapid.T) {
			if err := r.Client().FlushDB(context.Background()).Err(); err != nil {
				rt.Fatal(err)
			}
			m := &partitionMachine{
				t: t, r: r, tasks: map[string]*partitionTask{}, paused: map[string]bool{}, ended: map[string][]rdb.Ended{},
				ordered: rapid.Bool().Draw(rt, "ordered"), limit: rapid.IntRange(1, 2).Draw(rt, "limit"),
			}
			if m.ordered {
				m.limit = 1
			}
			rt.Repeat(map[string]func(*rapid.T){
				"enqueue": m.enqueue, "enqueue2": m.enqueue, "fetch": m.fetch, "fetch2": m.fetch, "settle": m.settle, "crash": m.crash,
				"change": m.change, "pause": m.pause, "lose": m.lose, "forward": m.forward, "": m.check,
			})
			m.drain(rt)
		})
	})
}

type partitionTask struct {
	id, key, token, server string
	n                      int // place in its partition
	active, lost           bool
	moved                  bool // by hand: its order is unspecified
}

type partitionMachine struct {
	t       *testing.T
	r       *redistest.Redis
	ordered bool
	limit   int
	serial  int
	tasks   map[string]*partitionTask
	paused  map[string]bool
	ended   map[string][]rdb.Ended // by server
	changed bool                   // lanes were lost: the order of their tasks is, too
}

func (m *partitionMachine) config() *rdb.Partitions {
	return &rdb.Partitions{Limits: fmt.Sprintf("concurrency=%d", m.limit), Ordered: m.ordered}
}

func (m *partitionMachine) enqueue(rt *rapid.T) {
	var tasks []*rdb.NewTask
	for range rapid.IntRange(1, 8).Draw(rt, "tasks") {
		m.serial++
		// IDs are in another order than tasks.
		task := &partitionTask{id: fmt.Sprintf("%c%d", 'z'-m.serial%26, m.serial), key: pick(rt, "key", "a", "b", "a;%", ""), n: m.serial}
		m.tasks[task.id] = task
		tasks = append(tasks, keyedTask(m.t, task.key, task.id))
	}
	m.r.Make(m.t, tasks...)
}

func (m *partitionMachine) fetch(rt *rapid.T) {
	server := pick(rt, "server", "s1", "s2")
	m.fetchOn(rt, server, pick(rt, "n", 0, 1, 2, 10), rapid.Bool().Draw(rt, "sweep"))
}

func (m *partitionMachine) fetchOn(rt *rapid.T, server string, n int, sweep bool) (started int) {
	m.serial++
	token := fmt.Sprint("f", m.serial)
	f := redistest.Fetch(m.t, m.r.Broker(), rdb.Fetch{
		N: n, Token: token, Partitions: m.config(), Ended: m.ended[server], Sweep: sweep, MaxActive: pick(rt, "cap", 0, 3),
		BeforeSort: rapid.Bool().Draw(rt, "before sort"),
	})
	if f.Err != nil || f.Code != script.CodeOK && f.Code != script.CodeCapped {
		rt.Fatalf("code %d, error %v", f.Code, f.Err)
	}
	m.ended[server] = nil
	for _, got := range f.Tasks {
		task := m.tasks[got.ID]
		switch {
		case task == nil:
			rt.Fatalf("unknown task %s started", got.ID)
		case task.active:
			rt.Fatalf("%s started twice", task.id)
		case m.paused[task.key]:
			rt.Fatalf("%s started, and its partition %q is paused", task.id, task.key)
		}
		task.active, task.token, task.server = true, token, server
		m.checkStart(rt, task)
	}
	return len(f.Tasks)
}

// checkStart checks a start against the limits.
func (m *partitionMachine) checkStart(rt *rapid.T, task *partitionTask) {
	active := 0
	for _, other := range m.tasks {
		if other.key != task.key {
			continue
		}
		if other.active && !other.lost {
			active++
		}
		if m.ordered && !m.changed && other.n < task.n && !other.moved && !task.moved {
			rt.Fatalf("%s of partition %q started before %s", task.id, task.key, other.id)
		}
	}
	if active > m.limit && !m.changed {
		rt.Fatalf("%d tasks of partition %q are active, want at most %d", active, task.key, m.limit)
	}
}

// any returns some task, or skips the step.
func (m *partitionMachine) any(rt *rapid.T, active bool) *partitionTask {
	var ids []string
	for id, task := range m.tasks {
		if task.active == active {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		rt.Skip()
	}
	slices.Sort(ids)
	return m.tasks[pick(rt, "task", ids...)]
}

func (m *partitionMachine) settle(rt *rapid.T) {
	task := m.any(rt, true)
	m.settleAs(rt, task, pick(rt, "outcome", rdb.Done, rdb.Done, rdb.Retry, rdb.Requeue), rapid.Bool().Draw(rt, "named"))
}

func (m *partitionMachine) settleAs(rt *rapid.T, task *partitionTask, outcome rdb.Outcome, named bool) {
	s := rdb.Settlement{ID: task.id, Token: task.token, Outcome: outcome}
	if outcome == rdb.Retry {
		s.Message = keyedTask(m.t, task.key, task.id).Message
	}
	if code := redistest.Settle(m.t, m.r.Broker(), s); code != script.CodeOK {
		rt.Fatalf("%v of %s: code %d", outcome, task.id, code)
	}
	if task.active = false; outcome == rdb.Done {
		delete(m.tasks, task.id)
	}
	if named && m.config().Releases(outcome) {
		m.ended[task.server] = append(m.ended[task.server], rdb.Ended{Partition: task.key, ID: task.id})
	}
}

// crash loses the reply of a fetch, and the names of the tasks that ended on its server.
func (m *partitionMachine) crash(rt *rapid.T) {
	task := m.any(rt, true)
	token := task.token
	redistest.Reclaim(m.t, m.r.Broker(), token)
	for _, other := range m.tasks {
		if other.active && other.token == token {
			other.active = false
		}
	}
	m.ended[task.server] = nil
}

// change deletes, runs or archives and runs a waiting task by hand.
func (m *partitionMachine) change(rt *rapid.T) {
	task := m.any(rt, false)
	in := inspect.New(m.r.Broker())
	verbs := map[string][]inspect.Verb{"delete": {inspect.Delete}, "archive": {inspect.Archive, inspect.Run}}[pick(rt, "verb", "delete", "archive")]
	for _, verb := range verbs {
		codes, err := in.Change(context.Background(), inspect.Change{Verb: verb, Queue: "q"}, []string{task.id})
		if err != nil || codes[0] != script.CodeOK {
			rt.Fatalf("%v of %s: %v, %v", verb, task.id, codes, err)
		}
	}
	if task.moved = true; len(verbs) == 1 {
		delete(m.tasks, task.id)
	}
}

func (m *partitionMachine) pause(rt *rapid.T) {
	key := pick(rt, "key", "a", "b", "a;%", "")
	m.setPaused(rt, key, !m.paused[key])
}

func (m *partitionMachine) setPaused(rt *rapid.T, key string, paused bool) {
	settings := ""
	if m.paused[key] = paused; paused {
		settings = "paused=1"
	}
	if err := inspect.New(m.r.Broker()).SetPartition(context.Background(), "q", key, settings); err != nil {
		rt.Fatal(err)
	}
}

// lose deletes keys that hold tasks, as an operator may do.
func (m *partitionMachine) lose(rt *rapid.T) {
	if rapid.IntRange(0, 9).Draw(rt, "lose") > 0 {
		rt.Skip()
	}
	name := pick(rt, "name", "held", "ready", "blocked", "running", "clock", "rates")
	redistest.Must(m.t, m.r.Client().Del(context.Background(), "asynq:{q}:partitions:"+name))
	m.changed = true
	for _, task := range m.tasks {
		task.lost = task.lost || task.active && name == "running" // its place is lost
	}
}

// forward lets time pass: retries and, sometimes, held tasks become due, and limits are checked.
func (m *partitionMachine) forward(rt *rapid.T) {
	m.pass(rapid.IntRange(0, 3).Draw(rt, "day") == 0)
}

func (m *partitionMachine) pass(day bool) {
	ctx, b := context.Background(), m.r.Broker()
	states := []wire.State{wire.StateRetry}
	if day {
		states = append(states, wire.StateScheduled)
	}
	for _, state := range states {
		key := "asynq:{q}:" + state.String()
		for _, id := range m.r.Client().ZRange(ctx, key, 0, -1).Val() {
			redistest.Must(m.t, m.r.Client().Do(ctx, "ZADD", key, "XX", "1", id))
		}
	}
	for range 20 {
		due := redistest.Forward(m.t, b)
		if due.Moved == 0 {
			break
		}
	}
	for _, key := range m.r.Client().ZRange(ctx, "asynq:{q}:partitions:blocked", 0, -1).Val() {
		checkNow(m.t, m.r, key)
	}
}

// check compares Redis with itself. Places of tasks that were moved by hand while their lanes were
// lost may remain until a fetch finds them.
func (m *partitionMachine) check(rt *rapid.T) {
	problems, err := rdbcheck.Check(context.Background(), m.r.Client(), m.r.Broker().Namespace())
	if err != nil {
		rt.Fatal(err)
	}
	for _, p := range problems {
		if text := fmt.Sprint(p); !strings.Contains(text, "no held task has the place") && !strings.Contains(text, "no partition has the place") {
			rt.Errorf("%s", text)
		}
	}
}

// drain runs all tasks.
func (m *partitionMachine) drain(rt *rapid.T) {
	for _, key := range slices.Sorted(maps.Keys(m.paused)) {
		m.setPaused(rt, key, false)
	}
	for i := 0; len(m.tasks) > 0; i++ {
		if i > 20*m.serial {
			rt.Fatalf("%d tasks do not run", len(m.tasks))
		}
		if m.fetchOn(rt, "s1", 10, i%4 == 3) == 0 {
			m.pass(m.changed)
		}
		for _, id := range slices.Sorted(maps.Keys(m.tasks)) {
			if task := m.tasks[id]; task.active {
				m.settleAs(rt, task, rdb.Done, true)
			}
		}
	}
}
