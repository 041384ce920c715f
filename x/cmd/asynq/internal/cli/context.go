package cli

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/conn"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newContext(a *app) *cobra.Command {
	return group("context", "Manage the named contexts of the configuration file",
		newContextLs(a), newContextUse(a), newContextShow(a), newContextAdd(a), newContextTest(a))
}

// contextRow is a context in machine-readable output.
type contextRow struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Server  string `json:"server"`

	Protected bool `json:"protected"`
	ReadOnly  bool `json:"read_only"`
}

// guards returns the guards of a context as text.
func (c contextRow) guards() string {
	switch {
	case c.ReadOnly:
		return "read-only"
	case c.Protected:
		return "protected"
	}
	return ""
}

var contextColumns = []out.Column[contextRow]{
	{Head: "CURRENT", Cell: func(c contextRow) string {
		if c.Current {
			return "*"
		}
		return ""
	}},
	{Head: "NAME", Cell: func(c contextRow) string { return c.Name }},
	{Head: "SERVER", Cell: func(c contextRow) string { return c.Server }},
	{Head: "GUARD", Cell: contextRow.guards, Style: func(contextRow) out.Style { return out.Warn }},
}

func newContextLs(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the contexts",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := a.configFile(cmd)
			if err != nil {
				return err
			}
			current := f.Chosen(cmd.Flags(), a.Env)
			var rows []contextRow
			for _, name := range f.Names() {
				values := f.Contexts[name]
				protected, readOnly := conn.Guards(values)
				rows = append(rows, contextRow{name, name == current, conn.Server(values), protected, readOnly})
			}
			if o, err := a.output(cmd); err == nil && o.IsTable() && len(rows) == 0 {
				a.printErrf("no contexts in %s: asynq context add adds one", f.Path)
			}
			return list(a, cmd, contextColumns, func(context.Context) iter.Seq2[contextRow, error] { return all(rows) })
		},
	}
	addListing(cmd)
	return cmd
}

func newContextUse(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "use NAME",
		Short:             "Select the context for later commands",
		Args:              argsFrom(1, 1),
		ValidArgsFunction: a.contextNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.configFile(cmd)
			if err != nil {
				return err
			}
			if _, ok := f.Contexts[args[0]]; !ok {
				return notFound("no context %q in %s", args[0], f.Path)
			}
			if err := f.Use(args[0]); err != nil {
				return err
			}
			a.printErrf("switched to context %q", args[0])
			return nil
		},
	}
}

// settingRow is the effective value of a setting in machine-readable output.
type settingRow struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

var settingColumns = []out.Column[settingRow]{
	{Head: "SETTING", Cell: func(s settingRow) string { return s.Name }},
	{Head: "VALUE", Cell: func(s settingRow) string { return s.Value }},
	{Head: "FROM", Cell: func(s settingRow) string { return s.From }},
}

func newContextShow(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the connection settings and their sources",
		Long: `Show the connection settings and their sources: a flag, the environment, a context or the file.
Passwords are hidden.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := a.settings(cmd)
			if err != nil {
				return err
			}
			var rows []settingRow
			for _, s := range config.Settings() {
				rows = append(rows, settingRow(s))
			}
			return list(a, cmd, settingColumns, func(context.Context) iter.Seq2[settingRow, error] { return all(rows) })
		},
	}
	addListing(cmd)
	return cmd
}
