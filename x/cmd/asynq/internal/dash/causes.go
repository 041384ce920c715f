package dash

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
)

const (
	// healthInterval is the minimum time between two health checks.
	healthInterval = 5 * time.Second
	// muteDuration is how long a cause is muted.
	muteDuration = time.Hour
)

// healthMsg is the result of a health check.
type healthMsg struct{ report *health.Report }

// checkHealth checks the health at the refresh interval, and after changes, until ctx ends.
func (p *poller) checkHealth(ctx context.Context) {
	monitor, err := health.NewMonitor(p.settings)
	if err != nil {
		p.log.ErrorContext(ctx, "dash: invalid health settings", "error", err)
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.recheck:
		}
		checkCtx, cancel := context.WithTimeout(ctx, pollTimeout)
		in := health.Collect(checkCtx, p.insp, p.settings)
		cancel()
		if ctx.Err() != nil {
			return
		}
		report := monitor.Check(in)
		if in.Err == nil { // the banner shows that Redis is unreachable
			p.send(healthMsg{report})
		}
		timer.Reset(max(p.refresh, healthInterval))
	}
}

// causes returns the causes of problems, most severe first, then the muted ones.
func (m *model) causes() []health.Cause {
	if m.health == nil {
		return nil
	}
	return slices.Concat(m.health.Causes, m.health.Muted)
}

// cause returns a cause by its ID, or nil.
func (m *model) cause(id string) *health.Cause {
	all := m.causes()
	if i := slices.IndexFunc(all, func(c health.Cause) bool { return c.ID == id }); i >= 0 {
		return &all[i]
	}
	return nil
}

// actionOf returns the action of a kind that may help, or nil.
func actionOf(c *health.Cause, kinds ...health.ActionKind) *health.Action {
	i := slices.IndexFunc(c.Actions, func(a health.Action) bool { return slices.Contains(kinds, a.Kind) })
	if i < 0 {
		return nil
	}
	return &c.Actions[i]
}

// actionCause returns the action of a key on a cause, or nil if there is none.
func (m *model) actionCause(key, id string) (*action, error) {
	c := m.cause(id)
	if c == nil {
		return nil, nil
	}
	insp := m.insp
	switch key {
	case "p":
		if a := actionOf(c, health.PauseQueue, health.ResumeQueue); a != nil {
			return m.action(key, &ref{kind: refQueue, queue: a.Queue, paused: a.Kind == health.ResumeQueue})
		}
	case "R":
		if a := actionOf(c, health.RunArchived); a != nil {
			of := "all archived tasks of queue " + a.Queue
			filter := asynq.TaskFilter{Type: a.Type}
			if a.Type != "" {
				of = "all archived " + a.Type + " tasks of queue " + a.Queue
			}
			return &action{verb: "Run", of: of, all: true, do: func(ctx context.Context) (string, error) {
				n, err := insp.RunTasks(ctx, a.Queue, asynq.TaskStateArchived, filter)
				return "moved to pending: " + plural(n, "task") + " of queue " + a.Queue, err
			}}, nil
		}
	case "z":
		of := "cause " + c.ID
		if c.Mute != nil {
			return &action{verb: "Unmute", of: of, do: func(ctx context.Context) (string, error) {
				_, err := insp.UnmuteCause(ctx, id)
				return "unmuted " + of, err
			}}, nil
		}
		mute := asynq.Mute{ID: id, By: m.user}
		return &action{verb: "Mute for an hour:", of: of, do: func(ctx context.Context) (string, error) {
			mute.Until = time.Now().Add(muteDuration)
			return "muted for an hour: " + of, insp.MuteCause(ctx, mute)
		}}, nil
	}
	return nil, nil
}

// openCause shows what a cause concerns.
func (m *model) openCause(id string) {
	c := m.cause(id)
	switch {
	case c == nil:
	case c.Link.Page == health.PageRedis || c.Link.Page == "":
		m.showEvidence(id) // the dashboard has no page of Redis
	case c.Link.Page == health.PageQueues && len(c.Queues) > 0:
		m.selectQueue(c.Queues[0])
	default:
		m.follow(c.Link)
	}
}

// showEvidence shows the evidence of a cause.
func (m *model) showEvidence(id string) { m.push(page{view: viewCause, id: id}) }

// seeErrors shows the kinds of errors of a cause.
func (m *model) seeErrors() {
	if c := m.cause(m.target().id); c != nil && m.target().kind == refCause {
		if a := actionOf(c, health.SeeErrors); a != nil {
			m.follow(health.Link{Page: health.PageErrors, Queue: a.Queue})
		}
	}
}

// follow opens the page of a link.
func (m *model) follow(l health.Link) {
	switch l.Page {
	case health.PageQueue:
		m.openQueue(l.Queue)
	case health.PageTask:
		if l.Task == "" {
			m.openQueue(l.Queue)
			return
		}
		m.push(page{view: viewTask, queue: l.Queue, id: l.Task})
	case health.PageTasks:
		m.switchTab(viewTasks)
		state := states[0]
		if i := slices.IndexFunc(states, func(s asynq.TaskState) bool { return s.String() == l.State }); i >= 0 {
			state = states[i]
		}
		m.listTasks(l.Queue, state, "")
		m.setFilter(filterTerm("type", l.Type))
	case health.PageErrors:
		m.switchTab(viewErrors)
		m.setFilter(filterTerm("queues", l.Queue))
	case health.PageServers:
		m.switchTab(viewServers)
	case health.PageSchedulers:
		m.switchTab(viewSchedulers)
	case health.PageQueues:
		m.switchTab(viewQueues)
		m.pages[viewQueues].key, m.pages[viewQueues].row = "", 0
	}
}

// selectQueue shows the queues with the cursor on one of them.
func (m *model) selectQueue(name string) {
	m.switchTab(viewQueues)
	p := m.page()
	p.filter, p.key = "", name
}

// filterTerm returns a filter of rows or tasks whose field contains a value; "" for an empty value.
func filterTerm(field, value string) string {
	if value == "" {
		return ""
	}
	simple := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:", r)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return !simple(r) }) {
		value = `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(value) + `"`
	}
	if field == "queues" { // the names of several queues, in one column
		value = "*" + value + "*"
	}
	return field + ":" + value
}
