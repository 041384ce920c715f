// Package out writes rows as tables or in machine-readable formats.
package out

import (
	"fmt"
	"io"
	"strings"
	"text/template"
)

// Kind is an output format.
type Kind string

// The formats. A template has the form "template=TEXT".
const (
	Table    Kind = "table"
	Wide     Kind = "wide"
	JSON     Kind = "json"
	NDJSON   Kind = "ndjson"
	YAML     Kind = "yaml"
	CSV      Kind = "csv"
	Template Kind = "template"
)

// Kinds are the format names.
var Kinds = []string{"table", "wide", "json", "ndjson", "yaml", "csv", "template="}

// Options configures the output.
type Options struct {
	Kind      Kind
	NoHeaders bool // for tables and CSV
	Color     bool // for tables
	Terminal  bool // the output is a terminal, so templates must not write unsafe characters
	Stream    bool // tables write each row as it arrives; the first one determines the widths

	// Width is the width of the terminal. Tables shrink and drop columns to fit. Zero means no
	// limit.
	Width int

	// Dropped, if not nil, is called with the headings of the columns that a table dropped.
	Dropped func(heads []string)

	template *template.Template
}

// Parse sets the format from the text of a flag.
func (o *Options) Parse(text string) error {
	name, rest, isTemplate := strings.Cut(text, "=")
	switch kind := Kind(name); kind {
	case Table, Wide, JSON, NDJSON, YAML, CSV:
		if isTemplate {
			return fmt.Errorf("format %s takes no argument", name)
		}
		o.Kind = kind
		return nil
	case Template:
		if rest == "" {
			return fmt.Errorf("missing template: use a form like 'template={{.queue}} {{.size}}'")
		}
		t, err := template.New("output").Option("missingkey=error").Funcs(funcs).Parse(rest)
		if err != nil {
			return err
		}
		o.Kind, o.template = Template, t
		return nil
	default:
		return fmt.Errorf("unknown format %q: use one of %s", text, strings.Join(Kinds, ", "))
	}
}

// IsTable reports whether the format is a table.
func (o *Options) IsTable() bool { return o.Kind == "" || o.Kind == Table || o.Kind == Wide }

// One writes a single item: with table, or as an object in a machine-readable format.
func One(w io.Writer, o Options, v any, table func(io.Writer) error) error {
	switch o.Kind {
	case JSON:
		return WriteJSON(w, v, "  ")
	case NDJSON:
		return WriteJSON(w, v, "")
	case YAML:
		return writeYAML(w, v)
	case CSV:
		return (&csvWriter{w: w, noHeaders: o.NoHeaders}).row(v)
	case Template:
		return o.execute(w, v)
	default:
		return table(w)
	}
}
