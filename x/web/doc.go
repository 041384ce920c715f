// Package web is a web UI and an HTTP API for the queues in one Redis: an http.Handler that needs nothing but that Redis.
//
// It looks at queues, tasks, errors, servers and schedulers, live, and does with them what asynq.Inspector can do. Who may do
// what is up to Options: without any, only a browser on the same machine is let in.
package web
