package dash

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// listing is the content of a page: fixed lines, and below them a table or a document that scrolls.
type listing struct {
	// crumb names the page, info describes the amount of data.
	crumb, info string
	head        []string
	cols        []column
	rows        []row
	cursor      int
	// empty is the text shown if there are no rows.
	empty string
	doc   []string
	isDoc bool
	// filtered is the number of rows hidden by the filter.
	filtered int

	// pane are causes above head; their rows are the first ones of rows.
	pane causePane
}

// visible returns how many rows, or lines of a document, fit on the screen.
func (l *listing) visible(h int) int {
	if l.isDoc {
		return max(0, h)
	}
	return max(0, h-l.pane.height-len(l.head)-1)
}

// listing computes the content of the page.
func (m *model) listing() listing {
	p := m.page()
	var l listing
	switch p.view {
	case viewQueues:
		l = m.listQueues()
	case viewTasks:
		l = m.listTaskPage()
	case viewTask:
		l = m.showTask()
	case viewGroups:
		l = m.listGroups()
	case viewServers:
		l = m.listServers()
	case viewSchedulers:
		l = m.listSchedulers()
	case viewEntry:
		l = m.showEntry()
	case viewErrors:
		l = m.listErrors()
	case viewError:
		l = m.showError()
	case viewCause:
		l = m.showCause()
	case viewHistory:
		l = m.showHistory()
	case viewPartitions:
		l = m.listPartitions()
	case viewFlows:
		l = m.listFlows()
	case viewFlow:
		l = m.showFlow()
	}
	if p.sortBy != "" {
		l.sort(p.sortBy, p.falling)
	}
	m.showMarks(&l)
	if m.where != "" && strings.HasSuffix(l.empty, ".") {
		l.empty += " Looked in " + m.where + "."
	}
	if m.snap == nil {
		l.rows, l.pane, l.empty = nil, causePane{}, "Connecting …"
	}
	if p.filter != "" && p.view != viewTasks && !l.isDoc {
		l.applyFilter(p.filter, m.input != nil && m.prompt == nil)
	}
	// Leave space for at least two rows.
	if most := m.bodyHeight() - l.pane.height - 3; len(l.head) > most {
		l.head = l.head[:max(0, most)]
	}
	l.rows = append(slices.Clip(l.pane.rows), l.rows...)
	return l
}

// draw renders a listing into h lines.
func (l *listing) draw(th *theme, top, w, h int) []string {
	if l.isDoc {
		return l.doc[min(top, len(l.doc)):min(top+max(0, h), len(l.doc))]
	}
	lines := append(l.pane.draw(th, l.cursor, w), l.head...)
	lead := len(l.pane.rows)
	if len(l.rows) == lead {
		lines = append(lines, "")
		for _, part := range wrapWords(l.empty, w-2) {
			lines = append(lines, " "+th.paint(dimTone, part))
		}
		return lines
	}
	return append(lines, table(th, l.cols, l.rows[lead:], l.cursor-lead, top, w, h-l.pane.height-len(l.head))...)
}

// fit truncates or pads lines to h lines of at most w cells.
func fit(lines []string, w, h int) []string {
	if len(lines) > h {
		lines = lines[:max(0, h)]
	}
	for i, l := range lines {
		if ansi.StringWidth(l) > w {
			lines[i] = ansi.Truncate(l, max(0, w), "")
		}
	}
	for len(lines) < h {
		lines = append(lines, "")
	}
	return lines
}

// spread places two texts at the ends of a line. It truncates the left one if needed.
func spread(left, right string, w int) string {
	lw, rw := ansi.StringWidth(left), ansi.StringWidth(right)
	if rw+1 >= w {
		return ansi.Truncate(left, w, "…")
	}
	if lw+1+rw > w {
		left = ansi.Truncate(left, w-rw-1, "…")
		lw = ansi.StringWidth(left)
	}
	return left + strings.Repeat(" ", w-lw-rw) + right
}
