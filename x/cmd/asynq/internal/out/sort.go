package out

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// UnknownFieldError means that rows have no field to sort by.
type UnknownFieldError struct {
	Name  string
	Names []string // the fields of the rows
}

func (e *UnknownFieldError) Error() string {
	return fmt.Sprintf("--sort: unknown field %q: use one of %s", e.Name, strings.Join(e.Names, ", "))
}

// Sorted yields the rows sorted by the fields of their JSON: names separated by commas, descending
// with a leading hyphen. Rows that are equal keep their order, and null comes last. It yields the
// rows before an error, and then the error. With no fields, it returns rows.
func Sorted[T any](by string, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	if by == "" {
		return rows
	}
	return func(yield func(T, error) bool) {
		type keyed struct {
			row    T
			fields map[string]any
		}
		var all []keyed
		var failed error
		for row, err := range rows {
			var fields any
			if err == nil {
				fields, err = fieldsOf(row)
			}
			if err != nil {
				failed = err
				break
			}
			m, _ := fields.(map[string]any)
			all = append(all, keyed{row, m})
		}
		for name := range strings.SplitSeq(by, ",") {
			name = strings.TrimPrefix(name, "-")
			if len(all) == 0 {
				break
			}
			if _, ok := all[0].fields[name]; !ok {
				failed, all = &UnknownFieldError{name, slices.Sorted(maps.Keys(all[0].fields))}, nil
			}
		}
		slices.SortStableFunc(all, func(a, b keyed) int {
			for name := range strings.SplitSeq(by, ",") {
				name, falling := strings.CutPrefix(name, "-")
				if c := compareFields(a.fields[name], b.fields[name], falling); c != 0 {
					return c
				}
			}
			return 0
		})
		for _, k := range all {
			if !yield(k.row, nil) {
				return
			}
		}
		if failed != nil {
			var none T
			yield(none, failed)
		}
	}
}

// compareFields compares two values of a field.
func compareFields(a, b any, falling bool) int {
	if a == nil || b == nil {
		return cmp.Compare(asInt(a == nil), asInt(b == nil))
	}
	c := 0
	x, xok := asFloat(a)
	y, yok := asFloat(b)
	if xok && yok {
		c = cmp.Compare(x, y)
	} else {
		c = cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	}
	if falling {
		return -c
	}
	return c
}

func asFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case bool:
		return float64(asInt(v)), true
	case []any:
		return float64(len(v)), true
	case map[string]any:
		return float64(len(v)), true
	}
	return 0, false
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
