package ui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// editBody is the form for the payload of a scheduled task.
type editBody struct {
	*asynq.TaskInfo
	Payload payloadForm
	Seen    string // digest of the payload that the user started from
	Changed bool   // the payload has changed since
}

// Now returns the current payload of the task as text.
func (b *editBody) Now() string { return payloadFormOf(b.TaskInfo.Payload).Text }

func digest(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// whole returns a task whose complete payload the user may see.
func (u *UI) whole(r *http.Request, queue, id string) (*asynq.TaskInfo, error) {
	t, err := u.findTask(r, queue, id)
	if err != nil {
		return nil, err
	}
	if _, redacted := u.Redact.Bytes(t.Queue, t.Type, t.Payload); redacted {
		return nil, &httpError{http.StatusForbidden, "The payload of this task is redacted, so it cannot be edited or cloned."}
	}
	if len(t.Payload) > mostEdited {
		return nil, &httpError{http.StatusRequestEntityTooLarge, "The payload is too large for a form: " + show.Bytes(int64(len(t.Payload))) + "."}
	}
	return t, nil
}

// edit is the page with the form for a payload.
func (u *UI) edit(r *http.Request) (*view, error) {
	if !u.Gate.Can(r, access.TaskEdit) {
		return nil, &httpError{http.StatusForbidden, "Your role does not include editing tasks."}
	}
	t, err := u.whole(r, r.URL.Query().Get("queue"), r.URL.Query().Get("id"))
	if err != nil {
		return nil, err
	}
	if t.State != asynq.TaskStateScheduled {
		return nil, &httpError{http.StatusConflict, "The task is " + t.State.String() + ". Only the payload of a scheduled task can be changed. Clone the task instead."}
	}
	return editView(&editBody{TaskInfo: t, Payload: payloadFormOf(t.Payload), Seen: digest(t.Payload)}), nil
}

func editView(body *editBody) *view {
	v := &view{Template: "edit", Title: "Edit " + body.ID, Nav: "/queues", Still: true, Body: body}
	switch {
	case body.Changed:
		v.Status = http.StatusConflict
	case body.Payload.Wrong != "":
		v.Status = http.StatusUnprocessableEntity
	}
	return v
}

// saveEdit replaces the payload if it has not changed since the form was created. Otherwise it
// shows the form again, with the current payload and the user's version; submitting that form
// replaces the current payload.
func (u *UI) saveEdit(w http.ResponseWriter, r *http.Request) (*view, error) {
	queue, id := r.PostForm.Get("queue"), r.PostForm.Get("id")
	action := access.Action{Verb: access.TaskEdit, Queue: queue, TaskID: id, Count: 1}
	if !u.Gate.Allow(w, r, action) {
		return nil, nil
	}
	t, err := u.whole(r, queue, id)
	if err != nil {
		return nil, err
	}
	body := &editBody{
		TaskInfo: t, Payload: payloadForm{Text: r.PostForm.Get("payload"), Encoding: r.PostForm.Get("encoding")}, Seen: r.PostForm.Get("seen"),
	}
	if tidy := r.PostForm.Get("tidy"); tidy != "" {
		body.Payload.tidy(tidy)
		return editView(body), nil
	}
	data, err := body.Payload.bytes()
	if err != nil {
		body.Payload.Wrong = sentence(err.Error())
		return editView(body), nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	if t.State == asynq.TaskStateScheduled && digest(t.Payload) != body.Seen && !bytes.Equal(t.Payload, data) {
		err = asynq.ErrTaskChanged
	} else {
		err = u.Inspector.CompareAndSwapTaskPayload(ctx, queue, id, t.Payload, data)
	}
	u.Gate.Done(r, action, err)
	u.Poller.Wake()
	if errors.Is(err, asynq.ErrTaskChanged) {
		if body.TaskInfo, err = u.whole(r, queue, id); err != nil {
			return nil, err
		}
		body.Seen, body.Changed = digest(body.TaskInfo.Payload), true
		return editView(body), nil
	}
	if err != nil {
		body.Payload.Wrong = sentence(err.Error())
		return editView(body), nil
	}
	u.say(w, r, flash{Text: "Payload saved."})
	return u.to(w, r, "/task", "queue", queue, "id", id)
}
