// Package web provides a web UI and an HTTP API for the queues in one Redis, as an http.Handler
// with no other dependencies.
//
// It shows queues, tasks, errors, servers and schedulers live, and supports the same changes as
// asynq.Inspector. Options configure access. By default, only requests from the same machine are
// served: they may view, and make changes after signing in with a link of Handler.SignInPath or
// with Options.Token.
package web
