package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newTaskTail(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follow the outcomes of tasks as they finish",
		Long: `Follow the outcomes of tasks as they finish, until interrupted or until --for has passed: a row per
task that completed, failed and waits for a retry, or was archived after a failure.

Redis keeps nothing of a task that succeeds without a retention, and only the last failure of a task
that fails twice between two polls. The command knows the number of these attempts, and shows it in
one row per queue and poll with the outcome "other". Of each state it shows up to 200 tasks per queue
and poll; the others count there, too.`,
		Example: "  asynq task tail -q mail\n  asynq task tail -o ndjson --for 10m > outcomes.ndjson",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			every, _ := cmd.Flags().GetDuration("interval")
			limit, _ := cmd.Flags().GetDuration("for")
			if every < minWatch || limit < 0 {
				return usage("--interval must be at least %v, and --for must not be negative", minWatch)
			}
			o, err := a.output(cmd)
			if err != nil {
				return err
			}
			if o.Kind == out.JSON {
				return usage("--output: json has an end: use ndjson")
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
			o.Stream = true
			t := &tail{a: a, i: i.WithMemorySamples(0), queues: queuesOf(cmd), before: map[string]*asynq.QueueInfo{}, seen: map[tailKey]time.Time{}}
			err = out.List(a.Out, o, tailColumns, t.follow(ctx, every))
			if ctx.Err() != nil {
				return nil // like --watch
			}
			return err
		},
	}
	cmd.Flags().StringSliceP("queue", "q", nil, "queues to follow (default all)")
	cmd.Flags().Duration("interval", time.Second, "poll interval")
	cmd.Flags().Duration("for", 0, "exit after this time (default never)")
	addOutput(cmd)
	return cmd
}

// tailRow is an outcome in machine-readable output.
type tailRow struct {
	Time         time.Time `json:"time"`
	Outcome      string    `json:"outcome"` // completed, retry, archived or other
	Queue        string    `json:"queue"`
	Type         string    `json:"type"`
	ID           string    `json:"id"`
	Retried      int       `json:"retried"`
	MaxRetry     int       `json:"max_retry"`
	ErrorMessage string    `json:"error_message"`
	Succeeded    int       `json:"succeeded"` // attempts of the row
	Failed       int       `json:"failed"`
}

var tailColumns = []out.Column[*tailRow]{
	{Head: "TIME", Cell: func(r *tailRow) string { return out.Time(r.Time) }},
	{Head: "OUTCOME  ", Cell: func(r *tailRow) string { return r.Outcome }, Style: func(r *tailRow) out.Style {
		switch r.Outcome {
		case "completed":
			return out.Good
		case "retry":
			return out.Warn
		case "archived":
			return out.Bad
		}
		return out.Faint
	}},
	{Head: "QUEUE     ", Shrink: 8, Cell: func(r *tailRow) string { return r.Queue }},
	{Head: "TYPE                ", Shrink: 8, Cell: func(r *tailRow) string { return r.Type }},
	{Head: "ID                                  ", Cell: func(r *tailRow) string { return r.ID }},
	{Head: "RETRIED", Right: true, Cell: func(r *tailRow) string {
		if r.ID == "" {
			return ""
		}
		return strconv.Itoa(r.Retried) + "/" + strconv.Itoa(r.MaxRetry)
	}},
	{Head: "DETAIL", Cell: func(r *tailRow) string {
		if r.ID == "" {
			return fmt.Sprintf("%d succeeded, %d failed", r.Succeeded, r.Failed)
		}
		return clipped(r.ErrorMessage)
	}},
}

// tailPage is the number of tasks that a poll reads of each state.
const tailPage = 200

// tail follows outcomes. It compares the counters of queues between polls, and reads the newest
// tasks of the queues whose counters have changed.
type tail struct {
	a      *app
	i      *asynq.Inspector
	queues []string
	before map[string]*asynq.QueueInfo
	seen   map[tailKey]time.Time // outcomes shown within the last minute
}

// tailKey identifies an outcome.
type tailKey struct {
	queue, id string
	at        int64
}

// follow yields outcomes until ctx ends.
func (t *tail) follow(ctx context.Context, every time.Duration) iter.Seq2[*tailRow, error] {
	return func(yield func(*tailRow, error) bool) {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for first := true; ; first = false {
			rows, err := t.poll(ctx, first)
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && first:
				yield(nil, err)
				return
			case err != nil && !errors.Is(err, errPrinted):
				t.a.printErrf("asynq: %s", message(err))
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}
}

// poll returns the outcomes since the last poll, oldest first.
func (t *tail) poll(ctx context.Context, first bool) (rows []*tailRow, err error) {
	infos, err := t.i.QueueInfos(ctx, t.queues...)
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if info.Err != nil {
			continue
		}
		q, before := info.Info, t.before[info.Queue]
		t.before[info.Queue] = q
		if before == nil && !first {
			before = &asynq.QueueInfo{Queue: q.Queue, Timestamp: q.Timestamp.Add(-time.Minute)} // a new queue
		}
		if before == nil || q.ProcessedTotal == before.ProcessedTotal {
			continue
		}
		found, failed := t.outcomes(ctx, q, before)
		rows = append(rows, found...)
		if failed != nil {
			err = inQueue(q.Queue, failed)
		}
	}
	slices.SortStableFunc(rows, func(a, b *tailRow) int { return a.Time.Compare(b.Time) })
	for key, at := range t.seen {
		if time.Since(at) > time.Minute {
			delete(t.seen, key)
		}
	}
	return rows, errors.Join(err, t.a.queueErrors(infos))
}

// outcomes returns the outcomes of a queue since the last poll.
func (t *tail) outcomes(ctx context.Context, q, before *asynq.QueueInfo) (rows []*tailRow, err error) {
	since := before.Timestamp.Truncate(time.Second)
	succeeded, failed := 0, 0
	for _, state := range []asynq.TaskState{asynq.TaskStateCompleted, asynq.TaskStateRetry, asynq.TaskStateArchived} {
		var more []*tailRow
		if more, err = t.newest(ctx, q.Queue, state, since); err != nil {
			break
		}
		for _, row := range more {
			succeeded += row.Succeeded
			failed += row.Failed
		}
		rows = append(rows, more...)
	}
	other := &tailRow{Time: q.Timestamp.UTC(), Outcome: "other", Queue: q.Queue}
	other.Failed = max(q.FailedTotal-before.FailedTotal-failed, 0)
	other.Succeeded = max(q.ProcessedTotal-before.ProcessedTotal-(q.FailedTotal-before.FailedTotal)-succeeded, 0)
	if other.Succeeded+other.Failed > 0 {
		rows = append(rows, other)
	}
	return rows, err
}

// newest returns the tasks in a state that finished an attempt since a time, and were not returned
// before.
func (t *tail) newest(ctx context.Context, queue string, state asynq.TaskState, since time.Time) (rows []*tailRow, err error) {
	search := asynq.TaskFilter{MaxScan: tailPage}
	if state == asynq.TaskStateRetry {
		search.MaxAge, search.MaxScan = time.Minute, 10*tailPage // in the order of their next attempts
	}
	for task, err := range t.i.Tasks(ctx, queue, state, search) {
		if errors.Is(err, asynq.ErrScanLimit) || errors.Is(err, asynq.ErrQueueNotFound) {
			break
		}
		if err != nil {
			return rows, err
		}
		row := &tailRow{
			Outcome: state.String(), Queue: queue, Type: task.Type, ID: task.ID, Retried: task.Retried, MaxRetry: task.MaxRetry,
			Time: task.LastFailedAt.UTC(), ErrorMessage: task.LastErr, Failed: 1,
		}
		if state == asynq.TaskStateCompleted {
			row.Time, row.ErrorMessage, row.Failed, row.Succeeded = task.CompletedAt.UTC(), "", 0, 1
		}
		key := tailKey{queue, task.ID, row.Time.Unix()}
		if _, shown := t.seen[key]; shown || row.Time.Before(since) {
			continue
		}
		t.seen[key] = time.Now()
		if rows = append(rows, row); len(rows) == tailPage {
			break
		}
	}
	return rows, nil
}
