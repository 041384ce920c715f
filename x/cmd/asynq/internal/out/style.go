package out

// Style is a look of text on a terminal, in its own colours.
type Style string

// The looks: Good, Warn and Bad tell how something is.
const (
	Plain Style = ""
	Bold  Style = "1"
	Faint Style = "2"
	Good  Style = "32"
	Warn  Style = "33"
	Bad   Style = "31"
)

// Paint puts the text into the look.
func (s Style) Paint(text string) string {
	if s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
