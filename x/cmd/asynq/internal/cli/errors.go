package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/failures"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/filter"
)

const (
	// errorSamples is the number of tasks that `errors inspect` lists.
	errorSamples = 10
	// errorsListed is the default of --limit.
	errorsListed = 50
)

func newErrors(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "errors",
		Short: "List the kinds of errors of failed tasks, and change all tasks of a kind",
		Long: `List the errors of retry and archived tasks by kind, most frequent first. Errors that differ only in
numbers, IDs, quoted texts, addresses, paths or times are of one kind, whatever the type of the task.
Placeholders such as # and ‹id› mark the differences.

The command scans all retry and archived tasks in short calls, at most --max-scan. The ID of a kind
is that of the page in the web UI, and the argument of the subcommands.`,
		Example: `  asynq errors -q mail
  asynq errors --filter 'archived>0 types:email:*' -o json
  asynq errors run 46fd0c5f --dry-run`,
		Args: onlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			limit, _ := cmd.Flags().GetInt("limit")
			if limit < 0 {
				return usage("--limit must not be negative")
			}
			f, err := filter.ParseRows(a.filter(cmd))
			if err != nil {
				return badFilter(err)
			}
			scan, err := failedTasks(cmd)
			if err != nil {
				return err
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			by, _ := cmd.Flags().GetString("sort")
			all := 0
			load := func(ctx context.Context) iter.Seq2[*errorRow, error] {
				all = 0
				return a.limited(limit, out.Sorted(by, out.Filtered(f, counting(&all, a.errorRows(ctx, i, scan)))))
			}
			return listThen(a, cmd, errorColumns, load, func(n int) {
				switch {
				case all == 0:
					a.printErrf("no retry or archived task has an error%s", a.where())
				case n == 0:
					a.printErrf("no match: --filter selects none of %s of errors%s", plural(all, "kind"), a.where())
				}
			})
		},
	}
	addErrorScope(a, cmd)
	addListing(cmd)
	cmd.Flags().Int("limit", errorsListed, "list at most this many kinds; 0 lists all")
	cmd.AddCommand(newErrorsInspect(a))
	for _, b := range []bulk{runAll, archiveAll, deleteAll} {
		cmd.AddCommand(newErrorsChange(a, b))
	}
	return cmd
}

// addErrorScope adds the flags that select failed tasks.
func addErrorScope(a *app, cmd *cobra.Command) {
	cmd.Flags().StringSliceP("queue", "q", nil, "only tasks of these queues (default all)")
	cmd.Flags().Int("max-scan", 0, "scan at most this many tasks (default no limit)")
	_ = cmd.RegisterFlagCompletionFunc("queue", a.queueNames)
}

// failedTasks reads the flags that addErrorScope added.
func failedTasks(cmd *cobra.Command) (filter.Scan, error) {
	everything, err := filter.Parse("")
	if err != nil {
		return filter.Scan{}, err
	}
	s := filter.Scan{Filter: everything, Queues: queuesOf(cmd), States: failures.States}
	if s.MaxScan, _ = cmd.Flags().GetInt("max-scan"); s.MaxScan < 0 {
		return s, usage("--max-scan must not be negative")
	}
	return s, nil
}

// kinds returns the kinds of errors of failed tasks, most frequent first. If some tasks cannot be
// read, it returns the kinds of the others with the error.
func (a *app) kinds(ctx context.Context, i *asynq.Inspector, scan filter.Scan, samples int) ([]*failures.Kind, error) {
	p := a.progress("scanned")
	defer p.end()
	tally := failures.NewTally(samples)
	scan.Progress = func(at filter.Progress) { p.at(at.Looked, 0, "") }
	var failed []error
	for t, err := range scan.Tasks(ctx, i) {
		if err != nil {
			failed = append(failed, scanLimit(err))
			continue
		}
		tally.Add(t)
	}
	return tally.Kinds(), errors.Join(failed...)
}

// errorRow is a kind of error in machine-readable output.
type errorRow struct {
	ID            string             `json:"id"`
	Kind          string             `json:"kind"`
	Count         int                `json:"count"`
	Retry         int                `json:"retry"`
	Archived      int                `json:"archived"`
	Types         []failures.Counted `json:"types"`
	Queues        []failures.Counted `json:"queues"`
	FirstFailedAt *time.Time         `json:"first_failed_at"` // earliest of the last failures
	LastFailedAt  *time.Time         `json:"last_failed_at"`
	Example       errorTask          `json:"example"` // the task that failed last
	ErrorMessage  string             `json:"error_message"`
}

// errorTask names a task.
type errorTask struct {
	Queue string `json:"queue"`
	ID    string `json:"id"`
	Type  string `json:"type"`
	State string `json:"state"`
}

func newErrorTask(t *asynq.TaskInfo) errorTask {
	return errorTask{Queue: t.Queue, ID: t.ID, Type: t.Type, State: t.State.String()}
}

func newErrorRow(k *failures.Kind) *errorRow {
	return &errorRow{
		ID: k.ID, Kind: k.Text, Count: k.Count, Retry: k.Retry(), Archived: k.Archived, Types: failures.Top(k.Types), Queues: failures.Top(k.Queues),
		FirstFailedAt: moment(k.First), LastFailedAt: moment(k.Last), Example: newErrorTask(k.Example()), ErrorMessage: k.Example().LastErr,
	}
}

var errorColumns = []out.Column[*errorRow]{
	{Head: "ID", Cell: func(r *errorRow) string { return r.ID }},
	count("COUNT", out.Plain, func(r *errorRow) int { return r.Count }),
	count("RETRY", out.Warn, func(r *errorRow) int { return r.Retry }),
	count("ARCHIVED", out.Bad, func(r *errorRow) int { return r.Archived }),
	{Head: "TYPES", Cell: func(r *errorRow) string { return mostOf(r.Types, 1) }},
	wide(out.Column[*errorRow]{Head: "QUEUES", Cell: func(r *errorRow) string { return mostOf(r.Queues, 3) }}),
	wide(out.Column[*errorRow]{Head: "FIRST FAILED", Cell: func(r *errorRow) string { return timeOrNone(r.FirstFailedAt) }}),
	{Head: "LAST FAILED", Cell: func(r *errorRow) string { return timeOrNone(r.LastFailedAt) }},
	wide(out.Column[*errorRow]{Head: "EXAMPLE", Cell: func(r *errorRow) string { return r.Example.Queue + " " + r.Example.ID }}),
	{Head: "ERROR", Cell: func(r *errorRow) string { return r.Kind }},
}

func timeOrNone(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return out.Time(*t)
}

// mostOf names the first items and counts the others.
func mostOf(items []failures.Counted, n int) string {
	names := make([]string, 0, n)
	for _, c := range items[:min(len(items), n)] {
		names = append(names, c.Name)
	}
	text := strings.Join(names, ", ")
	if more := len(items) - len(names); more > 0 {
		text += fmt.Sprintf(" +%d", more)
	}
	return text
}

// errorRows yields the kinds of errors.
func (a *app) errorRows(ctx context.Context, i *asynq.Inspector, scan filter.Scan) iter.Seq2[*errorRow, error] {
	return func(yield func(*errorRow, error) bool) {
		kinds, err := a.kinds(ctx, i, scan, 1)
		for _, k := range kinds {
			if !yield(newErrorRow(k), nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// limited yields the first rows; 0 means all. It reports how many others there are.
func (a *app) limited(limit int, rows iter.Seq2[*errorRow, error]) iter.Seq2[*errorRow, error] {
	return func(yield func(*errorRow, error) bool) {
		n := 0
		for row, err := range rows {
			if err == nil {
				if n++; limit > 0 && n > limit {
					continue
				}
			}
			if !yield(row, err) {
				return
			}
		}
		if limit > 0 && n > limit {
			a.printErrf("%d of %d kinds of errors: use --limit to list more", limit, n)
		}
	}
}

// findKind returns the kind with an ID, or the only one whose ID begins with it.
func findKind(kinds []*failures.Kind, id string) (*failures.Kind, error) {
	var found []*failures.Kind
	for _, k := range kinds {
		if k.ID == id {
			return k, nil
		}
		if id != "" && strings.HasPrefix(k.ID, id) {
			found = append(found, k)
		}
	}
	switch len(found) {
	case 0:
		return nil, notFound("no retry or archived task has an error of kind %q: list them with asynq errors", id)
	case 1:
		return found[0], nil
	}
	return nil, usage("%d kinds of errors begin with %q: %s and %s, for example", len(found), id, found[0].ID, found[1].ID)
}

// kindIDs completes an argument with the IDs of kinds.
func (a *app) kindIDs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeFromRedis(cmd, begun, func(i *asynq.Inspector) ([]string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		scan, err := failedTasks(cmd)
		if err != nil {
			return nil, err
		}
		scan.MaxScan = completedErrors
		kinds, _ := a.kinds(ctx, i, scan, 1)
		ids := make([]string, 0, len(kinds))
		for _, k := range kinds {
			ids = append(ids, k.ID)
		}
		return ids, nil
	})
}

// completedErrors is the maximum number of tasks that completion scans.
const completedErrors = 2000

func newErrorsInspect(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "inspect KIND-ID...",
		Aliases: []string{"get", "show"},
		Short:   "Show kinds of errors: task types, queues, an example, and the tasks that failed last",
		Example: "  asynq errors inspect 46fd0c5f",
		Args:    argsFrom(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			scan, err := failedTasks(cmd)
			if err != nil {
				return err
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			kinds, scanErr := a.kinds(cmd.Context(), i, scan, errorSamples)
			stats := errorStats(cmd.Context(), i)
			return a.eachArg(args, func(id string) error {
				k, err := findKind(kinds, id)
				if err != nil {
					return errors.Join(err, scanErr)
				}
				row := &errorDetails{errorRow: newErrorRow(k), Attempts: attemptsOf(stats, k.Text, scan.Queues)}
				for _, t := range k.Samples {
					row.Tasks = append(row.Tasks, newErrorTask(t))
				}
				if err := a.show(cmd, row, row.write); err != nil {
					return err
				}
				return scanErr
			})
		},
		ValidArgsFunction: a.kindIDs,
	}
	addErrorScope(a, cmd)
	addOutput(cmd)
	return cmd
}

// statsPeriod is how far back `errors inspect` counts attempts.
const statsPeriod = 24 * time.Hour

// errorStats returns the statistics of failed attempts, or nil if they cannot be read: the other
// details do not need them.
func errorStats(ctx context.Context, i *asynq.Inspector) []*asynq.ErrorStats {
	stats, err := i.ErrorStats(ctx, "", time.Now().Add(-statsPeriod), time.Time{})
	if err != nil {
		return nil
	}
	return stats
}

// errorAttempts counts the failed attempts with errors of one kind.
type errorAttempts struct {
	Count   int64      `json:"count"`
	FirstAt *time.Time `json:"first_at"` // start of the minute
	LastAt  *time.Time `json:"last_at"`
}

// attemptsOf sums up the attempts of a kind in the given queues, or in all if none are given. It
// returns nil if there are none.
func attemptsOf(stats []*asynq.ErrorStats, kind string, queues []string) *errorAttempts {
	var sum errorAttempts
	var first, last time.Time
	for _, s := range stats {
		if s.Kind != kind || len(queues) > 0 && !slices.Contains(queues, s.Queue) {
			continue
		}
		sum.Count += s.Count
		if first.IsZero() || s.First.Before(first) {
			first = s.First
		}
		if s.Last.After(last) {
			last = s.Last
		}
	}
	if sum.Count == 0 {
		return nil
	}
	sum.FirstAt, sum.LastAt = moment(first), moment(last)
	return &sum
}

// errorDetails is a kind of error with some of its tasks.
type errorDetails struct {
	*errorRow

	// Attempts are those of the last 24 hours; null if servers have counted none.
	Attempts *errorAttempts `json:"failed_attempts_24h"`

	Tasks []errorTask `json:"tasks"` // those that failed last, at most 10
}

func (r *errorDetails) write(w io.Writer, o out.Options) error {
	fields := []out.Field{
		{Name: "ID", Value: r.ID}, {Name: "Error", Value: r.Kind}, {Name: "Example", Value: r.ErrorMessage}, {},
		{Name: "Tasks", Value: r.Count}, {Name: "  retry", Value: r.Retry}, {Name: "  archived", Value: r.Archived},
		{Name: "First failed", Value: timeOrNone(r.FirstFailedAt)}, {Name: "Last failed", Value: timeOrNone(r.LastFailedAt)},
	}
	if n := r.Attempts; n != nil {
		fields = append(fields, out.Field{
			Name: "Failed attempts", Value: fmt.Sprintf("%d in the last 24 hours, %s to %s", n.Count, timeOrNone(n.FirstAt), timeOrNone(n.LastAt)),
		})
	}
	fields = append(fields, out.Field{})
	for _, list := range []struct {
		name  string
		items []failures.Counted
	}{{"Type", r.Types}, {"Queue", r.Queues}} {
		for _, c := range list.items {
			fields = append(fields, out.Field{Name: list.name, Value: fmt.Sprintf("%s (%s)", c.Name, counted(c.Count))})
		}
	}
	fields = append(fields, out.Field{})
	for _, t := range r.Tasks {
		fields = append(fields, out.Field{Name: "Task", Value: fmt.Sprintf("%s of queue %s, type %s, %s", t.ID, t.Queue, t.Type, t.State)})
	}
	return out.Fields(w, o, fields)
}
