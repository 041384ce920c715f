package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
)

// figure is a metric of a queue.
type figure struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  func(*asynq.QueueInfo) float64
	memory bool // only if the memory is sampled
}

func queueDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("asynq_"+name, help, append([]string{"queue"}, labels...), nil)
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("asynq_"+name, help, labels, nil)
}

// queueFigures are the metrics of a queue without labels other than its name. The names of the
// first ones are those of github.com/hibiken/asynq, even if they are not accurate.
var queueFigures = []figure{
	{desc: queueDesc("queue_size", "Tasks in the queue, in all states."), kind: prometheus.GaugeValue,
		value: func(q *asynq.QueueInfo) float64 { return float64(q.Size) }},
	{desc: queueDesc("queue_latency_seconds", "Age of the oldest pending task; 0 if there is none."),
		kind: prometheus.GaugeValue, value: func(q *asynq.QueueInfo) float64 { return q.Latency.Seconds() }},
	{desc: queueDesc("queue_memory_usage_approx_bytes", "Estimated memory of the queue in Redis, from samples of tasks."),
		kind: prometheus.GaugeValue, value: func(q *asynq.QueueInfo) float64 { return float64(q.MemoryUsage) }, memory: true},
	{desc: queueDesc("tasks_processed_total", "Attempts finished, including failed ones."), kind: prometheus.CounterValue,
		value: func(q *asynq.QueueInfo) float64 { return float64(q.ProcessedTotal) }},
	{desc: queueDesc("tasks_failed_total", "Attempts failed."), kind: prometheus.CounterValue,
		value: func(q *asynq.QueueInfo) float64 { return float64(q.FailedTotal) }},
	{desc: queueDesc("queue_paused_total", "1 if the queue is paused, else 0. The same as asynq_queue_paused."),
		kind: prometheus.GaugeValue, value: func(q *asynq.QueueInfo) float64 { return flag(q.Paused) }},
	{desc: queueDesc("queue_paused", "1 if the queue is paused, else 0."), kind: prometheus.GaugeValue,
		value: func(q *asynq.QueueInfo) float64 { return flag(q.Paused) }},
	{desc: queueDesc("queue_groups", "Groups with tasks."), kind: prometheus.GaugeValue,
		value: func(q *asynq.QueueInfo) float64 { return float64(q.Groups) }},
	{desc: queueDesc("queue_retry_overdue_seconds", "How long the most overdue retry has been due; 0 if none is."),
		kind: prometheus.GaugeValue, value: func(q *asynq.QueueInfo) float64 { return q.RetryOverdue.Seconds() }},
	{desc: queueDesc("queue_scheduled_overdue_seconds", "How long the most overdue scheduled task has been due; 0 if none is."),
		kind: prometheus.GaugeValue, value: func(q *asynq.QueueInfo) float64 { return q.ScheduledOverdue.Seconds() }},
	{desc: queueDesc("queue_lease_overdue_seconds", "Time since the expiry of the oldest lease that was not recovered; 0 if there is none."),
		kind: prometheus.GaugeValue, value: func(q *asynq.QueueInfo) float64 { return q.LeaseOverdue.Seconds() }},
}

// The other metrics of the collector.
var (
	tasksEnqueued = queueDesc("tasks_enqueued_total", "Tasks in the queue, by state. A gauge, in spite of its name; see asynq_queue_tasks.", "state")
	queueTasks    = queueDesc("queue_tasks", "Tasks in the queue, by state, including aggregating and held tasks.", "state")

	queueServers    = queueDesc("queue_servers", "Servers that process the queue.")
	queueSlotsBusy  = queueDesc("queue_slots_busy", "Active tasks of the queue, as reported by servers.")
	queueLongestRun = queueDesc("queue_longest_run_seconds", "How long the longest running attempt has been running; 0 if there is none.")
	serverCount     = desc("servers", "Servers, by status.", "status")
	slotCount       = desc("slots", "Total concurrency of all servers.")
	slotsBusy       = desc("slots_busy", "Active tasks, as reported by servers.")

	schedulerEntries = desc("scheduler_entries", "Periodic tasks of all live schedulers.")
	schedulerLag     = desc("scheduler_lag_seconds", "How long the most overdue periodic task has been due, as reported by schedulers; 0 if none is.")

	queueSuccess   = queueDesc("queue_scrape_success", "1 if the last scrape of the queue succeeded, else 0: then its other metrics are missing.")
	queueDuration  = queueDesc("queue_scrape_duration_seconds", "Time from the start of the scrape until the state of the queue was known.")
	queueLastError = queueDesc("queue_scrape_last_error_timestamp_seconds", "Time of the last failed scrape of the queue since the exporter started.")
	partSuccess    = desc("scrape_success", "1 if this part of the scrape (such as queues, servers, schedulers or flows) succeeded, else 0: then its metrics are missing.", "part")
	partDuration   = desc("scrape_duration_seconds", "Duration of this part of the scrape.", "part")
	partLastError  = desc("scrape_last_error_timestamp_seconds", "Time of the last failure of this part of the scrape since the exporter started.", "part")
)

var otherDescs = []*prometheus.Desc{
	tasksEnqueued, queueTasks, queueServers, queueSlotsBusy, queueLongestRun, serverCount, slotCount, slotsBusy, schedulerEntries, schedulerLag,
	queueSuccess, queueDuration, queueLastError, partSuccess, partDuration, partLastError,
	statsAttempts, statsDuration, statsWaiting, statsErrors, healthCauses, queuePartitions, partitionTasks, partitionWait,
	flowCount, flowUnread, flowAge, flowIdle,
}
