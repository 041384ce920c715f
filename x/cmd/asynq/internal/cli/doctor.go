package cli

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newDoctor(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is broken in Redis, and mend it with --repair",
		Long: `Look for what is broken in Redis: tasks that nothing would ever run, locks that nobody holds, IDs of no task, and more.
It may run while servers and clients are at work. Repairs lose nothing that can still run, so
--repair goes ahead where there is nobody to ask; on a terminal it asks first, unless there is --yes. With --dry-run nothing is mended.

Exit codes: 0 nothing is broken, or all of it was mended; 1 something is broken.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			repair, _ := cmd.Flags().GetBool("repair")
			repair = repair && !a.dryRun(cmd)
			queues := queuesOf(cmd)
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			for _, queue := range queues {
				if _, err := i.WithMemorySamples(0).GetQueueInfo(queue); err != nil {
					return inQueue(queue, err)
				}
			}
			if repair && a.InIsTerminal {
				if do, err := a.confirm(cmd, "mend what the doctor finds"); !do {
					return err
				}
			}
			return list(a, cmd, findingColumns, func(ctx context.Context) iter.Seq2[*findingRow, error] {
				return a.findings(ctx, i, asynq.DiagnoseOptions{Queues: queues, Repair: repair})
			})
		},
	}
	cmd.Flags().StringSliceP("queue", "q", nil, "queues to look at (default all)")
	cmd.Flags().Bool("repair", false, "mend what can be mended")
	cmd.Flags().BoolP("yes", "y", false, "mend without asking")
	cmd.Flags().Bool("dry-run", false, "only tell what is broken, even with --repair")
	_ = cmd.RegisterFlagCompletionFunc("queue", a.queueNames)
	addListing(cmd)
	return cmd
}

// findingRow is a finding as programs see it.
type findingRow struct {
	Kind     string `json:"kind"`
	Queue    string `json:"queue"`
	TaskID   string `json:"task_id"`
	Key      string `json:"key"`
	Detail   string `json:"detail"`
	Repair   string `json:"repair"`
	Repaired bool   `json:"repaired"`
}

var findingColumns = []out.Column[*findingRow]{
	{Head: "KIND", Cell: func(f *findingRow) string { return f.Kind }},
	{Head: "QUEUE", Cell: func(f *findingRow) string { return f.Queue }},
	{Head: "TASK", Cell: func(f *findingRow) string { return f.TaskID }},
	{Head: "KEY", Cell: func(f *findingRow) string { return f.Key }, Wide: true},
	{Head: "DETAIL", Cell: func(f *findingRow) string { return f.Detail }},
	{Head: "REPAIR", Cell: func(f *findingRow) string {
		switch {
		case f.Repaired:
			return "done: " + f.Repair
		case f.Repair == "":
			return "by hand: look at the key"
		}
		return f.Repair
	}, Style: func(f *findingRow) out.Style {
		if f.Repaired {
			return out.Good
		}
		return out.Warn
	}},
}

// findings yields what is found. What could not be looked at is told of on standard error, and makes the end an error.
func (a *app) findings(ctx context.Context, i *asynq.Inspector, opts asynq.DiagnoseOptions) iter.Seq2[*findingRow, error] {
	return func(yield func(*findingRow, error) bool) {
		found, repaired, blind := 0, 0, false
		for f, err := range i.Diagnose(ctx, opts) {
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			if err != nil {
				blind = true
				a.say("asynq: %s", message(err))
				continue
			}
			found++
			if f.Repaired {
				repaired++
			}
			if !yield(&findingRow{string(f.Kind), f.Queue, f.TaskID, f.Key, f.Detail, f.Repair, f.Repaired}, nil) {
				return
			}
		}
		switch {
		case blind:
			yield(nil, exitError{fmt.Errorf("not all could be looked at: see above"), ExitFailed})
		case found > repaired && repaired > 0:
			yield(nil, fmt.Errorf("not mended: %d of %d findings", found-repaired, found))
		case found > repaired && opts.Repair:
			yield(nil, fmt.Errorf("not mended: all %d findings", found))
		case found > repaired:
			yield(nil, fmt.Errorf("findings: %d; asynq doctor --repair mends what can be mended", found))
		case found == 0:
			a.say("nothing is broken")
		default:
			a.say("findings: %d, all mended", found)
		}
	}
}
