package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/conn"
)

// commands are the nouns; the help sorts them.
var commands = []func(*app) *cobra.Command{
	newStats,
	newQueue,
	newGroup,
	newTask,
	newServer,
	newExporter,
	newService,
	newCron,
	newDoctor,
	newExport,
	newImport,
	newDash,
	newWeb,
	newDev,
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
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	conn.SetByFlags(root.PersistentFlags())
	root.PersistentFlags().SortFlags = false
	root.Flags().SortFlags = false
	root.SetUsageTemplate(shortened(root.UsageTemplate()))
	for _, newNoun := range commands {
		root.AddCommand(newNoun(a))
	}
	finishDefaults(root)
	_ = root.RegisterFlagCompletionFunc("context", a.contextNames)
	a.completeFlags(root)
	withRun(a, root)
	return root
}

// finishDefaults has cobra's own commands refuse what they do not know.
func finishDefaults(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args, cmd.RunE = onlySubcommands, help
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if _, _, err := root.Find(args); err != nil {
					return fmt.Errorf("unknown help topic %q", strings.Join(args, " "))
				}
				return nil
			}
		}
	}
}

// group is a noun that has only subcommands.
func group(name, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: onlySubcommands, RunE: help, SuggestionsMinimumDistance: 2}
	cmd.AddCommand(subs...)
	return cmd
}

func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// onlySubcommands complains of a name that is no subcommand.
func onlySubcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf(": did you mean %q?", near[0])
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
}

// shortened is cobra's template of a help text without the connection flags below each command: there are more of them than of all others.
func shortened(template string) string {
	begin := strings.Index(template, "{{if .HasAvailableInheritedFlags}}")
	if begin < 0 {
		return template
	}
	length := strings.Index(template[begin:], "{{end}}")
	if length < 0 {
		return template
	}
	return template[:begin] + "{{if .HasAvailableInheritedFlags}}\n\nThe connection flags are told by asynq --help." + template[begin+length:]
}
