package ui

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// enqueueBody is the form for a task to enqueue.
type enqueueBody struct {
	Type, Queue, ID, Group                         string
	Payload                                        payloadForm
	Headers                                        string // one per line
	MaxRetry, Timeout, Deadline, Unique, Retention string
	ProcessIn, ProcessAt                           string
	Wrong                                          map[string]string // errors by field; "" for the form
	From                                           *asynq.TaskInfo   // the task to copy; may be nil
	Types, Queues                                  []string
	Detailed                                       bool // show all options, since one is set
}

// mostNames bounds the list of suggestions.
const mostNames = 500

// enqueue is the page with the form, empty or filled in from another task.
func (u *UI) enqueue(r *http.Request) (*view, error) {
	if !u.Gate.Can(r, access.TaskEnqueue) {
		return nil, &httpError{http.StatusForbidden, "Your role does not include enqueueing tasks."}
	}
	q := r.URL.Query()
	body := &enqueueBody{Type: q.Get("type"), Queue: cmp.Or(q.Get("queue"), "default"), Group: q.Get("group"), Payload: payloadForm{Encoding: asJSON}}
	if id := q.Get("from"); id != "" {
		t, err := u.whole(r, q.Get("queue"), id)
		if err != nil {
			return nil, err
		}
		body.copyOf(t, u.now())
	}
	return u.enqueueView(r.Context(), body), nil
}

func (u *UI) enqueueView(ctx context.Context, body *enqueueBody) *view {
	s := u.Poller.Latest()
	for _, q := range s.Queues {
		body.Queues = append(body.Queues, q.Name)
	}
	types := map[string]bool{}
	if known, err := u.Survey.Tasks(ctx); err == nil { // optional: these are only suggestions
		for _, t := range known.Types {
			types[t.Name] = true
		}
	}
	for _, e := range s.Entries {
		types[e.Task.Type()] = true
	}
	for _, server := range s.Servers {
		for _, w := range server.ActiveWorkers {
			types[w.TaskType] = true
		}
	}
	body.Types = slices.Sorted(maps.Keys(types))
	body.Types, body.Queues = body.Types[:min(len(body.Types), mostNames)], body.Queues[:min(len(body.Queues), mostNames)]
	body.Detailed = body.Headers+body.MaxRetry+body.Timeout+body.Deadline+body.Unique+body.Retention+body.ID+body.Group != "" || len(body.Wrong) > 0
	v := &view{Template: "enqueue", Title: "Enqueue", Nav: "/enqueue", Still: true, Body: body}
	if len(body.Wrong) > 0 || body.Payload.Wrong != "" {
		v.Status = http.StatusUnprocessableEntity
	}
	return v
}

// copyOf fills in the fields from another task, except for its ID and times.
func (b *enqueueBody) copyOf(t *asynq.TaskInfo, now time.Time) {
	b.From, b.Type, b.Queue, b.Group, b.Payload = t, t.Type, t.Queue, t.Group, payloadFormOf(t.Payload)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		lines = append(lines, headerText(name, true)+": "+headerText(t.Headers[name], false))
	}
	b.Headers = strings.Join(lines, "\n")
	b.MaxRetry = strconv.Itoa(t.MaxRetry)
	if t.Timeout > 0 {
		b.Timeout = lengthText(t.Timeout)
	}
	if t.Deadline.After(now) {
		b.Deadline = t.Deadline.UTC().Format("2006-01-02T15:04:05")
	}
	if t.Retention > 0 {
		b.Retention = lengthText(t.Retention)
	}
}

// lengthText formats a duration without trailing zero units.
func lengthText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// headerText returns a header name or value as one line of the form, quoted if it could not be
// parsed otherwise.
func headerText(s string, isName bool) string {
	plain := fitsField([]byte(s)) && s == strings.TrimSpace(s) && !strings.Contains(s, "\n") && !strings.HasPrefix(s, `"`)
	if plain && (!isName || s != "" && !strings.Contains(s, ":")) {
		return s
	}
	return strconv.Quote(s)
}

// readHeaders parses one header per line.
func readHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(text, "\r", "")) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		var name, value string
		var err error
		if quoted, bad := strconv.QuotedPrefix(line); bad == nil && strings.HasPrefix(line, `"`) {
			name, err = strconv.Unquote(quoted)
			line = strings.TrimSpace(line[len(quoted):])
		} else if at := strings.IndexByte(line, ':'); at > 0 {
			name, line = strings.TrimSpace(line[:at]), line[at:]
		}
		value, ok := strings.CutPrefix(line, ":")
		if value = strings.TrimSpace(value); strings.HasPrefix(value, `"`) && err == nil {
			value, err = strconv.Unquote(value)
		}
		if !ok || err != nil {
			return nil, errors.New("“" + show.Clip(line, 60) + "”: write one header per line, as name: value.")
		}
		headers[name] = value
	}
	return headers, nil
}

// sendEnqueue enqueues a task, or shows the form again with its errors.
func (u *UI) sendEnqueue(w http.ResponseWriter, r *http.Request) (*view, error) {
	b := enqueueForm(r.PostForm)
	if tidy := r.PostForm.Get("tidy"); tidy != "" {
		b.Payload.tidy(tidy)
		return u.enqueueView(r.Context(), b), nil
	}
	task := b.task()
	action := access.Action{Verb: access.TaskEnqueue, Queue: cmp.Or(b.Queue, "default"), Group: b.Group, TaskID: b.ID, Count: 1}
	if !u.Gate.Allow(w, r, action) {
		return nil, nil
	}
	if len(b.Wrong) > 0 || b.Payload.Wrong != "" {
		return u.enqueueView(r.Context(), b), nil
	}
	info, err := u.Client.EnqueueContext(r.Context(), task)
	if info != nil {
		action.TaskID = info.ID
	}
	u.Gate.Done(r, action, err)
	u.Poller.Wake()
	switch {
	case errors.Is(err, asynq.ErrTaskIDConflict):
		b.Wrong["id"] = "The queue already has a task with this ID. Choose another ID, or leave it empty."
	case errors.Is(err, asynq.ErrDuplicateTask):
		b.Wrong["unique"] = "Duplicate: a task with the same queue, type and payload holds the uniqueness lock."
	case err != nil:
		b.Wrong[""] = sentence(err.Error())
	}
	if err != nil {
		return u.enqueueView(r.Context(), b), nil
	}
	u.say(w, r, flash{Text: "The task is " + info.State.String() + " in queue " + show.Clip(info.Queue, 80) + ".", Link: taskPath(info), LinkText: "View task"})
	if r.PostForm.Get("again") != "" {
		return u.to(w, r, "/enqueue", "type", b.Type, "queue", b.Queue)
	}
	return u.to(w, r, "/task", "queue", info.Queue, "id", info.ID)
}

func enqueueForm(f url.Values) *enqueueBody {
	return &enqueueBody{
		Type: f.Get("type"), Queue: f.Get("queue"), ID: f.Get("id"), Group: f.Get("group"), Headers: f.Get("headers"),
		Payload:  payloadForm{Text: f.Get("payload"), Encoding: f.Get("encoding")},
		MaxRetry: f.Get("max_retry"), Timeout: f.Get("timeout"), Deadline: f.Get("deadline"), Unique: f.Get("unique"),
		Retention: f.Get("retention"), ProcessIn: f.Get("process_in"), ProcessAt: f.Get("process_at"), Wrong: map[string]string{},
	}
}

// task returns the task that the form describes. Errors are stored in Wrong.
func (b *enqueueBody) task() *asynq.Task {
	var opts []asynq.Option
	if strings.TrimSpace(b.Type) == "" {
		b.Wrong["type"] = "A type is required: it selects the handler."
	}
	name := func(field, value string, option func(string) asynq.Option) {
		switch {
		case value == "":
		case strings.TrimSpace(value) == "" || !utf8.ValidString(value):
			b.Wrong[field] = "Must be UTF-8 and not blank."
		default:
			opts = append(opts, option(value))
		}
	}
	if name("queue", b.Queue, asynq.Queue); strings.HasPrefix(b.Queue, "}") {
		b.Wrong["queue"] = "Must not begin with }."
	}
	name("id", b.ID, asynq.TaskID)
	name("group", b.Group, asynq.Group)
	length := func(field, value string, least time.Duration, option func(time.Duration) asynq.Option) {
		if value = strings.TrimSpace(value); value == "" {
			return
		}
		d, ok := filter.ParseDuration(value)
		switch {
		case !ok:
			b.Wrong[field] = "Not a duration. Examples: 90s, 10m, 2h, 3d, 1h30m."
		case d < least:
			b.Wrong[field] = "Must be greater than zero."
		default:
			opts = append(opts, option(d))
		}
	}
	length("timeout", b.Timeout, 0, asynq.Timeout)
	length("unique", b.Unique, 1, asynq.Unique)
	length("retention", b.Retention, 0, asynq.Retention)
	length("process_in", b.ProcessIn, 0, asynq.ProcessIn)
	moment := func(field, value string, option func(time.Time) asynq.Option) {
		if strings.TrimSpace(value) == "" {
			return
		}
		if t, ok := parseTime(value); ok {
			opts = append(opts, option(t))
		} else {
			b.Wrong[field] = "Not a time. Write it in UTC, like 2030-12-31 23:59."
		}
	}
	moment("deadline", b.Deadline, asynq.Deadline)
	moment("process_at", b.ProcessAt, asynq.ProcessAt)
	if strings.TrimSpace(b.ProcessIn) != "" && strings.TrimSpace(b.ProcessAt) != "" {
		b.Wrong["process_at"] = "Set either “Run in” or “Run at”, not both."
	}
	if text := strings.TrimSpace(b.MaxRetry); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > math.MaxInt32 {
			b.Wrong["max_retry"] = "Must be a whole number, 0 or more."
		}
		opts = append(opts, asynq.MaxRetry(n))
	}
	headers, err := readHeaders(b.Headers)
	if err != nil {
		b.Wrong["headers"] = err.Error()
	}
	payload, err := b.Payload.bytes()
	if err != nil {
		b.Payload.Wrong = sentence(err.Error())
	}
	return asynq.NewTaskWithHeaders(b.Type, payload, headers, opts...)
}

// taskPath returns the URL of a task's page, below the root path.
func taskPath(t *asynq.TaskInfo) string {
	return "/task?" + url.Values{"queue": {t.Queue}, "id": {t.ID}}.Encode()
}
