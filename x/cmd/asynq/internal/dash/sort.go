package dash

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// sortable are the pages whose rows can be sorted. Tasks have a fixed order.
var sortable = []view{viewQueues, viewGroups, viewServers, viewSchedulers, viewErrors, viewHistory, viewPartitions, viewFlows, viewFlow}

// sortNext sorts the rows by the next column, and after the last one in the order of the page.
// Numbers start with the greatest.
func (m *model) sortNext() {
	p := m.page()
	if !slices.Contains(sortable, p.view) {
		return
	}
	from := 0
	for i, c := range m.shown.cols {
		if p.sortBy != "" && sortTitle(c.title) == p.sortBy {
			from = i + 1
		}
	}
	p.sortBy = ""
	for _, c := range m.shown.cols[min(from, len(m.shown.cols)):] {
		if c.title != "" {
			p.sortBy, p.falling = sortTitle(c.title), c.right
			return
		}
	}
}

// sortOther reverses the direction.
func (m *model) sortOther() {
	if p := m.page(); p.sortBy != "" {
		p.falling = !p.falling
	}
}

// sortTitle returns the title of a column without the arrow.
func sortTitle(title string) string { return strings.TrimRight(title, " ▲▼") }

// sort sorts the rows by a column, and marks it. Rows that are equal keep their order, and unknown
// values come last.
func (l *listing) sort(by string, falling bool) {
	at := slices.IndexFunc(l.cols, func(c column) bool { return c.title == by })
	if at < 0 {
		return
	}
	l.cols = slices.Clone(l.cols)
	right := l.cols[at].right
	l.cols[at].title += map[bool]string{false: " ▲", true: " ▼"}[falling]
	var blocks [][]row // rows with their children
	for i, r := range l.rows {
		if n := len(blocks); r.child && n > 0 {
			blocks[n-1] = append(blocks[n-1], r)
		} else {
			blocks = append(blocks, l.rows[i:i+1:i+1])
		}
	}
	slices.SortStableFunc(blocks, func(a, b []row) int {
		return compareCells(cellValue(&a[0].cells[at], right), cellValue(&b[0].cells[at], right), falling)
	})
	l.rows = slices.Concat(blocks...)
}

func compareCells(a, b any, falling bool) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	c := 0
	x, xok := cellNumber(a)
	y, yok := cellNumber(b)
	switch s, t := textOf(a), textOf(b); {
	case xok && yok:
		c = cmp.Compare(x, y)
	case xok != yok: // "now" comes before a duration
		c = map[bool]int{true: 1, false: -1}[xok]
	default:
		c = cmp.Compare(s, t)
	}
	if falling {
		return -c
	}
	return c
}

func cellNumber(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case time.Duration:
		return v.Seconds(), true
	}
	return 0, false
}

func textOf(v any) string {
	s, _ := v.(string)
	return s
}
