package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
)

var (
	flowCount  = desc("flows", "Flows by status, among the newest ones, as many as CollectorOptions.Flows.", "status")
	flowUnread = desc("flows_unread", "Flows that are older than those that the scrape has read. May count some that are no longer retained.")
	flowAge    = desc("flow_oldest_seconds", "Time since the oldest flow with the status was started, among the newest flows; 0 if there is none.", "status")
	flowIdle   = desc("flow_idle_seconds", "Longest time since a flow with the status got it or was changed by a call, among the newest flows; 0 if there is none.", "status")
)

// flowReader reads the flows.
type flowReader struct{ most int } // limit of the flows that are read

// collect reads the newest flows and sends their metrics.
func (r *flowReader) collect(ctx context.Context, i *asynq.Inspector, ch chan<- prometheus.Metric) error {
	c, err := flow.Inspect(i).Count(ctx, r.most)
	if err != nil {
		return err
	}
	for status, s := range map[flow.Status]flow.StatusCount{
		flow.Running: c.Running, flow.Blocked: c.Blocked,
		flow.Succeeded: c.Succeeded, flow.Failed: c.Failed, flow.Canceled: c.Canceled,
	} {
		ch <- gauge(flowCount, float64(s.Flows), string(status))
		if status == flow.Running || status == flow.Blocked { // the others have ended
			ch <- gauge(flowAge, s.Age.Seconds(), string(status))
			ch <- gauge(flowIdle, s.Idle.Seconds(), string(status))
		}
	}
	ch <- gauge(flowUnread, float64(c.Unread))
	return nil
}
