package apiv2

import (
	"encoding/base64"
	"encoding/json"
	"unicode"
	"unicode/utf8"
)

// Value is the bytes of a payload or a result.
type Value struct {
	Encoding  string          `json:"encoding" enum:"json,text,base64" doc:"How value stands for the bytes: as the JSON that they are (numbers keep all their digits), as a string, or in base64."`
	Value     json.RawMessage `json:"value"`
	Size      int             `json:"size" doc:"How many bytes there are, also where value has fewer."`
	Truncated bool            `json:"truncated" doc:"Value is only the beginning, as text or base64: ask for the task, with a higher payload_limit."`
	Redacted  bool            `json:"redacted,omitempty" doc:"This server does not show the bytes as they are."`
	Formatted *string         `json:"formatted,omitempty" doc:"What the formatter that this server is configured with makes of it."`
}

// Ways of asking for payloads and results.
const (
	asFits   = "auto"
	asBase64 = "base64"
	asNone   = "none"
)

// newValue describes bytes, no more than limit of them.
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
		v.Value, _ = json.Marshal(base64.StdEncoding.EncodeToString(cut)) // a string can always be
	} else {
		v.Value, _ = json.Marshal(string(cut))
	}
	return v
}

// whole leaves a rune out that was cut at the end.
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

// isText reports whether bytes are text without control characters but white space.
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

// Input is the bytes of a payload in a request. It may be a Value as an answer had it, if that was complete.
type Input struct {
	Encoding  string          `json:"encoding,omitempty" enum:"json,text,base64" doc:"json if it is left out."`
	Value     json.RawMessage `json:"value" doc:"Any JSON, which is stored as it is written here; or a string, for text and base64."`
	Size      int             `json:"size,omitempty" doc:"Not used: it is there so that a value of an answer can be sent back."`
	Truncated bool            `json:"truncated,omitempty" doc:"Must not be true."`
	Redacted  bool            `json:"redacted,omitempty" doc:"Must not be true."`
	Formatted *string         `json:"formatted,omitempty" doc:"Not used."`
}

// bytes are those that the input stands for; pointer is where it stands in the body.
func (in *Input) bytes(pointer string) ([]byte, error) {
	if in == nil {
		return nil, nil
	}
	switch {
	case in.Truncated || in.Redacted:
		return nil, unprocessable(pointer, "this is not all of the payload: read it with a higher payload_limit, and as one who may see it")
	case len(in.Value) == 0:
		return nil, unprocessable(pointer+"/value", "say the value")
	case in.Encoding == "" || in.Encoding == "json":
		return in.Value, nil
	}
	var text string
	if err := json.Unmarshal(in.Value, &text); err != nil {
		return nil, unprocessable(pointer+"/value", "with the encoding %s it must be a string", in.Encoding)
	}
	switch in.Encoding {
	case "text":
		return []byte(text), nil
	case "base64":
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, unprocessable(pointer+"/value", "it is not base64: %v", err)
		}
		return b, nil
	default:
		return nil, unprocessable(pointer+"/encoding", "there is no encoding %q: use json, text or base64", in.Encoding)
	}
}

// cutText is the beginning of a text, of no more than limit bytes.
func cutText(text string, limit int) (cut string, truncated bool) {
	if len(text) <= limit {
		return text, false
	}
	return string(whole([]byte(text[:limit]))), true
}
