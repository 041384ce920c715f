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

// memWaiter is an rdb.Waiter for the markers of a memory.
type memWaiter struct {
	m         *memory
	unblocked bool
	waits     []string // the queues of each wait, joined
	unblocks  int
	closed    bool
}

// Wait blocks until a queue has a marker, and pops it.
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
		if w.unblocked {
			w.unblocked = false
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

// Unblock ends a wait.
func (w *memWaiter) Unblock(context.Context) error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.unblocks++
	w.unblocked = true
	close(w.m.changed)
	w.m.changed = make(chan struct{})
	return w.m.failing
}

// Close records the call.
func (w *memWaiter) Close() { w.closed = true }

// logbook collects log lines.
type logbook struct{ proctest.Log }

// count returns the number of lines that contain all the words.
func (l *logbook) count(words ...string) int {
	n := 0
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			n++
		}
	}
	return n
}

// rig is a pool on a memory, with a fetcher for each lane. A test may set handle before the first
// round trip.
type rig struct {
	*memory
	cfg      *Config
	pool     *Pool
	fetchers []*Fetcher
	fetcher  *Fetcher // the first one
	waiters  []*memWaiter
	log      *logbook
	handle   func(ctx context.Context, a *Attempt) error

	delayedMu sync.Mutex
	delayed   []string // queue and delay
}

const (
	testLease    = 30 * time.Second
	testGrace    = 5 * time.Second
	testInterval = time.Second
)

// newRig makes a rig with these queues and weights. All queues are in one lane unless lanes are
// given.
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
		r.fetchers = append(r.fetchers, r.pool.AddLane(lane, waiter))
	}
	r.fetcher = r.fetchers[0]
	t.Cleanup(r.pool.Close)
	return r
}

// oneQueue makes a rig with the queue q.
func oneQueue(t testing.TB, concurrency int) *rig {
	return newRig(t, concurrency, map[string]int{"q": 1})
}

// roundTrip makes one round trip, and waits until the handlers block.
func (r *rig) roundTrip() (time.Duration, error) {
	rest, err := r.fetcher.lane.trips[0].Tick(context.Background())
	synctest.Wait()
	return rest, err
}

// drainWork makes round trips until one has nothing to do, and returns its delay.
func (r *rig) drainWork() time.Duration {
	r.t.Helper()
	for range 100 {
		rest, err := r.roundTrip()
		if err != nil {
			r.t.Fatal(err)
		}
		if rest != 0 {
			return rest
		}
	}
	r.t.Fatal("the fetcher always has something to do")
	return 0
}

// mustFail makes a round trip that fails with a connection error.
func (r *rig) mustFail() {
	r.t.Helper()
	if _, err := r.roundTrip(); err != errCut { //nolint:errorlint // Exactly this one.
		r.t.Fatalf("the round trip returned %v, want %v", err, errCut)
	}
}

// The stages of run.
const (
	stageIntake = iota
	stageWork
)

// run starts the loops of the fetchers, as a server does.
func (r *rig) run() (loops *runner.Runner) {
	r.cfg.InlineFlush = true
	var table []runner.Loop
	for _, f := range r.fetchers {
		table = append(table,
			runner.Loop{Name: "waiter", Stage: stageIntake, Tick: f.Wait, Wake: f.WaitWake()},
			runner.Loop{Name: "leases", Stage: stageWork, Tick: f.ExtendLeases},
			runner.Loop{Name: "ended leases", Stage: stageWork, Tick: f.WatchLeases},
			runner.Loop{Name: "stuck handlers", Stage: stageWork, Tick: f.WatchStuck},
		)
		for _, trip := range f.lane.trips {
			table = append(table, runner.Loop{Name: "fetcher", Stage: stageWork, Tick: trip.Tick, Wake: trip.Wake()})
		}
	}
	loops = runner.New(r.cfg.Log, table...)
	loops.Start(context.Background())
	return loops
}

// stop stops the loops of run.
func (r *rig) stop(loops *runner.Runner) {
	r.t.Helper()
	time.Sleep(2 * maxHold)
	if err := loops.StopAll(context.Background()); err != nil {
		r.t.Error(err)
	}
}

// markNonEmpty makes the first fetcher fetch from a queue, as a marker or a poll does.
func (r *rig) markNonEmpty(queue string) {
	r.fetcher.mu.Lock()
	defer r.fetcher.mu.Unlock()
	r.fetcher.lane.queue(queue).wake()
}

// mustBeFree checks that all slots are free, and no attempt is open.
func (r *rig) mustBeFree() {
	r.t.Helper()
	if free, open := r.pool.slots.available(), r.pool.Open(); free != r.cfg.Concurrency || open != 0 {
		r.t.Errorf("%d slots free of %d, %d attempts open", free, r.cfg.Concurrency, open)
	}
}

// mustLog checks the number of log lines that contain all the words.
func (r *rig) mustLog(n int, words ...string) {
	r.t.Helper()
	if got := r.log.count(words...); got != n {
		r.t.Errorf("%d log lines have %q, want %d:\n%s", got, words, n, r.log)
	}
}

// gates is a handler that blocks each task until the test releases it.
type gates struct {
	mu      sync.Mutex
	gates   map[string]chan func() error
	started []string
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

// handle waits until its task is released. It ignores its context.
func (g *gates) handle(_ context.Context, a *Attempt) error {
	gate := g.of(a.Message.ID)
	g.mu.Lock()
	g.started = append(g.started, a.Message.ID)
	g.mu.Unlock()
	return (<-gate)()
}

// end makes handlers return nil.
func (g *gates) end(ids ...string) {
	for _, id := range ids {
		g.endWith(id, func() error { return nil })
	}
}

func (g *gates) endWith(id string, end func() error) {
	g.of(id) <- end
	synctest.Wait()
}

func (g *gates) mustHaveStarted(t testing.TB, want ...string) {
	t.Helper()
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.Sort(g.started)
	if !slices.Equal(g.started, want) {
		t.Errorf("handlers have started for %q, want %q", g.started, want)
	}
	g.started = nil
}

var _ Broker = (*memory)(nil)
var _ Broker = (*rdb.Broker)(nil)
var _ rdb.Waiter = (*memWaiter)(nil)
