// Package e2e tests the queue service from outside, with real processes: redis-server, the service, workers in PHP, Python and Go, and
// curl. It has nothing to import.
package e2e
