package cli

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newQueue(a *app) *cobra.Command {
	return group("queue", "Look at queues and change them",
		newQueueLs(a),
		newQueueInspect(a),
		newQueueHistory(a),
		newQueueTop(a),
		newQueuePause(a),
		newQueueResume(a),
		newQueueRemove(a),
	)
}

// queueRow is a queue as programs see it.
type queueRow struct {
	Queue          string    `json:"queue"`
	MemoryUsage    int64     `json:"memory_usage_bytes"`
	Size           int       `json:"size"`
	Groups         int       `json:"groups"`
	LatencyMsec    int64     `json:"latency_msec"`
	DisplayLatency string    `json:"display_latency"`
	Active         int       `json:"active"`
	Pending        int       `json:"pending"`
	Aggregating    int       `json:"aggregating"`
	Scheduled      int       `json:"scheduled"`
	Retry          int       `json:"retry"`
	Archived       int       `json:"archived"`
	Completed      int       `json:"completed"`
	Processed      int       `json:"processed"`
	Succeeded      int       `json:"succeeded"`
	Failed         int       `json:"failed"`
	ProcessedTotal int       `json:"processed_total"`
	FailedTotal    int       `json:"failed_total"`
	Paused         bool      `json:"paused"`
	Timestamp      time.Time `json:"timestamp"`
}

func newQueueRow(q *asynq.QueueInfo) *queueRow {
	return &queueRow{
		Queue: q.Queue, MemoryUsage: q.MemoryUsage, Size: q.Size, Groups: q.Groups,
		LatencyMsec: q.Latency.Milliseconds(), DisplayLatency: displayLatency(q.Latency),
		Active: q.Active, Pending: q.Pending, Aggregating: q.Aggregating, Scheduled: q.Scheduled, Retry: q.Retry,
		Archived: q.Archived, Completed: q.Completed,
		Processed: q.Processed, Succeeded: q.Processed - q.Failed, Failed: q.Failed,
		ProcessedTotal: q.ProcessedTotal, FailedTotal: q.FailedTotal,
		Paused: q.Paused, Timestamp: q.Timestamp,
	}
}

func displayLatency(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

// count is a column of numbers. Those in a look are so only if they are not 0.
func count[T any](head string, style out.Style, n func(T) int) out.Column[T] {
	return out.Column[T]{
		Head: head, Right: true,
		Cell: func(row T) string { return strconv.Itoa(n(row)) },
		Style: func(row T) out.Style {
			if n(row) == 0 {
				return out.Faint
			}
			return style
		},
	}
}

func wide[T any](c out.Column[T]) out.Column[T] {
	c.Wide = true
	return c
}

var queueColumns = []out.Column[*queueRow]{
	{Head: "QUEUE", Cell: func(q *queueRow) string { return q.Queue }},
	{Head: "STATE", Cell: (*queueRow).state, Style: func(q *queueRow) out.Style {
		if q.Paused {
			return out.Warn
		}
		return out.Plain
	}},
	count("SIZE", out.Plain, func(q *queueRow) int { return q.Size }),
	{Head: "LATENCY", Right: true, Cell: func(q *queueRow) string { return q.DisplayLatency }},
	count("ACTIVE", out.Good, func(q *queueRow) int { return q.Active }),
	count("PENDING", out.Plain, func(q *queueRow) int { return q.Pending }),
	count("AGGREGATING", out.Plain, func(q *queueRow) int { return q.Aggregating }),
	count("SCHEDULED", out.Plain, func(q *queueRow) int { return q.Scheduled }),
	count("RETRY", out.Warn, func(q *queueRow) int { return q.Retry }),
	count("ARCHIVED", out.Bad, func(q *queueRow) int { return q.Archived }),
	wide(count("COMPLETED", out.Plain, func(q *queueRow) int { return q.Completed })),
	wide(count("GROUPS", out.Plain, func(q *queueRow) int { return q.Groups })),
	wide(count("PROCESSED", out.Plain, func(q *queueRow) int { return q.Processed })),
	wide(count("FAILED", out.Bad, func(q *queueRow) int { return q.Failed })),
	wide(out.Column[*queueRow]{Head: "MEMORY", Right: true, Cell: func(q *queueRow) string { return out.Bytes(q.MemoryUsage) }}),
}

func (q *queueRow) state() string {
	if q.Paused {
		return "paused"
	}
	return "running"
}

func newQueueLs(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the queues",
		Example: "  asynq queue ls -o wide\n  asynq queue ls --filter 'pending>100' -o 'template={{.queue}} {{.pending}}'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			if format, _ := cmd.Flags().GetString("output"); format == string(out.Table) {
				i = i.WithMemorySamples(0) // no column shows it
			}
			return list(a, cmd, queueColumns, func(ctx context.Context) iter.Seq2[*queueRow, error] { return a.queues(ctx, i) })
		},
	}
	addListing(cmd)
	return cmd
}

// queues yields these queues, or all if none is named. One that cannot be looked at does not hide the others.
func (a *app) queues(ctx context.Context, i *asynq.Inspector, names ...string) iter.Seq2[*queueRow, error] {
	return func(yield func(*queueRow, error) bool) {
		results, err := i.QueueInfos(ctx, names...)
		if err != nil {
			yield(nil, err)
			return
		}
		found, names := make(map[string]asynq.QueueInfoResult, len(results)), make([]string, len(results))
		for n, r := range results {
			found[r.Queue], names[n] = r, r.Queue
		}
		rowsOf(a, names, func(name string) ([]*queueRow, error) {
			r := found[name]
			if r.Err != nil {
				return nil, inQueue(name, r.Err)
			}
			return []*queueRow{newQueueRow(r.Info)}, nil
		})(yield)
	}
}
