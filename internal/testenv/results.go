package testenv

import (
	"iter"

	"github.com/asynq-go/asynq"
)

// TaskIDs returns the IDs of tasks, in order.
func TaskIDs(tasks []*asynq.TaskInfo) []string {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return ids
}

// LastError returns the last error that an iterator yields.
func LastError[T any](row iter.Seq2[T, error]) (err error) {
	for _, err = range row {
	}
	return err
}

// ErrorOf returns the error of a call with two results.
func ErrorOf[T any](_ T, err error) error { return err }
