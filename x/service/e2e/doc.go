// Package e2e tests the queue service from outside with real processes: redis-server, the service,
// curl, and workers in PHP, Python and Go. It exports nothing.
package e2e
