package apiv2

import (
	"time"

	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// Health is the health of the system.
type Health struct {
	Status   string     `json:"status" enum:"ok,notice,warning,trouble" doc:"The worst severity of the causes, without muted ones."`
	Redis    string     `json:"redis" doc:"ok, or the reason why Redis is unavailable."`
	At       *time.Time `json:"at" doc:"The time at which Redis was last read."`
	Causes   []Cause    `json:"causes" doc:"The causes of all problems, most severe first."`
	Muted    []Cause    `json:"muted" doc:"Causes that are muted or acknowledged."`
	Problems []string   `json:"problems" doc:"Parts that could not be read."`
}

// Cause is the cause of problems: see docs/HEALTH.md.
type Cause struct {
	ID       string        `json:"id" doc:"The kind and the subject. It stays the same while the cause lasts."`
	Kind     string        `json:"kind"`
	Severity string        `json:"severity" enum:"notice,warning,trouble"`
	Queues   []string      `json:"queues" doc:"The affected queues; empty if the cause is not about queues."`
	Title    string        `json:"title"`
	Hint     string        `json:"hint" doc:"The recommended action."`
	Since    *time.Time    `json:"since" doc:"null: unknown."`
	Evidence []Evidence    `json:"evidence"`
	Actions  []CauseAction `json:"actions"`
	Mute     *CauseMute    `json:"mute,omitempty"`
}

// Evidence is an observation that a cause explains.
type Evidence struct {
	Text  string `json:"text"`
	Queue string `json:"queue,omitempty"`
	Task  string `json:"task,omitempty"`
}

// CauseAction is an action that may help.
type CauseAction struct {
	Kind  string `json:"kind" enum:"pause-queue,resume-queue,see-errors,run-archived"`
	Queue string `json:"queue"`
	Type  string `json:"type,omitempty"`
}

// CauseMute is why a cause is muted.
type CauseMute struct {
	Until *time.Time `json:"until" doc:"null: acknowledged until the cause is gone."`
	By    string     `json:"by,omitempty"`
	Note  string     `json:"note,omitempty"`
}

func newCause(c health.Cause) Cause {
	out := Cause{
		ID: c.ID, Kind: c.Kind, Severity: c.Severity.String(), Queues: c.Queues, Title: c.Title, Hint: c.Hint, Since: timeOf(c.Since),
		Evidence: []Evidence{}, Actions: []CauseAction{},
	}
	if out.Queues == nil {
		out.Queues = []string{}
	}
	for _, e := range c.Evidence {
		out.Evidence = append(out.Evidence, Evidence{e.Text, e.Link.Queue, e.Link.Task})
	}
	for _, a := range c.Actions {
		out.Actions = append(out.Actions, CauseAction{string(a.Kind), a.Queue, a.Type})
	}
	if c.Mute != nil {
		out.Mute = &CauseMute{timeOf(c.Mute.Until), c.Mute.By, c.Mute.Note}
	}
	return out
}

func newCauses(causes []health.Cause) []Cause {
	all := make([]Cause, len(causes))
	for n, c := range causes {
		all[n] = newCause(c)
	}
	return all
}

func (c *call) getHealth() (any, error) {
	if err := c.view("", ""); err != nil {
		return nil, err
	}
	out := Health{Status: "ok", Redis: "ok", Causes: []Cause{}, Muted: []Cause{}, Problems: []string{}}
	s := c.api.latest()
	if s == nil {
		if err := c.api.Client.Ping(); err != nil {
			out.Status, out.Redis = "trouble", show.RedisError(err)
		}
		out.At = timeOf(time.Now())
		return out, nil
	}
	out.At, out.Causes, out.Muted = timeOf(s.At), newCauses(s.Health.Causes), newCauses(s.Health.Muted)
	out.Problems = append(out.Problems, s.Health.Problems...)
	if severity, ok := s.Health.Severity(); ok {
		out.Status = severity.String()
	}
	if s.Err != nil {
		out.Status, out.Redis = "trouble", show.RedisError(s.Err)
	}
	return out, nil
}
