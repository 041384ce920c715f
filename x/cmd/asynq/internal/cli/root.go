package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/conn"
)

// commands are the nouns in the order of the help.
var commands = []func(*app) *cobra.Command{
	newStats,
	newQueue,
	newGroup,
	newServer,
	newDash,
	newContext,
	newVersion,
	newMan,
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "asynq",
		Short: "Look at task queues in Redis, and change them",
		Long: `asynq looks at the queues and tasks of asynq in Redis, and changes them.

Every connection flag can be given as an environment variable as well (ASYNQ_URI for --uri), and be stored in the
configuration file, in named contexts. A flag wins over the environment, the environment over the context.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found.`,
		Version:       newVersionRow().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	conn.SetByFlags(root.PersistentFlags())
	root.PersistentFlags().SortFlags = false
	for _, newNoun := range commands {
		root.AddCommand(newNoun(a))
	}
	_ = root.RegisterFlagCompletionFunc("context", a.contextNames)
	a.completeFlags(root)
	withRun(a, root)
	return root
}

// group is a noun that has only subcommands.
func group(name, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := ""
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf(": did you mean %q?", near[0])
			}
			return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(subs...)
	return cmd
}
