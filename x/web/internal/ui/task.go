package ui

import (
	"cmp"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// taskBody is the page of a task.
type taskBody struct {
	*asynq.TaskInfo
	State    string
	Worker   *worker
	Payload  bytesView
	Result   bytesView
	Error    string // the first line
	Alike    string // a filter that finds tasks with this error
	Stack    []show.Token
	Headers  []field
	Times    []moment
	Attempts []attempt
	Steps    []taskStep
	Can      map[string]bool // the possible changes
	Original bool            // the payload may be edited and cloned: it is not redacted and fits in a form
	Back     string
}

// moment is a past or future event of a task.
type moment struct {
	What  string
	At    time.Time
	State string // the color
	Ahead bool
}

// attempt is a failed attempt.
type attempt struct {
	asynq.AttemptInfo
	Kind  string // in words
	Error string // the first line
	Text  []show.Token
}

// attemptsOf returns the failed attempts, the newest first.
func attemptsOf(t *asynq.TaskInfo) []attempt {
	all := make([]attempt, 0, len(t.Attempts))
	for _, a := range slices.Backward(t.Attempts) {
		first, rest, _ := strings.Cut(strings.TrimSpace(a.Err), "\n")
		shown := attempt{AttemptInfo: a, Kind: strings.ReplaceAll(string(a.Kind), "_", " "), Error: show.Clip(first, 200)}
		if rest != "" || len(first) > 200 {
			shown.Text, _ = show.VisibleTokens([]byte(a.Err), allBytes)
		}
		all = append(all, shown)
	}
	return all
}

// Percent returns the progress of the task in percent, rounded down.
func (b *taskBody) Percent() int { return int(100 * b.Progress.Fraction) }

// bytesView is a payload or a result in one of its forms.
type bytesView struct {
	Name     string // payload or result
	Form     string // json, text, hex, formatted or nothing
	Forms    []formLink
	Tokens   []show.Token
	Size     int
	Shown    int // bytes on the page if truncated; otherwise 0
	All      string
	Redacted bool
	Download string
}

type formLink struct {
	Name, URL string
	Current   bool
}

// Limits of payloads on pages: the bytes shown by default, and the bytes of all.
const (
	shownBytes = 32 << 10
	allBytes   = 2 << 20
	stillBytes = 64 << 10 // pages with more bytes are not reloaded after snapshots
	mostTokens = 20_000   // with colors
)

const formFormatted = "formatted"

// bytesOf returns a payload or result in the requested form, or by default in the form that fits
// best.
func (u *UI) bytesOf(r *http.Request, name string, t *asynq.TaskInfo, data []byte, text func(string, []byte) (string, bool)) bytesView {
	q := r.URL.Query()
	shown, redacted := u.Redact.Bytes(t.Queue, t.Type, data)
	v := bytesView{Name: name, Size: len(shown), Redacted: redacted}
	fits := show.FormOf(shown)
	if v.Form = string(fits); fits == show.Nothing {
		return v
	}
	own, hasOwn := formatted(text, t.Type, shown)
	forms := []string{string(show.Text), string(show.Hex)}
	if fits == show.JSON {
		forms = slices.Insert(forms, 0, string(show.JSON))
	}
	if hasOwn {
		forms, v.Form = slices.Insert(forms, 0, formFormatted), formFormatted
	}
	if preset := settingsOf(r).Payload; slices.Contains(forms, preset) {
		v.Form = preset
	}
	param := map[string]string{"payload": "as", "result": "result_as"}[name]
	if asked := q.Get(param); slices.Contains(forms, asked) {
		v.Form = asked
	}
	self := func(set, value string) string {
		c := r.URL.Query()
		c.Set(set, value)
		return u.Root + "/task?" + c.Encode()
	}
	for _, form := range forms {
		v.Forms = append(v.Forms, formLink{form, self(param, form), form == v.Form})
	}
	limit := shownBytes
	if q.Get("all") == name {
		limit = allBytes
	}
	var more bool
	switch v.Form {
	case string(show.JSON):
		if v.Tokens, more = show.Indent(shown, limit); limit == allBytes && len(v.Tokens) > mostTokens {
			v.Tokens = plain(v.Tokens) // colors would make the page several times as large
		}
	case string(show.Hex):
		var dump string
		dump, more = show.Dump(shown, limit/4)
		v.Tokens = []show.Token{{Text: dump}}
	case formFormatted:
		v.Tokens, more = show.VisibleTokens([]byte(own), limit)
	default:
		v.Tokens, more = show.VisibleTokens(shown, limit)
	}
	if more {
		v.Shown = limit
		if limit < allBytes {
			v.All = self("all", name)
		}
	}
	v.Download, _ = u.link("/download", "queue", t.Queue, "id", t.ID, "of", name)
	return v
}

// plain returns tokens without classes.
func plain(list []show.Token) []show.Token {
	var b strings.Builder
	for _, token := range list {
		b.WriteString(token.Text)
	}
	return []show.Token{{Text: b.String()}}
}

// task is the page of one task.
func (u *UI) task(r *http.Request) (*view, error) {
	t, err := u.findTask(r, r.URL.Query().Get("queue"), r.URL.Query().Get("id"))
	if err != nil {
		return nil, err
	}
	body := &taskBody{TaskInfo: t, State: t.State.String()}
	if t.State == asynq.TaskStateActive {
		body.Worker = u.workers()[taskKey{t.Queue, t.ID}]
	}
	body.Payload = u.bytesOf(r, "payload", t, t.Payload, u.PayloadText)
	body.Result = u.bytesOf(r, "result", t, t.Result, u.ResultText)
	body.Original = !body.Payload.Redacted && len(t.Payload) <= mostEdited
	for name, value := range t.Headers {
		body.Headers = append(body.Headers, field{name, value})
	}
	slices.SortFunc(body.Headers, func(a, b field) int { return cmp.Compare(a.Name, b.Name) })
	first, rest, _ := strings.Cut(strings.TrimSpace(t.LastErr), "\n")
	body.Error = show.Clip(first, 600)
	body.Alike = term("error", first[:min(len(first), 120)])
	if rest != "" || len(first) > 600 {
		body.Stack, _ = show.VisibleTokens([]byte(t.LastErr), allBytes)
	}
	body.Times, body.Attempts = moments(body, u.now()), attemptsOf(t)
	if body.Steps, err = u.stepsOf(r, t); err != nil {
		return nil, err
	}
	body.Can = u.canDo(r, body)
	body.Back, _ = u.link("/tasks", "queue", t.Queue, "state", body.State)
	return &view{
		Template: "task", Title: t.Type + " " + t.ID, Nav: "/queues", Body: body,
		Still: len(t.Payload)+len(t.Result)+len(t.LastErr) > stillBytes,
	}, nil
}

// findTask returns a task. If there is none, the error explains what may have happened to it.
func (u *UI) findTask(r *http.Request, queue, id string) (*asynq.TaskInfo, error) {
	inspector, cancel := u.inspector(r)
	defer cancel()
	if queue == "" || id == "" {
		return nil, invalid("The parameters queue and id are required: /task?queue=default&id=….")
	}
	t, err := inspector.GetTaskInfo(queue, id)
	switch {
	case errors.Is(err, asynq.ErrQueueNotFound):
		return nil, notFound("There is no queue %q.", queue)
	case errors.Is(err, asynq.ErrTaskNotFound):
		return nil, notFound("There is no task %q in queue %q. It was deleted, or it completed: without a Retention, completed tasks are deleted at once.", id, queue)
	}
	return t, err
}

// moments returns the known events of a task in the order of their times.
func moments(b *taskBody, now time.Time) []moment {
	var all []moment
	add := func(what string, at time.Time, state string) {
		if !at.IsZero() {
			all = append(all, moment{what, at, state, at.After(now)})
		}
	}
	t := b.TaskInfo
	add("Attempt failed", t.LastFailedAt, "retry")
	add("Completed", t.CompletedAt, "completed")
	if b.Worker != nil {
		add("Attempt started", b.Worker.Started, "active")
		if b.Worker.Deadline.After(now) {
			add("Attempt deadline", b.Worker.Deadline, "archived")
		}
	}
	switch t.State {
	case asynq.TaskStateScheduled:
		add("Scheduled for", t.NextProcessAt, "scheduled")
	case asynq.TaskStateRetry:
		add("Next attempt", t.NextProcessAt, "retry")
	case asynq.TaskStateCompleted:
		if !t.CompletedAt.IsZero() {
			add("Expires", t.CompletedAt.Add(t.Retention), "completed")
		}
	}
	if t.State != asynq.TaskStateCompleted {
		add("Deadline", t.Deadline, "archived")
		add("Expires", t.ExpiresAt, "archived")
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.At.Compare(b.At) })
	return all
}

// canDo returns the changes that the user may make to a task.
func (u *UI) canDo(r *http.Request, b *taskBody) map[string]bool {
	can := map[string]bool{}
	for _, kind := range bulk.Kinds(b.TaskInfo.State) {
		can[string(kind)] = u.Gate.Can(r, verbs[kind])
	}
	can["cancel-archive"] = can["cancel"] && u.Gate.Can(r, access.TaskArchive)
	can["cancel-delete"] = can["cancel"] && u.Gate.Can(r, access.TaskDelete)
	can["reschedule"] = b.TaskInfo.State != asynq.TaskStateActive && u.Gate.Can(r, access.TaskReschedule)
	can["edit"] = b.TaskInfo.State == asynq.TaskStateScheduled && b.Original && u.Gate.Can(r, access.TaskEdit)
	can["clone"] = b.Original && u.Gate.Can(r, access.TaskEnqueue)
	return can
}

// download sends the bytes of a payload or result, after redaction.
func (u *UI) download(w http.ResponseWriter, r *http.Request) {
	if !u.Gate.Allow(w, r, u.viewAction(r)) {
		return
	}
	q := r.URL.Query()
	t, err := u.findTask(r, q.Get("queue"), q.Get("id"))
	if err != nil {
		u.render(w, r, u.failure(r, err))
		return
	}
	of, data := "payload", t.Payload
	if q.Get("of") == "result" {
		of, data = "result", t.Result
	}
	data, _ = u.Redact.Bytes(t.Queue, t.Type, data)
	end := map[show.Form]string{show.JSON: ".json", show.Text: ".txt"}[show.FormOf(data)]
	name := fileName(t.ID) + "-" + of + cmp.Or(end, ".bin")
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // fails only if the client has disconnected
}

// fileName returns an ID as a part of a file name.
func fileName(id string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, id)
	return name[:min(len(name), 80)]
}
