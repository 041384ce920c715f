package trend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// source has statistics by minute, and records the times from which they are read.
type source struct {
	mu     sync.Mutex
	points []*asynq.QueuePoint
	from   []time.Time
	err    error
}

func (s *source) QueueHistory(_ context.Context, queue string, from, _ time.Time) (found []*asynq.QueuePoint, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from = append(s.from, from)
	for _, p := range s.points {
		if (queue == "" || p.Queue == queue) && !p.Start.Before(from) {
			found = append(found, p)
		}
	}
	return found, s.err
}

func (s *source) TypeHistory(ctx context.Context, queue, typename string, from, to time.Time) (found []*asynq.TypePoint, err error) {
	points, err := s.QueueHistory(ctx, queue, from, to)
	for _, p := range points {
		found = append(found, &asynq.TypePoint{Queue: p.Queue, Type: typename, Start: p.Start, Length: p.Length, AttemptStats: p.AttemptStats})
	}
	return found, err
}

func (s *source) TypeStats(_ context.Context, _ string, from, _ time.Time) ([]*asynq.TypeStats, error) {
	s.from = append(s.from, from)
	return []*asynq.TypeStats{{Type: "t"}}, s.err
}

func (s *source) ErrorStats(_ context.Context, queue string, from, _ time.Time) ([]*asynq.ErrorStats, error) {
	s.from = append(s.from, from)
	return []*asynq.ErrorStats{{Queue: queue, Kind: "k"}}, s.err
}

// point is a minute with attempts of this duration, of which one failed.
func point(queue string, at time.Time, attempts int64, took time.Duration, pending int, oldest time.Duration) *asynq.QueuePoint {
	p := &asynq.QueuePoint{Queue: queue, Start: at, Length: time.Minute, Sizes: &asynq.QueueSizes{Pending: pending, Latency: oldest}}
	p.Succeeded, p.Retried = attempts-1, 1
	for range attempts {
		p.Duration.Observe(took)
		p.Wait.Observe(2 * took)
	}
	return p
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

type bench struct {
	*testing.T
	source source
	cache  *Cache
	time   time.Time
}

func newBench(t *testing.T) *bench {
	t.Parallel()
	b := &bench{T: t, time: noon}
	b.cache = New(&b.source)
	b.cache.now = func() time.Time { return b.time }
	return b
}

func (b *bench) history(of Subject, r Range, state State) Series {
	b.Helper()
	s, err := b.cache.History(b.Context(), of, r, state)
	if err != nil {
		b.Error(err)
	}
	return s
}

// at returns the value of a metric at a time.
func (s Series) at(name string, t time.Time) float64 {
	for i, at := range s.Times {
		if at == t.Unix() {
			return s.Values[name][i]
		}
	}
	return math.Inf(1)
}

// A range is read once; later reads begin a few minutes before the last one.
func TestReadsOnlyWhatIsNew(t *testing.T) {
	for _, c := range []struct {
		name         string
		r            Range
		first, again time.Duration // before the two reads
	}{
		{"hour", Hour, 59 * time.Minute, 2 * time.Minute},
		{"six hours", Hours, 6*time.Hour - time.Minute, 2 * time.Minute},
		{"48 hours", Days, 48*time.Hour - 20*time.Minute, 10 * time.Minute},
		{"month", Month, 30*24*time.Hour - time.Hour, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			of := Subject{Queue: "q"}
			b.history(of, c.r, State{})
			b.time = b.time.Add(fresh - 1)
			b.history(of, c.r, State{})
			if want := noon.Add(-c.first); len(b.source.from) != 1 || !b.source.from[0].Equal(want) {
				t.Fatalf("read from %v, want %v once", b.source.from, want)
			}
			b.time = noon.Add(fresh)
			b.history(of, c.r, State{Down: true})
			if len(b.source.from) != 1 {
				t.Errorf("read while Redis is unreachable")
			}
			b.history(of, c.r, State{})
			if want := noon.Add(-c.again); len(b.source.from) != 2 || !b.source.from[1].Equal(want) {
				t.Errorf("read from %v again, want %v", b.source.from[1:], want)
			}
		})
	}
}

// Points within a bucket are merged: rates and percentiles are exact, and sizes are the largest.
func TestBuckets(t *testing.T) {
	b := newBench(t)
	start := noon.Add(-20 * time.Minute)
	b.source.points = []*asynq.QueuePoint{
		point("q", start, 300, time.Second, 5, time.Minute),
		point("q", start.Add(time.Minute), 300, 4*time.Second, 9, time.Second),
		point("q", noon.Add(-time.Minute), 60, time.Second, 1, 0),
	}
	s := b.history(Subject{Queue: "q"}, Days, State{})
	for name, want := range map[string]float64{"processed": 1, "failed": 2.0 / 600, "pending": 9, "latency": 60} {
		if got := s.at(name, start); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]float64{"duration_p50": 1, "duration_p95": 4, "wait_p99": 8} {
		if got := s.at(name, start); math.Abs(got-want) > 0.1*want {
			t.Errorf("%s: %v, want about %v", name, got, want)
		}
	}
	// The first bucket that is not over has no rate until it is a while old, and then that of its
	// time so far. Late points change buckets that are read again.
	b.source.points = append(b.source.points, point("q", noon, 40, time.Second, 2, 0))
	b.time = noon.Add(20 * time.Second)
	if s := b.history(Subject{Queue: "q"}, Hour, State{}); !math.IsNaN(s.at("processed", noon)) || s.at("pending", noon) != 2 {
		t.Errorf("a young bucket: %v, %v", s.at("processed", noon), s.at("pending", noon))
	}
	b.time = noon.Add(40 * time.Second)
	b.source.points = append(b.source.points, point("q", noon.Add(-time.Minute), 60, time.Second, 1, 0))
	s = b.history(Subject{Queue: "q"}, Hour, State{})
	if s.at("processed", noon) != 1 || s.at("processed", noon.Add(-time.Minute)) != 2 || !math.IsNaN(s.at("processed", noon.Add(-5*time.Minute))) {
		t.Errorf("an older bucket: %v, before %v", s.at("processed", noon), s.at("processed", noon.Add(-time.Minute)))
	}
	b.time = noon.Add(2 * time.Hour)
	if s := b.history(Subject{Queue: "q"}, Hour, State{}); s.Known || len(s.Times) != 60 {
		t.Errorf("two hours later: %+v", s)
	}
}

// A task type has no attempts in the minutes without a point, since its first one.
func TestTypes(t *testing.T) {
	b := newBench(t)
	b.source.points = []*asynq.QueuePoint{point("a", noon.Add(-5*time.Minute), 60, time.Second, 5, 0), point("b", noon.Add(-5*time.Minute), 60, 2*time.Second, 5, 0)}
	s := b.history(Subject{Type: "t", OfType: true}, Hour, State{})
	if s.at("processed", noon.Add(-5*time.Minute)) != 2 || s.at("processed", noon.Add(-4*time.Minute)) != 0 || !math.IsNaN(s.at("processed", noon.Add(-6*time.Minute))) {
		t.Errorf("%v", s.Values["processed"])
	}
	if got := s.at("duration_p99", noon.Add(-5*time.Minute)); math.Abs(got-2) > 0.2 {
		t.Errorf("the percentile is %v", got)
	}
}

// Sizes of all queues are summed up by minute; the latency of paused queues does not count.
func TestAllQueues(t *testing.T) {
	b := newBench(t)
	at := noon.Add(-5 * time.Minute)
	b.source.points = []*asynq.QueuePoint{
		point("a", at, 60, time.Second, 5, time.Minute), point("a", at.Add(time.Minute), 1, time.Second, 1, 0),
		point("b", at, 60, time.Second, 7, time.Hour), point("b", at.Add(time.Minute), 1, time.Second, 2, 0),
	}
	state := State{Queues: 2, Paused: func(queue string) bool { return queue == "b" }}
	s := b.history(Subject{}, Hour, state)
	if s.at("processed", at) != 2 || s.at("pending", at) != 12 || s.at("latency", at) != 60 || s.at("pending", at.Add(time.Minute)) != 3 {
		t.Errorf("%+v", s.Values)
	}
	if !b.cache.Recorded(Hour, state, "a") || b.cache.Recorded(Hour, state, "c") {
		t.Error("the queues that record are wrong")
	}
	// Many queues are read by hour, and too many are not.
	b.source.from = nil
	if s := b.history(Subject{}, Days, State{Queues: manyQueues + 1}); s.Step != 3600 || b.source.from[0].After(noon.Add(-48*time.Hour)) {
		t.Errorf("of many queues: step %d from %v", s.Step, b.source.from)
	}
	for _, err := range []error{
		second(b.cache.History(t.Context(), Subject{}, Hour, State{Queues: MostQueues + 1})),
		second(b.cache.TypeStats(t.Context(), Hour, State{Queues: MostQueues + 1})),
		second(b.cache.ErrorStats(t.Context(), "", Hour, State{Queues: MostQueues + 1})),
	} {
		if !errors.Is(err, ErrManyQueues) {
			t.Errorf("too many queues: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// After an error, the last values are kept and the next read is not immediate.
func TestErrors(t *testing.T) {
	b := newBench(t)
	at := noon.Add(-5 * time.Minute)
	b.source.points = []*asynq.QueuePoint{point("q", at, 60, time.Second, 5, 0)}
	b.history(Subject{Queue: "q"}, Hour, State{})
	b.source.points, b.source.err = nil, errors.New("refused")
	b.time = noon.Add(fresh)
	for range 3 {
		s, err := b.cache.History(t.Context(), Subject{Queue: "q"}, Hour, State{})
		if err == nil || s.at("processed", at) != 1 {
			t.Errorf("%v, %v", err, s.at("processed", at))
		}
	}
	if len(b.source.from) != 2 {
		t.Errorf("%d reads", len(b.source.from))
	}
	list, err := b.cache.ErrorStats(t.Context(), "q", Hour, State{})
	if err == nil || len(list) != 0 {
		t.Errorf("errors: %v, %v", list, err)
	}
}

// Lists are cached, and the number of cached values is bounded.
func TestListsAndBound(t *testing.T) {
	b := newBench(t)
	for range 3 {
		types, err := b.cache.TypeStats(t.Context(), Hour, State{})
		errs, err2 := b.cache.ErrorStats(t.Context(), "q", Hour, State{})
		if err != nil || err2 != nil || len(types) != 1 || len(errs) != 1 || errs[0].Queue != "q" {
			t.Fatal(types, errs, err, err2)
		}
	}
	if len(b.source.from) != 2 {
		t.Errorf("%d reads, want 2", len(b.source.from))
	}
	for n := range 3 * mostKept {
		b.time = b.time.Add(time.Millisecond)
		b.history(Subject{Queue: fmt.Sprint(n)}, Hour, State{})
	}
	if len(b.cache.known) != mostKept {
		t.Errorf("%d values are cached", len(b.cache.known))
	}
}

func TestSeries(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	s := Series{Known: true, Step: 2, Times: []int64{100, 102, 104}, Values: map[string][]float64{"pending": {nan, 0.1, nan}}}
	s = s.Only([]string{"pending", "bogus"})
	s.Fill(Series{Step: 60, Times: []int64{42, 102}, Values: map[string][]float64{"pending": {7, 8}}})
	text, err := json.Marshal(s.Since(101))
	if want := `{"known":true,"step":2,"times":[102,104],"values":{"bogus":[null,null],"pending":[0.1,8]}}`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	if s.Values["pending"][0] != 7 {
		t.Errorf("filled: %v", s.Values)
	}
	if text, _ := json.Marshal(Series{}); !strings.Contains(string(text), `"times":[]`) {
		t.Errorf("nothing is %s", text)
	}
	for length, want := range map[time.Duration]Range{time.Minute: Hour, time.Hour: Hour, 6 * time.Hour: Hours, 48 * time.Hour: Days, 72 * time.Hour: Month} {
		if got := RangeOf(length); got != want {
			t.Errorf("%v: %v", length, got)
		}
	}
}
