package dash

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
)

// listErrors shows the error groups, most frequent first.
func (m *model) listErrors() listing {
	l := listing{crumb: m.theme.paint(strongTone, "Errors"), empty: "Loading …"}
	b, ok, err := m.body()
	switch {
	case err != nil:
		l.empty = cleanLine(err.Error())
	case ok:
		l.empty = "No retry or archived tasks with errors."
	}
	if b.errors == nil {
		return l
	}
	l.info = fmt.Sprintf("%s · %s", plural(len(b.errors.groups), "error group"), plural(b.errors.tasks, "failed task"))
	if b.errors.partial {
		l.info = fmt.Sprintf("%s · sampled %s", plural(len(b.errors.groups), "error group"), plural(b.errors.tasks, "failed task"))
	}
	l.cols = []column{
		{title: "TASKS", right: true}, {title: "", rank: 3}, {title: "TYPE", minWidth: 12, maxWidth: 36, shrink: 1}, {title: "ARCHIVED", right: true, rank: 2},
		{title: "LAST SEEN", right: true, rank: 1}, {title: "QUEUES", rank: 4, minWidth: 8, maxWidth: 24}, {title: "ERROR", minWidth: 30},
	}
	most := 1
	for _, g := range b.errors.groups {
		most = max(most, g.count)
	}
	now := m.now()
	for _, g := range b.errors.groups {
		l.rows = append(l.rows, row{
			key: g.key(), ref: ref{kind: refError, id: g.key()}, more: g.newest.LastErr,
			cells: []cell{
				count0(g.count, strongTone), toned(bar(g.count, most, 8), badTone), toned(cleanLine(g.typename), strongTone), count0(g.archived, badTone),
				text(ago(g.newest.LastFailedAt, now)), toned(queuesOf(g), dimTone), toned(cleanLine(g.fingerprint), badTone),
			},
		})
	}
	return l
}

func queuesOf(g *errorGroup) string {
	return cleanLine(strings.Join(slices.Sorted(maps.Keys(g.queues)), " "))
}

// showError shows an error in full, and the tasks that failed with similar errors.
func (m *model) showError() listing {
	p := m.page()
	l := listing{crumb: m.theme.paint(dimTone, "Errors › "), empty: "Loading …"}
	b, ok, err := m.body()
	if err != nil {
		l.empty = cleanLine(err.Error())
	}
	var g *errorGroup
	if b.errors != nil {
		if i := slices.IndexFunc(b.errors.groups, func(g *errorGroup) bool { return g.key() == p.id }); i >= 0 {
			g = b.errors.groups[i]
		}
	}
	if g == nil {
		if ok && err == nil {
			l.empty = "No failed task has this error anymore."
		}
		return l
	}
	l.crumb += m.theme.paint(strongTone, cleanLine(g.typename))
	l.info = fmt.Sprintf("%s, %s archived", plural(g.count, "task"), number(g.archived))
	if g.count > len(g.samples) {
		l.info += fmt.Sprintf("; %d listed", len(g.samples))
	}
	const lines = 5
	shown := textLines(g.newest.LastErr, m.width-2)
	if len(shown) > lines {
		shown = append(shown[:lines-1], "…")
	}
	for _, line := range shown {
		l.head = append(l.head, " "+m.theme.paint(badTone, line))
	}
	l.head = append(l.head, "")
	l.cols = []column{
		{title: "ID", minWidth: 9, maxWidth: 36, shrink: 2}, {title: "QUEUE", minWidth: 6, maxWidth: 24}, {title: "STATE"}, {title: "FAILED AGO", right: true},
		{title: "RETRIED", right: true, rank: 2}, {title: "ERROR", minWidth: 20, rank: 1}, {title: "PAYLOAD", minWidth: 8, rank: 3, shrink: 1},
	}
	now := m.now()
	for _, t := range g.samples {
		l.rows = append(l.rows, errorRow(t, ago(t.LastFailedAt, now)))
	}
	return l
}

func errorRow(t *asynq.TaskInfo, failed string) row {
	return row{
		key: t.Queue + "\x00" + t.ID, ref: refOf(t),
		cells: []cell{
			text(cleanLine(t.ID)), text(cleanLine(t.Queue)), toned(t.State.String(), stateTone(t.State)), text(failed),
			text(fmt.Sprintf("%d/%d", t.Retried, t.MaxRetry)), toned(cleanLine(t.LastErr), badTone), preview(t.Payload),
		},
	}
}
