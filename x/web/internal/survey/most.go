package survey

import "iter"

// AtMost yields the first n values, and the errors before them. It sets cut if there are more.
func AtMost[T any](n int, cut *bool, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		read := 0
		for v, err := range all {
			if err == nil {
				if read++; read > n {
					*cut = true
					return
				}
			}
			if !yield(v, err) {
				return
			}
		}
	}
}
