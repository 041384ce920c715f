// Package metrics exports metrics to Prometheus. There are two sources: a Collector reads the state
// of all queues, servers and schedulers from Redis, and a Worker measures the process that runs
// tasks.
//
// docs/METRICS.md describes every metric. The directory dashboard has a Grafana dashboard and alert
// rules.
package metrics
