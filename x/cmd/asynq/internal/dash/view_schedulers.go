package dash

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
)

func (m *model) listSchedulers() listing {
	l := listing{crumb: m.theme.paint(strongTone, "Periodic tasks"), empty: "Loading …"}
	b, ok, err := m.body()
	switch {
	case err != nil:
		l.empty = cleanLine(err.Error())
	case ok:
		l.empty = "No running scheduler has entries."
		l.info = plural(len(b.entries), "entry")
		if len(b.entries) != 1 {
			l.info = number(len(b.entries)) + " entries"
		}
	}
	l.cols = []column{
		{title: "TYPE", minWidth: 10, maxWidth: 40}, {title: "SPEC", minWidth: 8, maxWidth: 30}, {title: "NEXT IN", right: true},
		{title: "LAST RUN", right: true}, {title: "QUEUE", rank: 1, minWidth: 6, maxWidth: 24}, {title: "OPTIONS", minWidth: 8, rank: 3}, {title: "PAYLOAD", minWidth: 8, rank: 2},
	}
	now := m.now()
	entries := slices.Clone(b.entries)
	slices.SortStableFunc(entries, func(x, y *asynq.SchedulerEntry) int { return cmp.Or(x.Next.Compare(y.Next), cmp.Compare(x.ID, y.ID)) })
	for _, e := range entries {
		next := toned(until(e.Next, now), waitTone)
		if e.Paused {
			next = toned("paused", warnTone)
		}
		l.rows = append(l.rows, row{
			key: e.ID, ref: ref{kind: refEntry, id: e.ID, paused: e.Paused}, more: e.ID,
			cells: []cell{
				toned(cleanLine(e.Task.Type()), strongTone), text(cleanLine(e.Spec)), next, text(ago(e.Prev, now)),
				text(cleanLine(queueOf(e))), toned(options(e), dimTone), preview(e.Task.Payload()),
			},
		})
	}
	return l
}

// entryRef returns an entry of the page.
func (m *model) entryRef(id string) ref {
	r := ref{kind: refEntry, id: id}
	b, _, _ := m.body()
	for _, e := range b.entries {
		if e.ID == id {
			r.paused = e.Paused
		}
	}
	return r
}

// actionEntry returns the action of a key on an entry, or nil if there is none.
func (m *model) actionEntry(key string, r *ref) *action {
	insp, id := m.insp, r.id
	switch {
	case key == "p" && r.paused:
		return &action{verb: "Resume", of: "entry " + id, do: func(ctx context.Context) (string, error) {
			return "resumed entry " + id, insp.ResumeSchedulerEntry(ctx, id)
		}}
	case key == "p":
		return &action{verb: "Pause", of: "entry " + id, do: func(ctx context.Context) (string, error) {
			return "paused entry " + id, insp.PauseSchedulerEntry(ctx, id)
		}}
	case key == "r":
		return &action{verb: "Enqueue now", of: "the task of entry " + id, do: func(ctx context.Context) (string, error) {
			task, err := insp.RunSchedulerEntry(ctx, id)
			if task == nil {
				return "", err
			}
			return "enqueued task " + task.ID, err
		}}
	}
	return nil
}

func options(e *asynq.SchedulerEntry) string {
	var parts []string
	for _, o := range e.Opts {
		if o.Type() != asynq.QueueOpt {
			parts = append(parts, cleanLine(o.String()))
		}
	}
	if parts == nil {
		return "–"
	}
	return strings.Join(parts, " ")
}

// showEntry shows an entry and the times at which it enqueued its task.
func (m *model) showEntry() listing {
	p := m.page()
	l := listing{crumb: m.theme.paint(dimTone, "Periodic tasks › ") + m.theme.paint(strongTone, cleanLine(p.id)), empty: "Loading …"}
	b, ok, err := m.body()
	switch {
	case err != nil:
		l.empty = cleanLine(err.Error())
	case ok:
		l.empty = "No tasks enqueued yet."
	}
	queue := "default"
	i := slices.IndexFunc(b.entries, func(e *asynq.SchedulerEntry) bool { return e.ID == p.id })
	switch {
	case i >= 0:
		e := b.entries[i]
		queue = queueOf(e)
		next := text(m.moment(e.Next))
		if e.Paused {
			next = toned("paused: ticks are skipped", warnTone)
		}
		l.head = m.theme.details([]detail{
			{"Type", toned(cleanLine(e.Task.Type()), strongTone)}, {"Spec", text(cleanLine(e.Spec))},
			{"Next", next}, {"Last", text(m.moment(e.Prev))}, {"Queue", text(cleanLine(queue))},
			{"Options", text(options(e))}, {"Payload", preview(e.Task.Payload())},
		}, m.width)
	case ok && err == nil:
		l.head = []string{m.theme.paint(warnTone, " No running scheduler has this entry anymore.")}
	}
	l.head = append(l.head, "")
	l.cols = []column{{title: "ENQUEUED"}, {title: "TASK", minWidth: 8}}
	for _, ev := range b.events {
		l.rows = append(l.rows, row{
			key: ev.TaskID, ref: ref{kind: refTask, queue: queue, id: ev.TaskID},
			cells: []cell{text(m.moment(ev.EnqueuedAt)), text(cleanLine(ev.TaskID))},
		})
	}
	return l
}
