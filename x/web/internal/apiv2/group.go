package apiv2

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/search"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// ErrorGroup are failed tasks whose errors have the same fingerprint.
type ErrorGroup struct {
	Fingerprint string     `json:"fingerprint"`
	Error       string     `json:"error" doc:"That of one of them, up to 4,096 bytes."`
	Count       int        `json:"count"`
	Types       []Counted  `json:"types" doc:"The most frequent first, up to 20."`
	Queues      []Counted  `json:"queues" doc:"The most frequent first, up to 20."`
	States      []Counted  `json:"states"`
	LastAt      *time.Time `json:"last_failed_at"`
	FirstAt     *time.Time `json:"first_failed_at" doc:"The earliest last failure of them."`
	Example     TaskRef    `json:"example" doc:"One that failed last."`
}

// Counted is a name with a number.
type Counted struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// TaskRef names a task.
type TaskRef struct {
	Queue string `json:"queue"`
	ID    string `json:"id"`
}

// TypeGroup are the tasks of one type.
type TypeGroup struct {
	Type   string         `json:"type"`
	Count  int            `json:"count"`
	States map[string]int `json:"states"`
	Queues []Counted      `json:"queues" doc:"The most frequent first, up to 20."`
}

// Grouped is what a search finds, in groups.
type Grouped[T any] struct {
	Items    []T          `json:"items" doc:"The largest first, up to 500."`
	Looked   int          `json:"looked"`
	Complete bool         `json:"complete" doc:"false: there are more tasks than max_scan; the counts are those of the ones that were looked at."`
	Errors   []QueueError `json:"errors"`
}

// all bounds a search that is not for a page.
func (c *call) all() search.Bounds {
	return search.Bounds{Found: c.num("max_scan"), Looked: c.num("max_scan")}
}

// top are the 20 most frequent of what was counted.
func top(counts map[string]int) []Counted {
	list := make([]Counted, 0, len(counts))
	for name, n := range counts {
		list = append(list, Counted{name, n})
	}
	slices.SortFunc(list, func(a, b Counted) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list[:min(len(list), maxTop)]
}

const (
	maxGroups = 500
	maxTop    = 20
)

type errorGroup struct {
	ErrorGroup
	types, queues, states map[string]int
}

func (c *call) listErrors() (any, error) {
	if err := c.viewQueues(c.query["queue"]); err != nil {
		return nil, err
	}
	s, err := c.search()
	if err != nil {
		return nil, err
	}
	if !c.has("state") {
		s.States = []asynq.TaskState{asynq.TaskStateRetry, asynq.TaskStateArchived}
	}
	groups := make(map[string]*errorGroup)
	part, err := s.Each(c.r.Context(), c.api.Inspector, "", c.all(), func(t *asynq.TaskInfo) {
		if t.LastErr == "" {
			return
		}
		kind := show.Fingerprint(t.LastErr)
		g := groups[kind]
		if g == nil {
			g = &errorGroup{types: map[string]int{}, queues: map[string]int{}, states: map[string]int{}}
			g.Fingerprint = kind
			groups[kind] = g
		}
		g.Count++
		g.types[t.Type]++
		g.queues[t.Queue]++
		g.states[t.State.String()]++
		at := timeOf(t.LastFailedAt)
		if at != nil && (g.FirstAt == nil || at.Before(*g.FirstAt)) {
			g.FirstAt = at
		}
		if g.Count == 1 || at != nil && (g.LastAt == nil || at.After(*g.LastAt)) {
			g.LastAt, g.Example = at, TaskRef{t.Queue, t.ID}
			g.Error, _ = cutText(t.LastErr, maxListedError)
		}
	})
	if err != nil {
		return nil, err
	}
	out := Grouped[ErrorGroup]{Items: []ErrorGroup{}, Looked: part.Looked, Complete: part.Next == "", Errors: queueErrors(part)}
	for _, g := range groups {
		g.Types, g.Queues, g.States = top(g.types), top(g.queues), top(g.states)
		out.Items = append(out.Items, g.ErrorGroup)
	}
	slices.SortFunc(out.Items, func(a, b ErrorGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Fingerprint, b.Fingerprint))
	})
	out.Items = out.Items[:min(len(out.Items), maxGroups)]
	return out, nil
}

func (c *call) listTypes() (any, error) {
	if err := c.viewQueues(c.query["queue"]); err != nil {
		return nil, err
	}
	s, err := c.search()
	if err != nil {
		return nil, err
	}
	groups, queues := make(map[string]*TypeGroup), make(map[string]map[string]int)
	part, err := s.Each(c.r.Context(), c.api.Inspector, "", c.all(), func(t *asynq.TaskInfo) {
		g := groups[t.Type]
		if g == nil {
			g = &TypeGroup{Type: t.Type, States: map[string]int{}}
			groups[t.Type], queues[t.Type] = g, make(map[string]int)
		}
		g.Count++
		g.States[t.State.String()]++
		queues[t.Type][t.Queue]++
	})
	if err != nil {
		return nil, err
	}
	out := Grouped[TypeGroup]{Items: []TypeGroup{}, Looked: part.Looked, Complete: part.Next == "", Errors: queueErrors(part)}
	for _, g := range groups {
		g.Queues = top(queues[g.Type])
		out.Items = append(out.Items, *g)
	}
	slices.SortFunc(out.Items, func(a, b TypeGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Type, b.Type))
	})
	out.Items = out.Items[:min(len(out.Items), maxGroups)]
	return out, nil
}
