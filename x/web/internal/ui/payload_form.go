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

// payloadForm is a payload as it is typed.
type payloadForm struct {
	Text     string
	Encoding string // json, text or base64
	Wrong    string
}

// The encodings of a payload that is typed.
const (
	asJSON   = "json"
	asText   = "text"
	asBase64 = "base64"
)

// mostEdited is the largest payload that is put into a form.
const mostEdited = 1 << 20

// payloadFormOf puts bytes into a form, from which they come back as they were.
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

// fitsField reports whether a browser sends a text back as it was: it changes line ends and what is no text.
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

// bytes are those that were typed. A browser sends line ends as \r\n.
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
			return nil, errors.New("this is not base64 of the standard alphabet, with its padding")
		}
		return data, nil
	default:
		return nil, fmt.Errorf("there is no encoding %q: choose JSON, text or base64", show.Clip(f.Encoding, 40))
	}
}

// checkJSON says where JSON is wrong.
func checkJSON(data []byte) error {
	var v json.RawMessage
	err := json.Unmarshal(data, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := data[:min(int(syntax.Offset), len(data))]
		line := bytes.Count(before, []byte("\n")) + 1
		column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
		return fmt.Errorf("this is not JSON, at line %d, character %d: %s", line, max(column, 1), show.Visible(syntax.Error()))
	}
	if err != nil {
		return fmt.Errorf("this is not JSON: %w", err)
	}
	return nil
}

// tidy writes JSON over lines, or without any white space. What is no JSON stays, and is told.
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
