package poll

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Metric is a number that is kept over time.
type Metric int

// The metrics. Those after Latency are kept in total only.
const (
	Processed   Metric = iota // attempts that ended, per second
	Failed                    // attempts that failed, per second
	Pending                   // tasks
	Active                    // tasks
	Retry                     // tasks
	Scheduled                 // tasks
	Archived                  // tasks
	Latency                   // seconds for which the oldest pending task waits; in total the longest of all queues that are not paused
	Servers                   // that are active
	Busy                      // tasks that servers tell they process
	RedisMemory               // bytes
	RedisOps                  // commands per second

	allMetrics   = int(RedisOps) + 1
	queueMetrics = int(Latency) + 1
)

var metricNames = [allMetrics]string{
	"processed", "failed", "pending", "active", "retry", "scheduled", "archived", "latency", "servers", "busy", "redis_memory", "redis_ops",
}

// String is the metric's name, as it is in JSON.
func (m Metric) String() string {
	if m < 0 || int(m) >= allMetrics {
		return "Metric(" + strconv.Itoa(int(m)) + ")"
	}
	return metricNames[m]
}

// MetricNames are the names of all metrics.
func MetricNames() []string { return slices.Clone(metricNames[:]) }

// ParseMetric finds a metric by its name.
func ParseMetric(name string) (Metric, bool) {
	for m, n := range metricNames {
		if n == name {
			return Metric(m), true
		}
	}
	return 0, false
}

const (
	// maxTracked bounds the queues that numbers are kept of. Others count only in total.
	maxTracked = 1000

	// forgetAfter is for how many seconds the numbers of a queue that is no more are kept, in case that it comes again.
	forgetAfter = 10 * 60

	// maxPoints bounds the points of a series: a chart has no more pixels to show.
	maxPoints = 400

	// longestSpan is what the coarsest level keeps.
	longestSpan = 3 * 24 * time.Hour
)

// history keeps numbers of queues, and of all together. It is safe for concurrent use.
type history struct {
	hold int64 // in seconds: longer times between samples are gaps

	mu     sync.Mutex
	total  *track
	queues map[string]*track
	latest int64 // when it was last looked, with or without success, in unix seconds
}

func newHistory(hold time.Duration) *history {
	return &history{hold: int64(hold / time.Second), total: newTrack(allMetrics), queues: make(map[string]*track)}
}

// sample is what one look adds to the history. A queue that could not be asked, or whose rate is not known yet, is in names only.
type sample struct {
	total  []float64
	names  []string
	queues map[string][]float64
}

// note adds a sample; nil if the look failed.
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

// Series are metrics over time. Gaps, where nothing is known, are NaN; in JSON they are null.
type Series struct {
	Known  bool    // false: of this queue no numbers are kept, because it is new, gone, or there are more than 1,000
	Step   int64   // seconds from one point to the next
	Times  []int64 // when each point begins, in unix seconds
	Values map[Metric][]float64
}

// query reads metrics of a queue, or in total if it is empty, over the last span of time: at most 400 points, in the finest resolution
// that reaches so far back. No span or less stands for ten minutes, and more than three days for three days.
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
	width := (seconds + step*maxPoints - 1) / (step * maxPoints) // buckets for each point
	points := min(max(seconds/(step*width), 1), maxPoints)

	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.total
	if queue != "" {
		t = h.queues[queue]
	}
	last := h.latest / (step * width) // points begin at multiples of their length, so that they are the same at the next query
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
