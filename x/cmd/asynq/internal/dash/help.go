package dash

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/asynq-go/asynq/x/health"
)

// hint describes a key.
type hint struct{ key, does string }

// hints returns the keys of the page and the selected item, most important first. It omits keys
// that the state of the item does not allow.
func (m *model) hints() []hint {
	p := m.page()
	var all []hint
	if p.view == viewTask || p.view == viewEntry || p.view == viewError || p.view == viewCause || p.view == viewHistory || p.view == viewPartitions || p.view == viewFlows || p.view == viewFlow {
		all = append(all, hint{"esc", "back"})
	}
	if r, ok := m.selected(); ok && opens[r.ref.kind] != "" {
		all = append(all, hint{"enter", opens[r.ref.kind]})
	}
	all = append(all, m.actionHints()...)
	switch p.view {
	case viewTask:
		all = append(all, hint{"v", "JSON/text/hex"}, hint{"↑↓", "scroll"})
	case viewTasks:
		all = append(all, hint{"←→", "state"})
		all = append(all, m.allHints()...)
		all = append(all, hint{"[ ]", "queue"})
	case viewErrors, viewError:
		all = append(all, m.allHints()...)
	case viewQueues, viewCause:
		all = append(all, m.causeHints()...)
	case viewHistory:
		all = append(all, hint{"w", "other time range"})
	}
	if !m.readOnly && (p.view == viewQueues || p.view == viewTasks || p.view == viewTask || p.view == viewGroups) {
		all = append(all, hint{"e", "enqueue"})
	}
	if p.view == viewQueues && m.target().kind != refCause {
		all = append(all, hint{"H", "history"})
	}
	if !m.shown.isDoc {
		all = append(all, hint{"/", "filter"})
	}
	return append(all, hint{"q", "quit"})
}

// opens describes what enter opens, by the kind of the selected item.
var opens = map[refKind]string{refQueue: "tasks", refGroup: "tasks", refTask: "open", refEntry: "history", refError: "tasks", refCause: "go to", refLink: "go to", refType: "history",
	refFlow: "nodes", refNodeTask: "task"}

// actionHints returns the actions on the selected item.
func (m *model) actionHints() []hint {
	if m.readOnly {
		return nil
	}
	var all []hint
	target := m.target()
	for _, key := range []string{"r", "c", "p", "a", "d", "z", "t", "x"} {
		if key == "d" && target.kind == refQueue {
			continue // the help shows it
		}
		a, err := m.action(key, &target)
		if a == nil || err != nil {
			continue
		}
		does := verbs[key]
		switch {
		case target.isFlow():
			does = flowVerbs[key]
		case key == "z" && a.verb == "Unmute":
			does = "unmute"
		case key == "p" && a.verb == "Resume":
			does = "resume"
		case key == "c" && target.kind == refServer:
			does = "concurrency"
		case key == "p" && a.question != "":
			does = "pause queue"
		case key == "r" && target.kind == refEntry:
			does = "run now"
		}
		all = append(all, hint{key, does})
	}
	return all
}

// causeHints returns the keys of the selected cause that act on nothing by themselves.
func (m *model) causeHints() []hint {
	target := m.target()
	c := m.cause(target.id)
	if c == nil || target.kind != refCause {
		if m.page().view == viewQueues && len(m.shown.pane.rows) > 0 {
			return []hint{{"g", "problems"}}
		}
		return nil
	}
	var all []hint
	if m.page().view != viewCause {
		all = append(all, hint{"v", "evidence"})
	}
	if actionOf(c, health.RunArchived) != nil && !m.readOnly {
		all = append(all, hint{"R", "run archived"})
	}
	if actionOf(c, health.SeeErrors) != nil {
		all = append(all, hint{"!", "errors"})
	}
	return all
}

// allHints returns the actions on all listed tasks as one hint.
func (m *model) allHints() []hint {
	if m.readOnly || len(m.shown.rows) == 0 {
		return nil
	}
	var keys []string
	for _, key := range []string{"R", "A", "D"} {
		if a, err := m.actionAll(key); a != nil && err == nil {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return []hint{{strings.Join(keys, " "), "all"}}
}

func (m *model) helpBox() []string {
	keys := []hint{
		{"1 … 6, tab", "switch tabs"},
		{"↑ ↓  j k", "move"},
		{"PgUp PgDn  g G", "page, top, bottom"},
		{"enter", "open"},
		{"esc", "back"},
		{"/", "filter"},
		{"← →", "previous, next state"},
		{"[ ]", "previous, next queue"},
		{"< >", "previous, next page"},
		{"o", "tasks: reverse order"},
		{"s S", "sort rows, reverse"},
		{"m M", "mark a task, all"},
		{":", "go to queue, tab, ID"},
		{"y Y", "copy ID, payload"},
		{"v", "JSON, text or hex"},
		{"H P", "history, partitions"},
		{"F", "flows"},
		{"ctrl+r", "refresh now"},
		{"q", "quit"},
	}
	acts := []hint{
		{"e", "enqueue a task"},
		{"p", "pause or resume"},
		{"r", "run a task or entry now"},
		{"a", "archive a task"},
		{"d", "delete a task or queue"},
		{"c", "cancel an active task"},
		{"E", "edit the payload of a task"},
		{"C", "enqueue a copy of a task"},
		{"R A D", "run, archive, delete all"},
		{"t x c", "server: quiet, stop, slots"},
		{"r c x", "flow: retry, cancel, skip"},
		{"z", "problem: mute for an hour"},
		{"v !", "problem: evidence, errors"},
	}
	if m.readOnly {
		acts = []hint{{"", "read-only mode:"}, {"", "changes are disabled"}}
	}
	left := m.column(keys, 14)
	right := m.column(acts, 6)
	right = append(right, "", m.theme.paint(strongTone, "Filter"),
		"a word matches any field", "tasks  type:email:* error:text", "       payload:user=42 age>10m", "rows   pending>3 -note:ok")
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
	return append(lines, "", m.theme.paint(dimTone, "press any key to close"))
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

// boxWidth returns the maximum width of a box.
func (m *model) boxWidth() int { return max(10, min(76, m.width-2)) }

func (m *model) dialogBox() []string {
	d, w := m.dialog, m.boxWidth()-4
	lines := wrapWords(d.verb+" "+clean(d.of)+"?", w)
	for i := range lines {
		lines[i] = m.theme.paint(strongTone, lines[i])
	}
	if d.warning != "" {
		for _, part := range wrapWords(d.warning, w) {
			lines = append(lines, m.theme.paint(badTone, part))
		}
	}
	if d.risky || d.warning != "" {
		lines = append(lines, m.theme.paint(badTone, "This cannot be undone."))
	}
	if m.where != "" {
		for _, part := range wrapWords("In "+m.where, w) {
			lines = append(lines, m.theme.paint(dimTone, part))
		}
	}
	if d.typed != nil {
		return append(lines, "", "Type "+m.theme.paint(strongTone, clean(d.name))+" to confirm:", m.theme.paint(accentTone, "▸ ")+inputView(d.typed),
			"", m.theme.paint(accentTone, "enter")+" confirm   "+m.theme.paint(accentTone, "esc")+" cancel")
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
		lines = append(lines, label+" "+inputView(&fd.input))
	}
	note := m.theme.paint(accentTone, "enter") + " continue   " + m.theme.paint(accentTone, "tab") + " next field   " +
		m.theme.paint(accentTone, "esc") + " cancel"
	if f.err != "" {
		note = m.theme.paint(badTone, clean(f.err))
	}
	return append(lines, "", note)
}

// overlay draws a box in the middle of the dimmed screen.
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
