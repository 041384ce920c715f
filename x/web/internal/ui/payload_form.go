package ui

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/asynq-go/asynq/x/web/internal/show"
)

// payloadForm is a payload in a form.
type payloadForm struct {
	Text     string
	Encoding string // json, text or base64
	Wrong    string
}

// The encodings of a payload in a form.
const (
	asJSON   = "json"
	asText   = "text"
	asBase64 = "base64"
)

// mostEdited is the maximum size of a payload in a form.
const mostEdited = 1 << 20

// payloadFormOf returns the form of a payload. Submitting the form unchanged returns the same
// bytes.
func payloadFormOf(data []byte) payloadForm {
	switch {
	case !fitsField(data):
		return payloadForm{Text: base64.StdEncoding.EncodeToString(data), Encoding: asBase64}
	case len(data) == 0, show.FormOf(data) == show.JSON:
		return payloadForm{Text: string(data), Encoding: asJSON}
	default:
		return payloadForm{Text: string(data), Encoding: asText}
	}
}

// fitsField reports whether a browser returns a text unchanged. Browsers change line ends and
// invalid UTF-8.
func fitsField(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	for _, c := range data {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// bytes returns the payload. Browsers send line ends as \\r\
// .
func (f *payloadForm) bytes() ([]byte, error) {
	text := strings.ReplaceAll(f.Text, "\r\n", "\n")
	switch f.Encoding {
	case asJSON:
		if strings.TrimSpace(text) == "" {
			return nil, nil
		}
		if err := checkJSON([]byte(text)); err != nil {
			return nil, err
		}
		return []byte(text), nil
	case asText:
		return []byte(text), nil
	case asBase64:
		data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			return nil, errors.New("not valid base64 (standard alphabet, with padding)")
		}
		return data, nil
	default:
		return nil, fmt.Errorf("unknown encoding %q: choose JSON, text or base64", show.Clip(f.Encoding, 40))
	}
}

// checkJSON returns an error with the position of a JSON syntax error.
func checkJSON(data []byte) error {
	var v json.RawMessage
	err := json.Unmarshal(data, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := data[:min(int(syntax.Offset), len(data))]
		line := bytes.Count(before, []byte("\n")) + 1
		column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
		return fmt.Errorf("not valid JSON at line %d, character %d: %s", line, max(column, 1), show.Visible(syntax.Error()))
	}
	if err != nil {
		return fmt.Errorf("not valid JSON: %w", err)
	}
	return nil
}

// tidy indents or compacts JSON. Invalid JSON is left unchanged and reported.
func (f *payloadForm) tidy(how string) {
	data, err := f.bytes()
	if err == nil {
		err = checkJSON(data)
	}
	if err != nil {
		f.Wrong = sentence(err.Error())
		return
	}
	f.Encoding = asJSON
	if how == "indent" {
		f.Text = show.IndentText(data)
		return
	}
	var b bytes.Buffer
	if json.Compact(&b, data) == nil {
		f.Text = b.String()
	}
}
