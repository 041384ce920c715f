package loops

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// presences is a PresenceBroker: it knows which tasks it was told of, and their starts.
type presences struct {
	t      *testing.T
	known  map[string]time.Time
	last   *rdb.Presence
	err    error
	unsure bool // with an error, what was told is known nevertheless
}

func (b *presences) Publish(_ context.Context, p *rdb.Presence) (forgotten bool, err error) {
	b.last = p
	if b.err != nil && !b.unsure {
		return true, b.err
	}
	forgotten = p.Known && len(b.known) == 0
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
	return forgotten, b.err
}

type testHeartbeater struct {
	*Heartbeater
	broker *presences
	runs   map[string]time.Time
}

var epoch = time.Unix(1_000_000_000, 0)

func newTestHeartbeater(t *testing.T) *testHeartbeater {
	h := &testHeartbeater{
		broker: &presences{t: t, known: make(map[string]time.Time)},
		runs:   make(map[string]time.Time),
	}
	h.Heartbeater = &Heartbeater{
		Broker: h.broker, Process: wire.Process{Host: "host", PID: 7, ID: "id"}, Interval: 5 * time.Second,
		Info: func() *wire.ServerInfo { return &wire.ServerInfo{Host: "host", Concurrency: 9} },
		Running: func() (all []*wire.WorkerInfo) {
			for id, at := range h.runs {
				all = append(all, &wire.WorkerInfo{TaskID: id, StartTime: at})
			}
			return all
		},
	}
	return h
}

// begin lets tasks run that began at a second.
func (h *testHeartbeater) begin(second int, ids ...string) {
	for _, id := range ids {
		h.runs[id] = epoch.Add(time.Duration(second) * time.Second)
	}
}

// mustTell ticks, and checks what was told.
func (h *testHeartbeater) mustTell(t *testing.T, started, ended []string) {
	t.Helper()
	mustTick(t, h.Tick, 5*time.Second)
	h.mustHaveTold(t, started, ended)
}

func (h *testHeartbeater) mustHaveTold(t *testing.T, started, ended []string) {
	t.Helper()
	p := h.broker.last
	if got := slices.Sorted(maps.Keys(p.Started)); !slices.Equal(got, started) {
		t.Errorf("told that %q began, want %q", got, started)
	}
	if got := slices.Sorted(slices.Values(p.Ended)); !slices.Equal(got, ended) {
		t.Errorf("told that %q ended, want %q", got, ended)
	}
	if p.Busy != (len(h.runs) > 0) || p.Process != h.Process {
		t.Errorf("busy %v, process %v", p.Busy, p.Process)
	}
	info, err := wire.DecodeServerInfo(p.Info)
	if err != nil {
		t.Fatal(err)
	}
	if info.ActiveWorkerCount != len(h.runs) || info.Concurrency != 9 {
		t.Errorf("told %+v", info)
	}
}

// mustBeKnown checks that Redis knows exactly what runs.
func (h *testHeartbeater) mustBeKnown(t *testing.T) {
	t.Helper()
	if !maps.EqualFunc(h.broker.known, h.runs, time.Time.Equal) {
		t.Errorf("%v are known, and %v run", h.broker.known, h.runs)
	}
}

func TestHeartbeaterTellsDifferences(t *testing.T) {
	h := newTestHeartbeater(t)
	h.mustTell(t, nil, nil)
	h.begin(1, "a", "b")
	h.mustTell(t, []string{"a", "b"}, nil)
	h.mustTell(t, nil, nil)
	delete(h.runs, "a")
	h.begin(2, "c")
	h.mustTell(t, []string{"c"}, []string{"a"})
	h.begin(3, "b") // it ended, and began again
	h.mustTell(t, []string{"b"}, nil)
	h.mustBeKnown(t)
	clear(h.runs)
	h.mustTell(t, nil, []string{"b", "c"})
	h.mustTell(t, nil, nil)
	h.mustBeKnown(t)
}

// Where the server's hash expired, everything that runs is told again, and only that.
func TestHeartbeaterWasForgotten(t *testing.T) {
	h := newTestHeartbeater(t)
	h.begin(1, "a", "b")
	h.mustTell(t, []string{"a", "b"}, nil)
	clear(h.broker.known)
	h.begin(2, "c", "d")
	h.mustTell(t, []string{"c", "d"}, nil)
	delete(h.runs, "c")
	h.mustTell(t, []string{"a", "b"}, []string{"c"})
	h.mustBeKnown(t)
	h.mustTell(t, nil, nil)
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
					h.mustTell(t, []string{"a", "b"}, nil)
				}
				h.broker.err, h.broker.unsure = c.err, c.unsure
				delete(h.runs, "a")
				h.begin(2, "b", "c", "d")
				for range 2 {
					if _, err := h.Tick(context.Background()); !errors.Is(err, c.err) {
						t.Errorf("got %v", err)
					}
				}
				h.broker.err = nil
				delete(h.runs, "c")
				for range 2 { // the second where it was forgotten
					mustTick(t, h.Tick, 5*time.Second)
				}
				h.mustBeKnown(t)
				h.mustTell(t, nil, nil)
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
	h.Info = func() *wire.ServerInfo { return &wire.ServerInfo{Host: "\xff"} }
	if _, err := h.Tick(context.Background()); err == nil {
		t.Error("the server: no error")
	}
	if h.broker.last != nil {
		t.Error("something was told")
	}
}

// A payload of megabytes is not told of: all workers are listed in one reply.
func TestHeartbeaterLeavesOutLargePayloads(t *testing.T) {
	h := newTestHeartbeater(t)
	sizes := map[string]int{"small": maxPayload, "large": maxPayload + 1}
	h.Running = func() (all []*wire.WorkerInfo) {
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
			t.Errorf("%s: told of %d bytes, want %d, error %v", id, len(w.Payload), want, err)
		}
	}
}
