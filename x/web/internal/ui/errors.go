package ui

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/show"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

// errorsBody is the list of kinds of errors.
type errorsBody struct {
	Survey            surveyNote
	Queue, Type, Text string
	Queues, Types     []string
	Columns           []heading
	Rows              []errorRow
	Tasks             int // of all rows, not only those of this page
	Pages             pager
	Filtered          bool
}

// errorRow is a kind of error in a table.
type errorRow struct {
	*survey.Failure
	Message         []show.Part
	Frames          string
	N               int // of the selected queue and type, or of all
	Retry, Archived int
	Queues, Types   []string
	Queue           string // the selected queue
}

const (
	errorsAPage = 50
	// namedQueues is the maximum number of queue names in a row, namedTypes that of task types.
	namedQueues = 2
	namedTypes  = 2
)

// errorRowOf returns the row of a kind of error for a queue and a task type. A nil type stands for
// any: a task that cannot be read has the type "".
func errorRowOf(f *survey.Failure, queue string, typename *string) errorRow {
	message, frames := splitKind(f.Kind)
	shares := f.Shares
	if typename != nil {
		shares = f.Of(*typename)
	}
	row := errorRow{
		Failure: f, Message: show.Parts(message), Frames: frames, Queue: queue,
		Retry: survey.Sum(shares, queue, asynq.TaskStateRetry), Archived: survey.Sum(shares, queue, asynq.TaskStateArchived),
	}
	for _, t := range f.Types {
		row.Types = append(row.Types, t.Name)
	}
	row.N = row.Retry + row.Archived
	for _, s := range f.Shares {
		if !slices.Contains(row.Queues, s.Queue) {
			row.Queues = append(row.Queues, s.Queue)
		}
	}
	return row
}

// splitKind splits a kind of error into its message and its frames.
func splitKind(kind string) (message, frames string) {
	const mark = " @ "
	if n := strings.LastIndex(kind, mark); n >= 0 {
		return kind[:n], kind[n+len(mark):]
	}
	return kind, ""
}

// SomeTypes returns the most frequent types of the row.
func (r errorRow) SomeTypes() []string { return r.Types[:min(len(r.Types), namedTypes)] }

// MoreTypes returns the number of types that the row does not name.
func (r errorRow) MoreTypes() int { return max(0, len(r.Types)-namedTypes) }

// Some returns the first queues of the row.
func (r errorRow) Some() []string { return r.Queues[:min(len(r.Queues), namedQueues)] }

// More returns the number of queues that the row does not name.
func (r errorRow) More() int { return max(0, len(r.Queues)-namedQueues) }

// errors is the page with the kinds of errors.
func (u *UI) errors(r *http.Request) (*view, error) {
	q := r.URL.Query()
	result, err := u.surveyed(r.Context())
	body := errorsBody{
		Survey: noteOf(result, err, asynq.TaskStateRetry, asynq.TaskStateArchived),
		Queue:  q.Get("queue"), Type: q.Get("type"), Text: q.Get("text"),
	}
	body.Filtered = body.Queue != "" || body.Type != "" || body.Text != ""
	for _, f := range result.Failures {
		for _, t := range f.Types {
			if !slices.Contains(body.Types, t.Name) {
				body.Types = append(body.Types, t.Name)
			}
		}
		for _, s := range f.Shares {
			if !slices.Contains(body.Queues, s.Queue) {
				body.Queues = append(body.Queues, s.Queue)
			}
		}
		if body.admits(f) {
			row := errorRowOf(f, body.Queue, body.ofType())
			body.Rows = append(body.Rows, row)
			body.Tasks += row.N
		}
	}
	slices.Sort(body.Queues)
	slices.Sort(body.Types)
	sorts := []sorting[errorRow]{
		{"error", "Error", "", func(a, b errorRow) int { return strings.Compare(b.Kind, a.Kind) }},
		{"tasks", "Tasks", "n", func(a, b errorRow) int { return cmp.Compare(a.N, b.N) }},
		{"retry", "Retry", "n", func(a, b errorRow) int { return cmp.Compare(a.Retry, b.Retry) }},
		{"archived", "Archived", "n", func(a, b errorRow) int { return cmp.Compare(a.Archived, b.Archived) }},
		{"", "Last 24 hours", "", nil},
		{"last", "Last", "n", func(a, b errorRow) int { return a.Last.Compare(b.Last) }},
		{"first", "First", "n", func(a, b errorRow) int { return a.First.Compare(b.First) }},
	}
	if body.Columns, err = sortBy(u, r, body.Rows, sorts, "tasks"); err != nil {
		return nil, err
	}
	body.Rows, body.Pages, err = pageOf(u, r, body.Rows, errorsAPage)
	return &view{Template: "errors", Title: "Errors", Nav: "/errors", Body: body}, err
}

// ofType returns the selected type, nil for all.
func (b *errorsBody) ofType() *string {
	if b.Type == "" {
		return nil
	}
	return &b.Type
}

func (b *errorsBody) admits(f *survey.Failure) bool {
	shares := f.Shares
	if b.Type != "" {
		shares = f.Of(b.Type)
	}
	if survey.Sum(shares, b.Queue, 0) == 0 {
		return false
	}
	if b.Text == "" {
		return true
	}
	text := strings.ToLower(b.Text)
	return strings.Contains(strings.ToLower(f.Kind), text) ||
		slices.ContainsFunc(f.Texts, func(t survey.Text) bool { return strings.Contains(strings.ToLower(t.Text), text) })
}
