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
		l.empty = "There are no queues yet."
	case !ok:
		l.empty = "Loading …"
	case errors.Is(err, asynq.ErrQueueNotFound):
		l.empty = "There is no such queue any more."
	case err != nil:
		l.empty = cleanLine(err.Error())
	case p.filter != "":
		l.empty = "No task matches. A word is looked for in ID, type, payload and error; " +
			"type:email:* error:text payload:user=42 -group:a retried>3 age>10m look at one thing."
	default:
		l.empty = "No task is " + p.state.String() + "."
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

// tasksInfo says which part of the tasks is listed.
func (m *model) tasksInfo(b *body) string {
	p := m.page()
	if p.filter != "" {
		if b.scanned {
			return fmt.Sprintf("first %s among %s", plural(len(b.tasks), "match"), number(scanAtMost))
		}
		return fmt.Sprintf("%s found", number(len(b.tasks)))
	}
	if len(b.tasks) == 0 {
		return ""
	}
	from, _ := m.pageRange()
	of := ""
	if q := m.queue(p.queue); q != nil && p.group == "" {
		of = " of " + number(max(count(q, p.state), from+len(b.tasks)))
	}
	return fmt.Sprintf("%s–%s%s", number(from+1), number(from+len(b.tasks)), of)
}

// pageRange tells the number of the first task on the page, and whether the page is the last one.
func (m *model) pageRange() (from int, last bool) {
	p := m.page()
	b, ok, err := m.body()
	from = p.number * tasksPerPage
	if !ok || err != nil || p.filter != "" || len(b.tasks) < tasksPerPage {
		return from, true
	}
	if p.state == asynq.TaskStateAggregating && p.group == "" {
		return from, true
	}
	q := m.queue(p.queue)
	return from, p.group == "" && q != nil && count(q, p.state) <= from+tasksPerPage
}

// stateBar names the states with their counts, as far as there is room, and marks the one that is listed.
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

// taskColumns are the columns of tasks in a state.
func taskColumns(s asynq.TaskState) []column {
	id, typename := column{title: "ID", least: 9, most: 36, yields: 2}, column{title: "TYPE", least: 8, most: 40}
	data := column{title: "PAYLOAD", least: 8, rank: 2, yields: 1}
	failed := column{title: "LAST ERROR", least: 20, rank: 1}
	right := func(title string, rank int) column { return column{title: title, right: true, rank: rank} }
	switch s {
	case asynq.TaskStateActive:
		return []column{id, typename, right("RUNS FOR", 0), {title: "SERVER", rank: 3, most: 30}, data}
	case asynq.TaskStateScheduled:
		return []column{id, typename, right("IN", 0), data}
	case asynq.TaskStateRetry:
		return []column{id, typename, right("IN", 0), right("RETRIED", 1), right("FAILED AGO", 2), failed, data}
	case asynq.TaskStateArchived:
		return []column{id, typename, right("FAILED AGO", 0), right("RETRIED", 2), failed, data}
	case asynq.TaskStateCompleted:
		return []column{id, typename, right("DONE AGO", 0), right("KEPT FOR", 1), {title: "RESULT", least: 8, rank: 1}, data}
	case asynq.TaskStateAggregating:
		return []column{id, typename, {title: "GROUP", least: 6, most: 30}, data}
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
	default: // its server has not told yet
		return []cell{toned("…", dimTone), toned("–", dimTone)}
	}
}

// preview is the beginning of a payload in one line.
func preview(data []byte) cell {
	begin := beginning(data, 600)
	switch {
	case len(data) == 0:
		return toned("–", dimTone)
	case !readable(begin):
		return toned(fmt.Sprintf("%x", data[:min(len(data), 32)]), dimTone)
	default:
		return toned(cleanLine(string(begin)), dimTone)
	}
}

// worker is a task that a server processes.
type worker struct {
	*asynq.WorkerInfo
	server string
}

// workers are what servers process, by queue and ID.
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
