package poll

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Metric is a number that is recorded over time.
type Metric int

// The metrics. Those after Latency are recorded for all queues together only.
const (
	Processed   Metric = iota // finished attempts per second
	Failed                    // failed attempts per second
	Pending                   // tasks
	Active                    // tasks
	Retry                     // tasks
	Scheduled                 // tasks
	Archived                  // tasks
	Latency                   // age of the oldest pending task in seconds; in total the maximum of all queues that are not paused
	Servers                   // active servers
	Busy                      // tasks that servers report as being processed
	RedisMemory               // bytes
	RedisOps                  // commands per second

	allMetrics   = int(RedisOps) + 1
	queueMetrics = int(Latency) + 1
)

var metricNames = [allMetrics]string{
	"processed", "failed", "pending", "active", "retry", "scheduled", "archived", "latency", "servers", "busy", "redis_memory", "redis_ops",
}

// String returns the name of the metric in JSON.
func (m Metric) String() string {
	if m < 0 || int(m) >= allMetrics {
		return "Metric(" + strconv.Itoa(int(m)) + ")"
	}
	return metricNames[m]
}

// MetricNames returns the names of all metrics.
func MetricNames() []string { return slices.Clone(metricNames[:]) }

// ParseMetric returns the metric with a name.
func ParseMetric(name string) (Metric, bool) {
	for m, n := range metricNames {
		if n == name {
			return Metric(m), true
		}
	}
	return 0, false
}

const (
	// maxTracked bounds the queues that are recorded separately. Others count only in the total.
	maxTracked = 1000

	// forgetAfter is how long the series of a deleted queue are kept, in seconds, in case it is
	// recreated.
	forgetAfter = 10 * 60

	// maxPoints bounds the points of a series to about the pixels of a chart.
	maxPoints = 400

	// longestSpan is the time span of the coarsest level.
	longestSpan = 3 * 24 * time.Hour
)

// history records metrics of queues and of all queues together. It is safe for concurrent use.
type history struct {
	hold int64 // in seconds: longer times between samples are gaps

	mu     sync.Mutex
	total  *track
	queues map[string]*track
	latest int64 // time of the last poll, successful or not, in Unix seconds
}

func newHistory(hold time.Duration) *history {
	return &history{hold: int64(hold / time.Second), total: newTrack(allMetrics), queues: make(map[string]*track)}
}

// sample is the data that one poll adds. Queues that could not be read or have no rate yet are in
// names only.
type sample struct {
	total  []float64
	names  []string
	queues map[string][]float64
}

// note adds a sample. It is nil if the poll failed.
func (h *history) note(at time.Time, s *sample) {
	now := at.Unix()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.latest = now
	if s == nil {
		return
	}
	h.total.add(now, h.hold, s.total)
	if s.names == nil {
		return // the queues could not be listed
	}
	for _, name := range s.names {
		t, ok := h.queues[name]
		if !ok {
			continue
		}
		t.seen = now
	}
	for name, t := range h.queues {
		if now-t.seen > forgetAfter {
			delete(h.queues, name)
		}
	}
	for _, name := range s.names {
		values, ok := s.queues[name]
		if !ok {
			continue
		}
		t := h.queues[name]
		if t == nil {
			if len(h.queues) >= maxTracked {
				continue
			}
			t = newTrack(queueMetrics)
			t.seen = now
			h.queues[name] = t
		}
		t.add(now, h.hold, values)
	}
}

// Series are metrics over time. Gaps without data are NaN; in JSON they are null.
type Series struct {
	Known  bool    // false: the queue is not recorded, because it is new, deleted, or beyond the first 1,000
	Step   int64   // seconds from one point to the next
	Times  []int64 // start of each point in Unix seconds
	Values map[Metric][]float64
}

// query returns metrics of a queue, or of all queues if it is empty, over the last span of time. It
// returns at most 400 points, in the finest resolution that covers the span. A span of 0 or less
// means ten minutes; the maximum is three days.
func (h *history) query(queue string, metrics []Metric, span time.Duration) Series {
	seconds := int64(min(span, longestSpan) / time.Second)
	if seconds <= 0 {
		seconds = levels[0].step * levels[0].slots
	}
	n := 0
	for n < len(levels)-1 && levels[n].step*levels[n].slots < seconds {
		n++
	}
	step := levels[n].step
	width := (seconds + step*maxPoints - 1) / (step * maxPoints) // buckets per point
	points := min(max(seconds/(step*width), 1), maxPoints)

	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.total
	if queue != "" {
		t = h.queues[queue]
	}
	last := h.latest / (step * width) // points start at multiples of their length, so that later queries return the same points
	first := last - points + 1
	s := Series{Known: t != nil, Step: step * width, Times: make([]int64, points), Values: make(map[Metric][]float64, len(metrics))}
	for i := range points {
		s.Times[i] = (first + i) * s.Step
	}
	for _, m := range metrics {
		if m < 0 || int(m) >= allMetrics {
			continue
		}
		values := make([]float64, points)
		for i := range points {
			values[i] = math.NaN()
			if t != nil && int(m) < len(t.rings[n].values) {
				values[i] = t.rings[n].mean(int(m), (first+i)*width, width)
			}
		}
		s.Values[m] = values
	}
	return s
}

// Since returns the points that start at a Unix time or later.
func (s Series) Since(at int64) Series {
	n, _ := slices.BinarySearch(s.Times, at)
	s.Times = s.Times[n:]
	values := make(map[Metric][]float64, len(s.Values))
	for m, v := range s.Values {
		values[m] = v[n:]
	}
	s.Values = values
	return s
}

// MarshalJSON writes {"known", "step", "times": […], "values": {"pending": […], …}}.
func (s Series) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 64+len(s.Times)*(11+8*len(s.Values)))
	out = append(out, `{"known":`...)
	out = strconv.AppendBool(out, s.Known)
	out = append(out, `,"step":`...)
	out = strconv.AppendInt(out, s.Step, 10)
	out = append(out, `,"times":[`...)
	for i, t := range s.Times {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, t, 10)
	}
	out = append(out, `],"values":{`...)
	first := true
	for m := range Metric(allMetrics) {
		values, ok := s.Values[m]
		if !ok {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(out, '"')
		out = append(out, m.String()...)
		out = append(out, `":[`...)
		for i, v := range values {
			if i > 0 {
				out = append(out, ',')
			}
			if math.IsNaN(v) || math.IsInf(v, 0) {
				out = append(out, "null"...)
			} else {
				out = strconv.AppendFloat(out, v, 'f', -1, 32)
			}
		}
		out = append(out, ']')
	}
	return append(out, `}}`...), nil
}
