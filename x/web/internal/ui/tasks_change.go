package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// verbs maps kinds of changes to permissions.
var verbs = map[bulk.Kind]access.Verb{
	bulk.Run: access.TaskRun, bulk.Archive: access.TaskArchive, bulk.Delete: access.TaskDelete, bulk.Cancel: access.TaskCancel,
}

// changed maps kinds of changes to their past participles.
var changed = map[bulk.Kind]string{
	bulk.Run: "moved to pending", bulk.Archive: "archived", bulk.Delete: "deleted", bulk.Cancel: "canceled",
}

// Bounds of changes of many tasks.
const (
	mostSpecs    = 100     // operations that one form may start
	mostCounted  = 100_000 // tasks scanned to count the matches of a filter
	countTimeout = 5 * time.Second
	waitTimeout  = 5 * time.Second // how long the response waits for a change of selected tasks
)

// changeTasks changes the selected tasks (form field do) or all matching tasks (form field all).
func (u *UI) changeTasks(w http.ResponseWriter, r *http.Request) (*view, error) {
	form := r.PostForm
	all := form.Get("all") != ""
	kind := bulk.Kind(cmp.Or(form.Get("all"), form.Get("do")))
	if _, ok := verbs[kind]; !ok || u.Bulk == nil {
		return nil, invalid("Unknown action %q: tasks can be run, archived, deleted or canceled.", kind)
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
	archives := false // it deletes archived tasks without consent so far
	if kind == bulk.Archive && !accepts(r, specs) {
		n, err := u.overflow(r, specs)
		if err != nil {
			return nil, err
		}
		archives = n > 0
	}
	switch {
	case len(specs) == 0 && !all:
		u.say(w, r, flash{Text: "No task is selected.", Bad: true})
		http.Redirect(w, r, u.back(r), http.StatusSeeOther)
		return nil, nil
	case all && (archives || form.Get("confirm") == "" || form.Get("confirm") != form.Get("count")):
		return u.askAll(r, kind, specs)
	case !all && (archives || kindButtons[kind].Confirm && form.Get("confirm") != "yes"):
		return u.askSelected(r, kind, specs)
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
		u.say(w, r, flash{Text: "These tasks no longer exist. Nothing was changed."})
		http.Redirect(w, r, u.back(r), http.StatusSeeOther)
		return nil, nil
	}
	if all {
		if len(ops) == 1 {
			return u.to(w, r, "/operation", "id", ops[0].ID)
		}
		return u.to(w, r, "/operations")
	}
	return u.saySelected(w, r, kind, ops)
}

// specs returns the operations of a form: one per queue, and for all matching tasks one per queue
// and state.
func (u *UI) specs(r *http.Request, kind bulk.Kind, all bool) ([]bulk.Spec, error) {
	form := r.PostForm
	if !all {
		return selectedSpecs(form, kind)
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
		return nil, invalid("These tasks are in %d combinations of queue and state; one operation covers at most %d. Choose a queue or a state.", len(specs), mostSpecs)
	}
	return specs, nil
}

// selectedSpecs returns the operations for selected tasks. Each is named by its ID, or by its queue
// and ID in the form of pick.
func selectedSpecs(form url.Values, kind bulk.Kind) ([]bulk.Spec, error) {
	ids := map[string][]string{}
	if len(form["id"]) > bulk.MaxIDs {
		return nil, invalid("%d tasks are selected. An operation can change at most %d.", len(form["id"]), bulk.MaxIDs)
	}
	for _, id := range form["id"] {
		queue := form.Get("queue")
		if form.Get("mixed") != "" {
			q, err := url.ParseQuery(id)
			if err != nil {
				return nil, invalid("The selection is not valid. Reload the page.")
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

// pick names a task in a list with tasks of several queues.
func pick(queue, id string) string { return url.Values{"queue": {queue}, "id": {id}}.Encode() }

// actionOf returns the action of an operation, for the gate.
func actionOf(s bulk.Spec, count int) access.Action {
	return access.Action{Verb: verbs[s.Kind], Queue: s.Queue, Group: s.Group, State: s.State, Filter: s.Filter, Count: count}
}

// start starts an operation, which is logged in the audit log when it ends.
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

// saySelected waits briefly for a change of selected tasks and redirects to the list.
func (u *UI) saySelected(w http.ResponseWriter, r *http.Request, kind bulk.Kind, ops []bulk.Operation) (*view, error) {
	ctx, cancel := context.WithTimeout(r.Context(), waitTimeout)
	defer cancel()
	done, failed, deleted := 0, 0, 0
	var why, first string
	for _, op := range ops {
		op, ok := u.Bulk.Wait(ctx, op.ID)
		if !ok || !op.Status.Ended() {
			return u.to(w, r, "/operations")
		}
		done, failed, deleted = done+op.Changed, failed+op.Failed, deleted+op.Discarded
		for _, result := range op.Results {
			if result.Err != nil && why == "" {
				why, first = result.Err.Error(), op.ID
			}
		}
	}
	said := flash{Text: fmt.Sprintf("%s %s.", show.Plural(int64(done), "task"), changed[kind]) + discarded(deleted)}
	if failed > 0 {
		said.Bad, said.Link, said.LinkText = true, "/operation?"+url.Values{"id": {first}}.Encode(), "Results"
		said.Text += fmt.Sprintf(" %s failed: %s", show.Number(int64(failed)), sentence(why))
	}
	u.say(w, r, said)
	http.Redirect(w, r, u.back(r), http.StatusSeeOther)
	return nil, nil
}

func (u *UI) askSelected(r *http.Request, kind bulk.Kind, specs []bulk.Spec) (*view, error) {
	n := 0
	q := question{Action: "/tasks", Button: kindButtons[kind].Name, Harm: kindButtons[kind].Confirm, Fields: formFields(r.PostForm, "confirm", discardField.Name)}
	for _, spec := range specs {
		n += len(spec.IDs)
	}
	q.Title = fmt.Sprintf("%s %s?", kindButtons[kind].Name, show.Plural(int64(n), "task"))
	q.Button += " " + show.Plural(int64(n), "task")
	if kind == bulk.Archive {
		discards, err := u.overflow(r, specs)
		if err != nil {
			return nil, err
		}
		q.warn(discards, u.archiveLimits(r.Context(), queuesOf(specs)...))
		return u.ask(r, q)
	}
	q.Text = []string{"This cannot be undone."}
	active, err := u.countActive(r, specs)
	switch {
	case err != nil:
		return nil, err
	case active == n:
		q.Bar = "Active tasks cannot be deleted. Cancel them first."
	case active > 0:
		q.Bar = fmt.Sprintf("Active tasks cannot be deleted, and %d of these tasks %s active. Cancel them first, or remove them from the selection.", active, are(active))
	}
	return u.ask(r, q)
}

// overflow returns the number of archived tasks that are deleted if the tasks of the specs are
// archived.
func (u *UI) overflow(r *http.Request, specs []bulk.Spec) (int, error) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	tasks := make(map[string]int)
	for _, spec := range specs {
		c, err := u.Bulk.Count(ctx, spec, mostCounted)
		if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
			return 0, err
		}
		tasks[spec.Queue] += c.N
	}
	return u.discards(ctx, tasks)
}

// countActive counts the selected tasks that are active. It scans all active tasks, which are at
// most as many as there are worker slots.
func (u *UI) countActive(r *http.Request, specs []bulk.Spec) (n int, err error) {
	inspector, cancel := u.inspector(r)
	defer cancel()
	for _, spec := range specs {
		for t, err := range inspector.Tasks(r.Context(), spec.Queue, asynq.TaskStateActive, asynq.TaskFilter{}) {
			if err != nil {
				if errors.Is(err, asynq.ErrQueueNotFound) {
					break
				}
				return n, err
			}
			if slices.Contains(spec.IDs, t.ID) {
				n++
			}
		}
	}
	return n, nil
}

// askAll counts the tasks to change, and asks the user to confirm that number.
func (u *UI) askAll(r *http.Request, kind bulk.Kind, specs []bulk.Spec) (*view, error) {
	ctx, cancel := context.WithTimeout(r.Context(), countTimeout)
	defer cancel()
	n, left, complete := 0, mostCounted, true
	tasks := make(map[string]int)
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
		n, left, complete = n+c.N, left-c.Scanned, complete && c.Complete
		tasks[spec.Queue] += c.N
	}
	name := kindButtons[kind].Name
	if n == 0 && complete {
		return u.ask(r, question{Title: "Nothing to change", Text: []string{"No task matches."}})
	}
	about := show.Number(int64(n)) + " "
	if !complete {
		about = "at least " + about
	}
	q := question{
		Title: fmt.Sprintf("%s %stasks?", name, about), Button: name + " " + show.Plural(int64(n), "task"), Action: "/tasks", Type: strconv.Itoa(n), Harm: kindButtons[kind].Confirm,
		Fields: append(formFields(r.PostForm, "confirm", "count", "id", "do", discardField.Name), field{"count", strconv.Itoa(n)}),
		Text:   []string{describe(specs, r.PostForm)},
	}
	if n == 1 && complete {
		q.Title = name + " 1 task?"
	}
	switch kind {
	case bulk.Delete:
		q.Text = append(q.Text, "This cannot be undone.")
	case bulk.Archive:
		q.Text = append(q.Text, "Archived tasks are kept for a limited time and can be run again.")
		discards, err := u.discards(r.Context(), tasks)
		if err != nil {
			return nil, err
		}
		q.warn(discards, u.archiveLimits(r.Context(), slices.Collect(maps.Keys(tasks))...))
	case bulk.Cancel:
		q.Text = append(q.Text, "The contexts of their handlers are canceled. A task whose handler returns an error is retried if it has retries left.")
	case bulk.Run:
		q.Text = append(q.Text, "They become pending and run as soon as a worker is free.")
	}
	if !complete {
		q.Text = append(q.Text, "Only the first "+show.Number(mostCounted)+" tasks were counted, so there may be more. The operation changes every match.")
	}
	return u.ask(r, q)
}

// describe describes the tasks of operations.
func describe(specs []bulk.Spec, form url.Values) string {
	s := "All tasks"
	if len(specs) == 1 {
		s = "All " + specs[0].State + " tasks"
		if specs[0].Group != "" {
			s += " of group " + show.Clip(specs[0].Group, 80)
		}
		s += " in queue " + show.Clip(specs[0].Queue, 80)
	} else if queue := form.Get("queue"); queue != "" {
		s += " in queue " + show.Clip(queue, 80)
	}
	if f := form.Get("filter"); f != "" {
		s += " matching: " + show.Clip(f, 200)
	}
	return s + "."
}

// formFields returns the fields of a form except those in but, to send them again with a
// confirmation.
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
