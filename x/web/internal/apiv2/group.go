package apiv2

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

// ErrorGroup is a kind of error: failed tasks of one type whose errors have the same fingerprint. The pages show the same kinds.
type ErrorGroup struct {
	ID          string     `json:"id" doc:"It names the kind as long as its fingerprint and type are the same; the page of it is /error?id=ID."`
	Fingerprint string     `json:"fingerprint"`
	Type        string     `json:"type" doc:"The type of the tasks."`
	Error       string     `json:"error" doc:"The most frequent of their errors, up to 4,096 bytes."`
	Count       int        `json:"count"`
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

// Grouped is what a survey counts, in groups.
type Grouped[T any] struct {
	Items    []T          `json:"items" doc:"The largest first, up to 500."`
	Looked   int          `json:"looked"`
	Complete bool         `json:"complete" doc:"false: there are more tasks than could be looked at; the counts are those of the ones that were."`
	Errors   []QueueError `json:"errors"`
}

const (
	maxGroups = 500
	maxTop    = 20
)

// counted adds up shares by a name of theirs.
func counted(shares []survey.Share, name func(survey.Share) string) map[string]int {
	counts := make(map[string]int)
	for _, s := range shares {
		counts[name(s)] += s.N
	}
	return counts
}

func byQueue(s survey.Share) string { return s.Queue }
func byState(s survey.Share) string { return s.State.String() }

// top are the 20 most frequent of what was counted.
func top(counts map[string]int) []Counted {
	list := make([]Counted, 0, len(counts))
	for name, n := range counts {
		list = append(list, Counted{name, n})
	}
	slices.SortFunc(list, func(a, b Counted) int { return cmp.Or(b.Count-a.Count, strings.Compare(a.Name, b.Name)) })
	return list[:min(len(list), maxTop)]
}

// count surveys the tasks that the parameters name, in these states unless they name some.
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

// grouped is a survey as the answers have it.
func grouped[T any](r *survey.Result) *Grouped[T] {
	extent := r.Of()
	out := &Grouped[T]{Items: []T{}, Looked: extent.Looked, Complete: !extent.Cut, Errors: []QueueError{}}
	for _, q := range r.Broken {
		out.Errors = append(out.Errors, QueueError{q.Queue, q.Err.Error()})
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
			ID: f.ID, Fingerprint: f.Print, Type: f.Type, Count: f.N, Queues: top(counted(f.Shares, byQueue)), States: top(counted(f.Shares, byState)),
			LastAt: timeOf(f.Last), FirstAt: timeOf(f.First), Example: TaskRef{f.Tasks[0].Queue, f.Tasks[0].ID},
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
