package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/search"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// verbs are what the gate is asked for each kind of change.
var verbs = map[bulk.Kind]access.Verb{
	bulk.Run: access.TaskRun, bulk.Archive: access.TaskArchive, bulk.Delete: access.TaskDelete, bulk.Cancel: access.TaskCancel,
}

// changed says in the words of a sentence what was done.
var changed = map[bulk.Kind]string{
	bulk.Run: "run now", bulk.Archive: "archived", bulk.Delete: "deleted", bulk.Cancel: "asked to end",
}

// Bounds of changes of many tasks.
const (
	mostSpecs     = 100     // operations that one form may start
	mostCounted   = 100_000 // tasks that are looked at to count those that a filter finds
	countPatience = 5 * time.Second
	waitPatience  = 3 * time.Second // how long a change of picked tasks is waited for
)

// changeTasks carries out a change of the tasks that were picked, or of all that match. The form has do for the one, and all for the other.
func (u *UI) changeTasks(w http.ResponseWriter, r *http.Request) (*view, error) {
	form := r.PostForm
	all := form.Get("all") != ""
	kind := bulk.Kind(cmp.Or(form.Get("all"), form.Get("do")))
	if _, ok := verbs[kind]; !ok || u.Bulk == nil {
		return nil, invalid("Tasks can be run, archived, deleted or canceled, but not %q.", kind)
	}
	specs, err := u.specs(r, kind, all)
	if err != nil {
		return nil, err
	}
	for _, spec := range specs {
		if !u.Gate.Allow(w, r, actionOf(spec, len(spec.IDs))) {
			return nil, nil
		}
	}
	switch {
	case len(specs) == 0 && !all:
		u.say(w, r, flash{Text: "No task is picked.", Bad: true})
		http.Redirect(w, r, u.back(r), http.StatusSeeOther)
		return nil, nil
	case all && (form.Get("confirm") == "" || form.Get("confirm") != form.Get("count")):
		return u.askAll(r, kind, specs)
	case !all && kindButtons[kind].Asked && form.Get("confirm") != "yes":
		return u.askPicked(r, kind, specs)
	}
	ops := make([]bulk.Operation, 0, len(specs))
	for _, spec := range specs {
		op, err := u.start(r, spec)
		if err != nil {
			u.say(w, r, flash{Text: sentence(err.Error()), Bad: true})
			return u.to(w, r, "/operations")
		}
		ops = append(ops, op)
	}
	if len(ops) == 0 {
		u.say(w, r, flash{Text: "There is no such task any more: nothing was done."})
		http.Redirect(w, r, u.back(r), http.StatusSeeOther)
		return nil, nil
	}
	if all {
		if len(ops) == 1 {
			return u.to(w, r, "/operation", "id", ops[0].ID)
		}
		return u.to(w, r, "/operations")
	}
	return u.sayPicked(w, r, kind, ops)
}

// specs are the operations that a form asks for: one for each queue, and for all that match one for each state as well.
func (u *UI) specs(r *http.Request, kind bulk.Kind, all bool) ([]bulk.Spec, error) {
	form := r.PostForm
	if !all {
		return pickedSpecs(form, kind)
	}
	base := bulk.Spec{Kind: kind, Queue: form.Get("queue"), State: form.Get("state"), Group: form.Get("group"), Filter: form.Get("filter")}
	if base.Queue != "" && base.State != "" {
		var wrong *bulk.SpecError
		if err := base.Check(); errors.As(err, &wrong) {
			return nil, invalid("%s", sentence(wrong.Detail))
		}
		return []bulk.Spec{base}, nil
	}
	f, err := filter.Parse(base.Filter)
	if err != nil {
		return nil, invalid("%s", sentence(err.Error()))
	}
	var queues []string
	if base.Queue != "" {
		queues = []string{base.Queue}
	}
	inspector, cancel := u.inspector(r)
	defer cancel()
	infos, err := inspector.WithMemorySamples(0).QueueInfos(r.Context(), queues...)
	if err != nil {
		return nil, err
	}
	var specs []bulk.Spec
	for _, q := range infos {
		if q.Err != nil || !f.MayMatch(q.Queue, 0) {
			continue
		}
		for _, state := range filter.AllStates {
			fits := slices.Contains(bulk.Kinds(state), kind) && (base.State == "" || base.State == state.String())
			if fits && search.CountOf(q.Info, state) > 0 && f.MayMatch(q.Queue, state) {
				specs = append(specs, bulk.Spec{Kind: kind, Queue: q.Queue, State: state.String(), Filter: base.Filter})
			}
		}
	}
	if len(specs) > mostSpecs {
		return nil, invalid("These are tasks of %d states of queues: at most %d can be changed at a time. Choose a queue or a state.", len(specs), mostSpecs)
	}
	return specs, nil
}

// pickedSpecs are the operations for tasks that were picked. Each is named by its ID, or with its queue as pick makes it.
func pickedSpecs(form url.Values, kind bulk.Kind) ([]bulk.Spec, error) {
	ids := map[string][]string{}
	if len(form["id"]) > bulk.MaxIDs {
		return nil, invalid("%d tasks are picked: at most %d can be at a time.", len(form["id"]), bulk.MaxIDs)
	}
	for _, id := range form["id"] {
		queue := form.Get("queue")
		if form.Get("mixed") != "" {
			q, err := url.ParseQuery(id)
			if err != nil {
				return nil, invalid("What was picked cannot be read: load the page again.")
			}
			queue, id = q.Get("queue"), q.Get("id")
		}
		if !slices.Contains(ids[queue], id) {
			ids[queue] = append(ids[queue], id)
		}
	}
	var specs []bulk.Spec
	for queue, ids := range ids {
		spec := bulk.Spec{Kind: kind, Queue: queue, State: form.Get("state"), IDs: ids}
		var wrong *bulk.SpecError
		if err := spec.Check(); errors.As(err, &wrong) {
			return nil, invalid("%s", sentence(wrong.Detail))
		}
		specs = append(specs, spec)
	}
	slices.SortFunc(specs, func(a, b bulk.Spec) int { return cmp.Compare(a.Queue, b.Queue) })
	return specs, nil
}

// pick names a task where a list has those of more than one queue.
func pick(queue, id string) string { return url.Values{"queue": {queue}, "id": {id}}.Encode() }

// actionOf is what an operation does, for the gate.
func actionOf(s bulk.Spec, count int) access.Action {
	return access.Action{Verb: verbs[s.Kind], Queue: s.Queue, Group: s.Group, State: s.State, Filter: s.Filter, Count: count}
}

// start starts an operation, which writes to the audit log when it has ended.
func (u *UI) start(r *http.Request, spec bulk.Spec) (bulk.Operation, error) {
	later := r.Clone(context.WithoutCancel(r.Context()))
	return u.Bulk.Start(access.UserFrom(r.Context()).Name, spec, func(op bulk.Operation) {
		var failed error
		if op.Err != "" {
			failed = errors.New(op.Err)
		}
		u.Gate.Done(later, actionOf(op.Spec, op.Changed), failed)
		u.Poller.Wake()
	})
}

// sayPicked waits a little for a change of picked tasks, and goes back to where they were picked.
func (u *UI) sayPicked(w http.ResponseWriter, r *http.Request, kind bulk.Kind, ops []bulk.Operation) (*view, error) {
	ctx, cancel := context.WithTimeout(r.Context(), waitPatience)
	defer cancel()
	done, failed := 0, 0
	var why, first string
	for _, op := range ops {
		op, ok := u.Bulk.Wait(ctx, op.ID)
		if !ok || !op.Status.Ended() {
			return u.to(w, r, "/operations")
		}
		done, failed = done+op.Changed, failed+op.Failed
		for _, result := range op.Results {
			if result.Err != nil && why == "" {
				why, first = result.Err.Error(), op.ID
			}
		}
	}
	said := flash{Text: fmt.Sprintf("%s: %s.", show.Plural(int64(done), "task"), changed[kind])}
	if failed > 0 {
		said.Bad, said.Link, said.LinkText = true, "/operation?"+url.Values{"id": {first}}.Encode(), "What became of each"
		said.Text += fmt.Sprintf(" %s could not be: %s", show.Number(int64(failed)), sentence(why))
	}
	u.say(w, r, said)
	http.Redirect(w, r, u.back(r), http.StatusSeeOther)
	return nil, nil
}

func (u *UI) askPicked(r *http.Request, kind bulk.Kind, specs []bulk.Spec) (*view, error) {
	n := 0
	q := question{Action: "/tasks", Button: kindButtons[kind].Name, Harm: kindButtons[kind].Asked, Fields: formFields(r.PostForm, "confirm")}
	for _, spec := range specs {
		n += len(spec.IDs)
	}
	q.Title = fmt.Sprintf("%s %s?", kindButtons[kind].Name, show.Plural(int64(n), "task"))
	q.Text = []string{"They cannot be brought back."}
	return u.ask(r, q)
}

// askAll counts what would be changed, and asks for that number.
func (u *UI) askAll(r *http.Request, kind bulk.Kind, specs []bulk.Spec) (*view, error) {
	ctx, cancel := context.WithTimeout(r.Context(), countPatience)
	defer cancel()
	n, left, complete := 0, mostCounted, true
	for _, spec := range specs {
		if left <= 0 {
			complete = false
			break
		}
		c, err := u.Bulk.Count(ctx, spec, left)
		if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
			complete = false
			break
		}
		if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
			return nil, err
		}
		n, left, complete = n+c.N, left-c.Looked, complete && c.Complete
	}
	name := kindButtons[kind].Name
	if n == 0 && complete {
		return u.ask(r, question{Title: "There is nothing to do", Text: []string{"No task fits now: others were faster, or the filter finds none that could be changed so."}})
	}
	about := show.Number(int64(n)) + " "
	if !complete {
		about = "at least " + about
	}
	q := question{
		Title: fmt.Sprintf("%s %stasks?", name, about), Button: name + " them", Action: "/tasks", Type: strconv.Itoa(n), Harm: kindButtons[kind].Asked,
		Fields: append(formFields(r.PostForm, "confirm", "count", "id", "do"), field{"count", strconv.Itoa(n)}),
		Text:   []string{describe(specs, r.PostForm)},
	}
	if n == 1 && complete {
		q.Title = name + " 1 task?"
	}
	switch kind {
	case bulk.Delete:
		q.Text = append(q.Text, "They cannot be brought back.")
	case bulk.Archive:
		q.Text = append(q.Text, "The archive of a queue keeps the newest 10,000.")
	case bulk.Cancel:
		q.Text = append(q.Text, "Their handlers are asked to end; the tasks are tried again later, if they may be.")
	case bulk.Run:
		q.Text = append(q.Text, "They become pending, and run as soon as a worker is free.")
	}
	if !complete {
		q.Text = append(q.Text, "Only "+show.Number(mostCounted)+" tasks were looked at to count them, so there may be more. All that match when the operation comes to them are changed.")
	}
	return u.ask(r, q)
}

// describe says which tasks operations are about.
func describe(specs []bulk.Spec, form url.Values) string {
	s := "All tasks"
	if len(specs) == 1 {
		s = "All " + specs[0].State + " tasks"
		if specs[0].Group != "" {
			s += " of the group " + show.Clip(specs[0].Group, 80)
		}
		s += " in the queue " + show.Clip(specs[0].Queue, 80)
	} else if queue := form.Get("queue"); queue != "" {
		s += " in the queue " + show.Clip(queue, 80)
	}
	if f := form.Get("filter"); f != "" {
		s += " that match: " + show.Clip(f, 200)
	}
	return s + "."
}

// formFields are all fields of a form but some, to be sent again with an answer.
func formFields(form url.Values, but ...string) []field {
	var fields []field
	for name, values := range form {
		if !slices.Contains(but, name) {
			for _, value := range values {
				fields = append(fields, field{name, value})
			}
		}
	}
	slices.SortStableFunc(fields, func(a, b field) int { return cmp.Compare(a.Name, b.Name) })
	return fields
}
