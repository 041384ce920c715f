package out

// Style is a text style on a terminal, as ANSI codes.
type Style string

// The styles. Good, Warn and Bad express a condition.
const (
	Plain Style = ""
	Bold  Style = "1"
	Faint Style = "2"
	Good  Style = "32"
	Warn  Style = "33"
	Bad   Style = "31"
)

// Paint returns text in the style.
func (s Style) Paint(text string) string {
	if s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
