package filter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// Fields returns the fields of terms, sorted, for completion and help.
func Fields() []string {
	names := append(slices.Collect(maps.Keys(texts)), slices.Collect(maps.Keys(numbers))...)
	names = append(names, "age", "header", "state")
	slices.Sort(names)
	return names
}

// States returns the names of the states.
func States() []string {
	names := make([]string, 0, len(states))
	for s := range states {
		names = append(names, s)
	}
	slices.Sort(names)
	return names
}

var states = func() map[string]asynq.TaskState {
	m := make(map[string]asynq.TaskState)
	for _, s := range []asynq.TaskState{
		asynq.TaskStateActive, asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateRetry,
		asynq.TaskStateArchived, asynq.TaskStateCompleted, asynq.TaskStateAggregating,
	} {
		m[s.String()] = s
	}
	return m
}()

// textField is a field that is compared as text: as a whole, or any part of it if floating is set.
type textField struct {
	of       func(*asynq.TaskInfo) string
	floating bool
	json     bool // path=value selects a part of it
}

var texts = map[string]textField{
	"id":        {of: func(t *asynq.TaskInfo) string { return t.ID }},
	"type":      {of: func(t *asynq.TaskInfo) string { return t.Type }},
	"queue":     {of: func(t *asynq.TaskInfo) string { return t.Queue }},
	"group":     {of: func(t *asynq.TaskInfo) string { return t.Group }},
	"partition": {of: func(t *asynq.TaskInfo) string { return t.PartitionKey }},
	"flow":      {of: func(t *asynq.TaskInfo) string { return t.FlowID }},
	"node":      {of: func(t *asynq.TaskInfo) string { return t.FlowNode }},
	"error":     {of: func(t *asynq.TaskInfo) string { return t.LastErr }, floating: true},
	"payload":   {of: func(t *asynq.TaskInfo) string { return string(t.Payload) }, floating: true, json: true},
	"result":    {of: func(t *asynq.TaskInfo) string { return string(t.Result) }, floating: true, json: true},
}

var numbers = map[string]func(*asynq.TaskInfo) float64{
	"retried":   func(t *asynq.TaskInfo) float64 { return float64(t.Retried) },
	"max_retry": func(t *asynq.TaskInfo) float64 { return float64(t.MaxRetry) },
	"size":      func(t *asynq.TaskInfo) float64 { return float64(len(t.Payload)) },
}

// newTerm makes a term, or returns a message.
func newTerm(name, op string, v *value, at int) (n node, msg string) {
	if op == "!=" {
		n, msg := newTerm(name, "=", v, at)
		if msg != "" {
			return nil, msg
		}
		return &not{n}, ""
	}
	_, isNumber := numbers[name]
	if !isNumber && name != "age" && op != ":" && op != "=" {
		if _, isText := texts[name]; !isText && name != "state" && name != "header" {
			return nil, unknownField(name)
		}
		return nil, fmt.Sprintf("%s is compared with : or =, not with %s", name, op)
	}
	switch {
	case name == "age":
		return newAge(op, v, at)
	case name == "state":
		return newState(v)
	case name == "header":
		return newHeader(op, v)
	case isNumber:
		return newNumber(name, op, v)
	}
	field, ok := texts[name]
	if !ok {
		return nil, unknownField(name)
	}
	return newText(name, op, field, v), ""
}

func unknownField(name string) string {
	return fmt.Sprintf("unknown field %s: use %s; to search for the text itself, quote it", name, strings.Join(Fields(), ", "))
}

// text is a term with a text field.
type text struct {
	name, op string
	field    textField
	value    *value
	glob     *glob
	path     []string // path in JSON, if the value is path=value
	inside   *glob    // the pattern for the value at the path
}

func newText(name, op string, field textField, v *value) node {
	t := &text{name: name, op: op, field: field, value: v}
	t.glob = v.pattern(field.floating && op == ":")
	if op == "=" {
		t.glob = (&value{[]piece{{v.literal(), true}}}).pattern(false)
	} else if path, inside, ok := v.cut("="); ok && field.json && !strings.ContainsAny(path.String(), `"*?`) && path.literal() != "" {
		t.path, t.inside = strings.Split(path.literal(), "."), inside.pattern(false)
	}
	return t
}

func (t *text) eval(f *facts) truth {
	if f.task == nil {
		if t.name == "queue" && f.queue != "" {
			return known(t.glob.match(f.queue))
		}
		return unknown
	}
	s := t.field.of(f.task)
	return known(t.glob.match(s) || t.path != nil && jsonHas([]byte(s), t.path, t.inside))
}

func (t *text) text(int) string { return t.name + t.op + t.value.String() }

// jsonHas reports whether the value at a path of a JSON text matches. A path has names of objects,
// and optionally indexes of lists: without one, any element may match.
func jsonHas(raw []byte, path []string, fits *glob) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // keeps all digits of large numbers
	var v any
	if d.Decode(&v) != nil {
		return false
	}
	return valueHas(v, path, fits)
}

func valueHas(v any, path []string, fits *glob) bool {
	if list, ok := v.([]any); ok {
		if len(path) > 0 {
			if i, err := strconv.Atoi(path[0]); err == nil {
				return i >= 0 && i < len(list) && valueHas(list[i], path[1:], fits)
			}
		}
		for _, item := range list {
			if valueHas(item, path, fits) {
				return true
			}
		}
		return false
	}
	if len(path) > 0 {
		object, _ := v.(map[string]any)
		inner, ok := object[path[0]]
		return ok && valueHas(inner, path[1:], fits)
	}
	switch v := v.(type) {
	case string:
		return fits.match(v)
	case json.Number:
		return fits.match(v.String())
	case bool:
		return fits.match(strconv.FormatBool(v))
	case nil:
		return fits.match("null")
	}
	return false
}

// anywhere is a text without a field. It ignores case, because users seldom know the case of a
// word.
type anywhere struct {
	value *value
	glob  *glob
}

func newAnywhere(v *value) *anywhere {
	folded := &value{}
	for _, p := range v.pieces {
		folded.add(fold(p.text), p.quoted)
	}
	return &anywhere{v, folded.pattern(true)}
}

func (a *anywhere) eval(f *facts) truth {
	switch {
	case f.row != nil:
		return known(a.inRow(f.row))
	case f.task == nil:
		return unknown
	}
	t := f.task
	return known(a.in(t.ID) || a.in(t.Type) || a.in(t.LastErr) || a.in(string(t.Payload)))
}

func (a *anywhere) in(s string) bool { return a.glob.match(fold(s)) }

func (a *anywhere) text(int) string { return a.value.String() }

// header is a term header:key or header:key=value.
type header struct {
	op    string
	value *value
	key   string
	glob  *glob // nil: any value
}

func newHeader(op string, v *value) (node, string) {
	key, inside, ok := v.cut("=")
	h := &header{op: op, value: v, key: key.literal()}
	if h.key == "" {
		return nil, "missing header name: write header:name or header:name=value"
	}
	if ok {
		h.glob = inside.pattern(false)
	}
	return h, ""
}

func (h *header) eval(f *facts) truth {
	if f.task == nil {
		return unknown
	}
	v, ok := f.task.Headers[h.key]
	return known(ok && (h.glob == nil || h.glob.match(v)))
}

func (h *header) text(int) string { return "header" + h.op + h.value.String() }

// state is a term with a state.
type state struct {
	state asynq.TaskState
}

func newState(v *value) (node, string) {
	s, ok := states[strings.ToLower(v.literal())]
	if !ok {
		return nil, fmt.Sprintf("unknown state %q: use %s", v.literal(), strings.Join(States(), ", "))
	}
	return &state{s}, ""
}

func (s *state) eval(f *facts) truth {
	is := f.state
	if f.task != nil {
		is = f.task.State
	}
	if is == 0 {
		return unknown
	}
	return known(is == s.state)
}

func (s *state) text(int) string { return "state:" + s.state.String() }

// number is a term with a number.
type number struct {
	name, op string
	of       func(*asynq.TaskInfo) float64
	value    *value
	bound    float64
}

func newNumber(name, op string, v *value) (node, string) {
	bound, ok := ParseSize(v.literal())
	if name != "size" {
		f, err := strconv.ParseFloat(v.literal(), 64)
		bound, ok = f, err == nil && !math.IsNaN(f)
	}
	if !ok && name == "size" {
		return nil, fmt.Sprintf("%q is not a size: write a number of bytes, or one with kB, MB, GB, KiB, MiB or GiB", v.literal())
	}
	if !ok {
		return nil, fmt.Sprintf("%q is not a number: write %s>=3, for example", v.literal(), name)
	}
	return &number{name: name, op: op, of: numbers[name], value: v, bound: bound}, ""
}

// ParseSize parses a number of bytes as in filters, such as 300, 1.5MB or 10KiB. Case is ignored.
func ParseSize(s string) (float64, bool) {
	units := []struct {
		name string
		is   float64
	}{
		{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"b", 1}, {"", 1},
	}
	s = strings.ToLower(s)
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		if f, err := strconv.ParseFloat(digits, 64); err == nil && f >= 0 && !math.IsInf(f, 0) {
			return f * u.is, true
		}
	}
	return 0, false
}

func (n *number) eval(f *facts) truth {
	if f.task == nil {
		return unknown
	}
	is := n.of(f.task)
	switch n.op {
	case ">":
		return known(is > n.bound)
	case ">=":
		return known(is >= n.bound)
	case "<":
		return known(is < n.bound)
	case "<=":
		return known(is <= n.bound)
	default:
		return known(is == n.bound)
	}
}

func (n *number) text(int) string { return n.name + n.op + n.value.String() }

// newAge makes an age bound. Ages cannot be compared for equality, because they change during a
// search.
func newAge(op string, v *value, at int) (node, string) {
	d, ok := ParseDuration(v.literal())
	switch {
	case op == ":" || op == "=":
		return nil, "age is compared with < or >, as in age>10m"
	case !ok:
		return nil, fmt.Sprintf("%q is not a duration: write 90s, 10m, 1h30m, 2d or 1w", v.literal())
	}
	return &age{at: at, atLeast: op[0] == '>', bound: d}, ""
}

// ParseDuration parses a duration as in filters: like time.ParseDuration, with optional weeks and
// days at its start, such as 1w2d or 2d12h. It rejects negative ones.
func ParseDuration(s string) (time.Duration, bool) {
	var total time.Duration
	rest := s
	for _, u := range []struct {
		name byte
		is   time.Duration
	}{{'w', 7 * 24 * time.Hour}, {'d', 24 * time.Hour}} {
		i := strings.IndexByte(rest, u.name)
		if i < 0 {
			continue
		}
		n, err := strconv.Atoi(rest[:i])
		if err != nil || n < 0 || n > 36500 {
			return 0, false
		}
		total += time.Duration(n) * u.is
		if rest = rest[i+1:]; rest == "" {
			return total, true
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || total+d < total {
		return 0, false
	}
	return total + d, true
}

// ParseState returns the state with a name. Case is ignored.
func ParseState(name string) (asynq.TaskState, bool) {
	s, ok := states[strings.ToLower(name)]
	return s, ok
}
