package dash

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// hint tells what a key does.
type hint struct{ key, does string }

// hints are what keys do on the page, the most useful first.
func (m *model) hints() []hint {
	var all, acts []hint
	p := m.page()
	switch p.view {
	case viewQueues:
		all = []hint{{"enter", "tasks"}}
		acts = []hint{{"p", "pause/resume"}, {"e", "enqueue"}}
	case viewTasks:
		all = []hint{{"←→", "state"}, {"[ ]", "queue"}, {"enter", "open"}}
		acts = []hint{{"r", "run"}, {"a", "archive"}, {"d", "delete"}, {"c", "cancel"}, {"R A D", "all"}, {"e", "enqueue"}}
	case viewTask:
		all = []hint{{"esc", "back"}, {"↑↓", "scroll"}, {"v", "JSON/text/hex"}}
		acts = []hint{{"r", "run"}, {"a", "archive"}, {"d", "delete"}, {"c", "cancel"}, {"e", "enqueue alike"}}
	case viewGroups:
		all = []hint{{"enter", "tasks"}}
		acts = []hint{{"e", "enqueue"}}
	case viewServers:
		all = []hint{{"enter", "task"}}
		acts = []hint{{"c", "cancel"}}
	case viewSchedulers:
		all = []hint{{"enter", "history"}}
		acts = []hint{{"r", "run now"}}
	case viewEntry:
		all = []hint{{"esc", "back"}, {"enter", "task"}}
		acts = []hint{{"r", "run now"}}
	case viewErrors:
		all = []hint{{"enter", "tasks"}}
	case viewError:
		all = []hint{{"esc", "back"}, {"enter", "task"}}
		acts = []hint{{"r", "run"}, {"a", "archive"}, {"d", "delete"}}
	}
	if !m.readOnly {
		all = append(all, acts...)
	}
	if !m.shown.isDoc {
		all = append(all, hint{"/", "filter"})
	}
	return append(all, hint{"q", "quit"})
}

func (m *model) helpBox() []string {
	keys := []hint{
		{"1 … 6, tab", "turn to a page"},
		{"↑ ↓  j k", "move"},
		{"PgUp PgDn  g G", "move far"},
		{"enter", "open"},
		{"esc", "back"},
		{"/", "filter"},
		{"← →", "other state"},
		{"[ ]", "other queue"},
		{"< >", "other page of tasks"},
		{"v", "JSON, text or hex"},
		{"ctrl+r", "look again now"},
		{"q", "quit"},
	}
	acts := []hint{
		{"e", "enqueue a task"},
		{"p", "pause or resume a queue"},
		{"r", "run a task or entry now"},
		{"a", "archive a task"},
		{"d", "delete a task"},
		{"c", "cancel an active task"},
		{"R A D", "run, archive, delete all"},
	}
	if m.readOnly {
		acts = []hint{{"", "read-only: nothing can"}, {"", "be changed from here"}}
	}
	left := m.column(keys, 14)
	right := m.column(acts, 6)
	right = append(right, "", m.theme.paint(strongTone, "Filter"),
		"words, and for tasks", "type:email:*  error:text", "payload:user=42  age>10m", "for rows  pending>3 -note:ok")
	lines := []string{m.theme.paint(strongTone, "Keys")}
	if m.width >= 74 {
		for i := range max(len(left), len(right)) {
			l, r := "", ""
			if i < len(left) {
				l = left[i]
			}
			if i < len(right) {
				r = right[i]
			}
			lines = append(lines, l+strings.Repeat(" ", max(2, 38-ansi.StringWidth(l)))+r)
		}
	} else {
		lines = append(append(lines, left...), right...)
	}
	return append(lines, "", m.theme.paint(dimTone, "any key closes this"))
}

func (m *model) column(hints []hint, w int) []string {
	lines := make([]string, 0, len(hints))
	for _, h := range hints {
		key := ""
		if h.key != "" {
			key = m.theme.paint(accentTone, pad(h.key, w, false)) + "  "
		}
		lines = append(lines, key+h.does)
	}
	return lines
}

// boxWidth is how wide a box over the page may be.
func (m *model) boxWidth() int { return max(10, min(76, m.width-2)) }

func (m *model) dialogBox() []string {
	d, w := m.dialog, m.boxWidth()-4
	lines := wrapWords(d.verb+" "+clean(d.of)+"?", w)
	for i := range lines {
		lines[i] = m.theme.paint(strongTone, lines[i])
	}
	if d.risky {
		lines = append(lines, m.theme.paint(badTone, "This cannot be undone."))
	}
	return append(lines, "", m.theme.paint(accentTone, "y")+" yes   "+m.theme.paint(accentTone, "n")+" no")
}

func (m *model) formBox() []string {
	f := m.form
	lines := []string{m.theme.paint(strongTone, "Enqueue a task"), ""}
	for i, fd := range f.fields {
		label := m.theme.paint(dimTone, pad(fd.label, labelWidth, false))
		if i == f.focus {
			label = m.theme.paint(accentTone, pad("▸ "+fd.label, labelWidth+2, false))
		} else {
			label = "  " + label
		}
		lines = append(lines, label+" "+fd.input.View())
	}
	note := m.theme.paint(accentTone, "enter") + " go on   " + m.theme.paint(accentTone, "tab") + " next   " +
		m.theme.paint(accentTone, "esc") + " leave"
	if f.err != "" {
		note = m.theme.paint(badTone, clean(f.err))
	}
	return append(lines, "", note)
}

// overlay puts a box in the middle of a screen, which recedes.
func (m *model) overlay(lines, content []string) []string {
	inner := min(m.boxWidth()-4, max(24, widest(content)))
	if m.form != nil && !m.help {
		inner = m.boxWidth() - 4
	}
	content = fit(content, inner, min(len(content), max(0, m.height-2)))
	for i, l := range content {
		content[i] = l + strings.Repeat(" ", max(0, inner-ansi.StringWidth(l)))
	}
	box := strings.Split(m.theme.box.Render(strings.Join(content, "\n")), "\n")
	bw := lipgloss.Width(box[0])
	x, y := max(0, (m.width-bw)/2), max(0, (m.height-len(box))/2)
	for i := range lines {
		plain := ansi.Strip(lines[i])
		if i < y || i >= y+len(box) {
			lines[i] = m.theme.paint(dimTone, plain)
			continue
		}
		plain += strings.Repeat(" ", max(0, m.width-ansi.StringWidth(plain)))
		lines[i] = m.theme.paint(dimTone, ansi.Cut(plain, 0, x)) + box[i-y] + m.theme.paint(dimTone, ansi.Cut(plain, x+bw, m.width))
	}
	return fit(lines, m.width, m.height)
}

func widest(lines []string) int {
	w := 0
	for _, l := range lines {
		w = max(w, ansi.StringWidth(l))
	}
	return w
}

func wrapWords(s string, w int) []string { return strings.Split(ansi.Wrap(s, max(1, w), ""), "\n") }
