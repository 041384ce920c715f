package flow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/asynq-go/asynq/internal/flow"
	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// turns lets one of several actors proceed at a time, in an order that a seed determines. Actors
// wait for their turn before each call to Redis.
type turns struct {
	waiting chan *actor
	over    sync.WaitGroup
	actors  int
}

type actor struct {
	*turns
	next chan struct{}
	done bool
}

// start starts an actor, which may use the engine.
func (t *turns) start(b *rdb.Broker, act func(e *flow.Engine, turn func())) {
	a := &actor{turns: t, next: make(chan struct{})}
	t.actors++
	t.over.Go(func() {
		a.turn()
		act(&flow.Engine{Broker: gated{b, a.turn}, Tasks: gatedChanger{inspect.New(b), a.turn}}, a.turn)
		a.done = true
		t.waiting <- a
	})
}

func (a *actor) turn() {
	a.waiting <- a
	<-a.next
}

// run lets the actors proceed until all are done.
func (t *turns) run(r *rand.Rand) {
	var idle []*actor
	for left := t.actors; left > 0; {
		for len(idle) < left {
			if a := <-t.waiting; a.done {
				left--
			} else {
				idle = append(idle, a)
			}
		}
		if left > 0 {
			i := r.IntN(len(idle))
			a := idle[i]
			idle = slices.Delete(idle, i, i+1)
			a.next <- struct{}{}
		}
	}
	t.over.Wait()
}

// gated is a broker that waits for a turn before each call that matters for the order.
type gated struct {
	*rdb.Broker
	turn func()
}

func (g gated) ReadFlow(ctx context.Context, id string, known func(run string) *wire.FlowPlan) (rdb.StoredFlow, error) {
	g.turn()
	return g.Broker.ReadFlow(ctx, id, known)
}

func (g gated) WriteFlow(ctx context.Context, id string, record *wire.FlowRecord, ttl int64) error {
	g.turn()
	return g.Broker.WriteFlow(ctx, id, record, ttl)
}

func (g gated) CreateMembers(ctx context.Context, calls ...*rdb.Members) {
	for _, call := range calls { // one at a time: on a Cluster, they go to different primaries
		g.turn()
		g.Broker.CreateMembers(ctx, call)
	}
}

func (g gated) ReadParts(ctx context.Context, parts ...*rdb.PartState) {
	for _, part := range parts {
		g.turn()
		g.Broker.ReadParts(ctx, part)
	}
}

func (g gated) ClosePart(ctx context.Context, queue string, part wire.FlowPart) (bool, error) {
	g.turn()
	return g.Broker.ClosePart(ctx, queue, part)
}

func (g gated) ScanMembers(ctx context.Context, queue string, part wire.FlowPart, failed bool, cursor uint64) ([]string, uint64, error) {
	g.turn()
	return g.Broker.ScanMembers(ctx, queue, part, failed, cursor)
}

type gatedChanger struct {
	flow.Changer
	turn func()
}

func (g gatedChanger) Change(ctx context.Context, ch inspect.Change, ids []string) ([]script.Code, error) {
	g.turn()
	return g.Changer.Change(ctx, ch, ids)
}

// diamond returns a plan: a, then b with four tasks in two queues and c, then d.
func diamond(t *testing.T, id string) *wire.FlowPlan {
	p := &wire.FlowPlan{ID: id, Run: "r", Retention: 60}
	for _, n := range []struct {
		name  string
		tasks int
		after []string
	}{{"a", 1, nil}, {"b", 4, []string{"a"}}, {"c", 1, []string{"a"}}, {"d", 1, []string{"b", "c"}}} {
		node := wire.FlowPlanNode{Name: n.name, Batch: n.tasks > 1}
		for _, name := range n.after {
			node.After = append(node.After, wire.FlowEdge{Node: name})
		}
		for i := range n.tasks {
			msg := redistest.Message(fmt.Sprint("q", i%2), fmt.Sprintf("%s-%s%d", id, n.name, i))
			msg.SetFlowPart(wire.FlowPart{Run: p.Run, Node: n.name, Flow: id}, n.tasks == 1)
			node.Tasks = append(node.Tasks, wire.FlowTask{Queue: msg.Queue, ID: msg.ID, Message: redistest.Encode(t, msg)})
		}
		p.Nodes = append(p.Nodes, node)
	}
	return p
}

// worker settles the tasks of both queues, and records them.
type worker struct {
	b     *rdb.Broker
	token int
	ran   []string
}

// work fetches a task, if there is one, waits for its turn, and settles it.
func (w *worker) work(t *testing.T, turn func()) {
	w.token++
	f := &rdb.Fetch{Queue: fmt.Sprint("q", w.token%2), N: 1, Token: fmt.Sprint("f", w.token), Lease: redistest.Lease}
	w.b.RoundTrip(t.Context(), &rdb.RoundTrip{Fetch: []*rdb.Fetch{f}})
	if f.Err != nil {
		t.Errorf("fetch: %v", f.Err)
	}
	for _, task := range f.Tasks {
		turn()
		msg, err := wire.DecodeTaskMessage(task.Message)
		if err != nil {
			t.Error(err)
			continue
		}
		s := &rdb.Settlement{Queue: f.Queue, ID: task.ID, Token: f.Token, Outcome: rdb.Done, Member: rdb.MemberOf(msg)}
		w.b.RoundTrip(t.Context(), &rdb.RoundTrip{Settle: []*rdb.Settlement{s}})
		if s.Err != nil || s.Code != script.CodeOK {
			t.Errorf("settle %s: %v, %v", s.ID, s.Code, s.Err)
		}
		w.ran = append(w.ran, task.ID)
	}
}

// Processes that advance a flow, one that cancels it and one that runs its tasks take turns in
// random order: each task is created at most once and not too early, and none is left of a flow
// that was canceled.
func TestCancelWhileTasksAreCreated(t *testing.T) {
	t.Parallel()
	r := redistest.Mini(t)
	b := r.Broker()
	canceled, succeeded := 0, 0
	for seed := range uint64(120) {
		random := rand.New(rand.NewPCG(seed, 2))
		id := fmt.Sprint("f", seed)
		e := &flow.Engine{Broker: b, Tasks: inspect.New(b)}
		if _, err := e.Start(t.Context(), diamond(t, id)); err != nil {
			t.Fatal(err)
		}
		w := &worker{b: b}
		w.work(t, func() {})
		w.work(t, func() {}) // a has ended
		all := &turns{waiting: make(chan *actor)}
		for range 2 {
			all.start(b, func(e *flow.Engine, _ func()) {
				for range 1 + random.IntN(2) {
					if _, err := e.Update(t.Context(), id, flow.Update{}); err != nil {
						t.Errorf("seed %d: update: %v", seed, err)
					}
				}
			})
		}
		all.start(b, func(_ *flow.Engine, turn func()) {
			for range 8 {
				turn()
				w.work(t, turn)
			}
		})
		all.start(b, func(e *flow.Engine, _ func()) {
			if _, err := e.Cancel(t.Context(), id); err != nil && !errors.Is(err, flow.ErrEnded) {
				t.Errorf("seed %d: cancel: %v", seed, err)
			}
		})
		all.run(random)
		f, err := e.Update(t.Context(), id, flow.Update{Compare: rdb.CompareAll}) // as servers do within 5 s
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		switch f.Record.Status {
		case wire.FlowCanceled:
			canceled++
		case wire.FlowSucceeded:
			succeeded++
		default:
			t.Errorf("seed %d: the flow is %s", seed, f.Record.Status)
		}
		for _, queue := range []string{"q0", "q1"} {
			if left := r.Client().Keys(t.Context(), b.Keys(queue).TaskPrefix()+"*").Val(); len(left) > 0 {
				t.Errorf("seed %d: tasks are left: %v", seed, left)
			}
		}
		order := strings.Join(w.ran, " ")
		for i, id := range w.ran {
			node := id[strings.Index(id, "-")+1:]
			if slices.Contains(w.ran[:i], id) || node == "d0" && i < 6 || node != "a0" && i == 0 {
				t.Errorf("seed %d: ran %s", seed, order)
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d flows were canceled, %d ended before", canceled, succeeded)
	if canceled < 60 {
		t.Error("hardly any flow was canceled")
	}
}
