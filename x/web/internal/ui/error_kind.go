package ui

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/show"
	"github.com/asynq-go/asynq/x/web/internal/survey"
	"github.com/asynq-go/asynq/x/web/internal/trend"
)

// errorBody is the page of one kind of error.
type errorBody struct {
	Survey surveyNote
	Row    errorRow
	Texts  []errorText
	Tasks  []survey.Ref
	Shares []survey.Share // of the selected queue, or of all
	Types  []errorType    // of the selected queue, or of all
	Search string         // a filter that finds the tasks, and possibly a few others

	Attempts attemptsOfKind // as servers have recorded them
}

// attemptsOfKind are the failed attempts with a kind of error in the last 48 hours.
type attemptsOfKind struct {
	N           int64
	First, Last time.Time // to the minute
	Note        string    // why they are incomplete
}

// errorText is an error text and the number of tasks that have it.
type errorText struct {
	Message, Stack string
	N              int
}

// errorType is the number of tasks of one type.
type errorType struct {
	Name            string
	Retry, Archived int
}

// errorKind is the page of one kind of error.
func (u *UI) errorKind(r *http.Request) (*view, error) {
	id, queue := r.URL.Query().Get("id"), r.URL.Query().Get("queue")
	result, err := u.surveyed(r.Context())
	body := errorBody{Survey: noteOf(result, err, asynq.TaskStateRetry, asynq.TaskStateArchived)}
	f := result.Failure(id)
	if f == nil {
		if body.Survey.Whole {
			return nil, notFound("No sampled task in retry or archived has this error. The tasks may have been run or deleted.")
		}
		return &view{Template: "errorkind", Title: "Error", Nav: "/errors", Body: body}, nil
	}
	body.Row, body.Search = errorRowOf(f, queue, nil), searchFor(f, queue)
	for _, s := range f.Shares {
		if queue == "" || s.Queue == queue {
			body.Shares = append(body.Shares, s)
		}
	}
	for _, t := range f.Types {
		typ := errorType{t.Name, survey.Sum(t.Shares, queue, asynq.TaskStateRetry), survey.Sum(t.Shares, queue, asynq.TaskStateArchived)}
		if typ.Retry+typ.Archived > 0 {
			body.Types = append(body.Types, typ)
		}
	}
	for _, t := range f.Tasks {
		if queue == "" || t.Queue == queue {
			body.Tasks = append(body.Tasks, t)
		}
	}
	for _, t := range f.Texts {
		n := t.N
		if queue != "" {
			n = t.ByQueue[queue]
		}
		if n > 0 {
			message, stack := show.SplitError(t.Text)
			body.Texts = append(body.Texts, errorText{message, stack, n})
		}
	}
	slices.SortStableFunc(body.Texts, func(a, b errorText) int { return b.N - a.N })
	body.Attempts = u.attemptsOf(r.Context(), f.Kind, queue)
	return &view{Template: "errorkind", Title: "Error", Nav: "/errors", Body: body}, nil
}

// attemptsOf counts the failed attempts with a kind of error, in a queue or in all.
func (u *UI) attemptsOf(ctx context.Context, kind, queue string) (a attemptsOfKind) {
	found, err := u.trends.ErrorStats(ctx, queue, trend.Days, u.state())
	if err != nil {
		a.Note = sentence(show.RedisError(err))
	}
	for _, s := range found {
		if s.Kind != kind {
			continue
		}
		a.N += s.Count
		if a.First.IsZero() || s.First.Before(a.First) {
			a.First = s.First
		}
		if s.Last.After(a.Last) {
			a.Last = s.Last
		}
	}
	return a
}

// searchFor returns a filter for the tasks of a kind of error. The filter language has no
// kinds, so the filter uses the longest common text.
func searchFor(f *survey.Failure, queue string) string {
	text := ""
	message, _ := splitKind(f.Kind)
	for _, part := range show.Parts(message) {
		if t := strings.TrimSpace(strings.TrimSuffix(part.Text, "…")); !part.Hole && len(t) > len(text) && inAll(f.Texts, t) {
			text = t
		}
	}
	terms := []string{"(state:retry OR state:archived)"}
	if len(f.Types) == 1 && f.Types[0].Name != "" {
		terms = append(terms, "type="+quoteFilter(f.Types[0].Name))
	}
	if queue != "" {
		terms = append(terms, "queue="+quoteFilter(queue))
	}
	if text != "" {
		terms = append(terms, "error:"+quoteFilter(text))
	}
	return strings.Join(terms, " ")
}

func inAll(texts []survey.Text, part string) bool {
	return !slices.ContainsFunc(texts, func(t survey.Text) bool { return !strings.Contains(t.Text, part) })
}

// changeErrors runs, archives or deletes the tasks of a kind of error.
func (u *UI) changeErrors(w http.ResponseWriter, r *http.Request) (*view, error) {
	id, queue := r.PostForm.Get("id"), r.PostForm.Get("queue")
	kind := bulk.Kind(r.PostForm.Get("do"))
	if !slices.Contains([]bulk.Kind{bulk.Run, bulk.Archive, bulk.Delete}, kind) {
		return nil, invalid("Unknown action %q: failed tasks can be run, archived or deleted.", kind)
	}
	result, err := u.Survey.Tasks(r.Context())
	f := result.Failure(id)
	if f == nil {
		if err != nil {
			return nil, err
		}
		u.say(w, r, flash{Text: "No sampled task has this error any more. Nothing was changed.", Bad: true})
		return u.to(w, r, "/errors")
	}
	match := func(t *asynq.TaskInfo) bool { return t.LastErr != "" && survey.Identify(t.LastErr) == id }
	change := bulkChange{Kind: kind, Of: "with this error", Action: "/error", Counts: map[string]int{}, Fields: []field{{"id", id}, {"queue", queue}}}
	for _, s := range f.Shares {
		if (queue == "" || s.Queue == queue) && slices.Contains(bulk.Kinds(s.State), kind) {
			change.Specs = append(change.Specs, bulk.Spec{
				Kind: kind, Queue: s.Queue, State: s.State.String(), Match: match, Like: "error like “" + f.Kind + "”",
			})
			change.N += s.N
			change.Counts[s.Queue] += s.N
		}
	}
	if extent := result.Of(asynq.TaskStateRetry, asynq.TaskStateArchived); !result.Whole || extent.Cut {
		change.AtLeast = true
	}
	change.Text = []string{"Error: " + f.Kind}
	if queue != "" {
		change.Of += " in queue " + queue
	}
	back, err := u.link("/error", "id", id, "queue", queue)
	if err != nil {
		return nil, err
	}
	change.Back = strings.TrimPrefix(back, u.Root)
	return u.carryOut(w, r, change)
}
