package dash

import (
	"charm.land/lipgloss/v2"
)

// tone is the meaning of a text. The theme maps it to a style.
type tone int

const (
	plainTone tone = iota
	dimTone
	strongTone
	headTone
	accentTone
	goodTone
	warnTone
	badTone
	doneTone
	waitTone
	tones
)

// theme is the set of styles for a dark or a light background. No meaning depends on color alone.
type theme struct {
	styles    [tones]lipgloss.Style
	selected  lipgloss.Style
	tab       lipgloss.Style
	banner    lipgloss.Style
	slow      lipgloss.Style
	box       lipgloss.Style
	cursorBar string
}

func newTheme(dark bool) theme {
	choose := lipgloss.LightDark(dark)
	color := func(light, dark string) lipgloss.Style {
		return lipgloss.NewStyle().Foreground(choose(lipgloss.Color(light), lipgloss.Color(dark)))
	}
	base := lipgloss.NewStyle()
	t := theme{cursorBar: "▌"}
	t.styles[plainTone] = base
	t.styles[dimTone] = color("#6b7280", "#7d8590")
	t.styles[strongTone] = base.Bold(true)
	t.styles[headTone] = color("#57606a", "#8b949e")
	t.styles[accentTone] = color("#0f766e", "#5eead4")
	t.styles[goodTone] = color("#15803d", "#7ee2a8")
	t.styles[warnTone] = color("#a15c00", "#f2c14e")
	t.styles[badTone] = color("#b91c1c", "#ff8080")
	t.styles[doneTone] = color("#1d4ed8", "#8ab4f8")
	t.styles[waitTone] = color("#7e22ce", "#d0a8ff")
	t.selected = base.Background(choose(lipgloss.Color("#d7efec"), lipgloss.Color("#1f3b3a")))
	t.tab = t.styles[accentTone].Bold(true).Underline(true)
	t.banner = base.Bold(true).Foreground(lipgloss.Color("#ffffff")).Background(choose(lipgloss.Color("#b91c1c"), lipgloss.Color("#8f2b2b")))
	t.slow = base.Bold(true).Foreground(lipgloss.Color("#1c1c1c")).Background(choose(lipgloss.Color("#f2c14e"), lipgloss.Color("#d9a93a")))
	t.box = base.Border(lipgloss.RoundedBorder()).BorderForeground(choose(lipgloss.Color("#0f766e"), lipgloss.Color("#5eead4"))).Padding(0, 1)
	return t
}

func (t *theme) paint(k tone, s string) string {
	if k == plainTone || s == "" {
		return s
	}
	return t.styles[k].Render(s)
}

// paintSelected is paint for the selected line.
func (t *theme) paintSelected(k tone, s string) string {
	return t.styles[k].Bold(true).Inherit(t.selected).Render(s)
}
