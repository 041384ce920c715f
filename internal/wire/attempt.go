package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Attempt is an entry of a task's log: a failed attempt. The log is the text of one JSON object per
// line, the newest first, so that a script can trim it without decoding it.
type Attempt struct {
	Started int64  `json:"started,omitempty"` // unix milliseconds; 0: unknown
	Ended   int64  `json:"ended"`             // unix milliseconds
	Kind    string `json:"kind"`
	Server  string `json:"server,omitempty"` // that ran it; empty: unknown
	Err     string `json:"error,omitempty"`
}

// The kinds of failed attempts.
const (
	AttemptFailed       = "failed"
	AttemptPanicked     = "panicked"
	AttemptTimedOut     = "timed_out"
	AttemptCanceled     = "canceled"
	AttemptStuck        = "stuck"
	AttemptLeaseExpired = "lease_expired"
)

// The limits of an entry, in bytes.
const (
	MaxAttemptErr    = 1 << 10 // of an error as JSON
	maxAttemptServer = 256
	maxAttemptKind   = 64
)

// Encode returns the entry as one line, without the line break. It truncates the texts, the error
// so that its JSON has at most MaxAttemptErr bytes.
func (a Attempt) Encode() []byte {
	a.Server, a.Kind = Truncate(a.Server, maxAttemptServer), Truncate(a.Kind, maxAttemptKind)
	a.Err = Truncate(a.Err, MaxAttemptErr)
	for over := len(encodeJSON(a.Err)) - MaxAttemptErr; over > 0; over = len(encodeJSON(a.Err)) - MaxAttemptErr {
		a.Err = Truncate(a.Err, len(a.Err)-(over+5)/6) // a byte has at most six bytes in JSON
	}
	return encodeJSON(a)
}

// DecodeAttempts returns the entries of a log, oldest first. It skips lines that are not entries.
func DecodeAttempts(log []byte) []Attempt {
	var all []Attempt
	for line := range bytes.Lines(log) {
		var a Attempt
		if json.Unmarshal(line, &a) == nil {
			all = append(all, a)
		}
	}
	slices.Reverse(all)
	return all
}

// EncodeAttempts is the inverse of DecodeAttempts.
func EncodeAttempts(all []Attempt) []byte {
	lines := make([][]byte, 0, len(all))
	for _, a := range slices.Backward(all) {
		lines = append(lines, a.Encode())
	}
	return bytes.Join(lines, []byte("\n"))
}

// Progress is the field progress of a task: what its handler reported last.
type Progress struct {
	Fraction float64 `json:"fraction"`
	Note     string  `json:"note,omitempty"`
	At       int64   `json:"at"` // unix milliseconds
}

// Encode returns p as JSON.
func (p Progress) Encode() []byte { return encodeJSON(p) }

// DecodeProgress returns the value of the field progress, and nil if it is none.
func DecodeProgress(b []byte) *Progress {
	var p Progress
	if len(b) == 0 || json.Unmarshal(b, &p) != nil {
		return nil
	}
	return &p
}

// encodeJSON returns v as JSON. Unlike json.Marshal, it does not escape the characters of HTML.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // texts and numbers can always be encoded
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Truncate returns the valid UTF-8 of the first n bytes of a text.
func Truncate(text string, n int) string {
	if len(text) > n {
		for n = max(n, 0); n > 0 && !utf8.RuneStart(text[n]); n-- {
		}
		text = text[:n]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
