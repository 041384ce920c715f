package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// statsRow is the summary in machine-readable output. Totals include only the queues that could be
// read. A number that could not be read is nil.
type statsRow struct {
	Tasks       stateCounts   `json:"tasks"`
	Queues      []*statsQueue `json:"queues"`
	QueuesTotal *int          `json:"queues_total"`
	QueuesRead  *int          `json:"queues_read"`
	Today       todayRow      `json:"today"`
	Redis       redisRow      `json:"redis"`
}

type stateCounts struct {
	Active      *int `json:"active"`
	Pending     *int `json:"pending"`
	Held        *int `json:"held"`
	Aggregating *int `json:"aggregating"`
	Scheduled   *int `json:"scheduled"`
	Retry       *int `json:"retry"`
	Archived    *int `json:"archived"`
	Completed   *int `json:"completed"`
	Total       *int `json:"total"`
}

type todayRow struct {
	Processed *int     `json:"processed"`
	Succeeded *int     `json:"succeeded"`
	Failed    *int     `json:"failed"`
	ErrorRate *float64 `json:"error_rate"` // from 0 to 1
}

type redisRow struct {
	Version     *string `json:"version"`
	UptimeDays  *int64  `json:"uptime_days"`
	Connections *int64  `json:"connections"`
	Memory      *int64  `json:"memory_bytes"`
	PeakMemory  *int64  `json:"peak_memory_bytes"`
	MaxMemory   *int64  `json:"max_memory_bytes"`
	Cluster     *bool   `json:"cluster"`
}

// statsQueue is a queue. The row is nil if the queue could not be read.
type statsQueue struct {
	name string
	row  *queueRow
}

// MarshalJSON writes the queue with all its fields. If the queue could not be read, all fields
// except the name are null.
func (q *statsQueue) MarshalJSON() ([]byte, error) {
	if q.row != nil {
		return marshalRow(q.row)
	}
	var b bytes.Buffer
	for i, f := range reflect.VisibleFields(reflect.TypeFor[queueRow]()) {
		value := []byte("null")
		if i == 0 { // the name comes first
			var err error
			if value, err = marshalRow(q.name); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(&b, ",%q:%s", f.Tag.Get("json"), value)
	}
	return append(append([]byte("{"), b.Bytes()[1:]...), '}'), nil
}

// marshalRow is json.Marshal without HTML escaping.
func marshalRow(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

func newStats(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show a summary of all queues and Redis, and statistics over time",
		Args:  onlySubcommands,
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
	cmd.AddCommand(newStatsTypes(a), newStatsHistory(a))
	return cmd
}

// stats collects the summary. With an error it may return a partial summary.
func (a *app) stats(ctx context.Context, i *asynq.Inspector, client redis.UniversalClient) (*statsRow, error) {
	row := &statsRow{}
	serving := a.serving(i)
	results, err := i.QueueInfos(ctx)
	info, infoErr := client.Info(ctx).Result()
	switch {
	case errors.Is(infoErr, context.Canceled), err != nil && infoErr != nil:
		return nil, cmp.Or(err, infoErr)
	case err == nil:
		row.addQueues(results, serving)
		err = a.queueErrors(results)
	}
	if infoErr != nil {
		a.printErrf("asynq: INFO: %s", message(infoErr))
		return row, exitError{errPrinted, ExitFailed}
	}
	row.Redis = newRedisRow(info)
	return row, err
}

// addQueues adds the queues with their numbers of servers, and the totals of those that could be
// read.
func (s *statsRow) addQueues(results []asynq.QueueInfoResult, serving map[string]int) {
	total, read := len(results), 0
	s.Queues = make([]*statsQueue, 0, total)
	if total == 0 {
		s.add(&queueRow{}) // all totals are known to be 0
	}
	for _, r := range results {
		q := &statsQueue{name: r.Queue}
		if r.Err == nil {
			read++
			q.row = newQueueRow(r.Info)
			q.row.setServers(serving)
			s.add(q.row)
		}
		s.Queues = append(s.Queues, q)
	}
	s.QueuesTotal, s.QueuesRead = &total, &read
	if s.Today.Processed != nil {
		rate := 0.0
		if *s.Today.Processed > 0 {
			rate = float64(*s.Today.Failed) / float64(*s.Today.Processed)
		}
		s.Today.ErrorRate = &rate
	}
}

// add adds the numbers of a queue to the totals.
func (s *statsRow) add(q *queueRow) {
	for _, n := range []struct {
		total **int
		of    int
	}{
		{&s.Tasks.Active, q.Active}, {&s.Tasks.Pending, q.Pending}, {&s.Tasks.Held, q.Held}, {&s.Tasks.Aggregating, q.Aggregating},
		{&s.Tasks.Scheduled, q.Scheduled}, {&s.Tasks.Retry, q.Retry}, {&s.Tasks.Archived, q.Archived}, {&s.Tasks.Completed, q.Completed}, {&s.Tasks.Total, q.total()},
		{&s.Today.Processed, q.Processed}, {&s.Today.Succeeded, q.Succeeded}, {&s.Today.Failed, q.Failed},
	} {
		if *n.total == nil {
			*n.total = new(int)
		}
		**n.total += n.of
	}
}

func (q *queueRow) total() int {
	return q.Active + q.Pending + q.Held + q.Aggregating + q.Scheduled + q.Retry + q.Archived + q.Completed
}

// newRedisRow parses the reply to INFO. Missing fields are nil.
func newRedisRow(info string) redisRow {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	n := func(name string) *int64 {
		v, err := strconv.ParseInt(fields[name], 10, 64)
		if err != nil {
			return nil
		}
		return &v
	}
	row := redisRow{
		UptimeDays: n("uptime_in_days"), Connections: n("connected_clients"),
		Memory: n("used_memory"), PeakMemory: n("used_memory_peak"), MaxMemory: n("maxmemory"),
	}
	if version, ok := fields["redis_version"]; ok {
		row.Version = &version
	}
	if enabled, ok := fields["cluster_enabled"]; ok {
		cluster := enabled == "1"
		row.Cluster = &cluster
	}
	return row
}

// of returns how many queues the totals include, if not all.
func (s *statsRow) of() string {
	switch {
	case s.QueuesTotal == nil:
		return ", queues unknown"
	case *s.QueuesRead < *s.QueuesTotal:
		return fmt.Sprintf(", %d of %s", *s.QueuesRead, plural(*s.QueuesTotal, "queue"))
	default:
		return ""
	}
}

func (s *statsRow) table(w io.Writer, o out.Options) error {
	heading := func(text string) {
		if o.Color {
			text = out.Bold.Paint(text)
		}
		fmt.Fprintln(w, text)
	}
	heading("Tasks by state" + s.of())
	states := []out.Column[stateCounts]{
		countKnown("ACTIVE", out.Good, func(c stateCounts) *int { return c.Active }),
		countKnown("PENDING", out.Plain, func(c stateCounts) *int { return c.Pending }),
		unlessZero(countKnown("HELD", out.Plain, func(c stateCounts) *int { return c.Held })),
		countKnown("AGGREGATING", out.Plain, func(c stateCounts) *int { return c.Aggregating }),
		countKnown("SCHEDULED", out.Plain, func(c stateCounts) *int { return c.Scheduled }),
		countKnown("RETRY", out.Warn, func(c stateCounts) *int { return c.Retry }),
		countKnown("ARCHIVED", out.Bad, func(c stateCounts) *int { return c.Archived }),
		countKnown("COMPLETED", out.Plain, func(c stateCounts) *int { return c.Completed }),
	}
	if err := out.List(w, o, states, one(s.Tasks)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	heading("Queues")
	// number returns a column of numbers, and cell a column of texts.
	number := func(head string, style out.Style, n func(*queueRow) int) out.Column[*statsQueue] {
		return countKnown(head, style, func(q *statsQueue) *int {
			if q.row == nil {
				return nil
			}
			v := n(q.row)
			return &v
		})
	}
	cell := func(head string, text func(*queueRow) string) out.Column[*statsQueue] {
		return out.Column[*statsQueue]{Head: head, Right: true, Cell: func(q *statsQueue) string {
			if q.row == nil {
				return unknown
			}
			return text(q.row)
		}}
	}
	queues := []out.Column[*statsQueue]{
		{Head: "QUEUE", Cell: func(q *statsQueue) string { return q.name }},
		number("SIZE", out.Plain, func(q *queueRow) int { return q.Size }),
		cell("LATENCY", func(q *queueRow) string { return q.DisplayLatency }),
		cell("MEMORY", func(q *queueRow) string { return orUnknown(q.MemoryUsage, out.Bytes) }),
		number("PROCESSED", out.Plain, func(q *queueRow) int { return q.Processed }),
		number("FAILED", out.Bad, func(q *queueRow) int { return q.Failed }),
	}
	if err := out.List(w, o, queues, all(s.Queues)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	heading("Today (UTC)" + s.of())
	rate := unknown
	if s.Today.Processed != nil {
		rate = errorRate(*s.Today.Processed, *s.Today.Failed)
	}
	err := out.Fields(w, o, []out.Field{
		{Name: "Processed", Value: orUnknown(s.Today.Processed, strconv.Itoa)},
		{Name: "Failed", Value: orUnknown(s.Today.Failed, strconv.Itoa)},
		{Name: "Error rate", Value: rate},
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	heading("Redis")
	limit := func(n int64) string {
		if n == 0 {
			return "none"
		}
		return out.Bytes(n)
	}
	return out.Fields(w, o, []out.Field{
		{Name: "Version", Value: orUnknown(s.Redis.Version, func(v string) string { return v })},
		{Name: "Uptime", Value: orUnknown(s.Redis.UptimeDays, func(n int64) string { return plural(int(n), "day") })},
		{Name: "Connections", Value: orUnknown(s.Redis.Connections, func(n int64) string { return strconv.FormatInt(n, 10) })},
		{Name: "Memory", Value: orUnknown(s.Redis.Memory, out.Bytes)},
		{Name: "Peak memory", Value: orUnknown(s.Redis.PeakMemory, out.Bytes)},
		{Name: "Memory limit", Value: orUnknown(s.Redis.MaxMemory, limit)},
	})
}
