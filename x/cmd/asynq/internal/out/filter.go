package out

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Filter admits rows by their fields: terms such as pending>0 and queue=mail:*, all of which must hold.
type Filter struct{ terms []term }

// FilterError says what is wrong with a filter.
type FilterError struct{ Text string }

func (e *FilterError) Error() string { return e.Text }

func bad(format string, args ...any) error { return &FilterError{fmt.Sprintf(format, args...)} }

type term struct {
	field, op, want string
}

// ops are tried in this order at each place.
var ops = []string{">=", "<=", "!=", ">", "<", "=", "~"}

// ParseFilter reads terms with spaces between. A term is a field (a name of the JSON output), one of = != > >= < <= ~ and a value: = and !=
// compare with a value or a pattern (*, ?), ~ looks for a part of a text. A number may be a duration (500ms, 2h) for fields of
// milliseconds, or a size (10MB) for fields of bytes.
func ParseFilter(text string) (*Filter, error) {
	var f Filter
	for word := range strings.FieldsSeq(text) {
		t, err := parseTerm(word)
		if err != nil {
			return nil, err
		}
		f.terms = append(f.terms, t)
	}
	if len(f.terms) == 0 {
		return nil, nil
	}
	return &f, nil
}

func parseTerm(word string) (term, error) {
	at := strings.IndexAny(word, "=<>!~")
	if at <= 0 {
		return term{}, bad("filter %q: write it as field, operator, value, for example pending>0", word)
	}
	for _, op := range ops {
		if want, ok := strings.CutPrefix(word[at:], op); ok {
			if _, err := path.Match(want, ""); err != nil {
				return term{}, bad("filter %q: bad pattern", word)
			}
			return term{field: word[:at], op: op, want: want}, nil
		}
	}
	return term{}, bad("filter %q: the operators are = != > >= < <= ~", word)
}

// Admits reports whether all terms hold for the row. It fails if the row has no such field.
func (f *Filter) Admits(row any) (bool, error) {
	v, err := fieldsOf(row)
	if err != nil {
		return false, err
	}
	fields, _ := v.(map[string]any)
	for _, t := range f.terms {
		got, ok := fields[t.field]
		if !ok {
			names := make([]string, 0, len(fields))
			for name := range fields {
				names = append(names, name)
			}
			slices.Sort(names)
			return false, bad("filter: no field %q; there are %s", t.field, strings.Join(names, ", "))
		}
		holds, err := t.holds(got)
		if !holds || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (t term) holds(got any) (bool, error) {
	text := fmt.Sprint(got)
	if t.op == "~" {
		return strings.Contains(strings.ToLower(text), strings.ToLower(t.want)), nil
	}
	a, isNumber := number(got)
	b, wantsNumber := t.number()
	if isNumber && wantsNumber {
		return compared(t.op, cmp.Compare(a, b)), nil
	}
	if t.op == "=" || t.op == "!=" {
		same, err := path.Match(t.want, text)
		return same == (t.op == "="), err
	}
	if isNumber {
		return false, bad("filter: %q is no number to compare %s with", t.want, t.field)
	}
	return compared(t.op, strings.Compare(text, t.want)), nil
}

func compared(op string, c int) bool {
	switch op {
	case "=":
		return c == 0
	case "!=":
		return c != 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	case "<":
		return c < 0
	default:
		return c <= 0
	}
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// number is the wanted value in the unit of the field.
func (t term) number() (float64, bool) {
	if n, err := strconv.ParseFloat(t.want, 64); err == nil {
		return n, true
	}
	if d, err := time.ParseDuration(t.want); err == nil {
		switch {
		case strings.HasSuffix(t.field, "_seconds"):
			return d.Seconds(), true
		case strings.HasSuffix(t.field, "_msec"):
			return float64(d) / float64(time.Millisecond), true
		}
		return 0, false
	}
	for suffix, unit := range map[string]float64{"KB": 1e3, "MB": 1e6, "GB": 1e9} {
		if digits, ok := strings.CutSuffix(strings.ToUpper(t.want), suffix); ok {
			n, err := strconv.ParseFloat(digits, 64)
			return n * unit, err == nil
		}
	}
	return 0, false
}
