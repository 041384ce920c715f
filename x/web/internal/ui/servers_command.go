package ui

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/asynq-go/asynq/x/web/internal/access"
)

// serverCommand is a command to a server, with its question and its result.
type serverCommand struct {
	verb access.Verb
	ask  question // without a Title, the command needs no confirmation
	said string
	send func(ctx context.Context) error
}

// serverCommand returns the command of a form.
func (u *UI) serverCommand(do, server, queue string, n int) (c serverCommand, ok bool) {
	switch do {
	case "quiet":
		c = serverCommand{access.ServerQuiet, question{
			Title: "Quiet this server?", Button: "Quiet server", Harm: true,
			Text: []string{"It stops fetching tasks. Running tasks continue. It must be restarted to fetch again."},
		}, "The server has stopped fetching tasks.", func(ctx context.Context) error { return u.Inspector.QuietServer(ctx, server) }}
	case "stop":
		c = serverCommand{access.ServerStop, question{
			Title: "Stop this server?", Button: "Stop server", Harm: true,
			Text: []string{"It shuts down: running tasks have its shutdown timeout to end, and then return to their queues."},
		}, "The server is shutting down.", func(ctx context.Context) error { return u.Inspector.StopServer(ctx, server) }}
	case "concurrency":
		c = serverCommand{access.ServerConcurrency, question{
			Title: fmt.Sprintf("Run up to %d tasks at once on this server?", n), Button: "Set concurrency",
			Text: []string{"Running tasks continue. The change ends with the server."},
		}, fmt.Sprintf("Concurrency set to %d.", n), func(ctx context.Context) error { return u.Inspector.SetServerConcurrency(ctx, server, n) }}
	case "pause":
		c = serverCommand{access.ServerPauseQueue, question{
			Title: "Pause queue " + queue + " on this server?", Button: "Pause queue",
			Text: []string{"This server fetches no more of its tasks. Running tasks continue, and so do other servers."},
		}, "Queue " + queue + " is paused on this server.", func(ctx context.Context) error { return u.Inspector.PauseServerQueue(ctx, server, queue) }}
	case "resume":
		c = serverCommand{access.ServerResumeQueue, question{}, "Queue " + queue + " is resumed on this server.",
			func(ctx context.Context) error { return u.Inspector.ResumeServerQueue(ctx, server, queue) }}
	default:
		return c, false
	}
	return c, true
}

// commandServer asks for confirmation, and then sends a command to a server.
func (u *UI) commandServer(w http.ResponseWriter, r *http.Request) (*view, error) {
	do, server, queue := r.PostForm.Get("do"), r.PostForm.Get("server"), r.PostForm.Get("queue")
	n, err := strconv.Atoi(r.PostForm.Get("n"))
	if do == "concurrency" && (err != nil || n < 1) {
		return nil, invalid("The concurrency must be a number of at least 1.")
	}
	c, ok := u.serverCommand(do, server, queue, n)
	if !ok {
		return nil, invalid("Unknown action for a server.")
	}
	action := access.Action{Verb: c.verb, Server: server}
	switch do {
	case "concurrency":
		action.Count = n
	case "pause", "resume":
		action.Queue = queue
	}
	if !u.Gate.Allow(w, r, action) {
		return nil, nil
	}
	if c.ask.Title != "" && r.PostForm.Get("confirm") != "yes" {
		c.ask.Action = "/servers"
		c.ask.Fields = []field{{"do", do}, {"server", server}, {"queue", queue}, {"n", strconv.Itoa(n)}, {"back", r.PostForm.Get("back")}}
		return u.ask(r, c.ask)
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	u.report(w, r, action, c.send(ctx), c.said)
	return nil, nil
}
