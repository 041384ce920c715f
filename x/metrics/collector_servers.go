package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
)

func (c *Collector) collectServers(ctx context.Context, ch chan<- prometheus.Metric) {
	began := time.Now()
	servers, err := c.inspector.WithContext(ctx).Servers()
	c.part(ch, "servers", began, err)
	if err != nil {
		return
	}
	fleet := sum(servers, time.Now())
	for status, n := range fleet.byStatus {
		ch <- gauge(serverCount, float64(n), status)
	}
	ch <- gauge(slotCount, float64(fleet.slots))
	ch <- gauge(slotsBusy, float64(fleet.busy))
	for queue, q := range fleet.byQueue {
		ch <- gauge(queueServers, float64(q.servers), label(queue))
		ch <- gauge(queueSlotsBusy, float64(q.busy), label(queue))
		ch <- gauge(queueLongestRun, q.longest.Seconds(), label(queue))
	}
}

// fleet is the sum of all servers.
type fleet struct {
	byStatus    map[string]int
	slots, busy int
	byQueue     map[string]*served
}

// served is the sum of all servers for a queue.
type served struct {
	servers int // that process it
	busy    int
	longest time.Duration
}

func sum(servers []*asynq.ServerInfo, now time.Time) *fleet {
	f := &fleet{byStatus: map[string]int{"active": 0, "stopped": 0}, byQueue: make(map[string]*served)}
	queue := func(name string) *served {
		if f.byQueue[name] == nil {
			f.byQueue[name] = &served{}
		}
		return f.byQueue[name]
	}
	for _, s := range servers {
		f.byStatus[label(s.Status)]++
		f.slots += s.Concurrency
		f.busy += len(s.ActiveWorkers)
		for name := range s.Queues {
			if q := queue(name); s.Status == "active" {
				q.servers++
			}
		}
		for _, w := range s.ActiveWorkers {
			q := queue(w.Queue)
			q.busy++
			q.longest = max(q.longest, now.Sub(w.Started))
		}
	}
	return f
}

func (c *Collector) collectSchedulers(ctx context.Context, ch chan<- prometheus.Metric) {
	began := time.Now()
	entries, err := c.inspector.WithContext(ctx).SchedulerEntries()
	c.part(ch, "schedulers", began, err)
	if err != nil {
		return
	}
	var lag time.Duration
	for _, e := range entries {
		if !e.Next.IsZero() {
			lag = max(lag, time.Since(e.Next))
		}
	}
	ch <- gauge(schedulerEntries, float64(len(entries)))
	ch <- gauge(schedulerLag, lag.Seconds())
}
