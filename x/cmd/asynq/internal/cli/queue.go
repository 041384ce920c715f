package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/filter"
)

func newQueue(a *app) *cobra.Command {
	return group("queue", "Inspect and manage queues",
		newQueueLs(a),
		newQueueInspect(a),
		newQueueHistory(a),
		newQueueTop(a),
		newQueuePause(a),
		newQueueResume(a),
		newQueueRemove(a),
	)
}

// queueRow is a queue in machine-readable output.
type queueRow struct {
	Queue          string    `json:"queue"`
	MemoryUsage    *int64    `json:"memory_usage_bytes"` // nil: unknown
	Size           int       `json:"size"`
	Groups         int       `json:"groups"`
	LatencyMsec    int64     `json:"latency_msec"`
	DisplayLatency string    `json:"display_latency"`
	Active         int       `json:"active"`
	Pending        int       `json:"pending"`
	Held           int       `json:"held"` // wait because of their partition
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
	Servers        *int      `json:"servers"` // that process the queue; nil: unknown

	ArchiveMaxTasks      int   `json:"archive_max_tasks"` // limits of the archive
	ArchiveMaxAgeSeconds int64 `json:"archive_max_age_seconds"`
}

func newQueueRow(q *asynq.QueueInfo) *queueRow {
	memory := &q.MemoryUsage
	if *memory == 0 && q.Size > 0 {
		memory = nil // Redis did not report it
	}
	return &queueRow{
		Queue: q.Queue, MemoryUsage: memory, Size: q.Size, Groups: q.Groups,
		LatencyMsec: q.Latency.Milliseconds(), DisplayLatency: displayLatency(q.Latency),
		Active: q.Active, Pending: q.Pending, Held: q.Held, Aggregating: q.Aggregating, Scheduled: q.Scheduled, Retry: q.Retry,
		Archived: q.Archived, Completed: q.Completed,
		Processed: q.Processed, Succeeded: q.Processed - q.Failed, Failed: q.Failed,
		ProcessedTotal: q.ProcessedTotal, FailedTotal: q.FailedTotal,
		Paused: q.Paused, Timestamp: q.Timestamp,
		ArchiveMaxTasks: q.Archive.MaxTasks, ArchiveMaxAgeSeconds: int64(q.Archive.MaxAge / time.Second),
	}
}

// setServers sets the number of servers, given those of all queues; nil means unknown.
func (q *queueRow) setServers(serving map[string]int) {
	if serving != nil {
		n := serving[q.Queue]
		q.Servers = &n
	}
}

// archiveLimits describes the limits of the archive.
func (q *queueRow) archiveLimits() string {
	age := time.Duration(q.ArchiveMaxAgeSeconds) * time.Second
	text := age.String()
	if day := 24 * time.Hour; age%day == 0 {
		text = fmt.Sprintf("%d days", age/day)
	}
	return fmt.Sprintf("%d tasks, %s", q.ArchiveMaxTasks, text)
}

func displayLatency(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

// count returns a column of numbers. The style applies to numbers other than 0.
func count[T any](head string, style out.Style, n func(T) int) out.Column[T] {
	return countKnown(head, style, func(row T) *int { v := n(row); return &v })
}

// countKnown returns a column of numbers. nil means unknown.
func countKnown[T any](head string, style out.Style, n func(T) *int) out.Column[T] {
	return out.Column[T]{
		Head: head, Right: true,
		Cell: func(row T) string { return orUnknown(n(row), strconv.Itoa) },
		Style: func(row T) out.Style {
			if v := n(row); v == nil || *v == 0 {
				return out.Faint
			}
			return style
		},
	}
}

// unknown stands for a value that could not be read.
const unknown = "?"

// orUnknown formats a value. nil means that it could not be read.
func orUnknown[T any](v *T, text func(T) string) string {
	if v == nil {
		return unknown
	}
	return text(*v)
}

func wide[T any](c out.Column[T]) out.Column[T] {
	c.Wide = true
	return c
}

// unlessZero omits a column of numbers from tables if all of them are 0.
func unlessZero[T any](c out.Column[T]) out.Column[T] {
	c.Unless = "0"
	return c
}

// ranked sets the rank of a column.
func ranked[T any](rank int, c out.Column[T]) out.Column[T] {
	c.Rank = rank
	return c
}

var queueColumns = []out.Column[*queueRow]{
	{Head: "QUEUE", Shrink: 20, Cell: func(q *queueRow) string { return q.Queue }},
	{Head: "STATE", Cell: (*queueRow).state, Style: func(q *queueRow) out.Style {
		if q.Paused {
			return out.Warn
		}
		return out.Plain
	}},
	{Head: "SERVERS", Right: true, Cell: func(q *queueRow) string { return orUnknown(q.Servers, strconv.Itoa) }, Style: func(q *queueRow) out.Style {
		switch {
		case q.Servers == nil || *q.Servers > 0:
			return out.Plain
		case q.Pending > 0 || q.Held > 0 || q.Aggregating > 0:
			return out.Bad // no server processes them
		}
		return out.Faint
	}},
	ranked(1, count("SIZE", out.Plain, func(q *queueRow) int { return q.Size })),
	{Head: "LATENCY", Right: true, Cell: func(q *queueRow) string { return q.DisplayLatency }},
	count("ACTIVE", out.Good, func(q *queueRow) int { return q.Active }),
	count("PENDING", out.Plain, func(q *queueRow) int { return q.Pending }),
	ranked(4, count("AGGREGATING", out.Plain, func(q *queueRow) int { return q.Aggregating })),
	ranked(3, count("SCHEDULED", out.Plain, func(q *queueRow) int { return q.Scheduled })),
	count("RETRY", out.Warn, func(q *queueRow) int { return q.Retry }),
	count("ARCHIVED", out.Bad, func(q *queueRow) int { return q.Archived }),
	unlessZero(count("HELD", out.Plain, func(q *queueRow) int { return q.Held })),
	ranked(5, wide(count("COMPLETED", out.Plain, func(q *queueRow) int { return q.Completed }))),
	ranked(6, wide(count("GROUPS", out.Plain, func(q *queueRow) int { return q.Groups }))),
	ranked(7, wide(count("PROCESSED", out.Plain, func(q *queueRow) int { return q.Processed }))),
	ranked(7, wide(count("FAILED", out.Bad, func(q *queueRow) int { return q.Failed }))),
	wide(out.Column[*queueRow]{Head: "MEMORY", Right: true, Cell: func(q *queueRow) string { return orUnknown(q.MemoryUsage, out.Bytes) }}),
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
		Short:   "List queues",
		Long: `List queues.

With --quiet, the command prints only the names, one per line. A name that contains line breaks,
control characters or bytes that are not UTF-8, or that starts with a double quote, is printed as a
quoted Go string: "a\nb".`,
		Example: "  asynq queue ls -o wide\n  asynq queue ls --filter 'pending>100' -o 'template={{.queue}} {{.pending}}'\n" +
			"  asynq queue ls -q --filter paused:true | xargs -d '\\n' asynq queue resume",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			if format, _ := cmd.Flags().GetString("output"); format == string(out.Table) {
				i = i.WithMemorySamples(0) // no column shows it
			}
			if quiet, _ := cmd.Flags().GetBool("quiet"); quiet {
				return a.queueNamesOnly(cmd, i.WithMemorySamples(0))
			}
			return list(a, cmd, queueColumns, func(ctx context.Context) iter.Seq2[*queueRow, error] { return a.queues(ctx, i) })
		},
	}
	addListing(cmd)
	cmd.Flags().BoolP("quiet", "q", false, "print only the names, one per line; takes precedence over --output")
	return cmd
}

// queueNamesOnly prints the names of the queues that match --filter. Without a filter it reads only
// the names.
func (a *app) queueNamesOnly(cmd *cobra.Command, i *asynq.Inspector) error {
	f, err := filter.ParseRows(a.filter(cmd))
	if err != nil {
		return badFilter(err)
	}
	return a.watched(cmd, out.Options{}, func(w io.Writer) error {
		if f.Empty() {
			names, err := i.Queues()
			if err != nil {
				return err
			}
			return buffered(w, func(w io.Writer) error {
				for _, name := range names {
					if _, err := fmt.Fprintln(w, out.Name(name)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		for q, err := range out.Filtered(f, a.queues(cmd.Context(), i)) {
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w, out.Name(q.Queue)); err != nil {
				return err
			}
		}
		return nil
	})
}

// queues yields the named queues, or all queues if names is empty. It continues after queues that
// it cannot read.
func (a *app) queues(ctx context.Context, i *asynq.Inspector, names ...string) iter.Seq2[*queueRow, error] {
	return func(yield func(*queueRow, error) bool) {
		serving := a.serving(i)
		results, err := i.QueueInfos(ctx, names...)
		if err == nil {
			err = a.queueErrors(results)
		}
		for _, r := range results {
			if r.Err != nil {
				continue
			}
			row := newQueueRow(r.Info)
			row.setServers(serving)
			if !yield(row, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// serving counts the servers that process each queue. It returns nil if they are unknown: the
// queues matter more than this error.
func (a *app) serving(i *asynq.Inspector) map[string]int {
	servers, err := i.Servers()
	if err != nil {
		return nil
	}
	n := make(map[string]int)
	for _, s := range servers {
		for queue := range s.Queues {
			n[queue]++
		}
	}
	return n
}
