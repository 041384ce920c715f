package ui

import (
	"context"
	"net/http"
	"slices"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// discardField is the form field that accepts the deletion of the oldest tasks of a full archive.
var discardField = field{"discard_oldest", "yes"}

// discards returns the number of archived tasks that are deleted when this many tasks of each queue
// are archived.
func (u *UI) discards(ctx context.Context, tasks map[string]int) (total int, err error) {
	for queue, n := range tasks {
		d, err := u.Bulk.Discards(ctx, queue, n)
		if err != nil {
			return 0, err
		}
		total += d
	}
	return total, nil
}

// accepts reports whether the form accepts the deletion of archived tasks, and sets it in the
// specs.
func accepts(r *http.Request, specs []bulk.Spec) bool {
	if r.PostForm.Get(discardField.Name) != discardField.Value {
		return false
	}
	for i := range specs {
		specs[i].DiscardOldest = true
	}
	return true
}

// warn adds the number of archived tasks to delete to a question, and requires consent.
func (q *question) warn(discards int, limit string) {
	if discards == 0 {
		return
	}
	tasks := show.Plural(int64(discards), "archived task")
	q.Text = append(q.Text, "The archive of a queue keeps the newest "+limit+" tasks: "+tasks+" will be deleted, oldest first. This cannot be undone.")
	q.Check, q.Ticked, q.Harm = "Delete "+tasks, discardField, true
	q.Fields = slices.DeleteFunc(q.Fields, func(f field) bool { return f.Name == discardField.Name })
}

// archiveLimits returns the limits of the archives of these queues: "10,000".
func (u *UI) archiveLimits(ctx context.Context, queues ...string) string {
	limits := make([]int, 0, len(queues))
	for _, queue := range queues {
		limits = append(limits, u.Bulk.Limit(ctx, queue))
	}
	if len(limits) == 0 {
		return show.Number(asynq.ArchiveMaxTasks)
	}
	least, most := slices.Min(limits), slices.Max(limits)
	if least == most {
		return show.Number(int64(most))
	}
	return show.Number(int64(least)) + " to " + show.Number(int64(most))
}

// queuesOf returns the queues of specs.
func queuesOf(specs []bulk.Spec) []string {
	queues := make([]string, len(specs))
	for n, spec := range specs {
		queues[n] = spec.Queue
	}
	return queues
}

// discarded returns a sentence with the number of archived tasks that were deleted, or "" for 0.
func discarded(n int) string {
	if n == 0 {
		return ""
	}
	return " " + show.Plural(int64(n), "task") + " deleted from the full archive."
}
