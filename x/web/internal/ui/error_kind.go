package ui

import (
	"net/http"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/show"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

// errorBody is one kind of error.
type errorBody struct {
	Survey surveyNote
	Row    errorRow
	Texts  []errorText
	Tasks  []survey.Ref
	Shares []survey.Share // of the queue that was asked for, or of all
	Search string         // a filter that finds the tasks, and maybe a few others
}

// errorText is the exact text of an error.
type errorText struct {
	Message, Stack string
	N              int
}

// errorKind is the page of one kind of error.
func (u *UI) errorKind(r *http.Request) (*view, error) {
	id, queue := r.URL.Query().Get("id"), r.URL.Query().Get("queue")
	result, err := u.Survey.Tasks(r.Context())
	body := errorBody{Survey: noteOf(result, err, asynq.TaskStateRetry, asynq.TaskStateArchived)}
	f := result.Failure(id)
	if f == nil {
		if body.Survey.Whole {
			return nil, notFound("No task that is to be tried again or archived has this error, of those that were looked at. It may have been run or deleted.")
		}
		return &view{Template: "errorkind", Title: "An error", Nav: "/errors", Body: body}, nil
	}
	body.Row, body.Search = errorRowOf(f, queue), searchFor(f, queue)
	for _, s := range f.Shares {
		if queue == "" || s.Queue == queue {
			body.Shares = append(body.Shares, s)
		}
	}
	for _, t := range f.Tasks {
		if queue == "" || t.Queue == queue {
			body.Tasks = append(body.Tasks, t)
		}
	}
	for _, t := range f.Texts {
		message, stack := show.SplitError(t.Text)
		body.Texts = append(body.Texts, errorText{message, stack, t.N})
	}
	return &view{Template: "errorkind", Title: "Error of " + f.Type, Nav: "/errors", Body: body}, nil
}

// searchFor is a filter for the tasks of a kind of error: the language has no fingerprints, so it is the longest text that all share.
func searchFor(f *survey.Failure, queue string) string {
	text := ""
	message, _, _ := strings.Cut(f.Print, " @ ")
	for _, part := range show.Parts(message) {
		if t := strings.TrimSpace(strings.TrimSuffix(part.Text, "…")); !part.Hole && len(t) > len(text) && inAll(f.Texts, t) {
			text = t
		}
	}
	terms := []string{"(state:retry OR state:archived)"}
	if f.Type != "" {
		terms = append(terms, "type="+quoteFilter(f.Type))
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

// changeErrors has the tasks of a kind of error run, archived or deleted.
func (u *UI) changeErrors(w http.ResponseWriter, r *http.Request) (*view, error) {
	id, queue := r.PostForm.Get("id"), r.PostForm.Get("queue")
	kind := bulk.Kind(r.PostForm.Get("do"))
	if !slices.Contains([]bulk.Kind{bulk.Run, bulk.Archive, bulk.Delete}, kind) {
		return nil, invalid("Failed tasks can be run, archived or deleted, but not %q.", kind)
	}
	result, err := u.Survey.Tasks(r.Context())
	f := result.Failure(id)
	if f == nil {
		if err != nil {
			return nil, err
		}
		u.say(w, r, flash{Text: "No task has this error any more, of those that were looked at: nothing was done.", Bad: true})
		return u.to(w, r, "/errors")
	}
	match := func(t *asynq.TaskInfo) bool { return t.LastErr != "" && survey.Identify(t.LastErr, t.Type) == id }
	change := bulkChange{Kind: kind, Of: "with this error", Action: "/error", Fields: []field{{"id", id}, {"queue", queue}}}
	for _, s := range f.Shares {
		if (queue == "" || s.Queue == queue) && slices.Contains(bulk.Kinds(s.State), kind) {
			spec := bulk.Spec{Kind: kind, Queue: s.Queue, State: s.State.String(), Match: match, Like: "error like “" + f.Print + "”"}
			if f.Type != "" {
				spec.Filter = "type=" + quoteFilter(f.Type)
			}
			change.Specs = append(change.Specs, spec)
			change.N += s.N
		}
	}
	if extent := result.Of(asynq.TaskStateRetry, asynq.TaskStateArchived); !result.Whole || extent.Cut {
		change.AtLeast = true
	}
	change.Text = []string{"Error: " + f.Print}
	if queue != "" {
		change.Of += " in the queue " + queue
	}
	back, err := u.link("/error", "id", id, "queue", queue)
	if err != nil {
		return nil, err
	}
	change.Back = strings.TrimPrefix(back, u.Root)
	return u.carryOut(w, r, change)
}
