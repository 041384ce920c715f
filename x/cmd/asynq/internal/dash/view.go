package dash

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

const (
	tinyWidth  = 24
	tinyHeight = 6
	// ruleHeight is the minimum screen height for a line under the tabs.
	ruleHeight = 16
)

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "asynq dash"
	return v
}

// screen renders the whole screen, one string per line.
func (m *model) screen() []string {
	w, h := m.width, m.height
	if w <= 0 || h <= 0 {
		return nil
	}
	if w < tinyWidth || h < tinyHeight {
		return fit([]string{" asynq", " This window", " is too small."}, w, h)
	}
	lines := []string{m.header(w)}
	if h >= ruleHeight {
		lines = append(lines, m.rule(w))
	}
	if b := m.banner(w); b != "" {
		lines = append(lines, b)
	}
	lines = append(lines, m.crumb(w))
	lines = append(lines, fit(m.shown.draw(&m.theme, m.page().top, w, m.bodyHeight()), w, m.bodyHeight())...)
	lines = append(lines, m.footer(w))
	lines = fit(lines, w, h)
	switch {
	case m.help:
		lines = m.overlay(lines, m.helpBox())
	case m.dialog != nil:
		lines = m.overlay(lines, m.dialogBox())
	case m.form != nil:
		lines = m.overlay(lines, m.formBox())
	}
	return lines
}

// rule draws the line under the tabs, with the target of the connection.
func (m *model) rule(w int) string {
	if m.where == "" {
		return m.theme.paint(dimTone, strings.Repeat("─", w))
	}
	tone := dimTone
	if m.context != "" {
		tone = warnTone
	}
	text := ansi.Truncate(m.where, max(0, w-4), "…")
	return m.theme.paint(dimTone, "─ ") + m.theme.paint(tone, text) + m.theme.paint(dimTone, " "+strings.Repeat("─", max(0, w-3-ansi.StringWidth(text))))
}

// bodyHeight returns the number of lines for the page.
func (m *model) bodyHeight() int {
	h := m.height - 3
	if m.height >= ruleHeight {
		h--
	}
	if m.banner(m.width) != "" {
		h--
	}
	return max(0, h)
}

// header shows the tabs and the connection state, in the longest form that fits.
func (m *model) header(w int) string {
	th := &m.theme
	dot, state := th.paint(goodTone, "●"), " live every "+m.refresh.String()
	switch {
	case m.err != nil || m.snap == nil:
		dot, state = th.paint(badTone, "○"), " no data"
	case m.slow():
		dot, state = th.paint(warnTone, "◌"), " waiting"
	case m.busy > 0:
		dot, state = th.paint(warnTone, "◌"), " working"
	}
	brief := dot
	if m.readOnly {
		brief = th.paint(warnTone, "read-only") + " " + dot
	}
	full := brief + th.paint(dimTone, state)
	for _, try := range []struct {
		tabs  int
		state string
	}{{0, full}, {0, brief}, {1, brief}, {2, full}, {2, brief}} {
		bar := " " + th.paint(strongTone, "asynq") + " " + m.tabBar(try.tabs)
		if ansi.StringWidth(bar)+ansi.StringWidth(try.state)+2 <= w {
			return spread(bar, try.state+" ", w)
		}
	}
	return spread(m.tabBar(2), brief, w)
}

// tabBar shows the tabs with their numbers: for shorter 1 with less space, for 2 with only the name
// of the open tab.
func (m *model) tabBar(shorter int) string {
	var parts []string
	for i, name := range tabNames {
		label := string(rune('1'+i)) + " " + name
		switch {
		case view(i) == m.tab:
			parts = append(parts, m.theme.tab.Render(label))
		case shorter < 2:
			parts = append(parts, m.theme.paint(dimTone, label))
		default:
			parts = append(parts, m.theme.paint(dimTone, label[:1]))
		}
	}
	return " " + strings.Join(parts, strings.Repeat(" ", max(1, 3-shorter)))
}

// slow reports whether the poll in flight takes long.
func (m *model) slow() bool { return !m.polling.IsZero() && m.clock().Sub(m.polling) >= slowAfter }

// banner shows that Redis is unreachable or slow.
func (m *model) banner(w int) string {
	switch {
	case m.err != nil:
		text := " Redis is unreachable: " + cleanLine(m.err.Error())
		if m.snap != nil {
			text = " Redis is unreachable. Showing the state of " + ago(m.snap.at, m.clock()) + " ago. " + cleanLine(m.err.Error())
		}
		return m.theme.banner.Render(pad(text, w, false))
	case m.slow():
		return m.theme.slow.Render(pad(" Redis is slow: waiting for "+m.clock().Sub(m.polling).Truncate(time.Second).String(), w, false))
	default:
		return ""
	}
}

func (m *model) crumb(w int) string {
	l, p := &m.shown, m.page()
	left := " " + l.crumb
	if m.height < ruleHeight && m.where != "" {
		left += m.theme.paint(dimTone, "  "+m.where) // there is no line under the tabs
	}
	if p.filter != "" {
		left += m.theme.paint(warnTone, "  /"+clean(p.filter))
	}
	info := l.info
	if l.filtered > 0 {
		info = plural(l.filtered, "row") + " hidden · " + info
	}
	return spread(left, m.theme.paint(dimTone, info)+" ", w)
}

// inputView renders an input. It replaces unsafe characters of the text. Escape sequences come from
// the input itself, which accepts no control characters.
func inputView(in *textinput.Model) string {
	return strings.Map(func(r rune) rune {
		if r != ansi.ESC && out.Unsafe(r) {
			return '·'
		}
		return r
	}, in.View())
}

// footer shows the filter being typed, the outcome of an action, or the keys of the page.
func (m *model) footer(w int) string {
	th := &m.theme
	switch {
	case m.input != nil:
		label := "/"
		if m.prompt != nil {
			label = pad(m.prompt.label, min(ansi.StringWidth(m.prompt.label), m.width/2), false)
		}
		return " " + th.paint(accentTone, label) + inputView(m.input)
	case m.toast.text != "" && m.clock().Before(m.toastUntil):
		return " " + th.paint(m.toast.tone, pad(m.toast.text, w-2, false))
	}
	last := th.paint(accentTone, "?") + th.paint(dimTone, " help ")
	var b strings.Builder
	for _, k := range m.hints() {
		part := " " + th.paint(accentTone, k.key) + th.paint(dimTone, " "+k.does+" ")
		if ansi.StringWidth(b.String())+ansi.StringWidth(part)+ansi.StringWidth(last)+1 > w {
			continue
		}
		b.WriteString(part)
	}
	return spread(b.String(), last, w)
}
