package out

import (
	"iter"

	"github.com/asynq-go/asynq/x/filter"
)

// Filtered yields the rows that match the filter. The fields of the filter are the JSON field
// names.
func Filtered[T any](f *filter.Rows, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	if f.Empty() {
		return rows
	}
	return func(yield func(T, error) bool) {
		for row, err := range rows {
			ok := true
			if err == nil {
				ok, err = matches(f, row)
			}
			if (ok || err != nil) && !yield(row, err) {
				return
			}
		}
	}
}

func matches(f *filter.Rows, row any) (bool, error) {
	v, err := fieldsOf(row)
	if err != nil {
		return false, err
	}
	fields, _ := v.(map[string]any)
	return f.Match(fields)
}
