package cli

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/trends"
	"github.com/asynq-go/asynq/x/filter"
)

// typeStatsRow are the attempts of a task type in machine-readable output. A percentile without
// measurements is nil.
type typeStatsRow struct {
	Type          string   `json:"type"` // empty for types that are not counted by themselves
	Queues        []string `json:"queues"`
	Attempts      int64    `json:"attempts"`
	Failed        int64    `json:"failed"`
	ErrorRate     *float64 `json:"error_rate"` // from 0 to 1
	Succeeded     int64    `json:"succeeded"`
	Retried       int64    `json:"retried"`
	Deferred      int64    `json:"deferred"`
	Archived      int64    `json:"archived"`
	Revoked       int64    `json:"revoked"`
	Expired       int64    `json:"expired"`
	Requeued      int64    `json:"requeued"`
	LeaseLost     int64    `json:"lease_lost"`
	Crashed       int64    `json:"crashed"`
	DurationTotal float64  `json:"duration_total_seconds"`
	Duration50    *float64 `json:"duration_p50_seconds"`
	Duration95    *float64 `json:"duration_p95_seconds"`
	Duration99    *float64 `json:"duration_p99_seconds"`
	Wait50        *float64 `json:"wait_p50_seconds"`
	Wait95        *float64 `json:"wait_p95_seconds"`
	Wait99        *float64 `json:"wait_p99_seconds"`
}

func newTypeStatsRow(t *trends.Type) *typeStatsRow {
	return &typeStatsRow{
		Type: t.Name, Queues: t.Queues, Attempts: t.Attempts(), Failed: t.Failed(), ErrorRate: shareOf(t.Failed(), t.Attempts()),
		Succeeded: t.Succeeded, Retried: t.Retried, Deferred: t.Deferred, Archived: t.Archived, Revoked: t.Revoked,
		Expired: t.Expired, Requeued: t.Requeued, LeaseLost: t.LeaseLost, Crashed: t.Crashed, DurationTotal: t.Duration.Sum().Seconds(),
		Duration50: quantile(&t.Duration, 0.5), Duration95: quantile(&t.Duration, 0.95), Duration99: quantile(&t.Duration, 0.99),
		Wait50: quantile(&t.Wait, 0.5), Wait95: quantile(&t.Wait, 0.95), Wait99: quantile(&t.Wait, 0.99),
	}
}

// shareOf returns n/all, or nil if all is 0.
func shareOf(n, all int64) *float64 {
	if all == 0 {
		return nil
	}
	share := float64(n) / float64(all)
	return &share
}

// quantile returns a quantile in seconds, or nil if the histogram is empty.
func quantile(h *asynq.Histogram, q float64) *float64 {
	if h.Count() == 0 {
		return nil
	}
	seconds := h.Quantile(q).Seconds()
	return &seconds
}

// secondsText formats a duration with about three digits, "-" for nil.
func secondsText(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	return trends.Seconds(*seconds)
}

// seconds returns a column of durations.
func seconds[T any](head string, of func(T) *float64) out.Column[T] {
	return out.Column[T]{Head: head, Right: true, Cell: func(row T) string { return secondsText(of(row)) }}
}

func count64[T any](head string, style out.Style, n func(T) int64) out.Column[T] {
	return count(head, style, func(row T) int { return int(n(row)) })
}

var typeStatsColumns = []out.Column[*typeStatsRow]{
	{Head: "TYPE", Shrink: 16, Cell: func(r *typeStatsRow) string {
		if r.Type == "" {
			return trends.Other
		}
		return r.Type
	}},
	wide(out.Column[*typeStatsRow]{Head: "QUEUES", Cell: func(r *typeStatsRow) string { return strings.Join(r.Queues, ", ") }}),
	count64("ATTEMPTS", out.Plain, func(r *typeStatsRow) int64 { return r.Attempts }),
	ranked(1, count64("FAILED", out.Bad, func(r *typeStatsRow) int64 { return r.Failed })),
	{Head: "FAILED %", Right: true, Cell: func(r *typeStatsRow) string { return errorRate(int(r.Attempts), int(r.Failed)) }},
	wide(count64("CRASHED", out.Bad, func(r *typeStatsRow) int64 { return r.Crashed })),
	ranked(4, seconds("TOTAL", func(r *typeStatsRow) *float64 { return &r.DurationTotal })),
	ranked(3, seconds("P50", func(r *typeStatsRow) *float64 { return r.Duration50 })),
	seconds("P95", func(r *typeStatsRow) *float64 { return r.Duration95 }),
	ranked(2, seconds("P99", func(r *typeStatsRow) *float64 { return r.Duration99 })),
	ranked(7, seconds("WAIT P50", func(r *typeStatsRow) *float64 { return r.Wait50 })),
	ranked(5, seconds("WAIT P95", func(r *typeStatsRow) *float64 { return r.Wait95 })),
	ranked(6, seconds("WAIT P99", func(r *typeStatsRow) *float64 { return r.Wait99 })),
}

func newStatsTypes(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "types",
		Short: "List task types by their attempts, with durations and waiting times",
		Long: `List task types by the number of their attempts, most first: those that failed, the total duration of
attempts (TOTAL), the 50th, 95th and 99th percentile of durations (P50, P95, P99), and of the times
that tasks were pending (WAIT).

Servers record the numbers, so they include tasks that are deleted. Percentiles are at most 9.1 % off,
and waiting times are a sample. "` + trends.Other + `" stands for types beyond the first 100 of a server and queue.`,
		Example: `  asynq stats types --since 1h
  asynq stats types -q mail --sort -duration_p95_seconds
  asynq stats types --filter 'error_rate>0.05' -o csv`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.statsTypes(cmd) },
	}
	addStatsScope(cmd, 24*time.Hour)
	addListing(cmd)
	return cmd
}

func (a *app) statsTypes(cmd *cobra.Command) error {
	f, err := filter.ParseRows(a.filter(cmd))
	if err != nil {
		return badFilter(err)
	}
	since, err := statsSince(cmd)
	if err != nil {
		return err
	}
	i, err := a.inspector(cmd)
	if err != nil {
		return err
	}
	by, _ := cmd.Flags().GetString("sort")
	all := 0
	load := func(ctx context.Context) iter.Seq2[*typeStatsRow, error] {
		all = 0
		from := time.Now().Add(-since)
		found, err := ofQueues(queuesOf(cmd), func(queue string) ([]*asynq.TypeStats, error) { return i.TypeStats(ctx, queue, from, time.Time{}) })
		rows := func(yield func(*typeStatsRow, error) bool) {
			for _, t := range trends.Types(found) {
				if !yield(newTypeStatsRow(t), nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
			}
		}
		return out.Sorted(by, out.Filtered(f, counting(&all, rows)))
	}
	return listThen(a, cmd, typeStatsColumns, load, func(n int) {
		switch {
		case all == 0:
			a.printErrf("no attempts recorded in the last %s%s", sinceText(since), a.where())
		case n == 0:
			a.printErrf("no match: --filter selects none of %s%s", plural(all, "task type"), a.where())
		}
	})
}

// addStatsScope adds the flags that select statistics.
func addStatsScope(cmd *cobra.Command, since time.Duration) {
	cmd.Flags().StringSliceP("queue", "q", nil, "only these queues (default all)")
	cmd.Flags().Duration("since", since, "how far back, from 1m to 720h; the first hour is counted whole beyond 48h")
}

// statsSince returns the value of --since.
func statsSince(cmd *cobra.Command) (time.Duration, error) {
	since, _ := cmd.Flags().GetDuration("since")
	if since < time.Minute || since > trends.Kept {
		return 0, usage("--since must be between 1m and 720h: older statistics are not kept")
	}
	return since, nil
}

// sinceText formats a duration without zero minutes and seconds.
func sinceText(d time.Duration) string {
	text := strings.TrimSuffix(d.String(), "m0s")
	if text == d.String() {
		return text
	}
	text = strings.TrimSuffix(text+"m", "h0m")
	if !strings.HasSuffix(text, "m") {
		text += "h"
	}
	return text
}

// ofQueues returns what get returns for each queue, or for all queues if none is named.
func ofQueues[T any](names []string, get func(queue string) ([]T, error)) ([]T, error) {
	if len(names) == 0 {
		return get("")
	}
	var all []T
	var failed []error
	for _, name := range names {
		found, err := get(name)
		all = append(all, found...)
		if err != nil {
			failed = append(failed, inQueue(name, err))
		}
	}
	return all, errors.Join(failed...)
}
