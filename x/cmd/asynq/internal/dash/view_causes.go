package dash

import (
	"fmt"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/health"
)

// severityTones are the tones of causes.
var severityTones = map[health.Severity]tone{health.Trouble: badTone, health.Warning: warnTone, health.Notice: accentTone}

// causeKey begins the keys of the rows of causes.
const causeKey = "\x00"

var causeColumns = []column{{}, {right: true}, {minWidth: 10}}

// causePane is the upper part of the page of queues: the causes of problems, one line each, with
// the evidence of one of them below its line.
type causePane struct {
	rows    []row
	details [][]string // by row
	height  int        // in lines, with a blank one at the end
	shown   int        // number of rows that fit
}

// causePane lists the causes in at most two fifths of the page.
func (m *model) causePane() causePane {
	var p causePane
	most := m.bodyHeight() * 2 / 5
	if m.health == nil || most < 2 {
		return p
	}
	now, details := m.now(), 0
	for _, c := range m.causes() {
		lines := m.causeDetails(&c, max(0, most/2))
		details = max(details, len(lines))
		p.rows, p.details = append(p.rows, causeRow(&c, now)), append(p.details, lines)
	}
	if p.rows == nil {
		return p
	}
	p.shown = min(len(p.rows), max(1, most-1-details))
	p.height = p.shown + details + 1
	return p
}

// causeRow is a cause: its severity, since when it exists, and its title.
func causeRow(c *health.Cause, now time.Time) row {
	word, title := toned(c.Severity.String(), severityTones[c.Severity]), text(cleanLine(c.Title))
	if c.Mute != nil {
		word, title.tone = toned("muted", dimTone), dimTone
	}
	since := toned("", dimTone)
	if !c.Since.IsZero() {
		since.text = ago(c.Since, now)
	}
	return row{key: causeKey + c.ID, ref: ref{kind: refCause, id: c.ID}, cells: []cell{word, since, title}}
}

// causeDetails returns the evidence of a cause and what to do, in at most h lines. It begins with
// the title if that does not fit on the line of the cause.
func (m *model) causeDetails(c *health.Cause, h int) []string {
	const indent = "         "
	w := m.width - len(indent) - 1
	var lines []string
	add := func(tone tone, text string) {
		for _, part := range wrapWords(cleanLine(text), w) {
			lines = append(lines, indent+m.theme.paint(tone, part))
		}
	}
	if whole := wrapWords(cleanLine(c.Title), w-8); len(whole) > 1 {
		add(plainTone, c.Title)
	}
	for _, e := range c.Evidence {
		if e.Text != c.Title {
			add(dimTone, "– "+e.Text)
		}
	}
	before := len(lines)
	add(accentTone, c.Hint)
	if len(lines) > h { // the hint is more useful than the last evidence
		hint := lines[before:]
		lines = append(lines[:max(0, h-len(hint))], hint...)
	}
	return lines[:min(len(lines), h)]
}

// draw draws the pane. focus is the index of the cause with the cursor; without one, the first
// cause has its evidence below it.
func (p *causePane) draw(th *theme, cursor, w int) []string {
	if p.height == 0 {
		return nil
	}
	focus := cursor
	if focus >= len(p.rows) {
		focus = 0
	}
	widths := layout(causeColumns, p.rows, w-1)
	var lines []string
	top := window(0, focus, len(p.rows), p.shown)
	for i := top; i < top+p.shown; i++ {
		lines = append(lines, tableRow(th, causeColumns, p.rows[i], widths, w, i == cursor))
		if i == focus {
			lines = append(lines, p.details[i]...)
		}
	}
	return fit(lines, w, p.height)
}

// healthSummary describes the result of the health check.
func (m *model) healthSummary() string {
	r := m.health
	if r == nil {
		return ""
	}
	text := "  no problems"
	if n := len(r.Causes); n > 0 {
		text = "  " + plural(n, "problem")
	} else if len(r.Problems) > 0 {
		text = "  not checked: " + cleanLine(strings.Join(r.Problems, "; "))
	}
	if n := len(r.Muted); n > 0 {
		text += fmt.Sprintf(", %d muted", n)
	}
	worst, bad := r.Severity()
	switch {
	case bad:
		return m.theme.paint(severityTones[worst], text)
	case len(r.Problems) > 0:
		return m.theme.paint(warnTone, text)
	default:
		return m.theme.paint(goodTone, text)
	}
}

// showCause shows a cause with all of its evidence.
func (m *model) showCause() listing {
	id := m.page().id
	l := listing{crumb: m.theme.paint(dimTone, "Problems › ") + m.theme.paint(strongTone, cleanLine(id)), empty: "This problem is gone."}
	c := m.cause(id)
	if c == nil {
		return l
	}
	l.info, l.empty = c.Severity.String(), "No further evidence."
	if c.Mute != nil {
		l.info += " · " + muteText(c.Mute, m.now())
	}
	if !c.Since.IsZero() {
		l.info = "for " + ago(c.Since, m.now()) + " · " + l.info
	}
	for _, part := range wrapWords(cleanLine(c.Title), m.width-2) {
		l.head = append(l.head, " "+m.theme.paint(severityTones[c.Severity], part))
	}
	for _, part := range wrapWords(cleanLine(c.Hint), m.width-2) {
		l.head = append(l.head, " "+m.theme.paint(accentTone, part))
	}
	l.head = append(l.head, "")
	l.cols = []column{{title: "EVIDENCE", minWidth: 10}}
	evidence := c.Evidence
	if len(evidence) == 0 {
		evidence = []health.Evidence{{Text: c.Title, Link: c.Link}}
	}
	for n, e := range evidence {
		target := ref{kind: refLink, id: id, link: e.Link}
		if e.Link.Page == health.PageRedis || e.Link.Page == "" {
			target = ref{id: id}
		}
		for part, line := range wrapWords(cleanLine(e.Text), m.width-6) {
			if part > 0 {
				line = "  " + line
			}
			l.rows = append(l.rows, row{key: fmt.Sprint(n, " ", part), ref: target, cells: []cell{text(line)}})
		}
	}
	return l
}

// muteText describes a mute.
func muteText(mute *health.Mute, now time.Time) string {
	what := "acknowledged until it is gone"
	if !mute.Until.IsZero() {
		what = "muted for " + until(mute.Until, now)
	}
	if mute.By != "" {
		what += " by " + cleanLine(mute.By)
	}
	return what
}
