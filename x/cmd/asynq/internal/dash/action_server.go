package dash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/asynq-go/asynq"
)

// server returns a server of the latest snapshot, or nil.
func (m *model) server(id string) *asynq.ServerInfo {
	if m.snap == nil {
		return nil
	}
	for _, s := range m.snap.servers {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// actionServer returns the action of a key on a server, or nil if there is none.
func (m *model) actionServer(key, id string) (*action, error) {
	s := m.server(id)
	if s == nil || !slices.Contains([]string{"c", "p", "t", "x"}, key) {
		return nil, nil
	}
	if !s.RemoteControl {
		return nil, errors.New("this server accepts no commands")
	}
	name := "server " + serverName(s)
	// command returns an action that changes the server; what describes it in the infinitive.
	command := func(verb, what, done string, do func(context.Context) error) *action {
		return &action{verb: verb, of: what + name, do: func(ctx context.Context) (string, error) {
			return name + " " + done, do(ctx)
		}}
	}
	insp := m.insp
	switch key {
	case "t":
		a := command("Quiet", "", "fetches no more tasks", func(ctx context.Context) error { return insp.QuietServer(ctx, id) })
		a.risky = true // until it restarts
		return a, require(s.Status == "active", "the server is already quiet")
	case "x":
		a := command("Shut down", "", "is shutting down", func(ctx context.Context) error { return insp.StopServer(ctx, id) })
		a.risky = true
		return a, nil
	case "c":
		return &action{question: fmt.Sprintf("Concurrency of %s, now %d:", name, s.Concurrency), with: func(text string) (*action, error) {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("the concurrency must be a number of at least 1, not %q", text)
			}
			return command("Set", "the concurrency to "+number(n)+" on ", "runs up to "+plural(n, "task")+" at once",
				func(ctx context.Context) error { return insp.SetServerConcurrency(ctx, id, n) }), nil
		}}, nil
	}
	toggle := func(queue string) *action {
		if slices.Contains(s.PausedQueues, queue) {
			return command("Resume", "queue "+queue+" on ", "has resumed queue "+queue,
				func(ctx context.Context) error { return insp.ResumeServerQueue(ctx, id, queue) })
		}
		return command("Pause", "queue "+queue+" on ", "has paused queue "+queue,
			func(ctx context.Context) error { return insp.PauseServerQueue(ctx, id, queue) })
	}
	queues := append(slices.Sorted(maps.Keys(s.Queues)), s.PausedQueues...)
	if len(queues) == 1 {
		return toggle(queues[0]), nil
	}
	return &action{question: "Pause or resume which queue on " + name + "?", with: func(text string) (*action, error) {
		if slices.Contains(queues, text) {
			return toggle(text), nil
		}
		if queue := onlyPrefix(queues, text); queue != "" {
			return toggle(queue), nil
		}
		return nil, fmt.Errorf("the server has no queue %q: it has %s", text, strings.Join(queues, ", "))
	}}, nil
}
