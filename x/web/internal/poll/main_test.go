package poll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
)

var errDown = errors.New("connection refused")

// fakeSource is a Source with fixed data.
type fakeSource struct {
	mu        sync.Mutex
	queues    map[string]asynq.QueueInfo
	broken    map[string]error // by queue
	servers   []*asynq.ServerInfo
	entries   []*asynq.SchedulerEntry
	info      string
	down      error
	parts     map[string]error // errors of parts
	polls     int
	pollTimes []time.Time
	sampled   [][]string // the queues of each call of Memory
	checked   [][]string // the queues of each call of Unhandled
	unhandled []asynq.UnhandledType
	details   int
	mutes     []*asynq.Mute
	symptoms  int   // calls of Symptoms
	surveyed  []int // number of queues in each of them
	processes []asynq.ProcessInfo
	hang      chan struct{} // calls of Queues block on it
	ignoring  bool          // and ignore their contexts
	panics    bool
}

func newFake() *fakeSource {
	return &fakeSource{queues: make(map[string]asynq.QueueInfo), broken: make(map[string]error), parts: make(map[string]error)}
}

// set changes the data.
func (f *fakeSource) set(change func(f *fakeSource)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeSource) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.polls
}

func (f *fakeSource) err(part string) error {
	if f.down != nil {
		return f.down
	}
	return f.parts[part]
}

func (f *fakeSource) Queues(ctx context.Context) ([]asynq.QueueInfoResult, error) {
	f.mu.Lock()
	f.polls++
	f.pollTimes = append(f.pollTimes, time.Now())
	hang, ignoring := f.hang, f.ignoring
	f.mu.Unlock()
	if hang != nil {
		done := ctx.Done()
		if ignoring {
			done = nil
		}
		select {
		case <-hang:
		case <-done:
			return nil, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.panics {
		panic("a bug")
	}
	if err := f.err("queues"); err != nil {
		return nil, err
	}
	var results []asynq.QueueInfoResult
	for name, info := range f.queues {
		info.Queue, info.Timestamp = name, time.Now()
		r := asynq.QueueInfoResult{Queue: name, Info: &info}
		if err := f.broken[name]; err != nil {
			r.Info, r.Err = nil, err
		}
		results = append(results, r)
	}
	sortResults(results)
	return results, nil
}

func (f *fakeSource) Memory(_ context.Context, queues []string) (map[string]int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sampled = append(f.sampled, queues)
	bytes := make(map[string]int64)
	for _, q := range queues {
		bytes[q] = int64(1000 * len(f.sampled))
	}
	return bytes, f.err("memory")
}

func (f *fakeSource) Servers(context.Context) ([]*asynq.ServerInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.servers, f.err("servers")
}

func (f *fakeSource) Entries(context.Context) ([]*asynq.SchedulerEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.entries, f.err("entries")
}

func (f *fakeSource) Unhandled(_ context.Context, queues []string) ([]asynq.UnhandledType, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked = append(f.checked, queues)
	return f.unhandled, f.err("unhandled")
}

func (f *fakeSource) Mutes(context.Context) ([]*asynq.Mute, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mutes, f.err("mutes")
}

func (f *fakeSource) Symptoms(_ context.Context, queues []health.Queue, _ health.Settings, _ time.Time) (*Symptoms, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.symptoms++
	f.surveyed = append(f.surveyed, len(queues))
	return &Symptoms{Processes: f.processes}, f.err("symptoms")
}

func (f *fakeSource) Nodes(context.Context) ([]NodeInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []NodeInfo{{Addr: "redis:6379", Info: f.info, Keys: 7}}, f.err("redis")
}

func (f *fakeSource) Details(ctx context.Context, _ []string) (*Details, error) {
	f.mu.Lock()
	f.details++
	n, hang := f.details, f.hang
	f.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &Details{Left: n}, f.err("details")
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// newPoller returns a started poller on the source, which is closed with the test.
func newPoller(t *testing.T, cfg Config) *Poller {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	p := New(cfg)
	p.Start()
	t.Cleanup(p.Close)
	return p
}

// kinds returns the causes as "severity ID".
func kinds(s *Snapshot) []string {
	var all []string
	for _, c := range s.Health.Causes {
		all = append(all, c.Severity.String()+" "+c.ID)
	}
	return all
}

func wantEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%v", got), fmt.Sprintf("%v", want); g != w {
		t.Errorf("%s is\n\t%s\nwant\n\t%s", what, g, w)
	}
}

// wantCause requires that a snapshot has a cause of a kind.
func wantCause(t *testing.T, s *Snapshot, kind string) {
	t.Helper()
	if !slices.ContainsFunc(s.Health.Causes, func(c health.Cause) bool { return c.Kind == kind }) {
		t.Errorf("no cause %q of %+v", kind, s.Health.Causes)
	}
}

// worker returns a server that processes queues, with busy active tasks of the first one.
func worker(busy int, queues ...string) *asynq.ServerInfo {
	s := &asynq.ServerInfo{ID: "id", Host: "host", PID: 42, Status: activeStatus, Concurrency: 10, Queues: make(map[string]int)}
	for _, q := range queues {
		s.Queues[q] = 1
	}
	for n := range busy {
		s.ActiveWorkers = append(s.ActiveWorkers, &asynq.WorkerInfo{TaskID: fmt.Sprint(n), TaskType: "mail", Queue: queues[0]})
	}
	return s
}
