package metrics

import (
	"context"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
)

var healthCauses = desc("health_causes", "Problems that asynq status finds, by kind and severity.", "kind", "severity", "muted")

// healthReader counts the causes of problems. Its monitor remembers earlier scrapes.
type healthReader struct {
	settings health.Settings

	mu      sync.Mutex
	monitor *health.Monitor // nil: the settings are invalid
	err     error
}

func newHealthReader(s health.Settings) *healthReader {
	r := &healthReader{settings: s}
	r.monitor, r.err = health.NewMonitor(s)
	return r
}

// collect sends the number of causes. It returns an error if the settings are invalid, or if ctx
// has ended.
func (r *healthReader) collect(ctx context.Context, i *asynq.Inspector, ch chan<- prometheus.Metric) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	in := health.Collect(ctx, i, r.settings)
	if ctx.Err() != nil && in.Err == nil {
		return ctx.Err() // the causes that were not read would look resolved
	}
	report := r.monitor.Check(in)
	type group struct {
		kind, severity string
		muted          bool
	}
	counts := make(map[group]int)
	for muted, causes := range map[bool][]health.Cause{false: report.Causes, true: report.Muted} {
		for _, c := range causes {
			counts[group{c.Kind, c.Severity.String(), muted}]++
		}
	}
	for g, n := range counts {
		ch <- gauge(healthCauses, float64(n), g.kind, g.severity, strconv.FormatBool(g.muted))
	}
	return nil
}
