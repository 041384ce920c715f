package cli

import (
	"context"
	"errors"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/filter"
)

func newPartition(a *app) *cobra.Command {
	return group("partition", "Inspect and manage partitions of queues",
		newPartitionLs(a),
		newPartitionInspect(a),
		newPartitionSet(a),
		newPartitionPause(a, true),
		newPartitionPause(a, false),
		newPartitionCancel(a),
		newPartitionRemove(a),
	)
}

// partitionRow is a partition in machine-readable output.
type partitionRow struct {
	Queue       string     `json:"queue"`
	Key         string     `json:"key"` // empty: tasks without a key
	Held        int        `json:"held"`
	Active      int        `json:"active"`
	LatencyMsec int64      `json:"latency_msec"`
	Blocked     bool       `json:"blocked"`
	CheckAt     *time.Time `json:"check_at"` // null unless a limit holds the tasks
	Paused      bool       `json:"paused"`
	Concurrency int        `json:"concurrency"` // 0: that of the queue; -1: no limit
	Rate        string     `json:"rate"`        // empty: that of the queue; none: no limit
	Burst       int        `json:"burst"`
	Weight      float64    `json:"weight"` // 0: that of the queue
}

func newPartitionRow(p *asynq.PartitionInfo) *partitionRow {
	s := p.Settings
	row := &partitionRow{
		Queue: p.Queue, Key: p.Key, Held: p.Held, Active: p.Active, LatencyMsec: p.Latency.Milliseconds(), Blocked: p.IsBlocked,
		Paused: s.Paused, Concurrency: s.Concurrency, Rate: rateText(s.Rate), Burst: s.Rate.Burst, Weight: s.Weight,
	}
	if !p.CheckAt.IsZero() {
		row.CheckAt = &p.CheckAt
	}
	return row
}

func (p *partitionRow) state() string {
	switch {
	case p.Paused:
		return "paused"
	case p.Blocked:
		return "blocked"
	}
	return "running"
}

// limits describes the settings of the partition itself.
func (p *partitionRow) limits() string {
	var texts []string
	switch {
	case p.Concurrency < 0:
		texts = append(texts, "concurrency none")
	case p.Concurrency > 0:
		texts = append(texts, "concurrency "+strconv.Itoa(p.Concurrency))
	}
	if p.Rate != "" {
		text := "rate " + p.Rate
		if p.Burst > 1 {
			text += " burst " + strconv.Itoa(p.Burst)
		}
		texts = append(texts, text)
	}
	if p.Weight != 0 {
		texts = append(texts, "weight "+strconv.FormatFloat(p.Weight, 'g', -1, 64))
	}
	if texts == nil {
		return "-"
	}
	return strings.Join(texts, ", ")
}

var partitionColumns = []out.Column[*partitionRow]{
	{Head: "QUEUE", Shrink: 12, Cell: func(p *partitionRow) string { return p.Queue }},
	{Head: "KEY", Shrink: 20, Cell: func(p *partitionRow) string {
		if p.Key == "" {
			return "-"
		}
		return p.Key
	}},
	{Head: "STATE", Cell: (*partitionRow).state, Style: func(p *partitionRow) out.Style {
		if p.Paused || p.Blocked {
			return out.Warn
		}
		return out.Plain
	}},
	count("HELD", out.Plain, func(p *partitionRow) int { return p.Held }),
	count("ACTIVE", out.Good, func(p *partitionRow) int { return p.Active }),
	{Head: "LATENCY", Right: true, Cell: func(p *partitionRow) string {
		return displayLatency(time.Duration(p.LatencyMsec) * time.Millisecond)
	}},
	{Head: "CHECK", Rank: 2, Cell: func(p *partitionRow) string { return dueText(p.CheckAt) }},
	{Head: "SETTINGS", Rank: 1, Cell: (*partitionRow).limits},
}

func newPartitionLs(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List partitions that have held or active tasks",
		Long: `List partitions that have held or active tasks. A hyphen as KEY means the tasks without a key. SETTINGS are
those of the partition itself: see partition set.`,
		Example: "  asynq partition ls --queue hooks --top 10\n  asynq partition ls --sort=-latency_msec --filter blocked:true -o csv",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			top, _ := cmd.Flags().GetInt("top")
			if top < 0 {
				return usage("--top must not be negative")
			}
			f, err := filter.ParseRows(a.filter(cmd))
			if err != nil {
				return badFilter(err)
			}
			by, _ := cmd.Flags().GetString("sort")
			if by == "" && top > 0 {
				by = "-held"
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			queues := queuesOf(cmd)
			all := 0
			load := func(ctx context.Context) iter.Seq2[*partitionRow, error] {
				all = 0
				return firstRows(top, out.Sorted(by, out.Filtered(f, counting(&all, a.partitions(ctx, i, queues)))))
			}
			return listThen(a, cmd, partitionColumns, load, func(n int) { a.printCount(cmd, n, all, !f.Empty() || n < all) })
		},
	}
	cmd.Flags().StringSliceP("queue", "q", nil, "queues to list (default all)")
	cmd.Flags().Int("top", 0, "list only the first partitions in the order of --sort, by default those with the most held tasks; 0 lists all")
	addListing(cmd)
	return cmd
}

// firstRows yields at most n rows; 0 means all.
func firstRows[T any](n int, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := n
		for row, err := range rows {
			if err == nil && n > 0 && left == 0 {
				return
			}
			left--
			if !yield(row, err) {
				return
			}
		}
	}
}

// partitions yields the partitions of queues; of all queues if there are none. It continues after
// queues that it cannot read.
func (a *app) partitions(ctx context.Context, i *asynq.Inspector, queues []string) iter.Seq2[*partitionRow, error] {
	return func(yield func(*partitionRow, error) bool) {
		if len(queues) == 0 {
			var err error
			if queues, err = i.Queues(); err != nil {
				yield(nil, err)
				return
			}
		}
		stopped := false
		err := a.eachArg(queues, func(queue string) error {
			if stopped {
				return nil
			}
			for p, err := range i.Partitions(ctx, queue) {
				if err != nil {
					return inQueue(queue, err)
				}
				if stopped = !yield(newPartitionRow(p), nil); stopped {
					return nil
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// partitionCommand returns a command for partitions of the queue in --queue.
func partitionCommand(a *app, use, short string, do func(*cobra.Command, *asynq.Inspector, string, string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:               use,
		Short:             short,
		Long:              short + ". An empty KEY means the tasks without a key.",
		Args:              argsFrom(1, -1),
		ValidArgsFunction: a.partitionKeys,
		RunE: func(cmd *cobra.Command, keys []string) error {
			queue, _ := cmd.Flags().GetString("queue")
			if queue == "" {
				return usage("--queue is required: the queue of the partitions")
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			return a.eachArg(keys, func(key string) error {
				if err := do(cmd, i, queue, key); err != nil {
					return inQueue(queue, err)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringP("queue", "q", "", "queue of the partitions")
	return cmd
}

// partitionKeys completes with the keys of partitions of the queue in --queue.
func (a *app) partitionKeys(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	queue, _ := cmd.Flags().GetString("queue")
	if queue == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeFromRedis(cmd, begun, func(i *asynq.Inspector) (keys []string, err error) {
		for p, err := range i.Partitions(cmd.Context(), queue) {
			if err != nil {
				return nil, err
			}
			if p.Key != "" && strings.HasPrefix(p.Key, begun) {
				keys = append(keys, p.Key)
			}
			if len(keys) == maxCompletions {
				break
			}
		}
		return keys, nil
	})
}

func newPartitionInspect(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "inspect KEY…",
		Short:             "Show partitions, also without tasks",
		Long:              "Show partitions, also those without tasks. An empty KEY means the tasks without a key.",
		Example:           "  asynq partition inspect --queue hooks customer-42",
		Args:              argsFrom(1, -1),
		ValidArgsFunction: a.partitionKeys,
		RunE: func(cmd *cobra.Command, keys []string) error {
			queue, _ := cmd.Flags().GetString("queue")
			if queue == "" {
				return usage("--queue is required: the queue of the partitions")
			}
			return listOf(a, cmd, partitionColumns, keys, func(i *asynq.Inspector, key string) ([]*partitionRow, error) {
				p, err := i.GetPartitionInfo(cmd.Context(), queue, key)
				if err != nil {
					return nil, inQueue(queue, err)
				}
				return []*partitionRow{newPartitionRow(p)}, nil
			})
		},
	}
	cmd.Flags().StringP("queue", "q", "", "queue of the partitions")
	addListing(cmd)
	return cmd
}

func newPartitionPause(a *app, pause bool) *cobra.Command {
	use, short, already, done, set := "pause KEY…", "Pause partitions: servers start none of their tasks", "is already paused", "paused", (*asynq.Inspector).PausePartition
	if !pause {
		use, short, already, done, set = "resume KEY…", "Resume paused partitions", "is not paused", "resumed", (*asynq.Inspector).ResumePartition
	}
	return partitionCommand(a, use, short, func(cmd *cobra.Command, i *asynq.Inspector, queue, key string) error {
		p, err := i.GetPartitionInfo(cmd.Context(), queue, key)
		switch {
		case err != nil:
			return err
		case p.Settings.Paused == pause:
			a.printErrf("partition %q of queue %q %s", key, queue, already)
			return nil
		}
		if err := set(i, cmd.Context(), queue, key); err != nil {
			return err
		}
		a.printErrf("partition %q of queue %q %s", key, queue, done)
		return nil
	})
}

func newPartitionSet(a *app) *cobra.Command {
	cmd := partitionCommand(a, "set KEY…", "Change the limits and the weight of partitions", a.setPartition)
	cmd.Long = `Change the limits and the weight of partitions, on all servers with partitions of the queue within a second.
Settings without a flag remain. An empty KEY means the tasks without a key.`
	cmd.Example = "  asynq partition set --queue hooks customer-42 --concurrency 10 --rate 100/1m --burst 20\n" +
		"  asynq partition set --queue hooks customer-42 --reset"
	f := cmd.Flags()
	f.Int("concurrency", 0, "maximum number of active tasks, at most 1,000; 0 for that of the queue, -1 for no limit")
	f.String("rate", "", `tasks that start in a period, such as "100/1m"; "default" for that of the queue, "none" for no limit`)
	f.Int("burst", 0, "tasks that may start at once after an idle period (default 1)")
	f.Float64("weight", 0, "share of the queue, from 0.000001 to 1,000,000; 0 for that of the queue")
	f.Bool("reset", false, "restore the settings of the queue, and resume the partition")
	for _, name := range []string{"concurrency", "rate", "burst", "weight"} {
		cmd.MarkFlagsMutuallyExclusive("reset", name)
	}
	cmd.MarkFlagsOneRequired("reset", "concurrency", "rate", "burst", "weight")
	return cmd
}

func (a *app) setPartition(cmd *cobra.Command, i *asynq.Inspector, queue, key string) error {
	var set asynq.PartitionSettings
	err := i.UpdatePartition(cmd.Context(), queue, key, func(s *asynq.PartitionSettings) error {
		err := changedPartition(cmd.Flags(), s)
		set = *s
		return err
	})
	if err != nil {
		return err
	}
	if set == (asynq.PartitionSettings{}) {
		a.printErrf("partition %q of queue %q has the settings of the queue", key, queue)
		return nil
	}
	a.printErrf("partition %q of queue %q: %s", key, queue, newPartitionRow(&asynq.PartitionInfo{Settings: set}).limits())
	return nil
}

// changedPartition changes settings by the flags of asynq partition set.
func changedPartition(f *pflag.FlagSet, s *asynq.PartitionSettings) error {
	if reset, _ := f.GetBool("reset"); reset {
		*s = asynq.PartitionSettings{}
	}
	if f.Changed("concurrency") {
		s.Concurrency, _ = f.GetInt("concurrency")
	}
	if f.Changed("rate") {
		text, _ := f.GetString("rate")
		rate, err := parseRate(text)
		if err != nil {
			return usage("--rate %q: %v", text, err)
		}
		if rate.Events > 0 {
			rate.Burst = s.Rate.Burst
		}
		s.Rate = rate
	}
	if f.Changed("burst") {
		if s.Rate.Events <= 0 {
			return usage("--burst requires a rate of the partition: add --rate")
		}
		s.Rate.Burst, _ = f.GetInt("burst")
	}
	if f.Changed("weight") {
		s.Weight, _ = f.GetFloat64("weight")
		if math.IsNaN(s.Weight) {
			return usage("--weight must be a number")
		}
	}
	return nil
}

// parseRate parses a rate such as 100/1m.
func parseRate(text string) (asynq.RateLimit, error) {
	switch text {
	case "default":
		return asynq.RateLimit{}, nil
	case "none":
		return asynq.RateLimit{Events: -1}, nil
	}
	number, period, _ := strings.Cut(text, "/")
	events, err := strconv.Atoi(number)
	per, err2 := time.ParseDuration(period)
	if err != nil || err2 != nil || events < 1 || per <= 0 {
		return asynq.RateLimit{}, errors.New(`use a number and a period, such as 100/1m, or "default" or "none"`)
	}
	return asynq.RateLimit{Events: events, Per: per}, nil
}

func rateText(r asynq.RateLimit) string {
	switch {
	case r.Events < 0:
		return "none"
	case r.Events == 0:
		return ""
	}
	per := r.Per.String() // 1m is 1m0s, and 1h is 1h0m0s
	if strings.HasSuffix(per, "m0s") {
		per = strings.TrimSuffix(per, "0s")
	}
	if strings.HasSuffix(per, "h0m") {
		per = strings.TrimSuffix(per, "0m")
	}
	return strconv.Itoa(r.Events) + "/" + per
}

func newPartitionCancel(a *app) *cobra.Command {
	cmd := partitionCommand(a, "cancel KEY…", "Cancel the active tasks of partitions",
		func(cmd *cobra.Command, i *asynq.Inspector, queue, key string) error {
			p, err := i.GetPartitionInfo(cmd.Context(), queue, key)
			if err != nil {
				return err
			}
			if ok, err := a.confirm(cmd, "cancel %s of partition %q of queue %q", plural(p.Active, "active task"), key, queue); !ok || err != nil {
				return err
			}
			n, err := i.CancelPartitionTasks(cmd.Context(), queue, key)
			if err != nil {
				return err
			}
			a.printErrf("cancellation of %s of partition %q of queue %q requested", plural(n, "task"), key, queue)
			return nil
		})
	addBulk(cmd)
	return cmd
}

func newPartitionRemove(a *app) *cobra.Command {
	cmd := partitionCommand(a, "remove KEY…", "Delete the waiting tasks of partitions, and cancel their active ones",
		func(cmd *cobra.Command, i *asynq.Inspector, queue, key string) error {
			if key == "" {
				return usage("KEY must not be empty: use task deleteall for tasks without a key")
			}
			p, err := i.GetPartitionInfo(cmd.Context(), queue, key)
			if err != nil {
				return err
			}
			ok, err := a.confirm(cmd, "delete all waiting tasks of partition %q of queue %q (%s), and cancel its %s",
				key, queue, plural(p.Held, "held task"), plural(p.Active, "active task"))
			if !ok || err != nil {
				return err
			}
			n, err := i.DeletePartitionTasks(cmd.Context(), queue, key)
			if n > 0 || err == nil {
				a.printErrf("%s of partition %q of queue %q deleted or canceled", plural(n, "task"), key, queue)
			}
			return err
		})
	cmd.Aliases = []string{"rm", "delete"}
	cmd.Long = `Delete the pending, held, scheduled, retrying and grouped tasks of partitions, and cancel the active ones, which
are deleted when their handlers return an error. The command reads all waiting tasks of the queue. For a
queue that is partitioned by type, use task deleteall.`
	addBulk(cmd)
	return cmd
}
