package loops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// presences is a HeartbeatBroker. It has the published tasks of one server, with their starts.
type presences struct {
	t      *testing.T
	known  map[string]time.Time
	last   *rdb.Presence
	err    error
	unsure bool // after an error, the heartbeat was still executed
}

func (b *presences) Publish(_ context.Context, all ...*rdb.Presence) {
	p := all[0]
	b.last, p.Err = p, b.err
	if p.Forgotten = b.err != nil; p.Forgotten && !b.unsure {
		return
	}
	p.Forgotten = p.Forgotten || p.Known && len(b.known) == 0
	if p.Replace {
		clear(b.known)
	}
	for _, id := range p.Ended {
		delete(b.known, id)
	}
	for id, encoded := range p.Started {
		w, err := wire.DecodeWorkerInfo(encoded)
		if err != nil {
			b.t.Fatal(err)
		}
		b.known[id] = w.StartTime
	}
}

func (b *presences) Withdraw(context.Context, ...wire.Process) error { return nil }

type testHeartbeater struct {
	*Heartbeater
	process wire.Process
	info    *wire.ServerInfo
	running func() []*wire.WorkerInfo
	broker  *presences
	runs    map[string]time.Time
}

var epoch = time.Unix(1_000_000_000, 0)

func newTestHeartbeater(t *testing.T) *testHeartbeater {
	h := &testHeartbeater{
		broker: &presences{t: t, known: make(map[string]time.Time)},
		runs:   make(map[string]time.Time),
	}
	h.process, h.info = wire.Process{Host: "host", PID: 7, ID: "id"}, &wire.ServerInfo{Host: "host", Concurrency: 9}
	h.running = func() (all []*wire.WorkerInfo) {
		for id, at := range h.runs {
			all = append(all, &wire.WorkerInfo{TaskID: id, StartTime: at})
		}
		return all
	}
	h.Heartbeater = &Heartbeater{Broker: h.broker, Interval: 5 * time.Second, Snapshot: func() []Server {
		return []Server{{Process: h.process, Info: h.info, Running: h.running()}}
	}}
	return h
}

// begin adds running tasks that started at a second.
func (h *testHeartbeater) begin(second int, ids ...string) {
	for _, id := range ids {
		h.runs[id] = epoch.Add(time.Duration(second) * time.Second)
	}
}

// mustPublish ticks, and checks the changes.
func (h *testHeartbeater) mustPublish(t *testing.T, started, ended []string) {
	t.Helper()
	mustTick(t, h.Tick, 5*time.Second)
	h.mustHavePublished(t, started, ended)
}

func (h *testHeartbeater) mustHavePublished(t *testing.T, started, ended []string) {
	t.Helper()
	p := h.broker.last
	if got := slices.Sorted(maps.Keys(p.Started)); !slices.Equal(got, started) {
		t.Errorf("published starts %q, want %q", got, started)
	}
	if got := slices.Sorted(slices.Values(p.Ended)); !slices.Equal(got, ended) {
		t.Errorf("published ends %q, want %q", got, ended)
	}
	if p.Busy != (len(h.runs) > 0) || p.Process != h.process {
		t.Errorf("busy %v, process %v", p.Busy, p.Process)
	}
	info, err := wire.DecodeServerInfo(p.Info)
	if err != nil {
		t.Fatal(err)
	}
	if info.ActiveWorkerCount != len(h.runs) || info.Concurrency != 9 {
		t.Errorf("published %+v", info)
	}
}

// mustBeKnown checks that the published tasks are those that run.
func (h *testHeartbeater) mustBeKnown(t *testing.T) {
	t.Helper()
	if !maps.EqualFunc(h.broker.known, h.runs, time.Time.Equal) {
		t.Errorf("%v are published, and %v run", h.broker.known, h.runs)
	}
}

func TestHeartbeaterPublishesChanges(t *testing.T) {
	h := newTestHeartbeater(t)
	h.mustPublish(t, nil, nil)
	h.begin(1, "a", "b")
	h.mustPublish(t, []string{"a", "b"}, nil)
	h.mustPublish(t, nil, nil)
	delete(h.runs, "a")
	h.begin(2, "c")
	h.mustPublish(t, []string{"c"}, []string{"a"})
	h.begin(3, "b") // it ended, and started again
	h.mustPublish(t, []string{"b"}, nil)
	h.mustBeKnown(t)
	clear(h.runs)
	h.mustPublish(t, nil, []string{"b", "c"})
	h.mustPublish(t, nil, nil)
	h.mustBeKnown(t)
}

// If the server's hash expired, the next heartbeats publish everything that runs, and nothing else.
func TestHeartbeaterAfterExpiry(t *testing.T) {
	h := newTestHeartbeater(t)
	h.begin(1, "a", "b")
	h.mustPublish(t, []string{"a", "b"}, nil)
	clear(h.broker.known)
	h.begin(2, "c", "d")
	h.mustPublish(t, []string{"c", "d"}, nil)
	delete(h.runs, "c")
	h.mustPublish(t, []string{"a", "b", "d"}, nil)
	h.mustBeKnown(t)
	h.mustPublish(t, nil, nil)
}

func TestHeartbeaterFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		unsure bool
	}{{"refused", errBroken, false}, {"lost", errCut, false}, {"unanswered", errCut, true}} {
		t.Run(c.name, func(t *testing.T) {
			for _, before := range []int{0, 1} {
				h := newTestHeartbeater(t)
				if before > 0 {
					h.begin(1, "a", "b")
					h.mustPublish(t, []string{"a", "b"}, nil)
				}
				h.broker.err, h.broker.unsure = c.err, c.unsure
				delete(h.runs, "a")
				h.begin(2, "b", "c", "d")
				for range 2 {
					if _, err := h.Tick(context.Background()); !errors.Is(err, c.err) {
						t.Errorf("returned %v", err)
					}
				}
				h.broker.err = nil
				delete(h.runs, "c")
				for range 2 { // the second one after the hash expired
					mustTick(t, h.Tick, 5*time.Second)
				}
				h.mustBeKnown(t)
				h.mustPublish(t, nil, nil)
			}
		})
	}
}

func TestHeartbeaterCannotEncode(t *testing.T) {
	h := newTestHeartbeater(t)
	h.begin(1, "\xff")
	if _, err := h.Tick(context.Background()); err == nil {
		t.Error("a worker: no error")
	}
	h.info = &wire.ServerInfo{Host: "\xff"}
	if _, err := h.Tick(context.Background()); err == nil {
		t.Error("the server: no error")
	}
	if h.broker.last != nil {
		t.Error("a heartbeat was sent")
	}
}

// Payloads of megabytes are left out, because all workers are listed in one reply.
func TestHeartbeaterLeavesOutLargePayloads(t *testing.T) {
	h := newTestHeartbeater(t)
	sizes := map[string]int{"small": maxPayload, "large": maxPayload + 1}
	h.running = func() (all []*wire.WorkerInfo) {
		for id, size := range sizes {
			all = append(all, &wire.WorkerInfo{TaskID: id, TaskType: "test", StartTime: epoch, Payload: make([]byte, size)})
		}
		return all
	}
	if _, err := h.Tick(context.Background()); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int{"small": maxPayload, "large": 0} {
		w, err := wire.DecodeWorkerInfo(h.broker.last.Started[id])
		if err != nil || len(w.Payload) != want || w.TaskType != "test" {
			t.Errorf("%s: published %d bytes, want %d, error %v", id, len(w.Payload), want, err)
		}
	}
}

// Tasks of different queues may have the same ID. A server that runs both lists both, each as long
// as it runs.
func TestHeartbeaterShowsTasksThatShareAnID(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		in := inspect.New(b)
		worker := func(queue string, second int64) *wire.WorkerInfo {
			return &wire.WorkerInfo{ServerID: "id", TaskID: "same", Queue: queue, StartTime: time.Unix(second, 0)}
		}
		running := []*wire.WorkerInfo{}
		h := newTestHeartbeater(t)
		h.Broker, h.running = b, func() []*wire.WorkerInfo { return slices.Clone(running) }
		for _, step := range [][]*wire.WorkerInfo{
			{worker("b", 1), worker("a", 1)}, {worker("b", 1), worker("a", 1), worker("c", 2)}, {worker("c", 2), worker("b", 1)},
			{worker("b", 3), worker("c", 2)}, {worker("c", 2)}, {},
		} {
			running = step
			mustTick(t, h.Tick, 5*time.Second)
			_, workers, err := in.Servers(ctx)
			if err != nil {
				t.Fatal(err)
			}
			show := func(infos []*wire.WorkerInfo) (all []string) {
				for _, w := range infos {
					all = append(all, fmt.Sprint(w.TaskID, " of ", w.Queue, " since ", w.StartTime.Unix()))
					if started, err := in.Started(ctx, w.Queue, []string{"other", w.TaskID}); err != nil || !started[w.TaskID].Equal(w.StartTime) {
						t.Errorf("%s of %s started at %v, error %v", w.TaskID, w.Queue, started, err)
					}
				}
				slices.Sort(all)
				return all
			}
			if got, want := show(workers["id"]), show(step); !slices.Equal(got, want) {
				t.Errorf("listed %q, want %q", got, want)
			}
		}
	})
}
