package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/filter"
)

// topRow is a queue with its rates. A rate is nil until the queue has been read twice.
type topRow struct {
	Queue          string   `json:"queue"`
	Processed      *float64 `json:"processed_per_second"`
	Failed         *float64 `json:"failed_per_second"`
	Growth         *float64 `json:"growth_per_second"`
	Size           int      `json:"size"`
	Pending        int      `json:"pending"`
	Active         int      `json:"active"`
	Retry          int      `json:"retry"`
	Archived       int      `json:"archived"`
	LatencyMsec    int64    `json:"latency_msec"`
	DisplayLatency string   `json:"display_latency"`
	Paused         bool     `json:"paused"`
}

func rate(head string, style out.Style, of func(*topRow) *float64) out.Column[*topRow] {
	return out.Column[*topRow]{
		Head: head, Right: true,
		Cell: func(row *topRow) string {
			if r := of(row); r != nil {
				return fmt.Sprintf("%.1f", *r)
			}
			return "-"
		},
		Style: func(row *topRow) out.Style {
			if r := of(row); r == nil || *r == 0 {
				return out.Faint
			}
			return style
		},
	}
}

var topColumns = []out.Column[*topRow]{
	{Head: "QUEUE", Cell: func(q *topRow) string { return q.Queue }, Style: func(q *topRow) out.Style {
		if q.Paused {
			return out.Warn
		}
		return out.Plain
	}},
	rate("DONE/S", out.Good, func(q *topRow) *float64 { return q.Processed }),
	rate("FAILED/S", out.Bad, func(q *topRow) *float64 { return q.Failed }),
	rate("GROWTH/S", out.Warn, func(q *topRow) *float64 { return q.Growth }),
	count("SIZE", out.Plain, func(q *topRow) int { return q.Size }),
	count("PENDING", out.Plain, func(q *topRow) int { return q.Pending }),
	count("ACTIVE", out.Good, func(q *topRow) int { return q.Active }),
	count("RETRY", out.Warn, func(q *topRow) int { return q.Retry }),
	count("ARCHIVED", out.Bad, func(q *topRow) int { return q.Archived }),
	{Head: "LATENCY", Right: true, Cell: func(q *topRow) string { return q.DisplayLatency }},
	wide(out.Column[*topRow]{Head: "PAUSED", Cell: func(q *topRow) string { return fmt.Sprint(q.Paused) }}),
}

func newQueueTop(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the queues, busiest first",
		Long: `Watch the queues, busiest first, until interrupted: attempts finished per second (DONE/S), attempts
failed per second (FAILED/S), and tasks per second by which the queue grows (GROWTH/S). With --once,
the command prints the rates of one interval and exits.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.queueTop(cmd) },
	}
	cmd.Flags().DurationP("interval", "i", 2*time.Second, "interval over which rates are measured")
	cmd.Flags().Bool("once", false, "print the rates of one interval and exit")
	addOutput(cmd)
	addFilter(cmd)
	return cmd
}

func (a *app) queueTop(cmd *cobra.Command) error {
	o, err := a.output(cmd)
	if err != nil {
		return err
	}
	f, err := filter.ParseRows(a.filter(cmd))
	if err != nil {
		return badFilter(err)
	}
	every, _ := cmd.Flags().GetDuration("interval")
	if every < minWatch {
		return usage("--interval must be at least %v", minWatch)
	}
	i, err := a.inspector(cmd)
	if err != nil {
		return err
	}
	t := &top{a: a, ctx: cmd.Context(), i: i.WithMemorySamples(0)}
	draw := func(w io.Writer) error { return out.List(w, o, topColumns, out.Filtered(f, t.next())) }
	if once, _ := cmd.Flags().GetBool("once"); !once {
		return a.redraw(cmd.Context(), every, o, draw)
	}
	_, _, err = a.draw(func(io.Writer) error { // the second draw repeats its messages
		for _, err := range t.next() {
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errPrinted) {
		return err
	}
	if err := wait(cmd.Context(), every); err != nil {
		return err
	}
	return draw(a.Out)
}

// wait waits for d. It returns the error of ctx if ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// top keeps the previous state of the queues.
type top struct {
	a    *app
	ctx  context.Context
	i    *asynq.Inspector
	last map[string]*asynq.QueueInfo
}

// next reads the queues and yields them with their rates since the previous call.
func (t *top) next() iter.Seq2[*topRow, error] {
	return func(yield func(*topRow, error) bool) {
		found, err := t.i.QueueInfos(t.ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		broken := t.a.queueErrors(found)
		var rows []*topRow
		now := make(map[string]*asynq.QueueInfo, len(found))
		for _, q := range found {
			if q.Err != nil {
				continue
			}
			now[q.Queue] = q.Info
			rows = append(rows, newTopRow(q.Info, t.last[q.Queue]))
		}
		t.last = now
		slices.SortStableFunc(rows, func(a, b *topRow) int {
			return cmp.Or(-cmp.Compare(valueOf(a.Processed), valueOf(b.Processed)), -cmp.Compare(a.Size, b.Size))
		})
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
		if broken != nil {
			yield(nil, broken)
		}
	}
}

func newTopRow(q, last *asynq.QueueInfo) *topRow {
	row := &topRow{
		Queue: q.Queue, Size: q.Size, Pending: q.Pending, Active: q.Active, Retry: q.Retry, Archived: q.Archived, Paused: q.Paused,
		LatencyMsec: q.Latency.Milliseconds(), DisplayLatency: displayLatency(q.Latency),
	}
	if last == nil {
		return row
	}
	seconds := q.Timestamp.Sub(last.Timestamp).Seconds()
	if seconds <= 0 {
		return row
	}
	per := func(now, before int) *float64 {
		r := float64(now-before) / seconds
		return &r
	}
	row.Growth = per(q.Size-q.Completed, last.Size-last.Completed)
	if q.ProcessedTotal >= last.ProcessedTotal && q.FailedTotal >= last.FailedTotal { // otherwise the queue was removed and recreated
		row.Processed, row.Failed = per(q.ProcessedTotal, last.ProcessedTotal), per(q.FailedTotal, last.FailedTotal)
	}
	return row
}

func valueOf(f *float64) float64 {
	if f == nil {
		return 0
	}
	return *f
}
