package worker

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
)

// newLane returns the lane of a fetcher whose loops do not run, with the queue q and ten free
// slots, and a round trip of it.
func newLane(t *testing.T) (*lane, *RoundTrip) {
	l := &oneQueue(t, 10).fetcher.lane
	return l, l.trips[0]
}

// finishedAttempt adds a finished attempt of the task a.
func (l *lane) finishedAttempt(outcome rdb.Outcome) *Attempt {
	a := &Attempt{Queue: "q"}
	a.settlement = rdb.Settlement{Queue: "q", ID: "a", Outcome: outcome}
	a.decide()
	l.register(a)
	l.finished = append(l.finished, a)
	return a
}

// planned describes the request of a round trip.
func planned(t *RoundTrip) (parts []string) {
	for _, u := range t.call.Reclaim {
		parts = append(parts, "reclaim "+u.Queue)
	}
	for _, s := range t.call.Settle {
		parts = append(parts, s.Outcome.String()+" "+s.ID)
	}
	for _, f := range t.call.Fetch {
		mark := ""
		if f.Mark {
			mark = " with marker"
		}
		parts = append(parts, fmt.Sprintf("fetch %d%s", f.N, mark))
	}
	return parts
}

func TestPlan(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		state func(l *lane, q *queueState)
		want  []string
	}{
		"ready":              {func(*lane, *queueState) {}, []string{"fetch 10 with marker"}},
		"ready, marker left": {func(_ *lane, q *queueState) { q.markerLeft = true }, []string{"fetch 10"}},
		"woken":              {func(_ *lane, q *queueState) { q.markerLeft, q.wakePending = true, true }, []string{"fetch 10 with marker"}},
		"capped":             {func(_ *lane, q *queueState) { q.markerLeft, q.maxActive = true, 3 }, []string{"fetch 10 with marker"}},
		"empty":              {func(_ *lane, q *queueState) { q.phase = empty }, nil},
		"paused":             {func(_ *lane, q *queueState) { q.phase = paused }, nil},
		"unknown":            {func(_ *lane, q *queueState) { q.phase = unknown }, nil},
		"backing off":        {func(_ *lane, q *queueState) { q.retryAt = now.Add(1) }, nil},
		"backed off":         {func(_ *lane, q *queueState) { q.retryAt = now }, []string{"fetch 10 with marker"}},
		"settles": {func(l *lane, q *queueState) {
			q.phase = empty
			l.finishedAttempt(rdb.Done)
		}, []string{"succeeded a"}},
		"settles while backing off": {func(l *lane, q *queueState) {
			q.retryAt = now.Add(1)
			l.finishedAttempt(rdb.Done)
		}, nil},
		"at capacity":             {func(_ *lane, q *queueState) { q.phase, q.maxActive = atCapacity, 1 }, nil},
		"at capacity, makes room": {func(l *lane, q *queueState) { q.phase, q.maxActive = atCapacity, 1; l.finishedAttempt(rdb.Done) }, []string{"succeeded a", "fetch 10 with marker"}},
		"retries at once":         {func(l *lane, q *queueState) { q.phase = empty; l.finishedAttempt(rdb.Retry) }, []string{"retried a", "fetch 10 with marker"}},
		"unsettled outcomes first": {func(l *lane, q *queueState) {
			q.unsettled = 1
			l.unsettled = append(l.unsettled, l.finishedAttempt(rdb.Done))
			l.finished = nil
		}, []string{"succeeded a"}},
		"reclaims": {func(l *lane, q *queueState) {
			q.phase = unknown
			l.unknown = []*unknownFetch{{reclaim: rdb.Reclaim{Queue: "q"}, due: now}, {reclaim: rdb.Reclaim{Queue: "later"}, due: now.Add(1)}}
		}, []string{"reclaim q"}},
		"a request in flight":   {func(l *lane, _ *queueState) { l.finishedAttempt(rdb.Done); l.gate.Start(0) }, nil},
		"stopped":               {func(l *lane, _ *queueState) { l.demand.(*laneSlots).slots.closed.Store(true) }, nil},
		"no slot":               {func(l *lane, _ *queueState) { l.demand.(*laneSlots).slots.free = 0 }, nil},
		"holds in a trickle":    {func(l *lane, q *queueState) { q.phase, l.trickle = empty, true; l.finishedAttempt(rdb.Done) }, nil},
		"holds no failure back": {func(l *lane, q *queueState) { q.phase, l.trickle = empty, true; l.finishedAttempt(rdb.Archive) }, []string{"archived a"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, trip := newLane(t)
			c.state(l, l.queue("q"))
			if ok := l.plan(trip, now); ok != (c.want != nil) || !slices.Equal(planned(trip), c.want) {
				t.Errorf("planned %v: %q, want %q", ok, planned(trip), c.want)
			}
			if trip.inFlight != (c.want != nil) || trip.fetching != (len(trip.fetches) > 0) {
				t.Errorf("in flight %v, fetching %v", trip.inFlight, trip.fetching)
			}
		})
	}
}

// The replies to a fetch decide about the phase of its queue, its slots and its tasks.
func TestApplyFetch(t *testing.T) {
	now := time.Now()
	task := func(c *rdb.Fetch) { c.Tasks = make([]rdb.Fetched, 1) }
	for name, c := range map[string]struct {
		reply        func(c *rdb.Fetch)
		during       func(q *queueState) // while the request is in flight
		phase        phase
		run, unknown int
		cut          bool
		backs        bool // off
	}{
		"tasks, and more":        {reply: func(c *rdb.Fetch) { task(c); c.More = true }, phase: ready, run: 1},
		"tasks, and no more":     {reply: task, phase: empty, run: 1},
		"no task":                {reply: func(*rdb.Fetch) {}, phase: empty},
		"no task, woken again":   {reply: func(*rdb.Fetch) {}, during: func(q *queueState) { q.wakePending = true }, phase: ready},
		"more, found empty":      {reply: func(c *rdb.Fetch) { task(c); c.More = true }, during: func(q *queueState) { q.phase = empty }, phase: ready, run: 1},
		"unknown in between":     {reply: task, during: func(q *queueState) { q.phase = unknown }, phase: unknown, run: 1},
		"paused":                 {reply: func(c *rdb.Fetch) { c.Code = script.CodePaused }, phase: paused},
		"paused, woken":          {reply: func(c *rdb.Fetch) { c.Code = script.CodePaused }, during: func(q *queueState) { q.wakePending = true }, phase: paused},
		"at capacity":            {reply: func(c *rdb.Fetch) { c.Code = script.CodeCapped; task(c) }, phase: atCapacity, run: 1},
		"at capacity, woken":     {reply: func(c *rdb.Fetch) { c.Code = script.CodeCapped }, during: func(q *queueState) { q.wakePending = true }, phase: ready},
		"too late":               {reply: func(c *rdb.Fetch) { c.Code = script.CodeStale }, phase: ready},
		"rejected":               {reply: func(c *rdb.Fetch) { c.Err = refusal("WRONGTYPE") }, phase: ready, backs: true},
		"reply lost":             {reply: func(c *rdb.Fetch) { c.Err = errCut }, phase: unknown, unknown: 1, cut: true},
		"reply lost, woken":      {reply: func(c *rdb.Fetch) { c.Err = errCut }, during: (*queueState).wake, phase: unknown, unknown: 1, cut: true},
		"stopped, tasks go back": {reply: func(c *rdb.Fetch) { task(c); c.N = -1 }, phase: empty},
	} {
		t.Run(name, func(t *testing.T) {
			l, trip := newLane(t)
			slots := l.demand.(*laneSlots).slots
			if q := l.queue("q"); !l.plan(trip, now) || slots.available() != 0 {
				t.Fatalf("not planned; %d slots free", slots.available())
			} else if c.during != nil {
				c.during(q)
			}
			f := trip.fetches[0]
			asked := f.call.N
			c.reply(&f.call)
			if f.call.N < 0 {
				f.call.N = asked
				slots.closed.Store(true)
			}
			for range f.call.Tasks {
				f.tasks = append(f.tasks, &Attempt{Queue: "q", index: noIndex})
			}
			e, q := l.apply(trip, now), l.queue("q")
			if q.phase != c.phase || len(e.run) != c.run || len(l.unknown) != c.unknown {
				t.Errorf("phase %d, %d tasks to run, %d unknown fetches, want %d, %d, %d", q.phase, len(e.run), len(l.unknown), c.phase, c.run, c.unknown)
			}
			if (e.cut != nil) != c.cut || now.Before(q.retryAt) != c.backs || trip.fetching {
				t.Errorf("cut %v, backs off %v, fetching %v", e.cut, now.Before(q.retryAt), trip.fetching)
			}
			if free := slots.available(); free != 10-c.run {
				t.Errorf("%d slots free, %d tasks run", free, c.run)
			}
			if open, back := len(l.open), len(l.finished); open != len(f.tasks) || back != len(f.tasks)-c.run {
				t.Errorf("%d attempts open and %d go back, of %d", open, back, len(f.tasks))
			}
		})
	}
}

// The reply to a settlement closes the attempt; an error keeps it, and nothing is fetched before it
// is settled.
func TestApplySettlements(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		code      script.Code
		err       error
		outcome   rdb.Outcome
		open      int
		cut       bool
		delayed   int
		logs      int
		fetchable bool
	}{
		"settled":           {outcome: rdb.Done, fetchable: true},
		"to be retried":     {outcome: rdb.Retry, delayed: 1, fetchable: true},
		"no longer held":    {outcome: rdb.Retry, code: script.CodeLost, logs: 1, fetchable: true},
		"rejected by Redis": {outcome: rdb.Done, err: refusal("WRONGTYPE"), open: 1, logs: 1},
		"reply lost":        {outcome: rdb.Done, err: errCut, open: 1, cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			l, trip := newLane(t)
			q := l.queue("q")
			q.phase = empty
			a := l.finishedAttempt(c.outcome)
			a.settlement.Delay = time.Second
			if !l.plan(trip, now) {
				t.Fatal("not planned")
			}
			q.phase = ready
			a.settlement.Code, a.settlement.Err = c.code, c.err
			e := l.apply(trip, now)
			if len(l.open) != c.open || len(l.unsettled) != c.open || l.openCount() != c.open {
				t.Errorf("%d open, %d unsettled", len(l.open), len(l.unsettled))
			}
			if !errors.Is(e.cut, c.err) && c.cut || (e.cut != nil) != c.cut || len(e.delayed) != c.delayed || len(e.logs) != c.logs {
				t.Errorf("cut %v, %d delayed, %d logs", e.cut, len(e.delayed), len(e.logs))
			}
			if got := q.fetchable(now); got != c.fetchable {
				t.Errorf("fetchable: %v", got)
			}
		})
	}
}
