package trends

import (
	"fmt"
	"math"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// Curve is a metric over time.
type Curve struct {
	Name  string
	Rate  bool // a number per minute, of which there is a total
	Time  bool // in seconds
	Style out.Style
	Value func(*Point) (float64, bool) // false: unknown
}

// Curves are the metrics of queues. Task types have only the first ones.
var Curves = []Curve{
	{Name: "Attempts", Rate: true, Style: out.Good, Value: func(p *Point) (float64, bool) { return float64(p.Attempts()), p.Known }},
	{Name: "Failed", Rate: true, Style: out.Bad, Value: func(p *Point) (float64, bool) { return float64(p.Failed()), p.Known }},
	{Name: "Duration p50", Time: true, Value: percentile(durations, 0.5)},
	{Name: "Duration p95", Time: true, Value: percentile(durations, 0.95)},
	{Name: "Wait p95", Time: true, Value: percentile(waits, 0.95)},
	{Name: "Pending", Value: size(func(s *asynq.QueueSizes) float64 { return float64(s.Pending) })},
	{Name: "Active", Value: size(func(s *asynq.QueueSizes) float64 { return float64(s.Active) })},
	{Name: "Retry", Style: out.Warn, Value: size(func(s *asynq.QueueSizes) float64 { return float64(s.Retry) })},
	{Name: "Latency", Time: true, Style: out.Warn, Value: size(func(s *asynq.QueueSizes) float64 { return s.Latency.Seconds() })},
}

// CurvesOfTypes is the number of Curves that task types have.
const CurvesOfTypes = 5

func durations(p *Point) *asynq.Histogram { return &p.Duration }
func waits(p *Point) *asynq.Histogram     { return &p.Wait }

func percentile(of func(*Point) *asynq.Histogram, q float64) func(*Point) (float64, bool) {
	return func(p *Point) (float64, bool) {
		h := of(p)
		return h.Quantile(q).Seconds(), h.Count() > 0
	}
}

func size(of func(*asynq.QueueSizes) float64) func(*Point) (float64, bool) {
	return func(p *Point) (float64, bool) {
		if p.Sizes == nil {
			return 0, false
		}
		return of(p.Sizes), true
	}
}

// Values returns the value of each period; NaN if it is unknown.
func (c *Curve) Values(all []Point) []float64 { return Values(all, c.Value) }

// Text formats the value of a period. Numbers per period become numbers per minute.
func (c *Curve) Text(v float64, step time.Duration) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case c.Time:
		return Seconds(v)
	case c.Rate:
		per := v / step.Minutes()
		if per > 0 && per < 10 {
			return fmt.Sprintf("%.1f/min", per)
		}
		return out.Number(int(math.Round(per))) + "/min"
	}
	return out.Number(int(v))
}

// Most returns the largest value as text, "-" if none is known.
func (c *Curve) Most(values []float64, step time.Duration) string {
	for _, v := range values {
		if !math.IsNaN(v) {
			return c.Text(Max(values), step)
		}
	}
	return "-"
}

// Seconds formats a duration with about three digits.
func Seconds(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	for _, unit := range []time.Duration{time.Minute, time.Second, time.Millisecond} {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.Round(time.Microsecond).String()
}
