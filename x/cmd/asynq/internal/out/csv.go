package out

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// csvWriter writes rows as CSV. The columns are the fields of the JSON of the first row, in order.
type csvWriter struct {
	w         io.Writer
	noHeaders bool
	started   bool
}

// row writes a row. Unsafe characters other than line breaks are escaped, and a text that a
// spreadsheet would run as a formula gets a leading apostrophe.
func (c *csvWriter) row(v any) error {
	text, err := marshal(v)
	if err != nil {
		return err
	}
	names, cells, err := csvCells(text)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if !c.started && !c.noHeaders {
		_ = w.Write(names)
	}
	c.started = true
	_ = w.Write(cells) // the buffer does not fail
	w.Flush()
	_, err = c.w.Write(b.Bytes())
	return err
}

// csvCells returns the fields of a JSON object, in order.
func csvCells(object []byte) (names, cells []string, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, errors.Join(errors.New("csv: not an object"), err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, err
		}
		names = append(names, name.(string)) //nolint:forcetypeassert // keys of objects are strings
		cells = append(cells, csvCell(value))
	}
	return names, cells, nil
}

// csvCell returns a value as text: nothing for null, and JSON for lists and objects.
func csvCell(value json.RawMessage) string {
	var text string
	switch {
	case string(value) == "null":
		return ""
	case json.Unmarshal(value, &text) != nil:
		return string(value)
	}
	text = Escape(text)
	if text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}
