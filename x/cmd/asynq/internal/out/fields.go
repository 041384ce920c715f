package out

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Field is a named value on a line. The zero value is an empty line.
type Field struct {
	Name  string
	Value any
	Style Style
}

// Fields writes aligned lines of names and values.
func Fields(w io.Writer, o Options, fields []Field) error {
	width := 0
	for _, f := range fields {
		width = max(width, utf8.RuneCountInString(f.Name))
	}
	var b strings.Builder
	for _, f := range fields {
		if f.Name == "" {
			b.WriteByte('\n')
			continue
		}
		name, value := f.Name+":", Clean(fmt.Sprint(f.Value))
		pad := strings.Repeat(" ", width-utf8.RuneCountInString(f.Name)+2)
		if o.Color {
			name, value = Bold.Paint(name), f.Style.Paint(value)
		}
		b.WriteString(name + pad + value + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
