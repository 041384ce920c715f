package worker

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/runner"
)

// memWaiter waits for the markers of a memory.
type memWaiter struct {
	m      *memory
	roused bool
	waits  []string // the queues of each wait, joined
	rouses int
	closed bool
}

// Wait blocks until a marker is there, and takes it.
func (w *memWaiter) Wait(ctx context.Context, queues []string, timeout time.Duration) (string, error) {
	late := time.NewTimer(timeout)
	defer late.Stop()
	w.m.set(func() { w.waits = append(w.waits, strings.Join(queues, " ")) })
	for {
		w.m.mu.Lock()
		if err := w.m.failing; err != nil {
			w.m.mu.Unlock()
			return "", err
		}
		if w.roused {
			w.roused = false
			w.m.mu.Unlock()
			return "", nil
		}
		for _, name := range queues {
			if q := w.m.queues[name]; q.marker {
				q.marker = false
				w.m.mu.Unlock()
				return name, nil
			}
		}
		changed := w.m.changed
		w.m.mu.Unlock()
		select {
		case <-changed:
		case <-late.C:
			return "", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// Rouse ends a wait.
func (w *memWaiter) Rouse(context.Context) error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.rouses++
	w.roused = true
	close(w.m.changed)
	w.m.changed = make(chan struct{})
	return w.m.failing
}

// Close notes that it was called.
func (w *memWaiter) Close() { w.closed = true }

// logbook keeps what is logged.
type logbook struct{ proctest.Log }

// count tells how many lines contain all the words.
func (l *logbook) count(words ...string) int {
	n := 0
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			n++
		}
	}
	return n
}

// rig is a pool on a memory, with a pump for each lane. Its handler, handle, may be set before the first turn.
type rig struct {
	*memory
	cfg     *Config
	pool    *Pool
	pumps   []*Pump
	pump    *Pump // the first
	waiters []*memWaiter
	log     *logbook
	handle  func(ctx context.Context, a *Attempt) error

	delayedMu sync.Mutex
	delayed   []string // queue and delay
}

const (
	testLease    = 30 * time.Second
	testGrace    = 5 * time.Second
	testInterval = time.Second
)

// newRig makes a rig with these queues and weights, all in one lane unless there are lanes.
func newRig(t testing.TB, concurrency int, queues map[string]int, lanes ...[]string) *rig {
	names := slices.Sorted(maps.Keys(queues))
	if len(lanes) == 0 {
		lanes = [][]string{names}
	}
	r := &rig{memory: newMemory(t, names...), log: &logbook{}}
	r.handle = func(context.Context, *Attempt) error { return nil }
	r.pool = NewPool(Config{
		Broker:        r.memory,
		Log:           slog.New(slog.NewTextHandler(r.log, nil)),
		Concurrency:   concurrency,
		Queues:        queues,
		MaxActive:     make(map[string]int),
		Lease:         testLease,
		Grace:         testGrace,
		CheckInterval: testInterval,
		TokenPrefix:   "token-",
		Callbacks: Callbacks{
			BaseContext: context.Background,
			Prepare:     func(a *Attempt) { a.Value = "prepared" },
			Handle:      func(ctx context.Context, a *Attempt) error { return r.handle(ctx, a) },
			IsFailure:   func(error) bool { return true },
			RetryDelay:  func(*Attempt, error) time.Duration { return time.Minute },
			Delayed: func(queue string, delay time.Duration) {
				r.delayedMu.Lock()
				r.delayed = append(r.delayed, queue+" "+delay.String())
				r.delayedMu.Unlock()
			},
		},
	})
	r.cfg = &r.pool.cfg
	for _, lane := range lanes {
		waiter := &memWaiter{m: r.memory}
		r.waiters = append(r.waiters, waiter)
		r.pumps = append(r.pumps, r.pool.AddLane(lane, waiter))
	}
	r.pump = r.pumps[0]
	t.Cleanup(r.pool.Close)
	return r
}

// oneQueue makes a rig with the queue q.
func oneQueue(t testing.TB, concurrency int) *rig {
	return newRig(t, concurrency, map[string]int{"q": 1})
}

// turn makes one turn, and lets the handlers go on.
func (r *rig) turn() (time.Duration, error) {
	rest, err := r.pump.trips[0].Turn(context.Background())
	synctest.Wait()
	return rest, err
}

// settled makes turns until one has nothing to do, and returns for how long.
func (r *rig) settled() time.Duration {
	r.t.Helper()
	for range 100 {
		rest, err := r.turn()
		if err != nil {
			r.t.Fatal(err)
		}
		if rest != 0 {
			return rest
		}
	}
	r.t.Fatal("the pump turns and turns")
	return 0
}

// mustFail makes a turn that the connection is cut under.
func (r *rig) mustFail() {
	r.t.Helper()
	if _, err := r.turn(); err != errCut { //nolint:errorlint // Exactly this one.
		r.t.Fatalf("the turn returned %v, want %v", err, errCut)
	}
}

// The stages of run.
const (
	stageIntake = iota
	stageWork
)

// run lets the pumps turn as a server does, until the returned function is called.
func (r *rig) run() (loops *runner.Runner) {
	r.cfg.WorkersLead = true
	var table []runner.Loop
	for _, p := range r.pumps {
		table = append(table,
			runner.Loop{Name: "waiter", Stage: stageIntake, Tick: p.Wait, Wake: p.WaitWake()},
			runner.Loop{Name: "leases", Stage: stageWork, Tick: p.ExtendLeases},
			runner.Loop{Name: "ended leases", Stage: stageWork, Tick: p.WatchLeases},
			runner.Loop{Name: "stuck handlers", Stage: stageWork, Tick: p.WatchStuck},
		)
		for _, trip := range p.trips {
			table = append(table, runner.Loop{Name: "pump", Stage: stageWork, Tick: trip.Turn, Wake: trip.Wake()})
		}
	}
	loops = runner.New(runner.Options{Log: r.cfg.Log}, table...)
	loops.Start(context.Background())
	return loops
}

// stop stops the loops of run.
func (r *rig) stop(loops *runner.Runner) {
	r.t.Helper()
	if err := loops.StopAll(context.Background()); err != nil {
		r.t.Error(err)
	}
}

// tell lets the first pump take a queue for ready, as a marker or a look does.
func (r *rig) tell(queue string) {
	r.pump.mu.Lock()
	defer r.pump.mu.Unlock()
	r.pump.queue(queue).dry = false
}

// mustBeFree checks that all slots are free, and nothing is open.
func (r *rig) mustBeFree() {
	r.t.Helper()
	if free, open := r.pool.slots.available(), r.pool.Open(); free != r.cfg.Concurrency || open != 0 {
		r.t.Errorf("%d slots free of %d, %d attempts open", free, r.cfg.Concurrency, open)
	}
}

// mustLog checks how many log lines contain all the words.
func (r *rig) mustLog(n int, words ...string) {
	r.t.Helper()
	if got := r.log.count(words...); got != n {
		r.t.Errorf("%d log lines have %q, want %d:\n%s", got, words, n, r.log)
	}
}

// gates is a handler that lets each task go on when the test says so.
type gates struct {
	mu    sync.Mutex
	gates map[string]chan func() error
	begun []string
}

func newGates() *gates { return &gates{gates: make(map[string]chan func() error)} }

func (g *gates) of(id string) chan func() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate := g.gates[id]
	if gate == nil {
		gate = make(chan func() error, 1)
		g.gates[id] = gate
	}
	return gate
}

// handle waits for the end that is meant for the task. It heeds no context.
func (g *gates) handle(_ context.Context, a *Attempt) error {
	gate := g.of(a.Message.ID)
	g.mu.Lock()
	g.begun = append(g.begun, a.Message.ID)
	g.mu.Unlock()
	return (<-gate)()
}

// end lets handlers return nil.
func (g *gates) end(ids ...string) {
	for _, id := range ids {
		g.endWith(id, func() error { return nil })
	}
}

func (g *gates) endWith(id string, end func() error) {
	g.of(id) <- end
	synctest.Wait()
}

func (g *gates) mustHaveBegun(t testing.TB, want ...string) {
	t.Helper()
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.Sort(g.begun)
	if !slices.Equal(g.begun, want) {
		t.Errorf("handlers have begun for %q, want %q", g.begun, want)
	}
	g.begun = nil
}

var _ Broker = (*memory)(nil)
var _ Broker = (*rdb.Broker)(nil)
var _ Waiter = (*rdb.Waiter)(nil)
