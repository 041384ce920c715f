package cli

import (
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newQueueInspect(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "inspect QUEUE…",
		Short:             "Show the details of queues",
		Example:           "  asynq queue inspect mail reports",
		Args:              argsFrom(1, -1),
		ValidArgsFunction: a.queueNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			return listBlocks(a, cmd, func() iter.Seq2[*queueRow, error] { return a.queues(cmd.Context(), i, args...) }, writeQueue)
		},
	}
	addOutput(cmd)
	addWatch(cmd)
	return cmd
}

// writeQueue writes a queue as text.
func writeQueue(w io.Writer, o out.Options, q *queueRow) error {
	return out.Fields(w, o, []out.Field{
		{Name: "Queue", Value: q.Queue},
		{Name: "State", Value: q.state()},
		{Name: "Servers", Value: orUnknown(q.Servers, strconv.Itoa)},
		{Name: "Size", Value: q.Size},
		{Name: "Groups", Value: q.Groups},
		{Name: "Latency", Value: q.DisplayLatency},
		{Name: "Memory", Value: orUnknown(q.MemoryUsage, out.Bytes)},
		{},
		{Name: "Active", Value: q.Active},
		{Name: "Pending", Value: q.Pending},
		{Name: "Held", Value: q.Held},
		{Name: "Aggregating", Value: q.Aggregating},
		{Name: "Scheduled", Value: q.Scheduled},
		{Name: "Retry", Value: q.Retry},
		{Name: "Archived", Value: q.Archived},
		{Name: "Completed", Value: q.Completed},
		{Name: "Archive limits", Value: q.archiveLimits()},
		{},
		{Name: "Processed today", Value: q.Processed},
		{Name: "Failed today", Value: q.Failed},
		{Name: "Error rate today", Value: errorRate(q.Processed, q.Failed)},
		{Name: "Processed total", Value: q.ProcessedTotal},
		{Name: "Failed total", Value: q.FailedTotal},
	})
}

// errorRate formats the share of failed attempts, or "-" if there are no attempts.
func errorRate(processed, failed int) string {
	if processed == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(failed)/float64(processed))
}

// dayRow is a day of a queue in machine-readable output.
type dayRow struct {
	Queue     string `json:"queue"`
	Date      string `json:"date"`
	Processed int    `json:"processed"`
	Succeeded int    `json:"succeeded"`
	Failed    int    `json:"failed"`
}

var dayColumns = []out.Column[*dayRow]{
	{Head: "QUEUE", Cell: func(d *dayRow) string { return d.Queue }},
	{Head: "DATE (UTC)", Cell: func(d *dayRow) string { return d.Date }},
	count("PROCESSED", out.Plain, func(d *dayRow) int { return d.Processed }),
	count("SUCCEEDED", out.Plain, func(d *dayRow) int { return d.Succeeded }),
	count("FAILED", out.Bad, func(d *dayRow) int { return d.Failed }),
	{Head: "ERROR RATE", Right: true, Cell: func(d *dayRow) string { return errorRate(d.Processed, d.Failed) }},
}

func newQueueHistory(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "history QUEUE…",
		Short:             "Show the number of processed tasks per day",
		Example:           "  asynq queue history mail --days 30",
		Args:              argsFrom(1, -1),
		ValidArgsFunction: a.queueNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			days, _ := cmd.Flags().GetInt("days")
			if days < 1 || days > maxDays {
				return usage("--days must be between 1 and %d: older statistics are not kept", maxDays)
			}
			return listOf(a, cmd, dayColumns, args, func(i *asynq.Inspector, queue string) ([]*dayRow, error) {
				history, err := i.History(queue, days)
				if err != nil {
					return nil, inQueue(queue, err)
				}
				rows := make([]*dayRow, len(history))
				for n, d := range history {
					rows[n] = &dayRow{
						Queue: d.Queue, Date: d.Date.Format(time.DateOnly), Processed: d.Processed, Succeeded: d.Processed - d.Failed, Failed: d.Failed,
					}
				}
				return rows, nil
			})
		},
	}
	cmd.Flags().IntP("days", "x", 10, "number of days, today first")
	addListing(cmd)
	return cmd
}

// maxDays is how many days statistics are kept.
const maxDays = 90
