package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
)

// figure is a number that a queue has.
type figure struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  func(*asynq.QueueInfo) float64
	memory bool // only where the memory is sampled
}

func queueDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("asynq_"+name, help, append([]string{"queue"}, labels...), nil)
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("asynq_"+name, help, labels, nil)
}

// queueFigures are the metrics of a queue that have no label but its name. The names of the first ones are those that dashboards know
// from before, also where they are not what the name says.
var queueFigures = []figure{
	{desc: queueDesc("queue_size", "Tasks in the queue, without completed ones."), kind: prometheus.GaugeValue,
		value: func(q *asynq.QueueInfo) float64 { return float64(q.Size) }},
	{desc: queueDesc("queue_latency_seconds", "For how long the oldest pending task has been waiting; 0 if there is none."),
		kind: prometheus.GaugeValue, value: func(q *asynq.QueueInfo) float64 { return q.Latency.Seconds() }},
	{desc: queueDesc("queue_memory_usage_approx_bytes", "About how much of Redis's memory the queue takes, estimated from some tasks."),
		kind: prometheus.GaugeValue, value: func(q *asynq.QueueInfo) float64 { return float64(q.MemoryUsage) }, memory: true},
	{desc: queueDesc("tasks_processed_total", "Attempts that ended, failed ones among them."), kind: prometheus.CounterValue,
		value: func(q *asynq.QueueInfo) float64 { return float64(q.ProcessedTotal) }},
	{desc: queueDesc("tasks_failed_total", "Attempts that failed."), kind: prometheus.CounterValue,
		value: func(q *asynq.QueueInfo) float64 { return float64(q.FailedTotal) }},
	{desc: queueDesc("queue_paused_total", "1 if the queue is paused, else 0. The same as asynq_queue_paused."),
		kind: prometheus.GaugeValue, value: func(q *asynq.QueueInfo) float64 { return flag(q.Paused) }},
	{desc: queueDesc("queue_paused", "1 if the queue is paused, else 0."), kind: prometheus.GaugeValue,
		value: func(q *asynq.QueueInfo) float64 { return flag(q.Paused) }},
	{desc: queueDesc("queue_groups", "Groups that hold tasks."), kind: prometheus.GaugeValue,
		value: func(q *asynq.QueueInfo) float64 { return float64(q.Groups) }},
	{desc: queueDesc("queue_retry_overdue_seconds", "For how long the task to retry that was due first has been due; 0 if none is."),
		kind: prometheus.GaugeValue, value: func(q *asynq.QueueInfo) float64 { return q.RetryOverdue.Seconds() }},
	{desc: queueDesc("queue_scheduled_overdue_seconds", "For how long the scheduled task that was due first has been due; 0 if none is."),
		kind: prometheus.GaugeValue, value: func(q *asynq.QueueInfo) float64 { return q.ScheduledOverdue.Seconds() }},
	{desc: queueDesc("queue_lease_overdue_seconds", "How long ago the first lease of an active task ended that nobody took over; 0 if none has."),
		kind: prometheus.GaugeValue, value: func(q *asynq.QueueInfo) float64 { return q.LeaseOverdue.Seconds() }},
}

// The other metrics of the collector.
var (
	tasksEnqueued = queueDesc("tasks_enqueued_total", "Tasks in the queue now, by state. A gauge, in spite of its name; see asynq_queue_tasks.", "state")
	queueTasks    = queueDesc("queue_tasks", "Tasks in the queue now, by state, aggregating ones among them.", "state")

	queueServers    = queueDesc("queue_servers", "Servers that take tasks from the queue.")
	queueSlotsBusy  = queueDesc("queue_slots_busy", "Tasks of the queue that servers say they are at.")
	queueLongestRun = queueDesc("queue_longest_run_seconds", "For how long the attempt that began first has been running; 0 if none is.")
	serverCount     = desc("servers", "Servers, by status.", "status")
	slotCount       = desc("slots", "Tasks that all servers together can work on at the same time.")
	slotsBusy       = desc("slots_busy", "Tasks that servers say they are at.")

	schedulerEntries = desc("scheduler_entries", "Periodic tasks of all schedulers that live.")
	schedulerLag     = desc("scheduler_lag_seconds", "For how long the periodic task that is due first has been due, as far as schedulers have told; 0 if none is.")

	queueSuccess   = queueDesc("queue_scrape_success", "1 if the last scrape of the queue went well, else 0: then its other metrics are missing.")
	queueDuration  = queueDesc("queue_scrape_duration_seconds", "How long after the scrape began the state of the queue was known.")
	queueLastError = queueDesc("queue_scrape_last_error_timestamp_seconds", "When a scrape of the queue last failed, since the exporter started.")
	partSuccess    = desc("scrape_success", "1 if this part of the scrape (queues, servers, schedulers) went well, else 0: then its metrics are missing.", "part")
	partDuration   = desc("scrape_duration_seconds", "How long this part of the scrape took.", "part")
	partLastError  = desc("scrape_last_error_timestamp_seconds", "When this part of the scrape last failed, since the exporter started.", "part")
)

var otherDescs = []*prometheus.Desc{
	tasksEnqueued, queueTasks, queueServers, queueSlotsBusy, queueLongestRun, serverCount, slotCount, slotsBusy, schedulerEntries, schedulerLag,
	queueSuccess, queueDuration, queueLastError, partSuccess, partDuration, partLastError,
}
