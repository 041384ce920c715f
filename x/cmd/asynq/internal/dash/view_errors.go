package dash

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
)

// listFaults shows errors by what they have in common, the most frequent first.
func (m *model) listFaults() listing {
	l := listing{crumb: m.theme.paint(strongTone, "Errors"), empty: "Loading …"}
	b, ok, err := m.body()
	switch {
	case err != nil:
		l.empty = cleanLine(err.Error())
	case ok:
		l.empty = "No task waits for a retry or is archived after an error."
	}
	if b.faults == nil {
		return l
	}
	l.info = fmt.Sprintf("%s of %s", plural(len(b.faults.groups), "kind"), plural(b.faults.tasks, "failed task"))
	if b.faults.partial {
		l.info = fmt.Sprintf("%s among %s looked at, there are more", plural(len(b.faults.groups), "kind"), plural(b.faults.tasks, "task"))
	}
	l.cols = []column{
		{title: "TASKS", right: true}, {title: "", rank: 3}, {title: "TYPE", least: 12, most: 36, yields: 1}, {title: "ARCHIVED", right: true, rank: 2},
		{title: "LAST AGO", right: true, rank: 1}, {title: "QUEUES", rank: 4, least: 8, most: 24}, {title: "ERROR", least: 30},
	}
	most := 1
	for _, g := range b.faults.groups {
		most = max(most, g.count)
	}
	now := m.now()
	for _, g := range b.faults.groups {
		l.rows = append(l.rows, row{
			key: g.key(), ref: ref{kind: refFault, id: g.key()}, more: g.newest.LastErr,
			cells: []cell{
				count0(g.count, strongTone), toned(bar(g.count, most, 8), badTone), toned(cleanLine(g.typename), strongTone), count0(g.archived, badTone),
				text(ago(g.newest.LastFailedAt, now)), toned(queuesOf(g), dimTone), toned(cleanLine(g.fingerprint), badTone),
			},
		})
	}
	return l
}

func queuesOf(g *fault) string {
	return cleanLine(strings.Join(slices.Sorted(maps.Keys(g.queues)), " "))
}

// showFault shows an error in full, and tasks that failed with one alike.
func (m *model) showFault() listing {
	p := m.page()
	l := listing{crumb: m.theme.paint(dimTone, "Errors › "), empty: "Loading …"}
	b, ok, err := m.body()
	if err != nil {
		l.empty = cleanLine(err.Error())
	}
	var g *fault
	if b.faults != nil {
		if i := slices.IndexFunc(b.faults.groups, func(g *fault) bool { return g.key() == p.id }); i >= 0 {
			g = b.faults.groups[i]
		}
	}
	if g == nil {
		if ok && err == nil {
			l.empty = "No task has failed with this error any more."
		}
		return l
	}
	l.crumb += m.theme.paint(strongTone, cleanLine(g.typename))
	l.info = fmt.Sprintf("%s, %s archived", plural(g.count, "task"), number(g.archived))
	if g.count > len(g.samples) {
		l.info += fmt.Sprintf("; %d are listed", len(g.samples))
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
		{title: "ID", least: 9, most: 36, yields: 2}, {title: "QUEUE", least: 6, most: 24}, {title: "STATE"}, {title: "FAILED AGO", right: true},
		{title: "RETRIED", right: true, rank: 2}, {title: "ERROR", least: 20, rank: 1}, {title: "PAYLOAD", least: 8, rank: 3, yields: 1},
	}
	now := m.now()
	for _, t := range g.samples {
		l.rows = append(l.rows, faultRow(t, ago(t.LastFailedAt, now)))
	}
	return l
}

func faultRow(t *asynq.TaskInfo, failed string) row {
	return row{
		key: t.Queue + "\x00" + t.ID, ref: refOf(t),
		cells: []cell{
			text(cleanLine(t.ID)), text(cleanLine(t.Queue)), toned(t.State.String(), stateTone(t.State)), text(failed),
			text(fmt.Sprintf("%d/%d", t.Retried, t.MaxRetry)), toned(cleanLine(t.LastErr), badTone), preview(t.Payload),
		},
	}
}
