package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/dash"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/editor"
)

func newDash(a *app) *cobra.Command {
	var settings healthFlags
	cmd := &cobra.Command{
		Use:   "dash",
		Short: "Watch and manage queues and tasks in a terminal dashboard",
		Long: `Watch queues, tasks, groups, flows, servers, periodic tasks and errors in a terminal dashboard, and manage
them. The first page shows the causes of problems, as asynq status does. Press ? for the list of keys. Every change asks for confirmation; --read-only and a read-only
context disable all changes. In a protected context, each confirmation requires the context's name,
unless --context-confirm contains it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.dash(cmd, &settings) },
	}
	cmd.Flags().Duration("refresh", 8*time.Second, "refresh interval, at least "+dash.MinRefresh.String())
	cmd.Flags().Bool("read-only", false, "hide and disable all changes")
	settings.add(cmd.Flags(), "settings")
	return cmd
}

func (a *app) dash(cmd *cobra.Command, flags *healthFlags) error {
	refresh, _ := cmd.Flags().GetDuration("refresh")
	if refresh < dash.MinRefresh {
		return usage("--refresh must be at least %v", dash.MinRefresh)
	}
	if !a.InIsTerminal || !a.OutIsTerminal {
		return usage("dash requires a terminal: in scripts, use asynq stats -o json or asynq queue ls -o json")
	}
	settings, err := flags.settings()
	if err != nil {
		return err
	}
	insp, err := a.inspector(cmd)
	if err != nil {
		return err
	}
	o := dash.Options{Inspector: insp, Refresh: refresh, In: a.In, Out: a.Out, User: userName(), Health: settings}
	o.ReadOnly, _ = cmd.Flags().GetBool("read-only")
	o.ReadOnly = o.ReadOnly || a.config.ReadOnly()
	o.Editor, _ = editor.Command(a.Env) // without one, the dashboard reports it
	target := a.config.Target()
	o.Target, o.Context = target.String(), target.Context
	if o.Protected = a.config.Protected(); o.Protected {
		given, _ := cmd.Flags().GetString(contextConfirm)
		if given != "" && given != target.Context {
			return usage("--%s %q does not match: the context is %q", contextConfirm, given, target.Context)
		}
		o.Protected = given == ""
	}
	if !o.ReadOnly {
		if o.Client, err = a.client(cmd); err != nil {
			return err
		}
	}
	return dash.Run(cmd.Context(), o)
}
