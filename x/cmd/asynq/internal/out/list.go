package out

import (
	"bytes"
	"io"
	"iter"
	"strings"
	"unicode/utf8"
)

// Column is a column of a table.
type Column[T any] struct {
	// Head is the heading, in upper case.
	Head string

	// Cell returns the text of a row. List applies Clean to it.
	Cell func(T) string

	// Wide columns appear only with -o wide.
	Wide bool

	// Right aligns the column to the right.
	Right bool

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
			t.widths = append(t.widths, utf8.RuneCountInString(c.Head))
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
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(Clean(c.Cell(row))))
	}
	if t.held = append(t.held, row); len(t.held) < widthRows {
		return nil
	}
	return t.begin()
}

func (t *table[T]) begin() error {
	t.started = true
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
		pad := strings.Repeat(" ", max(t.widths[i]-utf8.RuneCountInString(cell), 0))
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
