package out

import (
	"iter"

	"github.com/asynq-go/asynq/x/filter"
)

// Filtered are the rows that the filter admits by the names of their JSON.
func Filtered[T any](f *filter.Rows, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	if f.Empty() {
		return rows
	}
	return func(yield func(T, error) bool) {
		for row, err := range rows {
			ok := true
			if err == nil {
				ok, err = admits(f, row)
			}
			if (ok || err != nil) && !yield(row, err) {
				return
			}
		}
	}
}

func admits(f *filter.Rows, row any) (bool, error) {
	v, err := fieldsOf(row)
	if err != nil {
		return false, err
	}
	fields, _ := v.(map[string]any)
	return f.Match(fields)
}
