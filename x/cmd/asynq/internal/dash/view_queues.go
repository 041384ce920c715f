package dash

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
	"github.com/charmbracelet/x/ansi"
)

const (
	sparkWidth   = 12
	sparkNarrow  = 6 // on screens narrower than 100 cells
	queueColumns = 17
)

func (m *model) listQueues() listing {
	l := listing{crumb: m.theme.paint(strongTone, "All queues"), empty: "No queues yet. A queue is created when its first task is enqueued."}
	if m.snap == nil {
		return l
	}
	l.pane = m.causePane()
	l.crumb += m.healthSummary()
	slots, busy := 0, 0
	for _, s := range m.snap.servers {
		slots += s.Concurrency
		busy += len(s.ActiveWorkers)
	}
	shared, read := sharedErrors(m.snap.queues)
	queues := plural(len(m.snap.queues), "queue")
	if read < len(m.snap.queues) {
		queues = number(read) + " of " + queues
	}
	l.info = fmt.Sprintf("%s · %s · %s of %s busy", queues, plural(len(m.snap.servers), "server"),
		number(busy), plural(slots, "slot"))
	l.head = m.panels(l.pane.height)
	for _, text := range slices.Sorted(maps.Keys(shared)) {
		if m.cause("queue-error") != nil {
			break // the cause shows it
		}
		line := plural(shared[text], "queue") + " could not be read: " + strings.TrimPrefix(text, "asynq: ")
		for _, part := range wrapWords(cleanLine(line), m.width-2) {
			l.head = append(l.head, " "+m.theme.paint(badTone, part))
		}
	}
	l.cols = []column{
		{title: "QUEUE", minWidth: 16, maxWidth: 40}, {title: "NOTE", rank: 2, minWidth: 9, maxWidth: 40, shrink: 1},
		{title: "PENDING", right: true}, {title: "ACTIVE", right: true}, {title: "SCHED", right: true, rank: 4},
		{title: "RETRY", right: true}, {title: "ARCHIVED", right: true, rank: 1}, {title: "COMPLETED", right: true, rank: 6},
		{title: "GROUPED", right: true, rank: 7}, {title: "WAIT", right: true, rank: 2},
		{title: "DONE/S", right: true, rank: 1}, {title: "", rank: 3}, {title: "FAILED/S", right: true, rank: 5}, {title: "", rank: 6},
		{title: "TODAY", right: true, rank: 8}, {title: "FAILED", right: true, rank: 8}, {title: "MEMORY", right: true, rank: 9},
	}
	served := m.served()
	for _, q := range m.snap.queues {
		r := m.queueRow(q, served[q.name])
		if q.err != nil && shared[q.err.Error()] > 0 {
			r.cells[1] = toned("error", badTone)
		}
		l.rows = append(l.rows, r)
	}
	m.addHeld(&l)
	return l
}

// heldColumn is the position of the column of held tasks, after that of scheduled ones.
const heldColumn = 5

// addHeld adds a column of held tasks if a queue has any.
func (m *model) addHeld(l *listing) {
	if !slices.ContainsFunc(m.snap.queues, func(q queueRow) bool { return q.info != nil && q.info.Held > 0 }) {
		return
	}
	l.cols = slices.Insert(l.cols, heldColumn, column{title: "HELD", right: true, rank: 3})
	for n, q := range m.snap.queues {
		held := toned("?", dimTone)
		if q.info != nil {
			held = count0(q.info.Held, waitTone)
		}
		l.rows[n].cells = slices.Insert(l.rows[n].cells, heldColumn, held)
	}
}

// sharedErrors counts the queues per error, for errors of more than one queue, and the queues that
// could be read.
func sharedErrors(queues []queueRow) (shared map[string]int, read int) {
	shared = make(map[string]int)
	for _, q := range queues {
		if q.err == nil {
			read++
			continue
		}
		shared[q.err.Error()]++
	}
	maps.DeleteFunc(shared, func(_ string, n int) bool { return n == 1 })
	return shared, read
}

// served returns the queues that have a server.
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

// panels draws the recent history of all queues, side by side, below so many lines.
func (m *model) panels(above int) []string {
	least, most := 2, 5
	if m.height < 18 {
		least = 1
	}
	// The graphs use the lines that the queues leave free.
	h := min(max(least, m.bodyHeight()-above-len(m.snap.queues)-4), most)
	all := &m.history.all
	const between = 3
	w := (m.width - 2 - 2*between) / 3
	if w < 10 {
		return nil
	}
	wait := "–"
	if len(all.wait) > 0 && !math.IsNaN(all.wait[len(all.wait)-1]) {
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
