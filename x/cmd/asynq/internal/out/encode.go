package out

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// funcs are those that a template may call besides the usual ones.
var funcs = template.FuncMap{
	"json":  func(v any) (string, error) { b, err := marshal(v); return string(b), err },
	"lower": strings.ToLower,
	"upper": strings.ToUpper,
}

// marshal is json.Marshal that leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func writeJSON(w io.Writer, v any, indent bool) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if indent {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// writeYAML writes v with the names and the order of its JSON.
func writeYAML(w io.Writer, v any) error {
	b, err := marshal(v)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil { // JSON is YAML
		return err
	}
	plain(&doc)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return err
	}
	return enc.Close()
}

// plain takes the braces and quotes of JSON off; the encoder puts quotes back where a text needs them.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		plain(c)
	}
}

// execute writes what the template makes of v, and a newline.
func (o *Options) execute(w io.Writer, v any) error {
	fields, err := fieldsOf(v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := o.template.Execute(&b, fields); err != nil {
		return &TemplateError{err, fields}
	}
	b.WriteByte('\n')
	_, err = w.Write(b.Bytes())
	return err
}

// TemplateError says that a template does not fit what it is for, most often because of a field that is not there.
type TemplateError struct {
	err    error
	fields any
}

// Error says where in the template it is, and which fields there are.
func (e *TemplateError) Error() string {
	text := e.err.Error()
	if _, at, ok := strings.Cut(text, " executing \"output\" at "); ok {
		text = at
	}
	text = "--output: template at " + strings.ReplaceAll(text, "map has no entry for key", "there is no field")
	if fields, ok := e.fields.(map[string]any); ok && len(fields) > 0 {
		text += "; the fields are " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
	}
	return text
}

// Unwrap returns what the package text/template says.
func (e *TemplateError) Unwrap() error { return e.err }

// fieldsOf is v by the names of its JSON: maps, lists, strings, booleans, and numbers as int64 where they are whole.
func fieldsOf(v any) (any, error) {
	b, err := marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var fields any
	if err := dec.Decode(&fields); err != nil {
		return nil, err
	}
	return numbers(fields), nil
}

func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // it came from a number
		return f
	case map[string]any:
		for name, field := range v {
			v[name] = numbers(field)
		}
	case []any:
		for i, item := range v {
			v[i] = numbers(item)
		}
	}
	return v
}
