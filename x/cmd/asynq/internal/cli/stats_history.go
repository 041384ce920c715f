package cli

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/trends"
)

const (
	// chartWidth is the width of charts in cells, and chartMargin that of the other columns.
	chartWidth  = 60
	chartMargin = 46

	// mostPoints is the maximum number of points.
	mostPoints = 3000
)

// pointRow are the attempts and sizes of a period in machine-readable output. Unknown numbers are
// nil.
type pointRow struct {
	Start       time.Time `json:"start"`
	Seconds     int64     `json:"seconds"` // length of the period
	Attempts    *int64    `json:"attempts"`
	Failed      *int64    `json:"failed"`
	ErrorRate   *float64  `json:"error_rate"` // from 0 to 1
	Duration50  *float64  `json:"duration_p50_seconds"`
	Duration95  *float64  `json:"duration_p95_seconds"`
	Duration99  *float64  `json:"duration_p99_seconds"`
	Wait50      *float64  `json:"wait_p50_seconds"`
	Wait95      *float64  `json:"wait_p95_seconds"`
	Wait99      *float64  `json:"wait_p99_seconds"`
	Pending     *int      `json:"pending"`
	Active      *int      `json:"active"`
	Scheduled   *int      `json:"scheduled"`
	Retry       *int      `json:"retry"`
	Archived    *int      `json:"archived"`
	Completed   *int      `json:"completed"`
	Aggregating *int      `json:"aggregating"`
	Latency     *float64  `json:"latency_seconds"`
}

func newPointRow(p *trends.Point, step time.Duration) *pointRow {
	row := &pointRow{Start: p.Start, Seconds: int64(step / time.Second)}
	if p.Known {
		attempts, failed := p.Attempts(), p.Failed()
		row.Attempts, row.Failed, row.ErrorRate = &attempts, &failed, shareOf(failed, attempts)
	}
	row.Duration50, row.Duration95, row.Duration99 = quantile(&p.Duration, 0.5), quantile(&p.Duration, 0.95), quantile(&p.Duration, 0.99)
	row.Wait50, row.Wait95, row.Wait99 = quantile(&p.Wait, 0.5), quantile(&p.Wait, 0.95), quantile(&p.Wait, 0.99)
	if s := p.Sizes; s != nil {
		latency := s.Latency.Seconds()
		row.Pending, row.Active, row.Scheduled, row.Retry = &s.Pending, &s.Active, &s.Scheduled, &s.Retry
		row.Archived, row.Completed, row.Aggregating, row.Latency = &s.Archived, &s.Completed, &s.Aggregating, &latency
	}
	return row
}

// known64 returns a column of numbers, with "-" for nil.
func known64(head string, style out.Style, n func(*pointRow) *int64) out.Column[*pointRow] {
	c := count64(head, style, func(r *pointRow) int64 {
		if v := n(r); v != nil {
			return *v
		}
		return 0
	})
	cell := c.Cell
	c.Cell = func(r *pointRow) string {
		if n(r) == nil {
			return "-"
		}
		return cell(r)
	}
	return c
}

// size returns a column of the sizes of queues.
func size(head string, n func(*pointRow) *int) out.Column[*pointRow] {
	return known64(head, out.Plain, func(r *pointRow) *int64 {
		v := n(r)
		if v == nil {
			return nil
		}
		size := int64(*v)
		return &size
	})
}

var pointColumns = []out.Column[*pointRow]{
	{Head: "START", Cell: func(r *pointRow) string { return out.Time(r.Start) }},
	known64("ATTEMPTS", out.Plain, func(r *pointRow) *int64 { return r.Attempts }),
	known64("FAILED", out.Bad, func(r *pointRow) *int64 { return r.Failed }),
	seconds("P50", func(r *pointRow) *float64 { return r.Duration50 }),
	seconds("P95", func(r *pointRow) *float64 { return r.Duration95 }),
	seconds("P99", func(r *pointRow) *float64 { return r.Duration99 }),
	seconds("WAIT P95", func(r *pointRow) *float64 { return r.Wait95 }),
	size("PENDING", func(r *pointRow) *int { return r.Pending }),
	size("ACTIVE", func(r *pointRow) *int { return r.Active }),
	size("RETRY", func(r *pointRow) *int { return r.Retry }),
	size("ARCHIVED", func(r *pointRow) *int { return r.Archived }),
	seconds("LATENCY", func(r *pointRow) *float64 { return r.Latency }),
}

// history is a chart.
type history struct {
	of     string // what it shows
	ofType bool
	step   time.Duration
	points []trends.Point
}

// write draws the chart, and lists the periods if the output is wide.
func (h *history) write(w io.Writer, o out.Options) error {
	first, last := h.points[0].Start, h.points[len(h.points)-1].Start.Add(h.step)
	head := fmt.Sprintf("%s from %s to %s, %s per column", out.Clean(h.of), out.Time(first), out.Time(last), sinceText(h.step))
	if o.Color {
		head = out.Bold.Paint(head)
	}
	if _, err := io.WriteString(w, head+"\n\n"); err != nil {
		return err
	}
	shown := trends.Curves
	if h.ofType {
		shown = shown[:trends.CurvesOfTypes]
	}
	columns := []out.Column[trends.Curve]{
		{Head: "METRIC", Cell: func(c trends.Curve) string { return c.Name }},
		{
			Head: "HISTORY", Cell: func(c trends.Curve) string { return trends.Spark(c.Values(h.points), len(h.points)) },
			Style: func(c trends.Curve) out.Style { return c.Style },
		},
		{Head: "MAX", Right: true, Cell: func(c trends.Curve) string { return c.Most(c.Values(h.points), h.step) }},
		{Head: "TOTAL", Right: true, Rank: 1, Cell: func(c trends.Curve) string {
			if !c.Rate {
				return ""
			}
			sum := 0.0
			for _, v := range c.Values(h.points) {
				if !math.IsNaN(v) {
					sum += v
				}
			}
			return out.Number(int(sum))
		}},
	}
	if err := out.List(w, o, columns, all(shown)); err != nil || o.Kind != out.Wide {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return out.List(w, o, pointColumns, all(h.rows()))
}

func (h *history) rows() []*pointRow {
	rows := make([]*pointRow, len(h.points))
	for n := range h.points {
		rows[n] = newPointRow(&h.points[n], h.step)
	}
	return rows
}

func (h *history) empty() bool {
	for n := range h.points {
		if p := &h.points[n]; p.Known || p.Sizes != nil {
			return false
		}
	}
	return true
}

func newStatsHistory(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show charts of queues or of a task type over time",
		Long: `Show attempts, failures, durations, waiting times and sizes over time, of all queues, of some, or of a
task type, as recorded by servers. A restart of servers, or of this command, does not reset them.

Periods without a running server are blank. Sizes are the largest of a period. With -o wide, a table
of the periods follows. With the other formats, the command lists the periods.`,
		Example: `  asynq stats history -q mail
  asynq stats history -t report:build --since 24h
  asynq stats history --since 1h --step 1m -o csv`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.statsHistory(cmd) },
	}
	addStatsScope(cmd, 6*time.Hour)
	cmd.Flags().StringP("type", "t", "", `only tasks of this type; "" for types that are not counted by themselves (default all)`)
	cmd.Flags().Duration("step", 0, "length of a period, whole minutes, or whole hours if --since is over 48h (default: so that the chart fits)")
	_ = cmd.RegisterFlagCompletionFunc("type", a.typeNames)
	addOutput(cmd)
	addWatch(cmd)
	return cmd
}

func (a *app) statsHistory(cmd *cobra.Command) error {
	o, err := a.output(cmd)
	if err != nil {
		return err
	}
	since, err := statsSince(cmd)
	if err != nil {
		return err
	}
	step, err := statsStep(cmd, o, since)
	if err != nil {
		return err
	}
	i, err := a.inspector(cmd)
	if err != nil {
		return err
	}
	return a.watched(cmd, o, func(w io.Writer) error {
		h, err := readHistory(cmd, i, since, step)
		if err != nil && h.empty() {
			return err
		}
		switch {
		case !o.IsTable():
			if writeErr := out.List(w, o, pointColumns, all(h.rows())); writeErr != nil {
				return writeErr
			}
		case h.empty():
			a.printErrf("nothing recorded in the last %s%s", sinceText(since), a.where())
		default:
			if writeErr := h.write(w, o); writeErr != nil {
				return writeErr
			}
		}
		return err
	})
}

// statsStep returns the value of --step, or its default.
func statsStep(cmd *cobra.Command, o out.Options, since time.Duration) (time.Duration, error) {
	finest := trends.Finest(since)
	if !cmd.Flags().Changed("step") {
		width := chartWidth
		if o.Width > 0 {
			width = max(10, min(width, o.Width-chartMargin))
		}
		return trends.Step(since, width), nil
	}
	step, _ := cmd.Flags().GetDuration("step")
	switch {
	case step < finest || step%finest != 0:
		return 0, usage("--step must be a multiple of %s: --since is %s", sinceText(finest), sinceText(since))
	case since/step > mostPoints:
		return 0, usage("--step %s makes more than %d periods: use a longer one", sinceText(step), mostPoints)
	}
	return step, nil
}

// readHistory reads the history that the flags select. With an error, it may be incomplete.
func readHistory(cmd *cobra.Command, i *asynq.Inspector, since, step time.Duration) (*history, error) {
	ctx, now := cmd.Context(), time.Now()
	from := trends.Start(now, since, step)
	queues := queuesOf(cmd)
	h := &history{of: "All queues", step: step, ofType: cmd.Flags().Changed("type")}
	if len(queues) > 0 {
		h.of = "Queue " + strings.Join(queues, ", ")
	}
	if !h.ofType {
		found, err := ofQueues(queues, func(queue string) ([]*asynq.QueuePoint, error) { return i.QueueHistory(ctx, queue, from, time.Time{}) })
		h.points = trends.OfQueues(found, from, now, step)
		return h, err
	}
	typename, _ := cmd.Flags().GetString("type")
	name := typename
	if name == "" {
		name = trends.Other
	}
	h.of = "Type " + name + " in " + strings.ToLower(h.of[:1]) + h.of[1:]
	found, err := ofQueues(queues, func(queue string) ([]*asynq.TypePoint, error) {
		return i.TypeHistory(ctx, queue, typename, from, time.Time{})
	})
	h.points = trends.OfType(found, from, now, step)
	return h, err
}
