// Package metrics tells Prometheus what asynq does: a Collector that looks at all queues, servers and schedulers from outside, and
// Worker, which counts and measures in the process that runs tasks.
//
// What every metric means is in docs/METRICS.md; the directory dashboard holds a Grafana dashboard and alert rules for them.
package metrics
