package apiv2

import (
	"encoding/base64"
	"encoding/json"
	"unicode"
	"unicode/utf8"
)

// Value is the bytes of a payload or a result.
type Value struct {
	Encoding  string          `json:"encoding" enum:"json,text,base64" doc:"The encoding of value: the JSON itself (numbers keep all their digits), a string, or base64."`
	Value     json.RawMessage `json:"value"`
	Size      int             `json:"size" doc:"The number of bytes of the complete value."`
	Truncated bool            `json:"truncated" doc:"true: value is only the beginning, as text or base64. Get the task with a higher payload_limit for the rest."`
	Redacted  bool            `json:"redacted,omitempty" doc:"true: this server redacts the bytes."`
	Formatted *string         `json:"formatted,omitempty" doc:"The output of the formatter that is configured on this server."`
}

// The encodings of payloads and results in responses.
const (
	asFits   = "auto"
	asBase64 = "base64"
	asNone   = "none"
)

// newValue converts at most limit bytes.
func newValue(b []byte, as string, limit int) *Value {
	v := &Value{Size: len(b), Encoding: "text"}
	cut := b
	if len(b) > limit {
		cut, v.Truncated = b[:limit], true
	}
	switch {
	case as == asBase64:
		v.Encoding = "base64"
	case !v.Truncated && utf8.Valid(b) && json.Valid(b):
		v.Encoding, v.Value = "json", b
		return v
	case v.Truncated:
		cut = whole(cut)
		fallthrough
	default:
		if !isText(cut) {
			v.Encoding = "base64"
			cut = b[:min(limit, len(b))]
		}
	}
	if v.Encoding == "base64" {
		v.Value, _ = json.Marshal(base64.StdEncoding.EncodeToString(cut)) // cannot fail: a string
	} else {
		v.Value, _ = json.Marshal(string(cut))
	}
	return v
}

// whole removes an incomplete rune at the end.
func whole(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}

// isText reports whether bytes are text without control characters other than white space.
func isText(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			return false
		}
	}
	return true
}

// Input is the bytes of a payload in a request. A complete Value of a response is valid as well.
type Input struct {
	Encoding  string          `json:"encoding,omitempty" enum:"json,text,base64" doc:"The default is json."`
	Value     json.RawMessage `json:"value" doc:"Any JSON, which is stored verbatim, or a string for text and base64."`
	Size      int             `json:"size,omitempty" doc:"Ignored. It is accepted so that a value from a response can be sent back."`
	Truncated bool            `json:"truncated,omitempty" doc:"Must not be true."`
	Redacted  bool            `json:"redacted,omitempty" doc:"Must not be true."`
	Formatted *string         `json:"formatted,omitempty" doc:"Ignored."`
}

// bytes returns the bytes of the input. pointer is its location in the body.
func (in *Input) bytes(pointer string) ([]byte, error) {
	if in == nil {
		return nil, nil
	}
	switch {
	case in.Truncated || in.Redacted:
		return nil, unprocessable(pointer, "the payload is truncated or redacted: read it with a higher payload_limit, as a user who may see it")
	case len(in.Value) == 0:
		return nil, unprocessable(pointer+"/value", "the value is required")
	case in.Encoding == "" || in.Encoding == "json":
		return in.Value, nil
	}
	var text string
	if err := json.Unmarshal(in.Value, &text); err != nil {
		return nil, unprocessable(pointer+"/value", "must be a string for the encoding %s", in.Encoding)
	}
	switch in.Encoding {
	case "text":
		return []byte(text), nil
	case "base64":
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, unprocessable(pointer+"/value", "not base64: %v", err)
		}
		return b, nil
	default:
		return nil, unprocessable(pointer+"/encoding", "unknown encoding %q: use json, text or base64", in.Encoding)
	}
}

// cutText returns the beginning of a text, at most limit bytes.
func cutText(text string, limit int) (cut string, truncated bool) {
	if len(text) <= limit {
		return text, false
	}
	return string(whole([]byte(text[:limit]))), true
}
