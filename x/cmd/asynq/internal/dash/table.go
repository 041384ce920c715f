package dash

import (
	"cmp"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// column is a column of a table.
type column struct {
	title string
	right bool
	// rank determines which columns are dropped first if space is short: those with the highest
	// rank. Columns of rank 0 are never dropped.
	rank int
	// minWidth is the minimum width of a flexible column. 0 means a fixed width.
	minWidth int
	// shrink determines which flexible columns shrink first: those with the highest value.
	shrink int
	// maxWidth limits the width. 0 means no limit.
	maxWidth int
}

type cell struct {
	text string
	tone tone
	// value is the number for sorting and filters, if not nil; otherwise it is read from the text.
	value any
}

func text(s string) cell          { return cell{text: s} }
func toned(s string, t tone) cell { return cell{text: s, tone: t} }

// count0 shows a number. A zero is dimmed.
func count0(n int, t tone) cell {
	if n == 0 {
		return cell{text: "0", tone: dimTone}
	}
	return cell{text: number(n), tone: t}
}

// row is a row of a table, with the item that it represents.
type row struct {
	key   string
	cells []cell
	ref   ref
	// more is hidden text that the filter also matches.
	more string
	// child rows stay below the row before them when rows are sorted.
	child bool
	// marked rows are the subject of the next action.
	marked bool
}

const gap = 2

// table draws a heading and the rows from index top in h lines of w cells.
func table(th *theme, cols []column, rows []row, cursor, top, w, h int) []string {
	if h <= 0 || w <= 0 {
		return nil
	}
	widths := layout(cols, rows, w-1)
	lines := []string{" " + line(widths, cols, func(i int) string {
		return th.paint(headTone, pad(cols[i].title, widths[i], cols[i].right))
	}, strings.Repeat(" ", gap))}
	for i := max(0, top); i < len(rows) && len(lines) < h; i++ {
		lines = append(lines, tableRow(th, cols, rows[i], widths, w, i == cursor))
	}
	return lines
}

func tableRow(th *theme, cols []column, r row, widths []int, w int, selected bool) string {
	bar := th.cursorBar
	if r.marked {
		bar = "●"
	}
	if !selected {
		return th.paint(warnTone, map[bool]string{false: " ", true: "●"}[r.marked]) + line(widths, cols, func(i int) string {
			return th.paint(r.cells[i].tone, pad(r.cells[i].text, widths[i], cols[i].right))
		}, strings.Repeat(" ", gap))
	}
	l := th.paintSelected(accentTone, bar) + line(widths, cols, func(i int) string {
		return th.paintSelected(r.cells[i].tone, pad(r.cells[i].text, widths[i], cols[i].right))
	}, th.paintSelected(plainTone, strings.Repeat(" ", gap)))
	return l + th.paintSelected(plainTone, strings.Repeat(" ", max(0, w-ansi.StringWidth(l))))
}

func line(widths []int, cols []column, part func(int) string, between string) string {
	var b strings.Builder
	first := true
	for i := range cols {
		if widths[i] <= 0 {
			continue
		}
		if !first {
			b.WriteString(between)
		}
		first = false
		b.WriteString(part(i))
	}
	return b.String()
}

// layout computes the column widths: the widths of the cells if they fit. Otherwise it shrinks
// flexible columns, and then drops columns by rank. A dropped column has width 0.
func layout(cols []column, rows []row, w int) []int {
	widths := make([]int, len(cols))
	for i, c := range cols {
		widths[i] = ansi.StringWidth(c.title)
		for _, r := range rows {
			widths[i] = max(widths[i], ansi.StringWidth(r.cells[i].text))
		}
		if c.maxWidth > 0 {
			widths[i] = min(widths[i], max(c.maxWidth, ansi.StringWidth(c.title)))
		}
	}
	for {
		over := total(widths) - w
		if over <= 0 {
			break
		}
		if squeeze(cols, widths, over) {
			break
		}
		if drop(cols, widths) {
			continue
		}
		for i, c := range cols { // the lines are truncated at the edge
			if c.minWidth > 0 && widths[i] > 0 {
				widths[i] = min(widths[i], c.minWidth)
			}
		}
		break
	}
	return widths
}

func total(widths []int) int {
	sum := -gap
	for _, w := range widths {
		if w > 0 {
			sum += w + gap
		}
	}
	return max(0, sum)
}

// squeeze removes over cells from the flexible columns, by shrink and then by width. It returns
// false if they cannot shrink that much.
func squeeze(cols []column, widths []int, over int) bool {
	room := 0
	for i, c := range cols {
		if c.minWidth > 0 && widths[i] > c.minWidth {
			room += widths[i] - c.minWidth
		}
	}
	if room < over {
		return false
	}
	for ; over > 0; over-- {
		widest := -1
		for i, c := range cols {
			if c.minWidth == 0 || widths[i] <= c.minWidth {
				continue
			}
			if widest < 0 || cmp.Or(cmp.Compare(c.shrink, cols[widest].shrink), cmp.Compare(widths[i], widths[widest])) > 0 {
				widest = i
			}
		}
		widths[widest]--
	}
	return true
}

func drop(cols []column, widths []int) bool {
	worst := -1
	for i, c := range cols {
		if widths[i] > 0 && c.rank > 0 && (worst < 0 || c.rank >= cols[worst].rank) {
			worst = i
		}
	}
	if worst < 0 {
		return false
	}
	widths[worst] = 0
	return true
}
