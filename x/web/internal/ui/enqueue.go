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
	Headers                                        string // a line for each
	MaxRetry, Timeout, Deadline, Unique, Retention string
	ProcessIn, ProcessAt                           string
	Wrong                                          map[string]string // what is wrong, by field; "" is the whole
	From                                           *asynq.TaskInfo   // that it is a copy of
	Types, Queues                                  []string
	Detailed                                       bool // an option is set, so that all of them are shown
}

// mostNames is how many names a list of suggestions has.
const mostNames = 500

// enqueue is the form, empty or with what a task has that it is to be a copy of.
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
	if known, err := u.Survey.Tasks(ctx); err == nil { // they are suggestions: without them the form is as good
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

// copyOf fills in what another task has. The ID is a new one, and the time is now.
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

// lengthText is a length of time as people write it.
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

// headerText is a name or a value of a header as a line has it: quoted, where it could not be read back otherwise.
func headerText(s string, isName bool) string {
	plain := fitsField([]byte(s)) && s == strings.TrimSpace(s) && !strings.Contains(s, "\n") && !strings.HasPrefix(s, `"`)
	if plain && (!isName || s != "" && !strings.Contains(s, ":")) {
		return s
	}
	return strconv.Quote(s)
}

// readHeaders reads a line for each header.
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
			return nil, errors.New("“" + show.Clip(line, 60) + "”: write each header on a line of its own, as name: value.")
		}
		headers[name] = value
	}
	return headers, nil
}

// sendEnqueue enqueues a task, or shows the form again with what is wrong.
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
		b.Wrong["id"] = "The queue has a task with this ID: choose another one, or leave it out."
	case errors.Is(err, asynq.ErrDuplicateTask):
		b.Wrong["unique"] = "There is such a task: one of the same queue, type and payload holds the lock."
	case err != nil:
		b.Wrong[""] = sentence(err.Error())
	}
	if err != nil {
		return u.enqueueView(r.Context(), b), nil
	}
	u.say(w, r, flash{Text: "The task is " + info.State.String() + " in the queue " + show.Clip(info.Queue, 80) + ".", Link: taskPath(info), LinkText: "Show the task"})
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

// task is the task that the form describes. What is wrong stands in Wrong then.
func (b *enqueueBody) task() *asynq.Task {
	var opts []asynq.Option
	if strings.TrimSpace(b.Type) == "" {
		b.Wrong["type"] = "Say the type of the task: by it a handler is found."
	}
	name := func(field, value string, option func(string) asynq.Option) {
		switch {
		case value == "":
		case strings.TrimSpace(value) == "" || !utf8.ValidString(value):
			b.Wrong[field] = "It must be UTF-8, and not blank."
		default:
			opts = append(opts, option(value))
		}
	}
	if name("queue", b.Queue, asynq.Queue); strings.HasPrefix(b.Queue, "}") {
		b.Wrong["queue"] = "It must not begin with }."
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
			b.Wrong[field] = "This is no length of time: write 90s, 10m, 2h, 3d or 1h30m."
		case d < least:
			b.Wrong[field] = "It must be more than nothing."
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
			b.Wrong[field] = "This is no time: write 2030-12-31 23:59, in UTC."
		}
	}
	moment("deadline", b.Deadline, asynq.Deadline)
	moment("process_at", b.ProcessAt, asynq.ProcessAt)
	if strings.TrimSpace(b.ProcessIn) != "" && strings.TrimSpace(b.ProcessAt) != "" {
		b.Wrong["process_at"] = "Say either when, or in how long."
	}
	if text := strings.TrimSpace(b.MaxRetry); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > math.MaxInt32 {
			b.Wrong["max_retry"] = "It must be a whole number from 0 on."
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

// taskPath is the page of a task, below the root path.
func taskPath(t *asynq.TaskInfo) string {
	return "/task?" + url.Values{"queue": {t.Queue}, "id": {t.ID}}.Encode()
}
