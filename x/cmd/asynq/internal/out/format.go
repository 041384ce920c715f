// Package out writes rows to the terminal, or for programs.
package out

import (
	"fmt"
	"io"
	"strings"
	"text/template"
)

// Kind is a format of output.
type Kind string

// The formats. A template comes as "template=TEXT".
const (
	Table    Kind = "table"
	Wide     Kind = "wide"
	JSON     Kind = "json"
	NDJSON   Kind = "ndjson"
	YAML     Kind = "yaml"
	Template Kind = "template"
)

// Kinds are the names of the formats.
var Kinds = []string{"table", "wide", "json", "ndjson", "yaml", "template="}

// Options say how to write.
type Options struct {
	Kind      Kind
	NoHeaders bool // for tables
	Color     bool // for tables

	template *template.Template
}

// Parse sets the format by the text of a flag. Its errors are the user's.
func (o *Options) Parse(text string) error {
	name, rest, isTemplate := strings.Cut(text, "=")
	switch kind := Kind(name); kind {
	case Table, Wide, JSON, NDJSON, YAML:
		if isTemplate {
			return fmt.Errorf("the format %s takes nothing after it", name)
		}
		o.Kind = kind
		return nil
	case Template:
		if rest == "" {
			return fmt.Errorf("write the template after it, as in 'template={{.queue}} {{.size}}'")
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

// IsTable reports whether the output is for people.
func (o *Options) IsTable() bool { return o.Kind == "" || o.Kind == Table || o.Kind == Wide }

// One writes a single thing: as an object for programs, and for people with table.
func One(w io.Writer, o Options, v any, table func(io.Writer) error) error {
	switch o.Kind {
	case JSON:
		return writeJSON(w, v, true)
	case NDJSON:
		return writeJSON(w, v, false)
	case YAML:
		return writeYAML(w, v)
	case Template:
		return o.execute(w, v)
	default:
		return table(w)
	}
}
