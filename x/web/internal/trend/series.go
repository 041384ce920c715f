package trend

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"
)

// Series are metrics over time, by name. NaN is a gap.
type Series struct {
	Known  bool    // there is data in the range
	Step   int64   // seconds from one point to the next
	Times  []int64 // start of each point in Unix seconds
	Values map[string][]float64
}

// series returns the points of an entry. A task type without attempts has rates of 0; a queue
// without servers has gaps.
func (e *entry) series(of Subject, r Range, now time.Time) Series {
	first, step := r.start(now).Unix(), int64(r.Step/time.Second)
	n := int(now.Unix()-first)/int(step) + 1
	s := Series{Known: len(e.buckets) > 0, Step: step, Times: make([]int64, n), Values: make(map[string][]float64, allMetrics)}
	for i := range s.Times {
		s.Times[i] = first + int64(i)*step
	}
	for m, name := range metricNames {
		line := make([]float64, n)
		for i := range line {
			line[i] = math.NaN()
			if of.OfType && Metric(m) <= Failed && s.Known && s.Times[i] >= e.buckets[0].at && now.Unix()-s.Times[i] >= int64(youngest/time.Second) {
				line[i] = 0
			}
		}
		s.Values[name] = line
	}
	for _, b := range e.buckets {
		if i := int((b.at - first) / step); b.at >= first && i < n {
			for m, name := range metricNames {
				s.Values[name][i] = b.values[m]
			}
		}
	}
	return s
}

// Only returns the series with these metrics only. Unknown ones are gaps.
func (s Series) Only(names []string) Series {
	all := s.Values
	s.Values = make(map[string][]float64, len(names))
	for _, name := range names {
		line := all[name]
		if line == nil {
			line = slices.Repeat([]float64{math.NaN()}, len(s.Times))
		}
		s.Values[name] = line
	}
	return s
}

// Since returns the points from a Unix time on.
func (s Series) Since(at int64) Series {
	n, _ := slices.BinarySearch(s.Times, at)
	s.Times = s.Times[n:]
	all := s.Values
	s.Values = make(map[string][]float64, len(all))
	for name, line := range all {
		s.Values[name] = line[n:]
	}
	return s
}

// Fill sets gaps of metrics to the values that other has at these times.
func (s Series) Fill(other Series) {
	for name, line := range s.Values {
		from := other.Values[name]
		for i, v := range line {
			if n, exact := slices.BinarySearch(other.Times, s.Times[i]); math.IsNaN(v) && from != nil {
				if !exact {
					n--
				}
				if n >= 0 && s.Times[i] < other.Times[n]+other.Step {
					line[i] = from[n]
				}
			}
		}
	}
}

// number is a value in JSON, in the precision of a chart. A gap is null.
type number float64

// MarshalJSON writes the number.
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'f', -1, 32), nil
}

// MarshalJSON writes gaps as null.
func (s Series) MarshalJSON() ([]byte, error) {
	out := struct {
		Known  bool                `json:"known"`
		Step   int64               `json:"step"`
		Times  []int64             `json:"times"`
		Values map[string][]number `json:"values"`
	}{s.Known, s.Step, append([]int64{}, s.Times...), make(map[string][]number, len(s.Values))}
	for name, line := range s.Values {
		numbers := make([]number, len(line))
		for i, v := range line {
			numbers[i] = number(v)
		}
		out.Values[name] = numbers
	}
	return json.Marshal(out)
}
