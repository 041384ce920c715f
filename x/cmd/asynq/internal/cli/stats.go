package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// statsRow is everything at a glance, as programs see it.
type statsRow struct {
	Tasks  stateCounts `json:"tasks"`
	Queues []*queueRow `json:"queues"`
	Today  todayRow    `json:"today"`
	Redis  redisRow    `json:"redis"`
}

type stateCounts struct {
	Active      int `json:"active"`
	Pending     int `json:"pending"`
	Aggregating int `json:"aggregating"`
	Scheduled   int `json:"scheduled"`
	Retry       int `json:"retry"`
	Archived    int `json:"archived"`
	Completed   int `json:"completed"`
	Total       int `json:"total"`
}

type todayRow struct {
	Processed int     `json:"processed"`
	Succeeded int     `json:"succeeded"`
	Failed    int     `json:"failed"`
	ErrorRate float64 `json:"error_rate"` // of 1
}

type redisRow struct {
	Version     string `json:"version"`
	UptimeDays  int    `json:"uptime_days"`
	Connections int    `json:"connections"`
	Memory      int64  `json:"memory_bytes"`
	PeakMemory  int64  `json:"peak_memory_bytes"`
	MaxMemory   int64  `json:"max_memory_bytes"`
	Cluster     bool   `json:"cluster"`
}

func newStats(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show all queues and Redis at a glance",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				if err := cmd.Flags().Set("output", string(out.JSON)); err != nil {
					return err
				}
			}
			o, err := a.output(cmd)
			if err != nil {
				return err
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			client, err := a.redis(cmd)
			if err != nil {
				return err
			}
			return a.watched(cmd, o, func(w io.Writer) error {
				row, err := a.stats(cmd.Context(), i, client)
				if row == nil {
					return err
				}
				if writeErr := out.One(w, o, row, func(w io.Writer) error { return row.table(w, o) }); writeErr != nil {
					return writeErr
				}
				return err
			})
		},
	}
	addOutput(cmd)
	addWatch(cmd)
	cmd.Flags().Bool("json", false, "the same as -o json")
	return cmd
}

// stats collects everything. With an error it may return what it has nevertheless.
func (a *app) stats(ctx context.Context, i *asynq.Inspector, client redis.UniversalClient) (*statsRow, error) {
	row := &statsRow{Queues: []*queueRow{}}
	info, err := client.Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	row.Redis = newRedisRow(info)
	var failed error
	for q, err := range a.queues(ctx, i) {
		if err != nil {
			failed = err
			break
		}
		row.Queues = append(row.Queues, q)
		row.Tasks.add(q)
		row.Today.Processed += q.Processed
		row.Today.Failed += q.Failed
	}
	row.Today.Succeeded = row.Today.Processed - row.Today.Failed
	if row.Today.Processed > 0 {
		row.Today.ErrorRate = float64(row.Today.Failed) / float64(row.Today.Processed)
	}
	return row, failed
}

func (c *stateCounts) add(q *queueRow) {
	c.Active += q.Active
	c.Pending += q.Pending
	c.Aggregating += q.Aggregating
	c.Scheduled += q.Scheduled
	c.Retry += q.Retry
	c.Archived += q.Archived
	c.Completed += q.Completed
	c.Total += q.Size + q.Completed
}

// newRedisRow takes the answer to INFO apart. What is missing stays 0.
func newRedisRow(info string) redisRow {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	n := func(name string) int64 {
		v, _ := strconv.ParseInt(fields[name], 10, 64)
		return v
	}
	return redisRow{
		Version: fields["redis_version"], UptimeDays: int(n("uptime_in_days")), Connections: int(n("connected_clients")),
		Memory: n("used_memory"), PeakMemory: n("used_memory_peak"), MaxMemory: n("maxmemory"), Cluster: fields["cluster_enabled"] == "1",
	}
}

func (s *statsRow) table(w io.Writer, o out.Options) error {
	heading := func(text string) {
		if o.Color {
			text = out.Bold.Paint(text)
		}
		fmt.Fprintln(w, text)
	}
	heading("Tasks by state")
	states := []out.Column[stateCounts]{
		count("ACTIVE", out.Good, func(c stateCounts) int { return c.Active }),
		count("PENDING", out.Plain, func(c stateCounts) int { return c.Pending }),
		count("AGGREGATING", out.Plain, func(c stateCounts) int { return c.Aggregating }),
		count("SCHEDULED", out.Plain, func(c stateCounts) int { return c.Scheduled }),
		count("RETRY", out.Warn, func(c stateCounts) int { return c.Retry }),
		count("ARCHIVED", out.Bad, func(c stateCounts) int { return c.Archived }),
		count("COMPLETED", out.Plain, func(c stateCounts) int { return c.Completed }),
	}
	if err := out.List(w, o, states, one(s.Tasks)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	heading("Queues")
	queues := []out.Column[*queueRow]{
		{Head: "QUEUE", Cell: func(q *queueRow) string { return q.Queue }},
		count("SIZE", out.Plain, func(q *queueRow) int { return q.Size }),
		{Head: "LATENCY", Right: true, Cell: func(q *queueRow) string { return q.DisplayLatency }},
		{Head: "MEMORY", Right: true, Cell: func(q *queueRow) string { return out.Bytes(q.MemoryUsage) }},
		count("PROCESSED", out.Plain, func(q *queueRow) int { return q.Processed }),
		count("FAILED", out.Bad, func(q *queueRow) int { return q.Failed }),
	}
	if err := out.List(w, o, queues, all(s.Queues)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	heading("Today (UTC)")
	err := out.Fields(w, o, []out.Field{
		{Name: "Processed", Value: s.Today.Processed},
		{Name: "Failed", Value: s.Today.Failed},
		{Name: "Error rate", Value: errorRate(s.Today.Processed, s.Today.Failed)},
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	heading("Redis")
	limit := "none"
	if s.Redis.MaxMemory > 0 {
		limit = out.Bytes(s.Redis.MaxMemory)
	}
	return out.Fields(w, o, []out.Field{
		{Name: "Version", Value: s.Redis.Version},
		{Name: "Uptime", Value: plural(s.Redis.UptimeDays, "day")},
		{Name: "Connections", Value: s.Redis.Connections},
		{Name: "Memory", Value: out.Bytes(s.Redis.Memory)},
		{Name: "Peak memory", Value: out.Bytes(s.Redis.PeakMemory)},
		{Name: "Memory limit", Value: limit},
	})
}
