package dash

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/charmbracelet/x/ansi"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/failures"
)

// namedError is the maximum width of an error in a question.
const namedError = 160

// actionKind returns the action of a key on all tasks of the selected kind of error, or of the one
// on the page: those of all queues, also those that were not sampled.
func (m *model) actionKind(key string) (*action, error) {
	id := m.page().id
	if m.page().view == viewErrors {
		r, _ := m.selected()
		id = r.ref.id
	}
	b, _, _ := m.body()
	kind := b.errors.kind(id)
	if kind == nil {
		return nil, nil
	}
	c := kindChange{id: id, insp: m.insp, states: failures.States, done: "moved to pending:"}
	a := &action{verb: "Run", all: true}
	n, state := kind.Count, "failed"
	switch key {
	case "R":
		c.change = counts(m.insp.RunTasks)
	case "A":
		if n, state = kind.Retry(), "retry"; n == 0 {
			return nil, errors.New("all tasks with this error are archived")
		}
		a.verb, c.done, c.states = "Archive", "archived", []asynq.TaskState{asynq.TaskStateRetry}
		c.change = m.insp.ArchiveTasks
	case "D":
		a.verb, c.done, a.risky = "Delete", "deleted", true
		c.change = counts(m.insp.DeleteTasks)
	}
	for _, q := range m.snap.queues {
		if q.info != nil && q.info.Retry+q.info.Archived > 0 {
			c.queues = append(c.queues, q.info)
		}
	}
	a.do = c.run
	if key == "A" && !c.fits() {
		a.prepare = c.warning
	}
	a.of = fmt.Sprintf("all %s %s tasks of all queues with the error: %s", number(n), state, ansi.Truncate(kind.Text, namedError, "…"))
	if b.errors.partial {
		a.of = fmt.Sprintf("all %s tasks of all queues (at least %s) with the error: %s", state, number(n), ansi.Truncate(kind.Text, namedError, "…"))
	}
	return a, nil
}

// kindChange changes the tasks of a kind of error.
type kindChange struct {
	id     string
	insp   *asynq.Inspector
	queues []*asynq.QueueInfo // with failed tasks, when the question was asked
	states []asynq.TaskState
	change func(context.Context, string, asynq.TaskState, asynq.TaskFilter) (asynq.ArchiveResult, error)
	done   string
}

// counts adapts a change that returns only the number of changed tasks.
func counts(
	change func(context.Context, string, asynq.TaskState, asynq.TaskFilter) (int, error),
) func(context.Context, string, asynq.TaskState, asynq.TaskFilter) (asynq.ArchiveResult, error) {
	return func(ctx context.Context, queue string, state asynq.TaskState, f asynq.TaskFilter) (asynq.ArchiveResult, error) {
		n, err := change(ctx, queue, state, f)
		return asynq.ArchiveResult{Archived: n}, err
	}
}

// run changes the tasks, queue by queue, and describes what it did.
func (c *kindChange) run(ctx context.Context) (string, error) {
	var total asynq.ArchiveResult
	var failed []error
	match := failures.Match(c.id)
	for _, q := range c.queues {
		for _, state := range c.states {
			r, err := c.change(ctx, q.Queue, state, asynq.TaskFilter{Match: match})
			total.Archived += r.Archived
			total.Discarded += r.Discarded
			if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
				failed = append(failed, err)
				break
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	text := fmt.Sprintf("%s %s with this error", c.done, plural(total.Archived, "task"))
	if total.Discarded > 0 {
		text += fmt.Sprintf(", deleted %s from the archive", plural(total.Discarded, "task"))
	}
	return text, errors.Join(failed...)
}

// fits reports whether the archives have space for all tasks in retry.
func (c *kindChange) fits() bool {
	for _, q := range c.queues {
		if q.Retry > cmp.Or(q.Archive.MaxTasks, asynq.ArchiveMaxTasks)-q.Archived {
			return false
		}
	}
	return true
}

// warning counts the tasks that the archives would delete.
func (c *kindChange) warning(ctx context.Context) (string, error) {
	discarded, limit := 0, 0
	match := failures.Match(c.id)
	for _, q := range c.queues {
		room, err := c.insp.ArchiveRoom(ctx, q.Queue)
		if err != nil {
			return "", err
		}
		if q.Retry <= room {
			continue
		}
		n := 0
		for _, err := range c.insp.Tasks(ctx, q.Queue, asynq.TaskStateRetry, asynq.TaskFilter{Match: match}) {
			if err != nil {
				return "", err
			}
			n++
		}
		if n <= room {
			continue
		}
		limits, err := c.insp.ArchiveLimits(ctx, q.Queue)
		if err != nil {
			return "", err
		}
		discarded += n - room
		limit = max(limit, limits.MaxTasks)
	}
	return discardWarning(discarded, limit), nil
}
