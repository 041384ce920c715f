package dash

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// detailWidth is the width of the names of details.
const detailWidth = 13

// detail is a named value.
type detail struct {
	name string
	cell
}

// details draws names and wrapped values.
func (t *theme) details(all []detail, w int) []string {
	var lines []string
	for _, f := range all {
		for i, part := range wrap(f.text, max(8, w-detailWidth-3)) {
			name := f.name
			if i > 0 {
				name = ""
			}
			lines = append(lines, " "+t.paint(dimTone, pad(name, detailWidth, false))+" "+t.paint(f.tone, part))
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
		l.doc = []string{"", m.theme.paint(dimTone, " This task no longer exists: it was deleted, or it completed without retention.")}
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
	lines := th.details(m.taskDetails(t), w)
	if t.LastErr != "" {
		lines = append(lines, th.section("Last error", "")...)
		for _, line := range textLines(t.LastErr, w-1) {
			lines = append(lines, " "+th.paint(badTone, line))
		}
	}
	lines = append(lines, m.attempts(t.Attempts, w)...)
	lines = append(lines, m.block("Payload", t.Payload, w)...)
	if len(t.Result) > 0 || t.State == asynq.TaskStateCompleted {
		lines = append(lines, m.block("Result", t.Result, w)...)
	}
	if len(t.Headers) > 0 {
		lines = append(lines, th.section("Headers", "")...)
		var all []detail
		for _, k := range slices.Sorted(maps.Keys(t.Headers)) {
			all = append(all, detail{cleanLine(k), text(clean(t.Headers[k]))})
		}
		lines = append(lines, th.details(all, w)...)
	}
	return lines
}

// attempts draws the failed attempts of a task, the newest first.
func (m *model) attempts(all []asynq.AttemptInfo, w int) []string {
	if len(all) == 0 {
		return nil
	}
	th := &m.theme
	lines := th.section("Failed attempts", "  "+strconv.Itoa(len(all)))
	for _, a := range slices.Backward(all) {
		head := m.moment(a.Ended) + "  " + strings.ReplaceAll(string(a.Kind), "_", " ")
		if !a.Started.IsZero() {
			head += " after " + span(a.Duration())
		}
		if a.Server != "" {
			head += " on " + a.Server
		}
		for _, line := range textLines(head, w-1) {
			lines = append(lines, " "+line)
		}
		first, _, _ := strings.Cut(a.Err, "\n")
		for _, line := range textLines(first, w-3) {
			lines = append(lines, "   "+th.paint(badTone, line))
		}
	}
	return lines
}

// progressWidth is the width of a progress bar.
const progressWidth = 20

// progress formats the progress of a task.
func (m *model) progress(p *asynq.TaskProgress) string {
	done := int(p.Fraction * progressWidth)
	bar := strings.Repeat("█", done) + strings.Repeat("░", progressWidth-done)
	text := fmt.Sprintf("%s %d %%", bar, int(100*p.Fraction))
	if p.Note != "" {
		text += "  " + cleanLine(p.Note)
	}
	return text + "  (" + ago(p.At, m.now()) + " ago)"
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

// paintJSON highlights the key of an indented line, if any.
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

func (m *model) taskDetails(t *asynq.TaskInfo) []detail {
	now := m.now()
	all := []detail{
		{"Type", toned(cleanLine(t.Type), strongTone)},
		{"State", toned(t.State.String(), stateTone(t.State))},
		{"Queue", text(cleanLine(t.Queue))},
	}
	add := func(name, value string) { all = append(all, detail{name, text(value)}) }
	if t.Group != "" {
		add("Group", cleanLine(t.Group))
	}
	if t.PartitionKey != "" {
		add("Partition", cleanLine(t.PartitionKey))
	}
	if w, ok := m.workers()[t.Queue+"\x00"+t.ID]; ok && t.State == asynq.TaskStateActive {
		add("Running for", ago(w.Started, now)+" on "+cleanLine(w.server))
		if !w.Deadline.IsZero() && w.Deadline.Year() < 2100 {
			add("Times out", m.moment(w.Deadline))
		}
	}
	if t.IsOrphaned {
		all = append(all, detail{"Orphaned", toned("its lease has expired; a server will recover it soon", badTone)})
	}
	switch {
	case t.IsHeld:
		all = append(all, detail{"Held", toned("it waits for its partition", waitTone)})
	case t.State == asynq.TaskStateScheduled || t.State == asynq.TaskStateRetry:
		add("Next attempt", m.moment(t.NextProcessAt))
	case t.State == asynq.TaskStateCompleted:
		add("Completed", m.moment(t.CompletedAt))
		add("Retention", span(t.Retention))
	}
	if t.Progress != nil {
		add("Progress", m.progress(t.Progress))
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

// moment formats a time in full, with its distance from now.
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
