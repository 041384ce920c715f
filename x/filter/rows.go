package filter

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rows is a filter for lists of anything but tasks, such as queues or servers: rows with named
// values. The language is the same, but the fields are those of the rows. The zero value and nil
// match all rows.
type Rows struct {
	text  string
	root  node
	terms []*rowTerm
}

// ParseRows compiles a filter of rows. An empty text matches all rows. The error is a *SyntaxError.
// Field names consist of a–z and _; whether a field exists is checked by Match.
func ParseRows(text string) (*Rows, error) {
	f := &Rows{text: text}
	p := &parser{text: text, compare: f.compare}
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	f.root = root
	return f, nil
}

// Empty reports whether the filter matches all rows.
func (f *Rows) Empty() bool { return f == nil || f.root == nil }

// String returns the filter in its shortest normal form, which ParseRows compiles to the same
// filter.
func (f *Rows) String() string {
	if f.Empty() {
		return ""
	}
	return f.root.text(0)
}

// Match reports whether the filter matches a row. The values of a row are strings, booleans, int,
// int64, float64, time.Duration, nil if unknown, and []any and map[string]any of these. Other types
// are compared as formatted by fmt. Only words without a field match values with an empty name.
//
// The error is a *SyntaxError if a term has a field that the row lacks, or compares a number with
// something else.
func (f *Rows) Match(row map[string]any) (bool, error) {
	if f.Empty() {
		return true, nil
	}
	for _, t := range f.terms {
		if msg := t.wrong(row); msg != "" {
			return false, &SyntaxError{Text: f.text, At: t.at, Msg: msg}
		}
	}
	if row == nil {
		row = map[string]any{}
	}
	return f.root.eval(&facts{row: row}) == yes, nil
}

// compare makes a term.
func (f *Rows) compare(name, op string, v *value, at int) (node, string) {
	if op == "!=" {
		n, _ := f.compare(name, "=", v, at)
		return &not{n}, ""
	}
	t := &rowTerm{at: at, name: name, op: op, value: v, want: v.literal(), glob: v.pattern(false)}
	if op == "=" {
		t.glob = (&value{[]piece{{t.want, true}}}).pattern(false)
	} else if path, inside, ok := v.cut("="); ok && path.literal() != "" {
		t.path, t.inside = strings.Split(path.literal(), "."), inside.pattern(false)
	}
	f.terms = append(f.terms, t)
	return t, ""
}

// rowTerm is a term with a field of a row.
type rowTerm struct {
	at       int // position in the text
	name, op string
	value    *value
	want     string   // the value as text
	glob     *glob    // the value as a pattern
	path     []string // path inside the field, if the value is path=value
	inside   *glob    // the pattern for the value at the path
}

func (t *rowTerm) text(int) string { return t.name + t.op + t.value.String() }

func (t *rowTerm) ordered() bool { return t.op != ":" && t.op != "=" }

// wrong returns why the term does not apply to a row.
func (t *rowTerm) wrong(row map[string]any) string {
	got, ok := row[t.name]
	if !ok {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(row)), func(name string) bool { return name == "" })
		return fmt.Sprintf("unknown field %s: use %s; to search for the text itself, quote it", t.name, strings.Join(names, ", "))
	}
	if _, isNumber := rowNumber(got); !isNumber || !t.ordered() {
		return ""
	}
	if _, ok := t.number(got); ok {
		return ""
	}
	if _, isTime := got.(time.Duration); isTime {
		return fmt.Sprintf("%q is not a duration: write %s>90s, or 10m, 1h30m, 2d, 1w", t.want, t.name)
	}
	return fmt.Sprintf("%q is not a number to compare %s with: write %s>=3, for example", t.want, t.name, t.name)
}

func (t *rowTerm) eval(f *facts) truth {
	got := f.row[t.name]
	if is, ok := rowNumber(got); ok {
		if want, ok := t.number(got); ok {
			return known(t.holds(cmp.Compare(is, want)))
		}
	}
	switch {
	case !t.ordered():
		return known(rowHas(got, t.glob.match) || t.path != nil && rowHasAt(got, t.path, t.inside))
	case got == nil:
		return no
	default:
		return known(t.holds(strings.Compare(rowText(got), t.want)))
	}
}

func (t *rowTerm) holds(c int) bool {
	switch t.op {
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	default:
		return c == 0
	}
}

// number returns the wanted value in the unit of the field, which its name may indicate.
func (t *rowTerm) number(got any) (float64, bool) {
	d, isTime := ParseDuration(t.want)
	if _, ok := got.(time.Duration); ok {
		return d.Seconds(), isTime
	}
	if n, err := strconv.ParseFloat(t.want, 64); err == nil {
		return n, !math.IsNaN(n)
	}
	switch {
	case isTime && strings.HasSuffix(t.name, "_seconds"):
		return d.Seconds(), true
	case isTime && strings.HasSuffix(t.name, "_msec"):
		return d.Seconds() * 1000, true
	}
	return ParseSize(t.want)
}

// rowNumber returns a value as a number; for a duration, its seconds.
func rowNumber(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case time.Duration:
		return v.Seconds(), true
	}
	return 0, false
}

func rowText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// rowHas reports whether a value matches; for lists and maps, whether an element or a name does.
func rowHas(v any, fits func(string) bool) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return rowHas(item, fits) })
	case map[string]any:
		for name, item := range v {
			if fits(name) || rowHas(item, fits) {
				return true
			}
		}
		return false
	}
	return fits(rowText(v))
}

// rowHasAt reports whether the value at a path matches. A list matches with any element.
func rowHasAt(v any, path []string, fits *glob) bool {
	if list, ok := v.([]any); ok {
		return slices.ContainsFunc(list, func(item any) bool { return rowHasAt(item, path, fits) })
	}
	if len(path) == 0 {
		return rowHas(v, fits.match)
	}
	object, _ := v.(map[string]any)
	inner, ok := object[path[0]]
	return ok && rowHasAt(inner, path[1:], fits)
}

// inRow searches all values of a row, but not the names of its fields.
func (a *anywhere) inRow(row map[string]any) bool {
	for _, v := range row {
		if rowHas(v, a.in) {
			return true
		}
	}
	return false
}
