package ui

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/search"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// tasksBody is the list of the tasks of one queue in one state.
type tasksBody struct {
	Queue, State, Group string
	Paused              bool
	Filter              filterBox
	Counts              []count
	Total               int // tasks in the state
	Rows                []taskRow
	Kinds               []kindButton
	All                 string // label of the menu for all tasks
	Page, Pages         int    // 0: no page numbers, because the list has a filter or a group
	Size                int
	preset              int // page size in the user's settings
	Sizes               []int
	Links               pageLinks
	Scanned             int  // tasks scanned for this page if there is a filter
	Short               bool // the scan limit was reached before the page was full
}

// pageLinks are the links to other pages of a list. Empty: none.
type pageLinks struct{ First, Back, Next, Last string }

// filterBox is the field for a filter.
type filterBox struct {
	Text   string
	Wrong  string   // error of the filter
	Marks  string   // the filter with a mark below the error
	Terms  []string // suggestions
	Quoted string   // if the filter is invalid, a filter that finds its text; may be empty
}

// filterTerms are suggestions for terms: one for each field, with an operator that the field
// supports.
var filterTerms = func() []string {
	fields := filter.Fields()
	for i, name := range fields {
		for _, op := range []string{":", ">"} {
			if term := name + op; slices.ContainsFunc([]string{"1", "10m", "active"}, func(value string) bool { _, err := filter.Parse(term + value); return err == nil }) {
				fields[i] = term
				break
			}
		}
	}
	return fields
}()

// filterBoxOf parses a filter. The filter is nil if the text is invalid; the box then has the
// error.
func filterBoxOf(text string) (filterBox, *filter.Filter) {
	box := filterBox{Text: text, Terms: filterTerms}
	f, err := filter.Parse(text)
	var syntax *filter.SyntaxError
	switch {
	case errors.As(err, &syntax):
		box.Wrong, box.Marks = sentence(syntax.Msg), syntax.Pointer()
		if _, err := filter.Parse(quoteFilter(text)); err == nil {
			box.Quoted = quoteFilter(text)
		}
		return box, nil
	case err != nil:
		box.Wrong = sentence(err.Error())
		return box, nil
	}
	return box, f
}

// kindButton is the button for a kind of change.
type kindButton struct {
	Kind       bulk.Kind
	Name, Icon string
	Confirm    bool // requires confirmation, since it cannot be undone
}

var kindButtons = map[bulk.Kind]kindButton{
	bulk.Run:     {bulk.Run, "Run", "play", false},
	bulk.Archive: {bulk.Archive, "Archive", "archive", false},
	bulk.Delete:  {bulk.Delete, "Delete", "trash", true},
	bulk.Cancel:  {bulk.Cancel, "Cancel", "cancel", false},
}

// kinds returns the changes of tasks in these states that the user may make.
func (u *UI) kinds(r *http.Request, states ...asynq.TaskState) []kindButton {
	var all []kindButton
	for _, kind := range []bulk.Kind{bulk.Run, bulk.Archive, bulk.Cancel, bulk.Delete} {
		fits := slices.ContainsFunc(states, func(s asynq.TaskState) bool { return slices.Contains(bulk.Kinds(s), kind) })
		if fits && u.Bulk != nil && u.Gate.Can(r, verbs[kind]) {
			all = append(all, kindButtons[kind])
		}
	}
	return all
}

// Bounds of one page of tasks.
const (
	mostSize    = 200
	mostScanned = 20_000 // tasks scanned for one page of a filtered list
)

// number parses a positive number of the query.
func number(q url.Values, name string, otherwise, most int) int {
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < 1 {
		return otherwise
	}
	return min(n, most)
}

// tasks is the page with the tasks of one queue in one state.
func (u *UI) tasks(r *http.Request) (*view, error) {
	q := r.URL.Query()
	body := &tasksBody{Queue: q.Get("queue"), State: q.Get("state"), Group: q.Get("group"), Sizes: sizes()}
	if body.Queue == "" {
		return nil, invalid("The parameter queue is required: /tasks?queue=default&state=pending. To list tasks of all queues, use the search.")
	}
	if body.State == "" {
		body.State = asynq.TaskStatePending.String()
	}
	state, ok := filter.ParseState(body.State)
	if !ok {
		return nil, invalid("Unknown state %q: a task is %s.", body.State, "active, pending, scheduled, retry, aggregating, archived or completed")
	}
	if state != asynq.TaskStateAggregating {
		body.Group = ""
	}
	body.preset = settingsOf(r).Size
	body.Size = number(q, "size", body.preset, mostSize)
	var f *filter.Filter
	body.Filter, f = filterBoxOf(q.Get("filter"))

	inspector, cancel := u.inspector(r)
	defer cancel()
	info, err := inspector.WithMemorySamples(0).GetQueueInfo(body.Queue)
	if err != nil {
		return nil, err
	}
	body.Counts, body.Total, body.Paused = counts(info), search.CountOf(info, state), info.Paused
	body.Kinds = u.kinds(r, state)
	v := &view{Template: "tasks", Title: body.Queue + ": " + body.State, Nav: "/queues", Body: body}
	switch {
	case f == nil:
		v.Status, v.Still = http.StatusUnprocessableEntity, true
	case !f.Empty() || state == asynq.TaskStateAggregating || q.Get("cursor") != "":
		body.All = allOf(body, f)
		v.Still = !f.Empty() || q.Get("cursor") != ""
		err = u.walked(r, body, state, f)
	default:
		body.All = allOf(body, f)
		err = u.numbered(r, inspector, body, state)
	}
	if errors.Is(err, asynq.ErrCursor) {
		return nil, invalid("This page no longer exists. Go back to the first page.")
	}
	return v, err
}

// allOf returns the label of the menu for all tasks.
func allOf(b *tasksBody, f *filter.Filter) string {
	switch {
	case !f.Empty():
		return "All that match"
	case b.Group != "":
		return "All of the group"
	default:
		return "All " + show.Plural(int64(b.Total), "task")
	}
}

// numbered fills in a page by its number. Redis finds it directly, regardless of its position.
func (u *UI) numbered(r *http.Request, inspector *asynq.Inspector, b *tasksBody, state asynq.TaskState) error {
	b.Pages = max((b.Total+b.Size-1)/b.Size, 1)
	b.Page = number(r.URL.Query(), "page", 1, b.Pages)
	list := map[asynq.TaskState]func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		asynq.TaskStateActive: inspector.ListActiveTasks, asynq.TaskStatePending: inspector.ListPendingTasks,
		asynq.TaskStateScheduled: inspector.ListScheduledTasks, asynq.TaskStateRetry: inspector.ListRetryTasks,
		asynq.TaskStateArchived: inspector.ListArchivedTasks, asynq.TaskStateCompleted: inspector.ListCompletedTasks,
	}[state]
	tasks, err := list(b.Queue, asynq.Page(b.Page), asynq.PageSize(b.Size), asynq.NewestFirst())
	if err != nil {
		return err
	}
	b.Rows = u.taskRows(tasks)
	to := func(page int) string { return u.tasksLink(b, "page", strconv.Itoa(page)) }
	if b.Page > 1 {
		b.Links.First, b.Links.Back = to(1), to(b.Page-1)
	}
	if b.Page < b.Pages {
		b.Links.Next, b.Links.Last = to(b.Page+1), to(b.Pages)
	}
	return nil
}

// walked fills in a page from its cursor. It stays consistent while tasks enter and leave the list.
func (u *UI) walked(r *http.Request, b *tasksBody, state asynq.TaskState, f *filter.Filter) error {
	s := search.Search{Filter: f, Seen: u.Redact.Task}
	tf := s.TaskFilter(state)
	tf.Group, tf.MaxScan = b.Group, mostScanned
	cursor := r.URL.Query().Get("cursor")
	page, err := u.Inspector.ListTasks(r.Context(), b.Queue, state, asynq.ListTasksOptions{Filter: tf, Cursor: cursor, Limit: b.Size})
	if err != nil {
		return err
	}
	b.Rows = u.taskRows(page.Tasks)
	if !f.Empty() {
		b.Scanned = page.Scanned
	}
	if cursor != "" {
		b.Links.First = u.tasksLink(b, "", "")
	}
	if page.Next != "" {
		b.Links.Next = u.tasksLink(b, "cursor", page.Next)
		b.Short = len(page.Tasks) < b.Size
	}
	return nil
}

// tasksLink returns the URL of another page of the same list.
func (u *UI) tasksLink(b *tasksBody, name, value string) string {
	q := url.Values{"queue": {b.Queue}, "state": {b.State}}
	for name, value := range map[string]string{"group": b.Group, "filter": b.Filter.Text, name: value} {
		if name != "" && value != "" {
			q.Set(name, value)
		}
	}
	if b.Size != b.preset {
		q.Set("size", strconv.Itoa(b.Size))
	}
	return u.Root + "/tasks?" + q.Encode()
}
