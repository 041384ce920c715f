package ui

import "net/http"

// question is the confirmation of a change of many tasks or of a change that cannot be undone.
// Without scripts it is a page, with scripts a dialog. In both cases it is a form with the field
// confirm.
type question struct {
	Title  string
	Text   []string
	Action string  // path of the form
	Fields []field // hidden fields
	Type   string  // the text that the user must type; may be empty
	Button string  // empty: there is nothing to confirm; Text explains why
	Bar    string  // the reason why the button is disabled; may be empty
	Check  string  // label of a checkbox that the user must tick; may be empty
	Ticked field   // the field of the ticked checkbox
	Harm   bool    // the change is destructive
	Wrong  string  // error of the previous answer
	Back   string
}

type field struct{ Name, Value string }

// ask returns the page of a question.
func (u *UI) ask(r *http.Request, q question) (*view, error) {
	status := http.StatusOK
	if answer := r.PostForm.Get("confirm"); answer != "" {
		q.Wrong = "The text does not match. Nothing was changed."
		status = http.StatusUnprocessableEntity
	}
	if q.Back == "" {
		q.Back = u.back(r)
	}
	return &view{Template: "confirm", Title: q.Title, Body: q, Still: true, Status: status}, nil
}
