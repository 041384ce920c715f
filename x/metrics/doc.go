// Package metrics exports metrics to Prometheus. There are three sources: a Collector reads the
// state of all queues, servers and schedulers from Redis, a Worker measures the process that runs
// tasks, and an Outbox reads the figures of a relay of package x/outbox and of its table.
//
// docs/METRICS.md describes every metric. The directory dashboard has a Grafana dashboard and alert
// rules.
package metrics
