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

// Rows is a filter of what is not a task: of queues, servers or whatever else is listed in rows with named values. The language is the
// same, but the fields are those of the rows. The zero value and nil admit all rows.
type Rows struct {
	text  string
	root  node
	terms []*rowTerm
}

// ParseRows compiles a filter of rows. An empty text admits all. The error is a *SyntaxError. Names of fields consist of a–z and _;
// which there are is only known when a row is matched.
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

// Empty reports whether the filter admits all rows.
func (f *Rows) Empty() bool { return f == nil || f.root == nil }

// String is the filter in its shortest regular form. ParseRows of it comes to the same filter.
func (f *Rows) String() string {
	if f.Empty() {
		return ""
	}
	return f.root.text(0)
}

// Match reports whether the filter admits a row. Its values are strings, booleans, int, int64, float64, time.Duration, nil for what is not
// known, and []any and map[string]any of these. Others are compared as fmt prints them. Where the name is empty, only words without a
// field look.
//
// The error is a *SyntaxError: a term has a field that the row has not, or compares a number with what is none.
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

// rowTerm is a term of a field of a row.
type rowTerm struct {
	at       int // where it stands in the text
	name, op string
	value    *value
	want     string   // the value as a text
	glob     *glob    // the value as a pattern
	path     []string // within the field, if the value is path=value
	inside   *glob    // what stands there
}

func (t *rowTerm) text(int) string { return t.name + t.op + t.value.String() }

func (t *rowTerm) ordered() bool { return t.op != ":" && t.op != "=" }

// wrong says why the term does not fit a row.
func (t *rowTerm) wrong(row map[string]any) string {
	got, ok := row[t.name]
	if !ok {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(row)), func(name string) bool { return name == "" })
		return fmt.Sprintf("there is no field %s: use %s; to search for the text itself, quote it", t.name, strings.Join(names, ", "))
	}
	if _, isNumber := rowNumber(got); !isNumber || !t.ordered() {
		return ""
	}
	if _, ok := t.number(got); ok {
		return ""
	}
	if _, isTime := got.(time.Duration); isTime {
		return fmt.Sprintf("%q is no length of time: write %s>90s, or 10m, 1h30m, 2d, 1w", t.want, t.name)
	}
	return fmt.Sprintf("%q is no number to compare %s with: write %s>=3, for example", t.want, t.name, t.name)
}

func (t *rowTerm) eval(f *facts) verdict {
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

// number is the wanted value in the unit of what it is compared with, which the name of a field may tell.
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

// rowNumber is a value as a number, of a length of time its seconds.
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

// rowHas reports whether a value fits; of lists and maps, whether something within or a name does.
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

// rowHasAt reports whether what stands at a path within a value fits. Lists are entered at any place.
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

// inRow looks into all values of a row, and not at the names of its fields.
func (a *anywhere) inRow(row map[string]any) bool {
	for _, v := range row {
		if rowHas(v, a.in) {
			return true
		}
	}
	return false
}
