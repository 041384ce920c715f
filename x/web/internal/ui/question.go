package ui

import "net/http"

// question is what is asked before something is done to many tasks, or cannot be undone. Without scripts it is a page, with them it stands in a
// dialog; either way it is a form, and its answer the field confirm.
type question struct {
	Title  string
	Text   []string
	Action string  // path that the form is sent to
	Fields []field // what is sent with it
	Type   string  // what must be typed to go on; empty: nothing
	Button string  // empty: there is nothing to do, and the text says why
	Harm   bool    // what the button does destroys something
	Wrong  string  // what is wrong with the answer before
	Back   string
}

type field struct{ Name, Value string }

// ask is the page of a question.
func (u *UI) ask(r *http.Request, q question) (*view, error) {
	status := http.StatusOK
	if answer := r.PostForm.Get("confirm"); answer != "" {
		q.Wrong = "That is not it: nothing was done."
		status = http.StatusUnprocessableEntity
	}
	if q.Back == "" {
		q.Back = u.back(r)
	}
	return &view{Template: "confirm", Title: q.Title, Body: q, Still: true, Status: status}, nil
}
