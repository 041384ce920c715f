package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Attempt is an entry of a task's log: a failed attempt. Each entry is a field of the task's hash
// with one JSON object: adding one neither reads nor rewrites the others.
type Attempt struct {
	Number  int    `json:"n"`                 // failed attempts before it
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

// MaxLog is the maximum number of entries of a log.
const MaxLog = 100

// LogField returns the field of the entry of an attempt. An entry replaces the one that is MaxLog
// attempts older.
func LogField(number int) string { return logFields[uint(number)%MaxLog] }

var logFields = func() (names [MaxLog]string) {
	for i := range names {
		names[i] = FieldLog + strconv.Itoa(i)
	}
	return names
}()

// Archived returns after how many failed attempts the task was archived, as far as servers that
// keep a log have counted them. Retried does not count these.
func (m *TaskMessage) Archived() int {
	if len(m.Headers) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(m.Ext().Get(ExtArchived), 10, 16) // 0 if it is malformed
	return int(n)
}

// CountArchived adds one to Archived.
func (m *TaskMessage) CountArchived() {
	m.SetExt(m.Ext().Set(ExtArchived, strconv.Itoa(m.Archived()+1)))
}

// Encode returns the entry as one line, without the line break. It truncates the texts, the error
// so that its JSON has at most MaxAttemptErr bytes.
func (a Attempt) Encode() []byte {
	a.Server, a.Kind = Truncate(a.Server, maxAttemptServer), Truncate(a.Kind, maxAttemptKind)
	a.Err = Truncate(a.Err, MaxAttemptErr)
	const names = len(`{"n":12,"started":,"ended":,"kind":"","server":"","error":""}`) + 2*len("1700000000000")
	b := make([]byte, 0, names+len(a.Kind)+len(a.Server)+len(a.Err))
	b = strconv.AppendInt(append(b, `{"n":`...), int64(a.Number), 10)
	if a.Started != 0 {
		b = strconv.AppendInt(append(b, `,"started":`...), a.Started, 10)
	}
	b = strconv.AppendInt(append(b, `,"ended":`...), a.Ended, 10)
	b = appendJSON(append(b, `,"kind":`...), a.Kind)
	if a.Server != "" {
		b = appendJSON(append(b, `,"server":`...), a.Server)
	}
	if a.Err != "" {
		b = append(b, `,"error":`...)
		from := len(b)
		for b = appendJSON(b, a.Err); len(b)-from > MaxAttemptErr; b = appendJSON(b[:from], a.Err) {
			a.Err = Truncate(a.Err, len(a.Err)-(len(b)-from-MaxAttemptErr+5)/6) // a byte has at most six bytes in JSON
		}
	}
	return append(b, '}')
}

// appendJSON appends a text as JSON. Only texts with characters to escape are encoded by package
// json, which allocates.
func appendJSON(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return append(b, encodeJSON(text)...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// DecodeAttempts returns the entries of a log, oldest first. The log is a text with the field and
// the value of each entry as a line, in any order. It skips lines that are not entries.
func DecodeAttempts(log []byte) []Attempt {
	var all []Attempt
	for line := range bytes.Lines(log) {
		var a Attempt
		if line[0] == '{' && json.Unmarshal(line, &a) == nil {
			all = append(all, a)
		}
	}
	slices.SortStableFunc(all, func(a, b Attempt) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

// EncodeAttempts is the inverse of DecodeAttempts. Entries with numbers that are equal modulo
// MaxLog exclude each other.
func EncodeAttempts(all []Attempt) []byte {
	lines := make([][]byte, 0, 2*len(all))
	for _, a := range all {
		lines = append(lines, []byte(LogField(a.Number)), a.Encode())
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
