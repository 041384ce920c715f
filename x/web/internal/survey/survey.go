// Package survey looks through the tasks for what no single call of Redis tells: which errors there are, and which task types. It looks at a
// bounded number of them, in short calls with rests in between, once for all who want to know.
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
	tellEvery       = 500 * time.Millisecond
)

// Config says how much to look at.
type Config struct {
	Inspector *asynq.Inspector
	PerState  int           // tasks of each state, of all queues together; 0: 20,000
	Fresh     time.Duration // for which a survey is good; 0: 15 s
	Logger    *slog.Logger  // nil: slog.Default()
}

// Survey is made anew as long as somebody looks. It must be closed.
type Survey struct {
	cfg    Config
	tasks  *shared.Value[Result]
	groups *shared.Value[Groups]
}

// New returns a survey that looks at nothing before somebody asks.
func New(cfg Config) *Survey {
	if cfg.PerState <= 0 {
		cfg.PerState = defaultPerState
	}
	if cfg.Fresh <= 0 {
		cfg.Fresh = 15 * time.Second
	}
	s := &Survey{cfg: cfg}
	s.tasks = shared.New(shared.Config[Result]{
		Name: "the survey of tasks", Ask: s.look, Fresh: cfg.Fresh, Wait: firstWait, Timeout: 2 * timeout, Logger: cfg.Logger,
	})
	s.groups = shared.New(shared.Config[Groups]{
		Name: "the list of groups", Ask: s.listGroups, Fresh: cfg.Fresh / 5, Wait: 5 * time.Second, Timeout: timeout, Logger: cfg.Logger,
	})
	return s
}

// Close ends looking.
func (s *Survey) Close() {
	s.tasks.Close()
	s.groups.Close()
}

// Stale says that tasks were changed.
func (s *Survey) Stale() {
	s.tasks.Stale()
	s.groups.Stale()
}

// Tasks is what the last survey saw, never nil. The first one may still be under way.
func (s *Survey) Tasks(ctx context.Context) (*Result, error) {
	r, err := s.tasks.Get(ctx)
	if r == nil {
		return &Result{}, err
	}
	return r, err
}

// states in the order in which they are looked at: those of errors come first.
var states = []asynq.TaskState{
	asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateActive, asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateAggregating,
	asynq.TaskStateCompleted,
}

// errEnough ends a survey that has taken too long: what it has seen by then is told.
var errEnough = errors.New("survey: it has taken too long")

// look makes a survey of all tasks.
func (s *Survey) look(ctx context.Context, tell func(*Result)) (*Result, error) {
	return look(ctx, s.cfg.Inspector, &search.Search{}, perState(s.cfg.PerState), tell)
}

// Count is a survey of the tasks of a search, made at once for one who asks. It looks at no more than most tasks, and for no longer than
// 20 s; an Extent that is Cut tells of that.
func Count(ctx context.Context, i *asynq.Inspector, s *search.Search, most int) (*Result, error) {
	return look(ctx, i, s, inAll(most), func(*Result) {})
}

// budget says how many tasks of each place are looked at.
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
		for len(places) > 0 { // they are in the order of their states
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

// look makes a survey of the tasks of a search.
func look(ctx context.Context, i *asynq.Inspector, s *search.Search, b budget, tell func(*Result)) (*Result, error) {
	infos, err := i.WithMemorySamples(0).QueueInfos(ctx, s.Queues...)
	if err != nil {
		return nil, err
	}
	w := &walk{Inspector: i, Search: s, tally: newTally(time.Now()), tell: tell, told: time.Now(), until: time.Now().Add(timeout)}
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
			continue // its other states will not do better
		}
		err := w.place(ctx, p, share)
		switch {
		case err == nil, errors.Is(err, asynq.ErrQueueNotFound):
		case errors.Is(err, errEnough):
			for rest := range w.tally.extents {
				e := &w.tally.extents[rest]
				e.Cut = e.Cut || e.Looked < e.Total
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

// Shares divides a bound among queues with so many tasks: the small ones are looked at whole, and the large ones to the same depth.
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

// walk is a survey under way.
type walk struct {
	*asynq.Inspector
	*search.Search
	tally *tally
	tell  func(*Result)
	told  time.Time
	until time.Time
}

const (
	firstPage  = 20
	largest    = 200
	smallest   = 5
	fewBytes   = 128 << 10
	manyBytes  = 1 << 20
	shortest   = time.Millisecond      // of a rest
	longest    = 20 * time.Millisecond // of a rest: a server that others keep busy is slow as well
	maxPayload = 64 << 20              // of all payloads of a queue and state that are moved for nothing
)

// place looks at the first tasks of a place.
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
		tasks, err := w.TasksAfter(ctx, p.Queue, p.State, filter, cursor, n)
		if err != nil {
			return err
		}
		bytes := 0
		for _, t := range tasks.Tasks {
			w.tally.add(t)
			bytes += len(t.Payload) + len(t.Result) + len(t.LastErr)
		}
		seen += tasks.Looked
		moved += bytes
		extent.Looked += tasks.Looked
		if time.Since(w.told) > tellEvery {
			w.tell(w.tally.result(false))
			w.told = time.Now()
		}
		if cursor = tasks.Next; cursor == "" {
			return nil
		}
		// Payloads come along, and may be large: a call is to be short.
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
