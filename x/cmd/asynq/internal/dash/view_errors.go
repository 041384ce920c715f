package dash

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/failures"
)

// listErrors shows the kinds of errors, most frequent first.
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
	scanned := plural(b.errors.tasks, "failed task")
	if b.errors.partial {
		scanned = "sampled " + scanned
	}
	l.info = fmt.Sprintf("%s of errors · %s", plural(len(b.errors.kinds), "kind"), scanned)
	l.cols = []column{
		{title: "TASKS", right: true}, {title: "", rank: 3}, {title: "TYPE", minWidth: 12, maxWidth: 36, shrink: 1}, {title: "ARCHIVED", right: true, rank: 2},
		{title: "LAST SEEN", right: true, rank: 1}, {title: "QUEUES", rank: 4, minWidth: 8, maxWidth: 24}, {title: "ERROR", minWidth: 30},
	}
	most := 1
	for _, k := range b.errors.kinds {
		most = max(most, k.Count)
	}
	now := m.now()
	for _, k := range b.errors.kinds {
		l.rows = append(l.rows, row{
			key: k.ID, ref: ref{kind: refError, id: k.ID}, more: k.Example().LastErr,
			cells: []cell{
				count0(k.Count, strongTone), toned(bar(k.Count, most, 8), badTone), toned(typesOf(k), strongTone), count0(k.Archived, badTone),
				text(ago(k.Last, now)), toned(queuesOf(k), dimTone), toned(cleanLine(k.Text), badTone),
			},
		})
	}
	return l
}

// typesOf names the most frequent task type and counts the others.
func typesOf(k *failures.Kind) string {
	text := cleanLine(failures.Top(k.Types)[0].Name)
	if more := len(k.Types) - 1; more > 0 {
		text += fmt.Sprintf(" +%d", more)
	}
	return text
}

func queuesOf(k *failures.Kind) string {
	return cleanLine(strings.Join(slices.Sorted(maps.Keys(k.Queues)), " "))
}

// namedTypes is the maximum number of task types above the tasks with an error.
const namedTypes = 8

// showError shows an error in full, its task types, and the tasks that failed with errors of this
// kind.
func (m *model) showError() listing {
	p := m.page()
	l := listing{crumb: m.theme.paint(dimTone, "Errors › "), empty: "Loading …"}
	b, ok, err := m.body()
	if err != nil {
		l.empty = cleanLine(err.Error())
	}
	k := b.errors.kind(p.id)
	if k == nil {
		if ok && err == nil {
			l.empty = "No failed task has this error anymore."
		}
		return l
	}
	l.crumb += m.theme.paint(strongTone, p.id)
	l.info = fmt.Sprintf("%s, %s archived", plural(k.Count, "task"), number(k.Archived))
	if k.Count > len(k.Samples) {
		l.info += fmt.Sprintf("; %d listed", len(k.Samples))
	}
	const lines = 5
	shown := textLines(k.Example().LastErr, m.width-2)
	if len(shown) > lines {
		shown = append(shown[:lines-1], "…")
	}
	for _, line := range shown {
		l.head = append(l.head, " "+m.theme.paint(badTone, line))
	}
	l.head = append(l.head, "")
	types := failures.Top(k.Types)
	named := make([]string, 0, namedTypes)
	for _, t := range types[:min(len(types), namedTypes)] {
		named = append(named, fmt.Sprintf("%s %s", cleanLine(t.Name), number(t.Count)))
	}
	if more := len(types) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	for n, line := range textLines("Types: "+strings.Join(named, ", "), m.width-2) {
		if n < lines {
			l.head = append(l.head, " "+m.theme.paint(strongTone, line))
		}
	}
	l.head = append(l.head, "")
	l.cols = []column{
		{title: "ID", minWidth: 9, maxWidth: 36, shrink: 2}, {title: "QUEUE", minWidth: 6, maxWidth: 24}, {title: "TYPE", minWidth: 8, maxWidth: 24, rank: 2}, {title: "STATE"},
		{title: "FAILED AGO", right: true}, {title: "RETRIED", right: true, rank: 2}, {title: "ERROR", minWidth: 20, rank: 1}, {title: "PAYLOAD", minWidth: 8, rank: 3, shrink: 1},
	}
	now := m.now()
	for _, t := range k.Samples {
		l.rows = append(l.rows, errorRow(t, ago(t.LastFailedAt, now)))
	}
	return l
}

func errorRow(t *asynq.TaskInfo, failed string) row {
	return row{
		key: t.Queue + "\x00" + t.ID, ref: refOf(t),
		cells: []cell{
			text(cleanLine(t.ID)), text(cleanLine(t.Queue)), text(cleanLine(t.Type)), toned(t.State.String(), stateTone(t.State)), text(failed),
			text(fmt.Sprintf("%d/%d", t.Retried, t.MaxRetry)), toned(cleanLine(t.LastErr), badTone), preview(t.Payload),
		},
	}
}
