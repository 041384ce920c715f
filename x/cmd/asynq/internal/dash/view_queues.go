package dash

import (
	"fmt"
	"strings"

	"github.com/asynq-go/asynq"
	"github.com/charmbracelet/x/ansi"
)

const (
	sparkWidth   = 12
	sparkNarrow  = 6 // on a screen of less than 100 cells
	queueColumns = 17
)

func (m *model) listQueues() listing {
	l := listing{crumb: m.theme.paint(strongTone, "All queues"), empty: "There are no queues yet: the first task that is enqueued makes one."}
	if m.snap == nil {
		return l
	}
	slots, busy := 0, 0
	for _, s := range m.snap.servers {
		slots += s.Concurrency
		busy += len(s.ActiveWorkers)
	}
	l.info = fmt.Sprintf("%s · %s · %s of %s busy", plural(len(m.snap.queues), "queue"), plural(len(m.snap.servers), "server"),
		number(busy), plural(slots, "slot"))
	l.head = m.panels()
	l.cols = []column{
		{title: "QUEUE", least: 16, most: 40}, {title: "NOTE", rank: 2, least: 9, most: 40, yields: 1},
		{title: "PENDING", right: true}, {title: "ACTIVE", right: true}, {title: "SCHED", right: true, rank: 4},
		{title: "RETRY", right: true}, {title: "ARCHIVED", right: true, rank: 1}, {title: "COMPLETED", right: true, rank: 6},
		{title: "GROUPED", right: true, rank: 7}, {title: "WAIT", right: true, rank: 2},
		{title: "DONE/S", right: true, rank: 1}, {title: "", rank: 3}, {title: "FAILED/S", right: true, rank: 5}, {title: "", rank: 6},
		{title: "TODAY", right: true, rank: 8}, {title: "FAILED", right: true, rank: 8}, {title: "MEMORY", right: true, rank: 9},
	}
	served := m.served()
	for _, q := range m.snap.queues {
		l.rows = append(l.rows, m.queueRow(q, served[q.name]))
	}
	return l
}

// served are the queues that some server takes tasks from.
func (m *model) served() map[string]bool {
	served := make(map[string]bool)
	for _, s := range m.snap.servers {
		for name := range s.Queues {
			served[name] = true
		}
	}
	return served
}

func (m *model) queueRow(q queueRow, served bool) row {
	r := row{key: q.name, ref: ref{kind: refQueue, queue: q.name}}
	name := text(cleanLine(q.name))
	if q.info == nil {
		r.cells = []cell{name, toned(cleanLine(q.err.Error()), badTone)}
		for range queueColumns - len(r.cells) {
			r.cells = append(r.cells, toned("?", dimTone))
		}
		return r
	}
	i := q.info
	r.ref.paused = i.Paused
	t := m.history.of(q.name)
	cells := sparkWidth
	if m.width < 100 {
		cells = sparkNarrow
	}
	wait := toned(span(i.Latency), plainTone)
	if i.Pending == 0 {
		wait = toned("–", dimTone)
	}
	r.cells = []cell{
		name, queueNote(i, served),
		count0(i.Pending, doneTone), count0(i.Active, goodTone), count0(i.Scheduled, waitTone), count0(i.Retry, warnTone),
		count0(i.Archived, badTone), count0(i.Completed, plainTone), count0(i.Aggregating, plainTone), wait,
		rateCell(t.done, plainTone), toned(spark(t.done, cells), accentTone),
		rateCell(t.failed, badTone), toned(spark(t.failed, cells), badTone),
		count0(i.Processed, plainTone), count0(i.Failed, badTone), toned(sizeOf(i.MemoryUsage), dimTone),
	}
	return r
}

func rateCell(s series, t tone) cell {
	if s.last() == 0 {
		t = dimTone
	}
	return toned(rate(s), t)
}

func queueNote(i *asynq.QueueInfo, served bool) cell {
	switch {
	case i.Paused:
		return toned("paused", warnTone)
	case !served && i.Pending+i.Aggregating > 0:
		return toned("no server", badTone)
	case !served:
		return toned("no server", dimTone)
	default:
		return toned("ok", goodTone)
	}
}

// panels draw the recent past of all queues together, side by side.
func (m *model) panels() []string {
	least, most := 2, 5
	if m.height < 18 {
		least = 1
	}
	// The queues come first; what they leave is for the past.
	h := min(max(least, m.bodyHeight()-len(m.snap.queues)-4), most)
	all := &m.history.all
	const between = 3
	w := (m.width - 2 - 2*between) / 3
	if w < 10 {
		return nil
	}
	wait := "–"
	if len(all.wait) > 0 {
		wait = spanOf(all.wait.last())
	}
	panels := [][]string{
		m.panel("Done", rate(all.done)+"/s", "max "+short(all.done.top(w)), all.done, accentTone, w, h),
		m.panel("Failed", rate(all.failed)+"/s", "max "+short(all.failed.top(w)), all.failed, badTone, w, h),
		m.panel("Longest wait", wait, "max "+spanOf(all.wait.top(w)), all.wait, waitTone, w, h),
	}
	var lines []string
	for y := range h + 1 {
		var parts []string
		for _, p := range panels {
			parts = append(parts, p[y])
		}
		lines = append(lines, " "+strings.Join(parts, strings.Repeat(" ", between)))
	}
	return append(lines, "")
}

func (m *model) panel(title, value, most string, s series, t tone, w, h int) []string {
	left := m.theme.paint(dimTone, title+" ") + m.theme.paint(strongTone, value)
	if ansi.StringWidth(left)+ansi.StringWidth(most)+2 > w {
		most = ""
	}
	lines := []string{spread(left, m.theme.paint(dimTone, most), w)}
	for _, l := range graph(s, w, h) {
		lines = append(lines, m.theme.paint(t, l))
	}
	return lines
}
