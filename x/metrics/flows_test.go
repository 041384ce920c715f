package metrics_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/metrics"
)

// The newest flows are counted by status. There is the same number of series whatever their number,
// and none unless they are requested.
func TestFlows(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	opt := asynq.RedisClientOpt{Addr: mini.Addr()}
	client, inspector := newClient(t, opt), newInspector(t, opt)
	collect := func(n int) map[string]float64 {
		return gather(t, metrics.NewCollector(inspector, metrics.CollectorOptions{Flows: n, MemorySamples: -1}))
	}
	series := func(all map[string]float64) (n int) {
		for name := range all {
			if strings.HasPrefix(name, "asynq_flow") {
				n++
			}
		}
		return n
	}
	if n := series(collect(10)); n != 10 {
		t.Errorf("without flows: %d series", n)
	}
	later := asynq.NewTask("t", nil, asynq.ProcessIn(time.Hour))
	for _, f := range []*flow.Flow{
		flow.Chain("old", later), flow.Chain("running", later), flow.Chain("blocked", asynq.NewTask("fails", nil), later),
		flow.Chain("succeeded", asynq.NewTask("t", nil)), flow.Chain("failed", asynq.NewTask("fails", nil)),
	} {
		if _, err := flow.Start(t.Context(), client, f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := mini.ZAdd("asynq:flows", 1, "old"); err != nil {
		t.Fatal(err)
	}
	srv := asynq.NewServer(opt, asynq.Config{Concurrency: 4, Logger: quiet()})
	if err := srv.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		if task.Type() == "fails" {
			return asynq.SkipRetry
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	for _, id := range []string{"blocked", "succeeded", "failed"} {
		proctest.Eventually(t, "flow "+id, func() bool {
			info, err := flow.Inspect(inspector).Get(t.Context(), id)
			return err == nil && string(info.Status) == id
		})
	}
	ago := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(-d).UnixMilli()) }
	mini.HSet("asynq:flow:{running}", "created", ago(3*time.Hour), "changed", ago(2*time.Hour))
	mini.HSet("asynq:flow:{blocked}", "created", ago(9*time.Hour), "changed", ago(time.Hour))
	got := collect(4)
	wantValues(t, got, map[string]float64{
		"asynq_scrape_success{part=flows}": 1,
		"asynq_flows{status=running}":      1,
		"asynq_flows{status=blocked}":      1,
		"asynq_flows{status=succeeded}":    1,
		"asynq_flows{status=failed}":       1,
		"asynq_flows{status=canceled}":     0,
		"asynq_flows_unread{}":             1,
	})
	for name, hours := range map[string]float64{
		"asynq_flow_oldest_seconds{status=running}": 3, "asynq_flow_idle_seconds{status=running}": 2,
		"asynq_flow_oldest_seconds{status=blocked}": 9, "asynq_flow_idle_seconds{status=blocked}": 1,
	} {
		if math.Abs(got[name]-3600*hours) > 60 {
			t.Errorf("%s is %v, want %v hours", name, got[name], hours)
		}
	}
	if n := series(got); n != 10 {
		t.Errorf("%d series", n)
	}
	if n := series(collect(0)); n != 0 {
		t.Errorf("without the option: %d series", n)
	}
	mini.SetError("LOADING")
	if got := collect(4); got["asynq_scrape_success{part=flows}"] != 0 || series(got) != 0 {
		t.Errorf("without Redis: %v", got)
	}
}
