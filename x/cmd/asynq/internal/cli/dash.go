package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/dash"
)

func newDash(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dash",
		Short: "Watch queues, tasks, servers and errors in the terminal, and act on them",
		Long: `Watch queues, tasks, groups, servers, periodic tasks and errors in the terminal. The key ? lists the others. Whatever changes
something asks before it does; --read-only switches all of that off.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.dash(cmd) },
	}
	cmd.Flags().Duration("refresh", 8*time.Second, "how often Redis is looked at, at least "+dash.MinRefresh.String())
	cmd.Flags().Bool("read-only", false, "hide and refuse all that changes something")
	return cmd
}

func (a *app) dash(cmd *cobra.Command) error {
	refresh, _ := cmd.Flags().GetDuration("refresh")
	if refresh < dash.MinRefresh {
		return usage("--refresh must be at least %v", dash.MinRefresh)
	}
	if !a.InIsTerminal || !a.OutIsTerminal {
		return usage("dash needs a terminal; for scripts there are asynq stats -o json and queue ls -o json")
	}
	insp, err := a.inspector(cmd)
	if err != nil {
		return err
	}
	o := dash.Options{Inspector: insp, Refresh: refresh, In: a.In, Out: a.Out}
	o.ReadOnly, _ = cmd.Flags().GetBool("read-only")
	if !o.ReadOnly {
		if o.Client, err = a.client(cmd); err != nil {
			return err
		}
	}
	return dash.Run(cmd.Context(), o)
}
