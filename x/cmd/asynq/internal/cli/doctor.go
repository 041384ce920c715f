package cli

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/doctor"
)

func newDoctor(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find inconsistencies in Redis, and repair them with --repair",
		Long: `Find inconsistencies in Redis: tasks that would never run, locks without an owner, IDs without a
task, flows that nothing continues, and more. It also reports types of waiting tasks that no running server
handles. The command is safe to run while servers and clients are active.

Repairs never lose a task that can still run. On a terminal, --repair asks for confirmation unless
--yes is given; elsewhere it needs no confirmation. With --dry-run nothing is repaired.

Exit codes: 0 no problems found, or all repaired; 1 problems remain.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			repair, _ := cmd.Flags().GetBool("repair")
			repair = repair && !a.dryRun(cmd)
			queues := queuesOf(cmd)
			conn, err := a.connOpt(cmd)
			if err != nil {
				return err
			}
			i := asynq.NewInspector(conn).WithContext(cmd.Context()).WithMemorySamples(0)
			for _, queue := range queues {
				if _, err := i.GetQueueInfo(queue); err != nil {
					return inQueue(queue, err)
				}
			}
			if repair && (a.InIsTerminal || a.protected()) {
				if do, err := a.confirm(cmd, "repair the problems that are found"); !do {
					return err
				}
			}
			return list(a, cmd, findingColumns, func(ctx context.Context) iter.Seq2[*findingRow, error] {
				return a.findings(ctx, conn, doctor.Options{Queues: queues, Repair: repair})
			})
		},
	}
	cmd.Flags().StringSliceP("queue", "q", nil, "queues to check (default all)")
	cmd.Flags().Bool("repair", false, "repair the problems that can be repaired")
	cmd.Flags().BoolP("yes", "y", false, "repair without confirmation")
	cmd.Flags().Bool("dry-run", false, "only report problems, even with --repair")
	_ = cmd.RegisterFlagCompletionFunc("queue", a.queueNames)
	addListing(cmd)
	return cmd
}

// findingRow is a finding in machine-readable output.
type findingRow struct {
	Kind     string `json:"kind"`
	Queue    string `json:"queue"`
	TaskID   string `json:"task_id"`
	Key      string `json:"key"`
	Detail   string `json:"detail"`
	Repair   string `json:"repair"`
	Repaired bool   `json:"repaired"`
	Flow     string `json:"flow"` // empty unless the problem is one of a flow
	Node     string `json:"node"`
}

var findingColumns = []out.Column[*findingRow]{
	{Head: "KIND", Cell: func(f *findingRow) string { return f.Kind }},
	{Head: "QUEUE", Cell: func(f *findingRow) string { return f.Queue }},
	{Head: "TASK", Cell: func(f *findingRow) string { return f.TaskID }},
	{Head: "FLOW", Cell: func(f *findingRow) string { return f.Flow }, Wide: true},
	{Head: "KEY", Cell: func(f *findingRow) string { return f.Key }, Wide: true},
	{Head: "DETAIL", Cell: func(f *findingRow) string { return f.Detail }},
	{Head: "REPAIR", Cell: func(f *findingRow) string {
		switch {
		case f.Repaired:
			return "done: " + f.Repair
		case f.Kind == string(doctor.UnhandledType):
			return "none: start a server that handles the type, or delete the tasks"
		case f.Kind == string(doctor.FlowOrphan):
			return "none: nothing starts after these tasks; start the flow again"
		case f.Kind == string(doctor.FlowStuck) && f.Repair == "" && f.Node == "":
			return "none: close the batch, or use " + commandLine("flow cancel", f.Flow)
		case f.Kind == string(doctor.FlowStuck) && f.Repair == "":
			return "none: use " + commandLine("flow retry", f.Flow) + " or " + commandLine("flow skip", f.Flow, f.Node)
		case f.Repair == "":
			return fmt.Sprintf("none: inspect key %q", f.Key)
		}
		return f.Repair
	}, Style: func(f *findingRow) out.Style {
		if f.Repaired {
			return out.Good
		}
		return out.Warn
	}},
}

// findings yields the findings. It prints the errors of incomplete checks on standard error, and
// then ends with an error.
func (a *app) findings(ctx context.Context, conn asynq.RedisConnOpt, opts doctor.Options) iter.Seq2[*findingRow, error] {
	return func(yield func(*findingRow, error) bool) {
		found, repaired, repairable, incomplete := 0, 0, 0, false
		for f, err := range doctor.Diagnose(ctx, conn, opts) {
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			if err != nil {
				incomplete = true
				a.printErrf("asynq: %s", message(err))
				continue
			}
			found++
			if f.Repaired {
				repaired++
			}
			if f.Repair != "" {
				repairable++
			}
			if !yield(&findingRow{string(f.Kind), f.Queue, f.TaskID, f.Key, f.Detail, f.Repair, f.Repaired, f.Flow, f.Node}, nil) {
				return
			}
		}
		switch {
		case incomplete:
			yield(nil, exitError{fmt.Errorf("some checks failed: see the errors above"), ExitFailed})
		case found > repaired && repaired > 0:
			yield(nil, fmt.Errorf("%d of %d problems not repaired", found-repaired, found))
		case found > repaired && opts.Repair:
			yield(nil, fmt.Errorf("%s not repaired", plural(found, "problem")))
		case found > repaired && repairable == 0:
			yield(nil, fmt.Errorf("%s found", plural(found, "problem")))
		case found > repaired:
			yield(nil, fmt.Errorf("%s found: run asynq doctor --repair", plural(found, "problem")))
		case found == 0:
			a.printErrf("no problems found")
		default:
			a.printErrf("%s found and repaired", plural(found, "problem"))
		}
	}
}
