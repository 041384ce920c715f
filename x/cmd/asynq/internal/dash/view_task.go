package dash

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// factWidth is how wide the names of facts are.
const factWidth = 13

// fact is a name with what is known by it.
type fact struct {
	name string
	cell
}

// facts draws names and values, the values wrapped.
func (t *theme) facts(all []fact, w int) []string {
	var lines []string
	for _, f := range all {
		for i, part := range wrap(f.text, max(8, w-factWidth-3)) {
			name := f.name
			if i > 0 {
				name = ""
			}
			lines = append(lines, " "+t.paint(dimTone, pad(name, factWidth, false))+" "+t.paint(f.tone, part))
		}
	}
	return lines
}

func (t *theme) section(title, note string) []string {
	return []string{"", " " + t.paint(strongTone, title) + t.paint(dimTone, note)}
}

func (m *model) showTask() listing {
	p := m.page()
	l := listing{isDoc: true, crumb: m.theme.paint(dimTone, cleanLine(p.queue)+" › ") + m.theme.paint(strongTone, cleanLine(p.id))}
	b, ok, err := m.body()
	switch {
	case !ok:
		l.doc = []string{"", m.theme.paint(dimTone, " Loading …")}
	case errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound):
		l.doc = []string{"", m.theme.paint(dimTone, " This task is not there any more: it was deleted, or it succeeded and has no retention.")}
	case err != nil:
		l.doc = []string{"", m.theme.paint(badTone, " "+cleanLine(err.Error()))}
	case b.task != nil:
		l.info = b.task.State.String()
		l.doc = m.taskDoc(b.task)
	}
	return l
}

func (m *model) taskDoc(t *asynq.TaskInfo) []string {
	th, w := &m.theme, m.width-1
	lines := th.facts(m.taskFacts(t), w)
	if t.LastErr != "" {
		lines = append(lines, th.section("Last error", "")...)
		for _, line := range textLines(t.LastErr, w-1) {
			lines = append(lines, " "+th.paint(badTone, line))
		}
	}
	lines = append(lines, m.block("Payload", t.Payload, w)...)
	if len(t.Result) > 0 || t.State == asynq.TaskStateCompleted {
		lines = append(lines, m.block("Result", t.Result, w)...)
	}
	if len(t.Headers) > 0 {
		lines = append(lines, th.section("Headers", "")...)
		var all []fact
		for _, k := range slices.Sorted(maps.Keys(t.Headers)) {
			all = append(all, fact{cleanLine(k), text(clean(t.Headers[k]))})
		}
		lines = append(lines, th.facts(all, w)...)
	}
	return lines
}

func (m *model) block(title string, data []byte, w int) []string {
	body, form := payload(data, m.mode, w-1)
	note := ""
	if len(data) > 0 {
		note = fmt.Sprintf("  %s, %s", form, plural(len(data), "byte"))
	}
	lines := m.theme.section(title, note)
	for _, line := range body {
		if form == "JSON" {
			line = m.paintJSON(line)
		}
		lines = append(lines, " "+line)
	}
	return lines
}

// paintJSON paints the key at the beginning of an indented line, if there is one.
func (m *model) paintJSON(line string) string {
	rest := strings.TrimLeft(line, " ")
	if !strings.HasPrefix(rest, `"`) {
		return line
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			if strings.HasPrefix(rest[i+1:], ":") {
				return line[:len(line)-len(rest)] + m.theme.paint(doneTone, rest[:i+1]) + rest[i+1:]
			}
			return line
		}
	}
	return line
}

func (m *model) taskFacts(t *asynq.TaskInfo) []fact {
	now := m.now()
	all := []fact{
		{"Type", toned(cleanLine(t.Type), strongTone)},
		{"State", toned(t.State.String(), stateTone(t.State))},
		{"Queue", text(cleanLine(t.Queue))},
	}
	add := func(name, value string) { all = append(all, fact{name, text(value)}) }
	if t.Group != "" {
		add("Group", cleanLine(t.Group))
	}
	if w, ok := m.workers()[t.Queue+"\x00"+t.ID]; ok && t.State == asynq.TaskStateActive {
		add("Runs for", ago(w.Started, now)+" on "+cleanLine(w.server))
		if !w.Deadline.IsZero() && w.Deadline.Year() < 2100 {
			add("Must end", m.moment(w.Deadline))
		}
	}
	if t.IsOrphaned {
		all = append(all, fact{"Orphaned", toned("no worker holds its lease; a server takes it over soon", badTone)})
	}
	switch t.State {
	case asynq.TaskStateScheduled, asynq.TaskStateRetry:
		add("Runs at", m.moment(t.NextProcessAt))
	case asynq.TaskStateCompleted:
		add("Completed", m.moment(t.CompletedAt))
		add("Kept for", span(t.Retention))
	}
	add("Retried", fmt.Sprintf("%d of %d", t.Retried, t.MaxRetry))
	if !t.LastFailedAt.IsZero() && t.LastFailedAt.Unix() != 0 {
		add("Last failed", m.moment(t.LastFailedAt))
	}
	if t.Timeout > 0 {
		add("Timeout", span(t.Timeout))
	}
	if !t.Deadline.IsZero() && t.Deadline.Unix() != 0 {
		add("Deadline", m.moment(t.Deadline))
	}
	return all
}

func stateTone(s asynq.TaskState) tone {
	switch s {
	case asynq.TaskStateActive:
		return goodTone
	case asynq.TaskStatePending:
		return doneTone
	case asynq.TaskStateScheduled, asynq.TaskStateAggregating:
		return waitTone
	case asynq.TaskStateRetry:
		return warnTone
	case asynq.TaskStateArchived:
		return badTone
	default:
		return plainTone
	}
}

// moment writes a time in full, and as seen from now.
func (m *model) moment(t time.Time) string {
	if t.IsZero() || t.Unix() == 0 {
		return "–"
	}
	now := m.now()
	seen := ago(t, now) + " ago"
	if t.After(now) {
		seen = "in " + span(t.Sub(now))
	}
	return t.In(m.zone).Format("2006-01-02 15:04:05 MST") + "  (" + seen + ")"
}

func spanOf(seconds float64) string { return span(time.Duration(seconds * float64(time.Second))) }
