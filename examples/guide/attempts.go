package guide

import (
	"context"
	"fmt"
	"io"

	"github.com/asynq-go/asynq"
)

// ImportRows imports rows, and reports after each of them how far it is.
func ImportRows(ctx context.Context, rows []string, insert func(context.Context, string) error) error {
	for i, row := range rows {
		if err := insert(ctx, row); err != nil {
			return fmt.Errorf("row %d: %w", i+1, err)
		}
		done := float64(i+1) / float64(len(rows))
		if err := asynq.SetProgress(ctx, done, fmt.Sprintf("%d of %d rows", i+1, len(rows))); err != nil {
			return err // the server has lost the task
		}
	}
	return nil
}

// PrintHistory prints how far a task is, and its failed attempts.
func PrintHistory(w io.Writer, inspector *asynq.Inspector, queue, id string) error {
	info, err := inspector.GetTaskInfo(queue, id)
	if err != nil {
		return err
	}
	if p := info.Progress; p != nil {
		fmt.Fprintf(w, "%.0f %%: %s\n", 100*p.Fraction, p.Note)
	}
	for _, a := range info.Attempts {
		fmt.Fprintf(w, "%s on %s: %s\n", a.Kind, a.Server, a.Err)
	}
	return nil
}
