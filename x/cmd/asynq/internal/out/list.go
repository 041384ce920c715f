package out

import (
	"bytes"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Column is a column of a table.
type Column[T any] struct {
	// Head is the heading, in upper case.
	Head string

	// Cell returns the text of a row. List applies Clean to it.
	Cell func(T) string

	// Wide columns appear only with -o wide.
	Wide bool

	// Unless is a text. The column appears with -o wide, or if a cell of the first rows has another
	// text. If empty, the column always appears.
	Unless string

	// Right aligns the column to the right.
	Right bool

	// Rank determines which columns are dropped first if a terminal is too narrow: those with the
	// highest rank. Columns of rank 0 are never dropped.
	Rank int

	// Shrink is the minimum width of a column that is truncated if a terminal is too narrow. Zero
	// means that it is not truncated.
	Shrink int

	// Style returns the style of a cell on a terminal; nil means Plain.
	Style func(T) Style
}

// widthRows is the number of rows that determine the column widths. List writes further rows as
// they arrive.
const widthRows = 500

// List writes rows as they arrive, in the format of the options. Its memory use does not depend on
// the number of rows. If rows yields an error, List writes the preceding rows and returns the
// error.
func List[T any](w io.Writer, o Options, columns []Column[T], rows iter.Seq2[T, error]) error {
	switch o.Kind {
	case JSON:
		return listJSON(w, rows)
	case NDJSON:
		return each(rows, func(row T) error { return WriteJSON(w, row, "") })
	case YAML:
		return listYAML(w, rows)
	case CSV:
		c := &csvWriter{w: w, noHeaders: o.NoHeaders}
		return each(rows, func(row T) error { return c.row(row) })
	case Template:
		return each(rows, func(row T) error { return o.execute(w, row) })
	default:
		t := newTable(w, o, columns)
		err := each(rows, t.add)
		if err != nil && !t.started && len(t.held) == 0 {
			return err // the headings would look like an empty list
		}
		if endErr := t.end(); err == nil {
			err = endErr
		}
		return err
	}
}

func each[T any](rows iter.Seq2[T, error], do func(T) error) error {
	for row, err := range rows {
		if err == nil {
			err = do(row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listJSON writes an array. The array is complete even if the rows end with an error.
func listJSON[T any](w io.Writer, rows iter.Seq2[T, error]) error {
	n := 0
	err := each(rows, func(row T) error {
		var b bytes.Buffer
		if err := WriteJSON(&b, row, "  "); err != nil {
			return err
		}
		lead := ",\n  "
		if n == 0 {
			lead = "[\n  "
		}
		n++
		text := strings.ReplaceAll(strings.TrimRight(b.String(), "\n"), "\n", "\n  ")
		_, err := io.WriteString(w, lead+text)
		return err
	})
	end := "\n]\n"
	switch {
	case n == 0 && err != nil:
		return err // do not write an empty list: the rows are unknown
	case n == 0:
		end = "[]\n"
	}
	if _, endErr := io.WriteString(w, end); err == nil {
		err = endErr
	}
	return err
}

func listYAML[T any](w io.Writer, rows iter.Seq2[T, error]) error {
	n := 0
	err := each(rows, func(row T) error {
		n++
		return writeYAML(w, []T{row})
	})
	if n == 0 && err == nil {
		_, err = io.WriteString(w, "[]\n")
	}
	return err
}

// table aligns columns.
type table[T any] struct {
	w       io.Writer
	o       Options
	columns []Column[T]
	widths  []int
	held    []T // rows that determine the widths
	started bool
}

func newTable[T any](w io.Writer, o Options, columns []Column[T]) *table[T] {
	t := &table[T]{w: w, o: o}
	for _, c := range columns {
		if !c.Wide || o.Kind == Wide {
			t.columns = append(t.columns, c)
			t.widths = append(t.widths, ansi.StringWidth(c.Head))
		}
	}
	if o.NoHeaders {
		clear(t.widths)
	}
	return t
}

func (t *table[T]) add(row T) error {
	if t.started {
		return t.write(row)
	}
	for i, c := range t.columns {
		t.widths[i] = max(t.widths[i], ansi.StringWidth(Clean(c.Cell(row))))
	}
	if t.held = append(t.held, row); len(t.held) < widthRows && !t.o.Stream {
		return nil
	}
	return t.begin()
}

func (t *table[T]) begin() error {
	t.started = true
	t.omit()
	if t.o.Width > 0 {
		t.fit(t.o.Width)
	}
	if !t.o.NoHeaders {
		heads := make([]string, len(t.columns))
		for i, c := range t.columns {
			heads[i] = c.Head
		}
		if err := t.line(heads, func(int) Style { return Bold }); err != nil {
			return err
		}
	}
	for _, row := range t.held {
		if err := t.write(row); err != nil {
			return err
		}
	}
	t.held = nil
	return nil
}

// omit removes the columns whose cells all have the text Unless.
func (t *table[T]) omit() {
	if t.o.Kind == Wide {
		return
	}
	for i := len(t.columns) - 1; i >= 0; i-- {
		c := t.columns[i]
		if c.Unless == "" || slices.ContainsFunc(t.held, func(row T) bool { return c.Cell(row) != c.Unless }) {
			continue
		}
		t.columns = slices.Delete(t.columns, i, i+1)
		t.widths = slices.Delete(t.widths, i, i+1)
	}
}

// fit shrinks columns until the table has the given width, and then drops columns.
func (t *table[T]) fit(width int) {
	var dropped []string
	for over := t.width() - width; over > 0; over = t.width() - width {
		widest, worst := -1, -1
		for i, c := range t.columns {
			if c.Shrink > 0 && t.widths[i] > max(c.Shrink, ansi.StringWidth(c.Head)) && (widest < 0 || t.widths[i] > t.widths[widest]) {
				widest = i
			}
			if c.Rank > 0 && (worst < 0 || c.Rank >= t.columns[worst].Rank) {
				worst = i
			}
		}
		switch {
		case widest >= 0:
			t.widths[widest]--
		case worst >= 0:
			dropped = append(dropped, t.columns[worst].Head)
			t.columns = slices.Delete(t.columns, worst, worst+1)
			t.widths = slices.Delete(t.widths, worst, worst+1)
		default:
			over = 0
		}
		if over == 0 {
			break // the terminal wraps the lines
		}
	}
	if len(dropped) > 0 && t.o.Dropped != nil {
		slices.Reverse(dropped)
		t.o.Dropped(dropped)
	}
}

// width returns the width of the lines.
func (t *table[T]) width() int {
	sum := 2 * (len(t.widths) - 1)
	for _, w := range t.widths {
		sum += w
	}
	return sum
}

func (t *table[T]) end() error {
	if t.started {
		return nil
	}
	return t.begin()
}

func (t *table[T]) write(row T) error {
	cells := make([]string, len(t.columns))
	for i, c := range t.columns {
		cells[i] = Clean(c.Cell(row))
		if t.o.Width > 0 && c.Shrink > 0 {
			cells[i] = ansi.Truncate(cells[i], t.widths[i], "…")
		}
	}
	return t.line(cells, func(i int) Style {
		if style := t.columns[i].Style; style != nil {
			return style(row)
		}
		return Plain
	})
}

func (t *table[T]) line(cells []string, style func(int) Style) error {
	var b strings.Builder
	for i, cell := range cells {
		pad := strings.Repeat(" ", max(t.widths[i]-ansi.StringWidth(cell), 0))
		text := cell
		if t.o.Color {
			text = style(i).Paint(cell)
		}
		switch last := i == len(cells)-1; {
		case t.columns[i].Right:
			b.WriteString(pad + text)
		case last:
			b.WriteString(text)
		default:
			b.WriteString(text + pad)
		}
		if i < len(cells)-1 {
			b.WriteString("  ")
		}
	}
	_, err := io.WriteString(t.w, strings.TrimRight(b.String(), " ")+"\n")
	return err
}

// Clean returns text as one line of a table: unsafe characters become U+FFFD, line breaks and tabs
// become spaces.
func Clean(s string) string {
	bad := func(r rune) bool { return r == utf8.RuneError || Unsafe(r) }
	if strings.IndexFunc(s, bad) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case bad(r):
			return utf8.RuneError
		}
		return r
	}, s)
}
