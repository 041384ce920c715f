package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
	"github.com/asynq-go/asynq/x/web/internal/search"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

// searchBody is a part of the results of a search.
type searchBody struct {
	Filter       filterBox
	Queue, State string
	Queues       []string
	States       []string
	Searched     bool // there is a query
	Rows         []taskRow
	Kinds        []kindButton
	Found        int // in all parts
	Scanned      int // in all parts
	Total        int
	Next         string // URL of the next part
	Full         bool   // the part has as many results as requested
	Errors       []search.QueueError
	ByID         bool // the query is a task ID, which was found directly
	Examples     []string
}

// searchBounds are the limits of one part. A page without scripts shows one part; a script requests
// shorter ones in sequence.
var (
	searchBounds = search.Bounds{Found: 50, Scanned: 100_000, Time: 1500 * time.Millisecond}
	partBounds   = search.Bounds{Found: 50, Scanned: 20_000, Time: 400 * time.Millisecond}
)

// partHeader marks requests of the script that continues a search.
const partHeader = "X-Search-Part"

var searchExamples = []string{
	`state:retry error:"timed out"`, `state:archived age<1h`, `retried>=3 -state:archived`, `size>100kB`, `state:scheduled age>10m`,
}

// examples returns example filters. Those with a task type use an existing one.
func (u *UI) examples(r *http.Request) []string {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	known, err := u.Survey.Tasks(ctx)
	if err != nil {
		return searchExamples // optional: these are only suggestions
	}
	var most *survey.Type
	for _, t := range known.Types {
		if t.Name != "" && (most == nil || t.N > most.N) {
			most = t
		}
	}
	if most == nil {
		return searchExamples
	}
	return append([]string{term("type", most.Name)}, searchExamples...)
}

// search is the page for searching tasks in all queues and states.
func (u *UI) search(r *http.Request) (*view, error) {
	q := r.URL.Query()
	body := &searchBody{Queue: q.Get("queue"), State: q.Get("state"), States: stateNames}
	for _, queue := range u.Poller.Latest().Queues {
		body.Queues = append(body.Queues, queue.Name)
	}
	v := &view{Template: "search", Title: "Search", Nav: "/search", Still: true, Body: body}
	var f *filter.Filter
	if body.Filter, f = filterBoxOf(q.Get("filter")); f == nil {
		v.Status = http.StatusUnprocessableEntity
		return v, nil
	}
	s := &search.Search{Filter: f, Seen: u.Redact.Task}
	if body.Queue != "" {
		s.Queues = []string{body.Queue}
	}
	if body.State != "" {
		state, ok := filter.ParseState(body.State)
		if !ok {
			return nil, invalid("Unknown state %q.", body.State)
		}
		s.States = []asynq.TaskState{state}
	}
	if body.Searched = !f.Empty() || body.Queue != "" || body.State != ""; !body.Searched {
		body.Examples = u.examples(r)
		return v, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	if q.Get("cursor") == "" {
		tasks, sole := u.byID(ctx, f, s)
		body.Rows, body.ByID = u.taskRows(tasks), len(tasks) > 0
		if sole {
			body.Found = len(tasks)
			body.Kinds = u.kinds(r, filter.AllStates...)
			return v, nil
		}
	}
	return v, u.searchPart(ctx, r, s, body)
}

func (u *UI) searchPart(ctx context.Context, r *http.Request, s *search.Search, body *searchBody) error {
	q := r.URL.Query()
	bounds := searchBounds
	if r.Header.Get(partHeader) != "" {
		bounds = partBounds
	}
	part, err := s.Part(ctx, u.Inspector, q.Get("cursor"), bounds)
	if errors.Is(err, asynq.ErrCursor) {
		return invalid("This search has expired. Search again.")
	}
	if err != nil {
		return err
	}
	for _, row := range u.taskRows(part.Tasks) {
		if !slices.ContainsFunc(body.Rows, func(known taskRow) bool { return known.Queue == row.Queue && known.ID == row.ID }) {
			body.Rows = append(body.Rows, row)
		}
	}
	states := s.States
	if len(states) == 0 {
		states = filter.AllStates
	}
	body.Kinds = u.kinds(r, states...)
	body.Errors = part.Errors
	body.Scanned = number(q, "looked", 0, 1<<40) + part.Scanned
	body.Found = number(q, "found", 0, 1<<40) + len(body.Rows)
	body.Total = max(part.Total, body.Scanned)
	body.Full = len(part.Tasks) >= bounds.Found
	if part.Next != "" {
		next := url.Values{"cursor": {part.Next}, "looked": {strconv.Itoa(body.Scanned)}, "found": {strconv.Itoa(body.Found)}}
		for name, value := range map[string]string{"filter": body.Filter.Text, "queue": body.Queue, "state": body.State} {
			if value != "" {
				next.Set(name, value)
			}
		}
		body.Next = u.Root + "/search?" + next.Encode()
	}
	return nil
}

// sole matches a filter of one term: an ID or a word.
var sole = regexp.MustCompile(`^(id[:=])?([^\s:=<>()*?"!-][^\s:=<>()*?"!]*|"(?:[^"\\]|\\.)*")$`)

// mostAsked is the maximum number of queues in which an ID is looked up.
const mostAsked = 300

// byID looks up tasks by ID, without scanning, if the filter is an ID. It returns only = true if no
// other tasks can match.
func (u *UI) byID(ctx context.Context, f *filter.Filter, s *search.Search) (tasks []*asynq.TaskInfo, only bool) {
	m := sole.FindStringSubmatch(f.String())
	if m == nil {
		return nil, false
	}
	id := m[2]
	if strings.HasPrefix(id, `"`) {
		var err error
		if id, err = strconv.Unquote(id); err != nil {
			return nil, false
		}
	}
	queues := s.Queues
	if len(queues) == 0 {
		for _, q := range u.Poller.Latest().Queues {
			queues = append(queues, q.Name)
		}
	}
	if id == "" || len(queues) > mostAsked {
		return nil, false
	}
	inspector := u.Inspector.WithContext(ctx)
	found := make([]*asynq.TaskInfo, len(queues))
	failed := make([]bool, len(queues))
	slots := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for n, queue := range queues {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t, err := inspector.GetTaskInfo(queue, id)
			if err == nil && (len(s.States) == 0 || slices.Contains(s.States, t.State)) {
				found[n] = t
			}
			failed[n] = err != nil && !errors.Is(err, asynq.ErrTaskNotFound) && !errors.Is(err, asynq.ErrQueueNotFound)
		})
	}
	wg.Wait()
	for _, t := range found {
		if t != nil {
			tasks = append(tasks, t)
		}
	}
	return tasks, m[1] != "" && len(tasks) > 0 && !slices.Contains(failed, true)
}
