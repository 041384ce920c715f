package editor

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"unicode"
	"unicode/utf8"
)

// Form is how a payload is shown in an editor.
type Form int

// The forms.
const (
	Text   Form = iota
	JSON        // indented
	Base64      // of data that is not text
)

// Show returns a payload as text to edit, ending with a line break, and its form.
func Show(payload []byte) (text []byte, form Form) {
	var b bytes.Buffer
	switch {
	case len(payload) > 0 && json.Valid(payload) && json.Indent(&b, payload, "", "  ") == nil && plain(b.Bytes()):
		form = JSON
	case plain(payload):
		b.Write(payload)
	default:
		form = Base64
		b.WriteString(base64.StdEncoding.EncodeToString(payload))
	}
	return append(b.Bytes(), '\n'), form
}

// plain reports whether an editor keeps text as it is.
func plain(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexFunc(b, func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }) < 0
}

// Payload returns the payload of edited text. It removes the line break that Show and editors add.
// JSON becomes compact if the payload was; text that is no longer JSON is an error then. Without a
// change it returns the payload itself.
func Payload(was, edited []byte, form Form) ([]byte, error) {
	if shown, _ := Show(was); bytes.Equal(shown, edited) {
		return was, nil
	}
	edited = bytes.TrimSuffix(edited, []byte("\n"))
	switch form {
	case JSON:
		if !json.Valid(edited) {
			return nil, errors.New("the payload is no longer valid JSON")
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, was); err == nil && bytes.Equal(compact.Bytes(), was) {
			compact.Reset()
			if err := json.Compact(&compact, edited); err != nil {
				return nil, err
			}
			return compact.Bytes(), nil
		}
	case Base64:
		decoded, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(edited)))
		if err != nil {
			return nil, errors.New("the payload is no longer valid base64")
		}
		return decoded, nil
	}
	return edited, nil
}
