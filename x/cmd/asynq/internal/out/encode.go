package out

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// funcs are the additional template functions.
var funcs = template.FuncMap{
	"json":  func(v any) (string, error) { b, err := marshal(v); return string(b), err },
	"lower": strings.ToLower,
	"upper": strings.ToUpper,
}

// marshal is json.Marshal without HTML escaping. It escapes unsafe characters.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := WriteJSON(&b, v, ""); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// WriteJSON writes v and a newline. Unsafe characters are escaped as \u202e, so the JSON can be
// shown on a terminal.
func WriteJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(EscapeJSON(b.Bytes()))
	return err
}

// writeYAML writes v with the names and the order of its JSON.
func writeYAML(w io.Writer, v any) error {
	text, err := marshal(v)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	doc, err := yamlNode(dec)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(doc); err != nil {
		return err
	}
	if err := enc.Close(); err != nil {
		return err
	}
	_, err = w.Write(escapeStrings(b.Bytes(), true))
	return err
}

// yamlNode decodes a JSON value. Package yaml decodes most JSON too, but rejects control characters
// and long keys.
func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch t := token.(type) {
	case json.Delim:
		n.Kind = yaml.SequenceNode
		if t == '{' {
			n.Kind = yaml.MappingNode
		}
		for dec.More() { // keys count as values
			item, err := yamlNode(dec)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		_, err = dec.Token() // the closing delimiter
		return n, err
	case string:
		n.Tag, n.Value = "!!str", t // the encoder quotes what looks like another type
		if strings.IndexFunc(t, func(r rune) bool { return r != '\n' && Unsafe(r) }) >= 0 {
			n.Style = yaml.DoubleQuotedStyle // the escapes need it
		}
	case json.Number:
		n.Tag, n.Value = "!!int", t.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
	case nil:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

// execute writes the output of the template for v, and a newline.
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
	if o.Terminal {
		_, err = io.WriteString(w, Escape(b.String()))
	} else {
		_, err = w.Write(b.Bytes())
	}
	return err
}

// TemplateError is an error of a template execution, usually an unknown field.
type TemplateError struct {
	err    error
	fields any
}

// Error returns the position in the template and the available fields.
func (e *TemplateError) Error() string {
	text := e.err.Error()
	if _, at, ok := strings.Cut(text, " executing \"output\" at "); ok {
		text = at
	}
	text = "--output: template at " + strings.ReplaceAll(text, "map has no entry for key", "unknown field")
	if fields, ok := e.fields.(map[string]any); ok && len(fields) > 0 {
		text += "; use one of " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
	}
	return text
}

// Unwrap returns the error of package text/template.
func (e *TemplateError) Unwrap() error { return e.err }

// fieldsOf converts v to the values of its JSON: maps, lists, strings, booleans and numbers. Whole
// numbers are int64.
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
		f, _ := v.Float64() // it was encoded from a number
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
