// Package survey scans tasks for statistics that no single call to Redis provides: the kinds of
// errors and the task types. It scans a bounded number of tasks, in short calls with pauses in
// between, once for all callers.
package survey

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/search"
	"github.com/asynq-go/asynq/x/web/internal/shared"
)

const (
	defaultPerState = 20_000
	timeout         = 20 * time.Second
	firstWait       = 1500 * time.Millisecond
	publishEvery    = 500 * time.Millisecond
)

// Config configures a Survey.
type Config struct {
	Inspector *asynq.Inspector
	PerState  int           // tasks of each state, over all queues; default 20,000
	Fresh     time.Duration // how long a result is valid; default 15 s
	Logger    *slog.Logger  // default slog.Default()
}

// Survey is repeated while there are callers. It must be closed.
type Survey struct {
	cfg    Config
	tasks  *shared.Value[Result]
	groups *shared.Value[Groups]
}

// New returns a survey, which scans nothing before the first call.
func New(cfg Config) *Survey {
	if cfg.PerState <= 0 {
		cfg.PerState = defaultPerState
	}
	if cfg.Fresh <= 0 {
		cfg.Fresh = 15 * time.Second
	}
	s := &Survey{cfg: cfg}
	s.tasks = shared.New(shared.Config[Result]{
		Name: "task survey", Ask: s.look, Fresh: cfg.Fresh, Wait: firstWait, Timeout: 2 * timeout, Logger: cfg.Logger,
	})
	s.groups = shared.New(shared.Config[Groups]{
		Name: "list of groups", Ask: s.listGroups, Fresh: cfg.Fresh / 5, Wait: 5 * time.Second, Timeout: timeout, Logger: cfg.Logger,
	})
	return s
}

// Close stops the survey.
func (s *Survey) Close() {
	s.tasks.Close()
	s.groups.Close()
}

// Stale invalidates the result after a change of tasks.
func (s *Survey) Stale() {
	s.tasks.Stale()
	s.groups.Stale()
}

// Tasks returns the result of the last survey, never nil. The first survey may still be running.
func (s *Survey) Tasks(ctx context.Context) (*Result, error) {
	r, err := s.tasks.Get(ctx)
	if r == nil {
		return &Result{}, err
	}
	return r, err
}

// states are in the order of scanning: states with errors come first.
var states = []asynq.TaskState{
	asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateActive, asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateAggregating,
	asynq.TaskStateCompleted,
}

// errEnough ends a survey that takes too long. Its result so far is still used.
var errEnough = errors.New("survey: timed out")

// look surveys all tasks.
func (s *Survey) look(ctx context.Context, partial func(*Result)) (*Result, error) {
	return look(ctx, s.cfg.Inspector, &search.Search{}, perState(s.cfg.PerState), partial)
}

// Count surveys the tasks of a search for one caller. It scans at most most tasks and takes at most
// 20 s; Extent.Cut reports that there are more tasks.
func Count(ctx context.Context, i *asynq.Inspector, s *search.Search, most int) (*Result, error) {
	return look(ctx, i, s, inAll(most), func(*Result) {})
}

// budget returns the number of tasks to scan in each place.
type budget func([]search.Place) []int

func inAll(bound int) budget {
	return func(places []search.Place) []int {
		counts := make([]int, len(places))
		for n, p := range places {
			counts[n] = p.N
		}
		return Shares(counts, bound)
	}
}

func perState(bound int) budget {
	return func(places []search.Place) (shares []int) {
		for len(places) > 0 { // in the order of their states
			n := 1
			for n < len(places) && places[n].State == places[0].State {
				n++
			}
			shares = append(shares, inAll(bound)(places[:n])...)
			places = places[n:]
		}
		return shares
	}
}

// look surveys the tasks of a search.
func look(ctx context.Context, i *asynq.Inspector, s *search.Search, b budget, partial func(*Result)) (*Result, error) {
	infos, err := i.WithMemorySamples(0).QueueInfos(ctx, s.Queues...)
	if err != nil {
		return nil, err
	}
	w := &walk{Inspector: i, Search: s, tally: newTally(time.Now()), partial: partial, published: time.Now(), until: time.Now().Add(timeout)}
	places, broken := s.Places(infos)
	slices.SortStableFunc(places, func(a, b search.Place) int { return slices.Index(states, a.State) - slices.Index(states, b.State) })
	for _, q := range broken {
		w.tally.broken = append(w.tally.broken, Broken(q))
	}
	for _, state := range states {
		extent := Extent{State: state}
		for _, p := range places {
			if p.State == state {
				extent.Total += p.N
			}
		}
		w.tally.extents = append(w.tally.extents, extent)
	}
	failed := make(map[string]bool)
	for n, share := range b(places) {
		p := places[n]
		if failed[p.Queue] {
			continue // its other states would fail as well
		}
		err := w.place(ctx, p, share)
		switch {
		case err == nil, errors.Is(err, asynq.ErrQueueNotFound):
		case errors.Is(err, errEnough):
			for rest := range w.tally.extents {
				e := &w.tally.extents[rest]
				e.Cut = e.Cut || e.Scanned < e.Total
			}
			return w.tally.result(true), nil
		case ctx.Err() != nil:
			return nil, err
		default:
			w.tally.broken = append(w.tally.broken, Broken{p.Queue, err})
			failed[p.Queue] = true
		}
	}
	return w.tally.result(true), nil
}

// Shares distributes a bound over queues with these numbers of tasks: small queues are scanned
// completely, large ones to the same depth.
func Shares(counts []int, bound int) []int {
	order := make([]int, len(counts))
	for n := range order {
		order[n] = n
	}
	slices.SortFunc(order, func(a, b int) int { return counts[a] - counts[b] })
	shares := make([]int, len(counts))
	for n, i := range order {
		shares[i] = min(counts[i], bound/(len(order)-n))
		bound -= shares[i]
	}
	return shares
}

// walk is a running survey.
type walk struct {
	*asynq.Inspector
	*search.Search
	tally     *tally
	partial   func(*Result)
	published time.Time
	until     time.Time
}

const (
	firstPage  = 20
	largest    = 200
	smallest   = 5
	fewBytes   = 128 << 10
	manyBytes  = 1 << 20
	shortest   = time.Millisecond      // of a pause
	longest    = 20 * time.Millisecond // of a pause: other clients may slow the server down as well
	maxPayload = 64 << 20              // bytes of payloads transferred per queue and state
)

// place scans the first tasks of a place.
func (w *walk) place(ctx context.Context, p search.Place, most int) error {
	extent := &w.tally.extents[slices.Index(states, p.State)]
	cursor, page, moved := "", firstPage, 0
	for seen := 0; seen < most; {
		if moved > maxPayload {
			extent.Cut = true
			return nil
		}
		n := min(page, most-seen)
		began := time.Now()
		if began.After(w.until) {
			return errEnough
		}
		filter := w.TaskFilter(p.State)
		filter.MaxScan = n
		tasks, err := w.ListTasks(ctx, p.Queue, p.State, asynq.ListTasksOptions{Filter: filter, Cursor: cursor, Limit: n})
		if err != nil {
			return err
		}
		bytes := 0
		for _, t := range tasks.Tasks {
			w.tally.add(t)
			bytes += len(t.Payload) + len(t.Result) + len(t.LastErr)
		}
		seen += tasks.Scanned
		moved += bytes
		extent.Scanned += tasks.Scanned
		if time.Since(w.published) > publishEvery {
			w.partial(w.tally.result(false))
			w.published = time.Now()
		}
		if cursor = tasks.Next; cursor == "" {
			return nil
		}
		// Calls transfer payloads, which may be large, so they are kept short.
		switch {
		case bytes > manyBytes:
			page = max(page/2, smallest)
		case bytes < fewBytes:
			page = min(page*2, largest)
		}
		if err := rest(ctx, min(max(time.Since(began), shortest), longest)); err != nil {
			return err
		}
	}
	extent.Cut = extent.Cut || most < p.N
	return nil
}

func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
