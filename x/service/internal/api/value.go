package api

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq"
)

// Duration is a time.Duration that is text in JSON.
type Duration time.Duration

// UnmarshalJSON reads a duration such as "1h30m". It rejects negative ones.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) != nil {
		return errMisread
	}
	value, err := parseDuration(s)
	if err != nil {
		return errMisread
	}
	*d = Duration(value)
	return nil
}

// The errors of parseDuration.
var (
	errNoDuration = errors.New(`must be a duration such as "30s" or "1h30m"`)
	errNegative   = errors.New("must be a duration of at least 0s")
	errTooLong    = fmt.Errorf("must be a duration of at most %v (292 years)", time.Duration(math.MaxInt64).Truncate(time.Second))
)

// durationForm matches durations, including those that exceed a time.Duration.
var durationForm = regexp.MustCompile(`^[+-]?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$`)

// parseDuration parses a duration. It rejects negative ones.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err == nil && d >= 0:
		return d, nil
	case !durationForm.MatchString(text) && err != nil:
		return 0, errNoDuration
	case text[0] == '-':
		return 0, errNegative
	default:
		return 0, errTooLong
	}
}

// Time is a time.Time in RFC 3339 format.
type Time struct{ time.Time }

// UnmarshalJSON reads a time such as "2026-01-02T15:04:05Z". It rejects the zero time.
func (t *Time) UnmarshalJSON(text []byte) error {
	if t.Time.UnmarshalJSON(text) == nil && !t.IsZero() {
		return nil
	}
	return errMisread
}

// errMisread means that a value does not fit its type; finder reports where, and what fits. It must
// not be a json.UnmarshalTypeError: the decoder modifies those, and this error is shared by all
// requests.
var errMisread = errors.New("api: invalid value")

// Data holds bytes as JSON, text or base64.
type Data struct {
	JSON   json.RawMessage
	Text   *string
	Base64 *string
}

// Bytes returns the bytes, with the exact text of JSON. name is the name of the JSON field.
func (d *Data) Bytes(pointer, name string) ([]byte, *Problem) {
	forms := 0
	for _, given := range []bool{d.JSON != nil, d.Text != nil, d.Base64 != nil} {
		if given {
			forms++
		}
	}
	switch {
	case forms > 1:
		return nil, invalidf(pointer+"/"+name, "set only one of %s, %s_text and %s_base64", name, name, name)
	case d.JSON != nil:
		return d.JSON, nil
	case d.Text != nil:
		return []byte(*d.Text), nil
	case d.Base64 != nil:
		data, err := base64.StdEncoding.DecodeString(*d.Base64)
		if err != nil {
			return nil, invalidf(pointer+"/"+name+"_base64", "must be base64 (RFC 4648, with padding)")
		}
		return data, nil
	}
	return nil, nil
}

// JSON is a JSON writer. It keeps the exact text of payloads and is fast for responses with many
// tasks.
type JSON struct{ buf []byte }

var buffers = sync.Pool{New: func() any { return new(JSON) }}

// NewJSON returns an empty writer. Call Free when done.
func NewJSON() *JSON {
	j := buffers.Get().(*JSON)
	j.buf = j.buf[:0]
	return j
}

// Free returns the writer to the pool. Its bytes must no longer be used.
func (j *JSON) Free() {
	if cap(j.buf) <= 1<<20 {
		buffers.Put(j)
	}
}

// Bytes returns the text, with a trailing line break.
func (j *JSON) Bytes() []byte {
	j.buf = append(j.buf, '\n')
	return j.buf
}

func (j *JSON) comma() {
	if n := len(j.buf); n > 0 {
		switch j.buf[n-1] {
		case '{', '[', ':':
		default:
			j.buf = append(j.buf, ',')
		}
	}
}

// Open begins an object ('{') or an array ('[').
func (j *JSON) Open(c byte) *JSON {
	j.comma()
	j.buf = append(j.buf, c)
	return j
}

// Close ends an object ('}') or an array (']').
func (j *JSON) Close(c byte) *JSON {
	j.buf = append(j.buf, c)
	return j
}

// Key begins a field.
func (j *JSON) Key(name string) *JSON {
	j.comma()
	j.buf = append(append(append(j.buf, '"'), name...), '"', ':')
	return j
}

// Raw writes a JSON value.
func (j *JSON) Raw(value []byte) {
	j.comma()
	j.buf = append(j.buf, value...)
}

// String writes a string.
func (j *JSON) String(s string) {
	j.comma()
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, _ := json.Marshal(s) // cannot fail: a string
			j.buf = append(j.buf, text...)
			return
		}
	}
	j.buf = append(append(append(j.buf, '"'), s...), '"')
}

// Int writes an integer.
func (j *JSON) Int(n int) {
	j.comma()
	j.buf = strconv.AppendInt(j.buf, int64(n), 10)
}

// Bool writes true or false.
func (j *JSON) Bool(b bool) {
	j.comma()
	j.buf = strconv.AppendBool(j.buf, b)
}

// Time writes a time, in UTC.
func (j *JSON) Time(t time.Time) {
	j.comma()
	j.buf = append(t.UTC().AppendFormat(append(j.buf, '"'), time.RFC3339Nano), '"')
}

// Data writes the field name, name_text or name_base64, whichever fits the bytes.
func (j *JSON) Data(name string, data []byte) {
	switch {
	case !utf8.Valid(data):
		j.Key(name + "_base64").String(base64.StdEncoding.EncodeToString(data))
	case json.Valid(data) && plain(data):
		j.Key(name).Raw(data)
	default:
		j.Key(name + "_text").String(string(data))
	}
}

// Headers writes the headers of a task, if it has any.
func (j *JSON) Headers(headers map[string]string) {
	if len(headers) == 0 {
		return
	}
	j.Key("headers").Open('{')
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		j.String(name)
		j.buf = append(j.buf, ':')
		j.String(headers[name])
	}
	j.Close('}')
}

// Problem writes a problem.
func (j *JSON) Problem(p *Problem) {
	text, _ := json.Marshal(p) // cannot fail: strings and integers
	j.Raw(text)
}

// Task writes a task, with or without payload and result.
func (j *JSON) Task(t *asynq.TaskInfo, data bool) {
	j.Open('{')
	j.Key("id").String(t.ID)
	j.Key("queue").String(t.Queue)
	j.Key("type").String(t.Type)
	switch {
	case t.State == 0:
		j.Key("state").String("gone")
	case t.IsHeld:
		j.Key("state").String("held")
	default:
		j.Key("state").String(t.State.String())
	}
	if data {
		j.Data("payload", t.Payload)
	}
	j.Headers(t.Headers)
	j.Key("max_retry").Int(t.MaxRetry)
	j.Key("retried").Int(t.Retried)
	if t.LastErr != "" {
		j.Key("last_error").String(t.LastErr)
	}
	j.time("last_failed_at", t.LastFailedAt)
	j.duration("timeout", t.Timeout)
	j.time("deadline", t.Deadline)
	j.time("expires_at", t.ExpiresAt)
	j.duration("retention", t.Retention)
	if t.Group != "" {
		j.Key("group").String(t.Group)
	}
	if t.PartitionKey != "" {
		j.Key("partition_key").String(t.PartitionKey)
	}
	if !t.IsHeld { // its time is not when it runs
		j.time("next_process_at", t.NextProcessAt)
	}
	j.time("completed_at", t.CompletedAt)
	if data && len(t.Result) > 0 {
		j.Data("result", t.Result)
	}
	if t.IsOrphaned {
		j.Key("orphaned").Bool(true)
	}
	j.history(t)
	j.Close('}')
}

// history writes the failed attempts and the progress of a task.
func (j *JSON) history(t *asynq.TaskInfo) {
	if len(t.Attempts) > 0 {
		j.Key("attempts").Open('[')
		for _, a := range t.Attempts {
			j.Open('{')
			j.time("started", a.Started)
			j.time("ended", a.Ended)
			j.Key("kind").String(string(a.Kind))
			if a.Server != "" {
				j.Key("server").String(a.Server)
			}
			j.Key("error").String(a.Err)
			j.Close('}')
		}
		j.Close(']')
	}
	if p := t.Progress; p != nil {
		j.Key("progress").Open('{')
		j.Key("fraction").Raw(strconv.AppendFloat(nil, p.Fraction, 'f', -1, 64))
		if p.Note != "" {
			j.Key("note").String(p.Note)
		}
		j.time("at", p.At)
		j.Close('}')
	}
}

func (j *JSON) time(name string, t time.Time) {
	if !t.IsZero() {
		j.Key(name).Time(t)
	}
}

func (j *JSON) duration(name string, d time.Duration) {
	if d != 0 {
		j.Key(name).String(d.String())
	}
}
