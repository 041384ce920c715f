package dash

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/asynq-go/asynq"
)

// marks are the marked tasks of a page.
type marks struct {
	query query // of the page, without its filter and number
	refs  map[string]ref
	keys  []string // in the order in which they were marked
}

// markedPage returns the query that marks belong to: they outlast filters and page numbers.
func (p *page) markedPage() query {
	q := p.query()
	q.filter, q.number, q.reverse = "", 0, false
	return q
}

// mark marks the selected task, or removes its mark, and moves the cursor down.
func (m *model) mark() {
	r, ok := m.selected()
	if !ok || r.ref.kind != refTask {
		return
	}
	if _, marked := m.marks.refs[r.key]; marked {
		delete(m.marks.refs, r.key)
		m.marks.keys = slices.DeleteFunc(m.marks.keys, func(k string) bool { return k == r.key })
	} else {
		if m.marks.refs == nil {
			m.marks.refs = map[string]ref{}
		}
		m.marks.query = m.page().markedPage()
		m.marks.refs[r.key] = r.ref
		m.marks.keys = append(m.marks.keys, r.key)
	}
	m.move(m.at() + 1)
}

// markAll marks all tasks on the page, or removes all marks if there are some.
func (m *model) markAll() {
	if len(m.marks.keys) > 0 {
		m.marks = marks{}
		return
	}
	for _, r := range m.shown.rows {
		if r.ref.kind != refTask {
			continue
		}
		if m.marks.refs == nil {
			m.marks = marks{query: m.page().markedPage(), refs: map[string]ref{}}
		}
		m.marks.refs[r.key] = r.ref
		m.marks.keys = append(m.marks.keys, r.key)
	}
}

// showMarks removes the marks of another page, and shows those of this one.
func (m *model) showMarks(l *listing) {
	if len(m.marks.keys) == 0 {
		return
	}
	if m.marks.query != m.page().markedPage() {
		m.marks = marks{}
		return
	}
	for i := range l.rows {
		_, l.rows[i].marked = m.marks.refs[l.rows[i].key]
	}
	l.info = plural(len(m.marks.keys), "task") + " marked · " + l.info
}

// actionMarked returns the action of a key on the marked tasks.
func (m *model) actionMarked(key string) (*action, error) {
	var all []*action
	archived := map[string]int{} // by queue
	for _, k := range m.marks.keys {
		r := m.marks.refs[k]
		a, err := m.action(key, &r)
		if a == nil || err != nil {
			return nil, err
		}
		all = append(all, a)
		archived[r.queue]++
	}
	first := m.marks.refs[m.marks.keys[0]]
	of := "the marked " + plural(len(all), "task")
	if len(archived) == 1 {
		of += " of queue " + first.queue
	}
	done := map[string]string{"r": "moved to pending", "a": "archived", "d": "deleted", "c": "sent cancellation of"}[key]
	marked := &action{verb: all[0].verb, of: of, risky: all[0].risky, all: true, do: func(ctx context.Context) (string, error) {
		n := 0
		var failed []error
		for _, a := range all {
			if _, err := a.do(ctx); err != nil {
				failed = append(failed, err)
				continue
			}
			n++
		}
		text := fmt.Sprintf("%s %s of %s", done, number(n), plural(len(all), "task"))
		if len(failed) > 1 {
			failed = []error{fmt.Errorf("%d times, first: %w", len(failed), failed[0])}
		}
		return text, errors.Join(failed...)
	}}
	if key == "a" {
		insp := m.insp
		marked.prepare = func(ctx context.Context) (string, error) { return discardsOf(ctx, insp, archived) }
	}
	return marked, nil
}

// discardsOf warns that archiving the given number of tasks by queue deletes tasks from full
// archives.
func discardsOf(ctx context.Context, insp *asynq.Inspector, archived map[string]int) (string, error) {
	deleted, limit := 0, 0
	for queue, n := range archived {
		room, err := insp.ArchiveRoom(ctx, queue)
		if err != nil {
			return "", err
		}
		if n <= room {
			continue
		}
		limits, err := insp.ArchiveLimits(ctx, queue)
		if err != nil {
			return "", err
		}
		deleted, limit = deleted+n-room, max(limit, limits.MaxTasks)
	}
	return discardWarning(deleted, limit), nil
}
