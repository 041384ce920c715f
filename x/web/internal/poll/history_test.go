package poll

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// feed adds samples of one queue at an interval, with the pending count f for each second.
func feed(h *history, from time.Time, every, length time.Duration, f func(second int) float64) time.Time {
	at := from
	for ; at.Before(from.Add(length)); at = at.Add(every) {
		v := f(int(at.Sub(start) / time.Second))
		queue, total := make([]float64, queueMetrics), make([]float64, allMetrics)
		queue[Pending], total[Pending], total[RedisOps] = v, v, 2*v
		h.note(at, &sample{total: total, names: []string{"low"}, queues: map[string][]float64{"low": queue}})
	}
	return at
}

func known(values []float64) (n int) {
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}

func TestHistoryLevels(t *testing.T) {
	t.Parallel()
	h := newHistory(25 * time.Second)
	end := feed(h, start, 2*time.Second, 80*time.Hour, func(second int) float64 { return float64(second) })
	last := end.Add(-2 * time.Second)
	for _, c := range []struct {
		span   time.Duration
		points int
		step   int64
	}{
		{0, 300, 2},
		{time.Minute, 30, 2},
		{10 * time.Minute, 300, 2},
		{time.Hour, 120, 30},
		{6 * time.Hour, 360, 60},
		{24 * time.Hour, 288, 300},
		{72 * time.Hour, 288, 900},
		{1000 * time.Hour, 288, 900},
		{time.Millisecond, 300, 2},
		{-time.Hour, 300, 2},
	} {
		t.Run(fmt.Sprint(c.span), func(t *testing.T) {
			for _, queue := range []string{"low", ""} {
				s := h.query(queue, []Metric{Pending, Failed}, c.span)
				values := s.Values[Pending]
				if !s.Known || len(s.Times) != c.points || len(values) != c.points || s.Step != c.step || known(values) != c.points {
					t.Fatalf("%d points, %d values (%d known), step %d; want %d, step %d", len(s.Times), len(values), known(values), s.Step, c.points, c.step)
				}
				for i, at := range s.Times {
					first := float64(at - start.Unix()) // the mean of a bucket is the mean of its samples
					until := math.Min(first+float64(c.step)-2, float64(last.Unix()-start.Unix()))
					if want := (first + until) / 2; math.Abs(values[i]-want) > 0.1+float64(c.step)/4 {
						t.Fatalf("point %d, of %d s, is %v, want %v", i, at-start.Unix(), values[i], want)
					}
				}
				if got := s.Times[c.points-1]; got > last.Unix() || got <= last.Unix()-c.step {
					t.Errorf("the last point is of %d, want %d", got, last.Unix())
				}
				wantEqual(t, "failures", s.Values[Failed][c.points-1], 0)
			}
		})
	}
}

// A poll every ten seconds fills all buckets of two; longer pauses are gaps.
func TestHistoryGaps(t *testing.T) {
	t.Parallel()
	h := newHistory(25 * time.Second)
	at := feed(h, start, 10*time.Second, 2*time.Minute, func(int) float64 { return 7 })
	s := h.query("low", []Metric{Pending}, 2*time.Minute)
	if n := known(s.Values[Pending]); n < 55 { // the last poll was 10 s before the end
		t.Errorf("%d of 60 points are known", n)
	}
	at = at.Add(time.Minute)
	feed(h, at, 2*time.Second, time.Minute, func(int) float64 { return 9 })
	s = h.query("low", []Metric{Pending}, 3*time.Minute)
	var gap int
	for i, v := range s.Values[Pending] {
		if math.IsNaN(v) && s.Times[i] > start.Unix() {
			gap++
		}
	}
	if gap < 30 || gap > 35 {
		t.Errorf("a gap of 70 s is %d points of 2 s, want about 34", gap)
	}
	// Failed polls add no values.
	h.note(at.Add(2*time.Minute), nil)
	s = h.query("", []Metric{Pending}, time.Minute)
	wantEqual(t, "points of the last minute that are known", known(s.Values[Pending]), 0)
	wantEqual(t, "time of the last point", s.Times[29], at.Add(2*time.Minute).Unix())
}

func TestHistoryAveragesOverTime(t *testing.T) {
	t.Parallel()
	h := newHistory(25 * time.Second)
	// Half of each minute is polled every 2 s with value 10, half of it every 10 s with value 20.
	// The mean depends on time, not on the number of polls.
	for at := start; at.Before(start.Add(time.Hour)); {
		at = feed(h, at, 2*time.Second, 30*time.Second, func(int) float64 { return 10 })
		at = feed(h, at, 10*time.Second, 30*time.Second, func(int) float64 { return 20 })
	}
	s := h.query("low", []Metric{Pending}, 6*time.Hour)
	for i := len(s.Times) - 30; i < len(s.Times)-1; i++ {
		if v := s.Values[Pending][i]; v < 13.5 || v > 16.5 {
			t.Errorf("the mean of a minute is %v, want about 15", v)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	h := newHistory(25 * time.Second)
	s := &sample{total: make([]float64, allMetrics), queues: make(map[string][]float64)}
	for n := range maxTracked + 50 {
		name := fmt.Sprintf("q%05d", n)
		s.names = append(s.names, name)
		s.queues[name] = make([]float64, queueMetrics)
	}
	h.note(start, s)
	wantEqual(t, "queues with a history", len(h.queues), maxTracked)
	if h.query(s.names[maxTracked], []Metric{Pending}, 0).Known || !h.query(s.names[0], []Metric{Pending}, 0).Known {
		t.Error("the wrong queues have a history")
	}
	for _, r := range h.queues[s.names[0]].rings {
		for m, v := range r.values {
			if v != nil {
				t.Errorf("an idle queue has memory for %v", Metric(m))
			}
		}
	}
	// Half of them are removed: later, others replace them.
	s.names = s.names[maxTracked/2:]
	for n := 1; n <= forgetAfter/2+2; n++ {
		h.note(start.Add(time.Duration(2*n)*time.Second), s)
	}
	wantEqual(t, "queues with a history then", len(h.queues), maxTracked/2+50)
	if h.query("q00000", []Metric{Pending}, 0).Known {
		t.Error("a queue that is no more has a history")
	}
	if !h.query(s.names[len(s.names)-1], []Metric{Pending}, 0).Known {
		t.Error("a queue that there was no place for has none yet")
	}
}

// A queue that cannot be read keeps its history, with a gap.
func TestHistoryOfABrokenQueue(t *testing.T) {
	t.Parallel()
	h := newHistory(25 * time.Second)
	at := feed(h, start, 2*time.Second, time.Minute, func(int) float64 { return 5 })
	for range 600 {
		h.note(at, &sample{total: make([]float64, allMetrics), names: []string{"low"}})
		at = at.Add(2 * time.Second)
	}
	s := h.query("low", []Metric{Pending}, time.Hour)
	if n := known(s.Values[Pending]); !s.Known || n != 2 {
		t.Errorf("%d points of half a minute are known (%v), want 2", n, s.Known)
	}
}

func TestHistoryUnknownValues(t *testing.T) {
	t.Parallel()
	h := newHistory(25 * time.Second)
	for n := range 30 {
		total := make([]float64, allMetrics)
		if n >= 10 && n < 20 {
			total[Servers] = math.NaN()
		}
		h.note(start.Add(time.Duration(2*n)*time.Second), &sample{total: total})
	}
	s := h.query("", []Metric{Servers, Busy}, time.Minute)
	for i, v := range s.Values[Servers] {
		if unknown := i >= 10 && i < 20; math.IsNaN(v) != unknown || !unknown && v != 0 {
			t.Errorf("point %d is %v", i, v)
		}
	}
	wantEqual(t, "points of the other that are known", known(s.Values[Busy]), 30)
}

func TestClockSetBack(t *testing.T) {
	t.Parallel()
	h := newHistory(25 * time.Second)
	feed(h, start, 2*time.Second, time.Minute, func(int) float64 { return 5 })
	for n, back := range []time.Duration{time.Hour, time.Hour, 0} { // the second time over existing values
		want := float64(6 + n)
		feed(h, start.Add(-back), 2*time.Second, time.Minute, func(int) float64 { return want })
		s := h.query("low", []Metric{Pending}, time.Minute)
		for i, v := range s.Values[Pending] {
			if v != want {
				t.Fatalf("set back by %v: point %d is %v, want %v", back, i, v, want)
			}
		}
	}
}

// Metrics that are always 0 take no memory, but their samples count.
func TestHistoryFirstValue(t *testing.T) {
	t.Parallel()
	h := newHistory(25 * time.Second)
	feed(h, start, 2*time.Second, 30*time.Second, func(second int) float64 { return float64(second / 20 * 15) }) // 10 samples of 0, 5 of 15
	s := h.query("low", []Metric{Pending}, time.Hour)
	wantEqual(t, "the mean of half a minute", s.Values[Pending][119], 5)
}

func TestSeriesJSON(t *testing.T) {
	t.Parallel()
	s := Series{
		Known: true, Step: 2, Times: []int64{100, 102, 104},
		Values: map[Metric][]float64{
			RedisMemory: {float64(float32(123456789)), 1.5, math.Inf(1)},
			Pending:     {1, math.NaN(), 0.1},
		},
	}
	got, err := json.Marshal(s)
	const want = `{"known":true,"step":2,"times":[100,102,104],"values":{"pending":[1,null,0.1],"redis_memory":[123456790,1.5,null]}}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	got, err = json.Marshal(newHistory(time.Minute).query("gone", []Metric{Failed, 99, -1}, 4*time.Second))
	if err != nil || string(got) != `{"known":false,"step":2,"times":[-2,0],"values":{"failed":[null,null]}}` {
		t.Errorf("of nothing: %s, %v", got, err)
	}
	for m := range Metric(allMetrics) {
		if back, ok := ParseMetric(m.String()); !ok || back != m {
			t.Errorf("%v is read as %v, %v", m, back, ok)
		}
	}
	if _, ok := ParseMetric("tasks"); ok {
		t.Error("there is a metric of no such name")
	}
}
