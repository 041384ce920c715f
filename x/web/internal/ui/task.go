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

// taskBody is all of a task.
type taskBody struct {
	*asynq.TaskInfo
	State    string
	Worker   *worker
	Payload  bytesView
	Result   bytesView
	Error    string // its first line
	Alike    string // a filter that finds tasks with this error
	Stack    []show.Token
	Headers  []field
	Times    []moment
	Can      map[string]bool // what can be done with it now
	Original bool            // its payload may be edited and copied: all of it is shown, and fits a form
	Back     string
}

// moment is a thing that has happened to a task, or will.
type moment struct {
	What  string
	At    time.Time
	State string // the colour
	Ahead bool
}

// bytesView is a payload or a result, as one of its forms.
type bytesView struct {
	Name     string // payload or result
	Form     string // json, text, hex or formatted; nothing
	Forms    []formLink
	Tokens   []show.Token
	Size     int
	Shown    int // bytes that a page shows at most; 0: there is no more
	All      string
	Redacted bool
	Download string
}

type formLink struct {
	Name, URL string
	Current   bool
}

// How many bytes of a payload a page shows, and how many when asked for all.
const (
	shownBytes = 32 << 10
	allBytes   = 2 << 20
	stillBytes = 64 << 10 // from here on a page is not asked for again by itself
	mostTokens = 20_000   // with colours
)

const formFormatted = "formatted"

// bytesOf shows a payload or a result in the form that fits, or that was asked for.
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
			v.Tokens = plain(v.Tokens) // colours would make the page several times as large
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

// plain is tokens without their looks.
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
	body.Times = moments(body, u.now())
	body.Can = u.canDo(r, body)
	body.Back, _ = u.link("/tasks", "queue", t.Queue, "state", body.State)
	return &view{
		Template: "task", Title: t.Type + " " + t.ID, Nav: "/queues", Body: body,
		Still: len(t.Payload)+len(t.Result)+len(t.LastErr) > stillBytes,
	}, nil
}

// findTask looks a task up, and says what may have become of it where there is none.
func (u *UI) findTask(r *http.Request, queue, id string) (*asynq.TaskInfo, error) {
	inspector, cancel := u.inspector(r)
	defer cancel()
	if queue == "" || id == "" {
		return nil, invalid("Say which task: /task?queue=default&id=….")
	}
	t, err := inspector.GetTaskInfo(queue, id)
	switch {
	case errors.Is(err, asynq.ErrQueueNotFound):
		return nil, notFound("There is no queue %q.", queue)
	case errors.Is(err, asynq.ErrTaskNotFound):
		return nil, notFound("There is no task %q in the queue %q. It has been deleted, or it has succeeded: without a retention, a task is gone then.", id, queue)
	}
	return t, err
}

// moments are what is known of the life of a task, in the order of their times.
func moments(b *taskBody, now time.Time) []moment {
	var all []moment
	add := func(what string, at time.Time, state string) {
		if !at.IsZero() {
			all = append(all, moment{what, at, state, at.After(now)})
		}
	}
	t := b.TaskInfo
	add("An attempt failed", t.LastFailedAt, "retry")
	add("Succeeded", t.CompletedAt, "completed")
	if b.Worker != nil {
		add("A worker took it", b.Worker.Started, "active")
		if b.Worker.Deadline.After(now) {
			add("This attempt must end", b.Worker.Deadline, "archived")
		}
	}
	switch t.State {
	case asynq.TaskStateScheduled:
		add("Becomes pending", t.NextProcessAt, "scheduled")
	case asynq.TaskStateRetry:
		add("Is tried again", t.NextProcessAt, "retry")
	case asynq.TaskStateCompleted:
		if !t.CompletedAt.IsZero() {
			add("Is deleted: its retention ends", t.CompletedAt.Add(t.Retention), "completed")
		}
	}
	if t.State != asynq.TaskStateCompleted {
		add("Its deadline", t.Deadline, "archived")
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.At.Compare(b.At) })
	return all
}

// canDo is what can be done with a task, by who asks.
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

// download sends the bytes of a payload or a result, as far as they may be shown.
func (u *UI) download(w http.ResponseWriter, r *http.Request) {
	if !u.Gate.Allow(w, r, u.looks(r)) {
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
	_, _ = w.Write(data) // the browser has gone, if anything
}

// fileName is an ID as a part of the name of a file.
func fileName(id string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, id)
	return name[:min(len(name), 80)]
}
