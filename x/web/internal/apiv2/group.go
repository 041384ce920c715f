package apiv2

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/show"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

// ErrorGroup is a kind of error: failed tasks of any type whose errors have the same cause. The
// pages show the same kinds.
type ErrorGroup struct {
	ID      string     `json:"id" doc:"Identifies the kind of error. The page of the kind is /error?id=ID."`
	Kind    string     `json:"kind" doc:"What the errors have in common, with placeholders such as # and ‹id›."`
	Types   []Counted  `json:"types" doc:"Up to 20 task types, most frequent first."`
	Error   string     `json:"error" doc:"The most frequent error text, up to 4,096 bytes."`
	Count   int        `json:"count"`
	Queues  []Counted  `json:"queues" doc:"Up to 20 queues, most frequent first."`
	States  []Counted  `json:"states"`
	LastAt  *time.Time `json:"last_failed_at"`
	FirstAt *time.Time `json:"first_failed_at" doc:"The earliest of the last failures of the tasks."`
	Example TaskRef    `json:"example" doc:"The task with the most recent failure."`
}

// Counted is a name with a count.
type Counted struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// TaskRef names a task.
type TaskRef struct {
	Queue string `json:"queue"`
	ID    string `json:"id"`
}

// TypeGroup is the tasks of one type.
type TypeGroup struct {
	Type   string         `json:"type"`
	Count  int            `json:"count"`
	States map[string]int `json:"states"`
	Queues []Counted      `json:"queues" doc:"Up to 20 queues, most frequent first."`
}

// Grouped is the result of a survey in groups.
type Grouped[T any] struct {
	Items    []T          `json:"items" doc:"Up to 500 items, largest first."`
	Scanned  int          `json:"looked"`
	Complete bool         `json:"complete" doc:"false: not all tasks were scanned, and the counts cover the scanned ones."`
	Errors   []QueueError `json:"errors"`
}

const (
	maxGroups = 500
	maxTop    = 20
)

// counted sums up shares by name.
func counted(shares []survey.Share, name func(survey.Share) string) map[string]int {
	counts := make(map[string]int)
	for _, s := range shares {
		counts[name(s)] += s.N
	}
	return counts
}

func byQueue(s survey.Share) string { return s.Queue }
func byState(s survey.Share) string { return s.State.String() }

// top returns the 20 most frequent names.
func top(counts map[string]int) []Counted {
	list := make([]Counted, 0, len(counts))
	for name, n := range counts {
		list = append(list, Counted{name, n})
	}
	slices.SortFunc(list, func(a, b Counted) int { return cmp.Or(b.Count-a.Count, strings.Compare(a.Name, b.Name)) })
	return list[:min(len(list), maxTop)]
}

// count surveys the tasks selected by the parameters. The default states are those given.
func (c *call) count(states ...asynq.TaskState) (*survey.Result, error) {
	if err := c.viewQueues(c.query["queue"]); err != nil {
		return nil, err
	}
	s, err := c.search()
	if err != nil {
		return nil, err
	}
	if len(states) > 0 && !c.has("state") {
		s.States = states
	}
	return survey.Count(c.r.Context(), c.api.Inspector, s, c.num("max_scan"))
}

// grouped converts the result of a survey to a response.
func grouped[T any](r *survey.Result) *Grouped[T] {
	extent := r.Of()
	out := &Grouped[T]{Items: []T{}, Scanned: extent.Scanned, Complete: !extent.Cut, Errors: []QueueError{}}
	for _, q := range r.Broken {
		out.Errors = append(out.Errors, QueueError{q.Queue, show.RedisError(q.Err)})
	}
	return out
}

func (c *call) listErrors() (any, error) {
	r, err := c.count(asynq.TaskStateRetry, asynq.TaskStateArchived)
	if err != nil {
		return nil, err
	}
	out := grouped[ErrorGroup](r)
	for _, f := range r.Failures[:min(len(r.Failures), maxGroups)] {
		g := ErrorGroup{
			ID: f.ID, Kind: f.Kind, Types: []Counted{}, Count: f.N, Queues: top(counted(f.Shares, byQueue)), States: top(counted(f.Shares, byState)),
			LastAt: timeOf(f.Last), FirstAt: timeOf(f.First), Example: TaskRef{f.Tasks[0].Queue, f.Tasks[0].ID},
		}
		for _, t := range f.Types[:min(len(f.Types), maxTop)] {
			g.Types = append(g.Types, Counted{t.Name, t.N})
		}
		g.Error, _ = cutText(f.Texts[0].Text, maxListedError)
		out.Items = append(out.Items, g)
	}
	return out, nil
}

func (c *call) listTypes() (any, error) {
	r, err := c.count()
	if err != nil {
		return nil, err
	}
	out := grouped[TypeGroup](r)
	for _, t := range r.Types {
		out.Items = append(out.Items, TypeGroup{Type: t.Name, Count: t.N, States: counted(t.Shares, byState), Queues: top(counted(t.Shares, byQueue))})
	}
	slices.SortFunc(out.Items, func(a, b TypeGroup) int { return cmp.Or(b.Count-a.Count, strings.Compare(a.Type, b.Type)) })
	out.Items = out.Items[:min(len(out.Items), maxGroups)]
	return out, nil
}
