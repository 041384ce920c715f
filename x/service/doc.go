// Package service is a task queue service with an HTTP API: programs in any language enqueue and
// process tasks.
package service
