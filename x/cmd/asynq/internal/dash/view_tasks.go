package dash

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/charmbracelet/x/ansi"
)

func (m *model) listTaskPage() listing {
	p := m.page()
	l := listing{crumb: m.theme.paint(strongTone, cleanLine(p.queue)), head: []string{m.stateBar(m.width), ""}}
	if p.group != "" {
		l.crumb += m.theme.paint(dimTone, " › group ") + m.theme.paint(strongTone, cleanLine(p.group))
	}
	b, ok, err := m.body()
	switch {
	case p.queue == "":
		l.empty = "No queues yet."
	case !ok:
		l.empty = "Loading …"
	case errors.Is(err, asynq.ErrQueueNotFound):
		l.empty = "This queue no longer exists."
	case err != nil:
		l.empty = cleanLine(err.Error())
	case b.found != nil && b.found.running:
		l.empty = "Searching …"
	case p.filter != "":
		l.empty = "No task matches. A word searches ID, type, payload and error. A field searches one property: " +
			"type:email:* -group:a error:text payload:user=42 retried>3 age>10m"
	default:
		l.empty = "No " + p.state.String() + " tasks."
	}
	if err != nil {
		return l
	}
	l.info = m.tasksInfo(b)
	l.cols = taskColumns(p.state)
	workers := m.workers()
	now := m.now()
	for _, t := range b.tasks {
		l.rows = append(l.rows, taskRow(t, p.state, workers, now))
	}
	return l
}

// tasksInfo describes the range of listed tasks.
func (m *model) tasksInfo(b *body) string {
	p := m.page()
	if p.filter != "" {
		return m.foundInfo(b) + m.orderInfo()
	}
	if len(b.tasks) == 0 {
		return ""
	}
	from, _ := m.pageRange()
	of := ""
	if q := m.queue(p.queue); q != nil && p.group == "" {
		of = " of " + number(max(count(q, p.state), from+len(b.tasks)))
	}
	return fmt.Sprintf("%s–%s%s", number(from+1), number(from+len(b.tasks)), of) + m.orderInfo()
}

func (m *model) orderInfo() string {
	if m.page().reverse {
		return " · reversed"
	}
	return ""
}

// foundInfo describes the progress of a search.
func (m *model) foundInfo(b *body) string {
	p, f := m.page(), b.found
	if f == nil {
		f = &searchResult{tasks: b.tasks}
	}
	from := p.number * tasksPerPage
	text := number(from+len(f.tasks)) + " found"
	if from > 0 && len(f.tasks) > 0 {
		text = fmt.Sprintf("%s–%s found", number(from+1), number(from+len(f.tasks)))
	}
	scanned := number(f.scanned)
	if q := m.queue(p.queue); q != nil && p.group == "" && count(q, p.state) >= f.scanned {
		scanned += " of " + number(count(q, p.state))
	}
	switch {
	case f.running:
		return "scanned " + scanned + " · " + text + " · esc to stop"
	case f.stopped:
		return "stopped after " + scanned + " · " + text
	case f.more:
		return text + ", more available"
	default:
		return text
	}
}

// pageRange returns the index of the first task on the page, and whether the page is the last one.
func (m *model) pageRange() (from int, last bool) {
	p := m.page()
	b, ok, err := m.body()
	from = p.number * tasksPerPage
	if !ok || err != nil || len(b.tasks) < tasksPerPage {
		return from, true
	}
	if p.filter != "" {
		return from, b.found == nil || !b.found.more
	}
	if p.state == asynq.TaskStateAggregating && p.group == "" {
		return from, true
	}
	q := m.queue(p.queue)
	return from, p.group == "" && q != nil && count(q, p.state) <= from+tasksPerPage
}

// stateBar shows the states with their counts, as far as they fit, and marks the listed state.
func (m *model) stateBar(w int) string {
	p := m.page()
	q := m.queue(p.queue)
	bar := func(between int, label func(asynq.TaskState, bool) string) string {
		parts := make([]string, 0, len(states))
		for _, s := range states {
			if l := label(s, s == p.state); l != "" {
				parts = append(parts, l)
			}
		}
		return " " + strings.Join(parts, strings.Repeat(" ", between))
	}
	paint := func(name, n string, here bool) string {
		if here {
			return m.theme.tab.Render(strings.TrimSpace(name + " " + n))
		}
		if n == "0" || n == "" {
			return m.theme.paint(dimTone, strings.TrimSpace(name+" "+n))
		}
		return m.theme.paint(dimTone, name+" ") + n
	}
	counted := func(s asynq.TaskState, here bool) string {
		if q == nil {
			return paint(s.String(), "", here)
		}
		return paint(s.String(), number(count(q, s)), here)
	}
	best := bar(3, counted)
	if ansi.StringWidth(best) > w {
		best = bar(1, func(s asynq.TaskState, here bool) string {
			if q == nil || count(q, s) == 0 {
				return paint(s.String(), "", here)
			}
			return paint(s.String(), short(float64(count(q, s))), here)
		})
	}
	if ansi.StringWidth(best) > w {
		best = bar(1, func(s asynq.TaskState, here bool) string {
			if here {
				return counted(s, here)
			}
			return paint(s.String(), "", false)
		})
	}
	if ansi.StringWidth(best) > w {
		best = bar(1, func(s asynq.TaskState, here bool) string {
			if !here {
				return ""
			}
			return m.theme.paint(dimTone, "‹ ") + counted(s, here) + m.theme.paint(dimTone, " ›")
		})
	}
	return best
}

// taskColumns returns the columns for tasks in a state.
func taskColumns(s asynq.TaskState) []column {
	id, typename := column{title: "ID", minWidth: 9, maxWidth: 36, shrink: 2}, column{title: "TYPE", minWidth: 8, maxWidth: 40}
	data := column{title: "PAYLOAD", minWidth: 8, rank: 2, shrink: 1}
	failed := column{title: "LAST ERROR", minWidth: 20, rank: 1}
	right := func(title string, rank int) column { return column{title: title, right: true, rank: rank} }
	switch s {
	case asynq.TaskStateActive:
		return []column{id, typename, right("RUNNING", 0), {title: "SERVER", rank: 3, maxWidth: 30}, data}
	case asynq.TaskStateScheduled:
		return []column{id, typename, right("IN", 0), data}
	case asynq.TaskStateRetry:
		return []column{id, typename, right("IN", 0), right("RETRIED", 1), right("FAILED AGO", 2), failed, data}
	case asynq.TaskStateArchived:
		return []column{id, typename, right("FAILED AGO", 0), right("RETRIED", 2), failed, data}
	case asynq.TaskStateCompleted:
		return []column{id, typename, right("DONE AGO", 0), right("RETENTION", 1), {title: "RESULT", minWidth: 8, rank: 1}, data}
	case asynq.TaskStateAggregating:
		return []column{id, typename, {title: "GROUP", minWidth: 6, maxWidth: 30}, data}
	default:
		return []column{id, typename, data}
	}
}

func taskRow(t *asynq.TaskInfo, s asynq.TaskState, workers map[string]worker, now time.Time) row {
	id, typename, data := text(cleanLine(t.ID)), toned(cleanLine(t.Type), strongTone), preview(t.Payload)
	retried := text(fmt.Sprintf("%d/%d", t.Retried, t.MaxRetry))
	failed := toned(cleanLine(t.LastErr), badTone)
	r := row{key: t.ID, ref: refOf(t)}
	switch s {
	case asynq.TaskStateActive:
		r.cells = append([]cell{id, typename}, activeCells(t, workers, now)...)
		r.cells = append(r.cells, data)
	case asynq.TaskStateScheduled:
		r.cells = []cell{id, typename, toned(until(t.NextProcessAt, now), waitTone), data}
	case asynq.TaskStateRetry:
		r.cells = []cell{id, typename, toned(until(t.NextProcessAt, now), waitTone), retried, text(ago(t.LastFailedAt, now)), failed, data}
	case asynq.TaskStateArchived:
		r.cells = []cell{id, typename, text(ago(t.LastFailedAt, now)), retried, failed, data}
	case asynq.TaskStateCompleted:
		r.cells = []cell{id, typename, text(ago(t.CompletedAt, now)), text(span(t.Retention)), preview(t.Result), data}
	case asynq.TaskStateAggregating:
		r.cells = []cell{id, typename, text(cleanLine(t.Group)), data}
	default:
		r.cells = []cell{id, typename, data}
	}
	return r
}

func activeCells(t *asynq.TaskInfo, workers map[string]worker, now time.Time) []cell {
	w, ok := workers[t.Queue+"\x00"+t.ID]
	switch {
	case ok:
		return []cell{toned(ago(w.Started, now), goodTone), text(cleanLine(w.server))}
	case t.IsOrphaned:
		return []cell{toned("orphaned", badTone), toned("–", dimTone)}
	default: // its server has not reported it yet
		return []cell{toned("…", dimTone), toned("–", dimTone)}
	}
}

// preview returns the beginning of a payload in one line.
func preview(data []byte) cell {
	begin := prefix(data, 600)
	switch {
	case len(data) == 0:
		return toned("–", dimTone)
	case !isText(begin):
		return toned(fmt.Sprintf("%x", data[:min(len(data), 32)]), dimTone)
	default:
		return toned(cleanLine(string(begin)), dimTone)
	}
}

// worker is an active task of a server.
type worker struct {
	*asynq.WorkerInfo
	server string
}

// workers returns the active tasks of all servers, by queue and ID.
func (m *model) workers() map[string]worker {
	all := make(map[string]worker)
	if m.snap == nil {
		return all
	}
	for _, s := range m.snap.servers {
		for _, w := range s.ActiveWorkers {
			all[w.Queue+"\x00"+w.TaskID] = worker{WorkerInfo: w, server: fmt.Sprintf("%s:%d", s.Host, s.PID)}
		}
	}
	return all
}
