package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/conn"
)

// commands builds the nouns; help sorts them.
var commands = []func(*app) *cobra.Command{
	newStats,
	newStatus,
	newQueue,
	newGroup,
	newPartition,
	newFlow,
	newTask,
	newErrors,
	newServer,
	newExporter,
	newService,
	newCron,
	newLimit,
	newLock,
	newDoctor,
	newExport,
	newImport,
	newOutbox,
	newDash,
	newWeb,
	newDev,
	newContext,
	newProbe,
	newVersion,
	newMan,
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "asynq",
		Short: "Inspect and manage asynq task queues in Redis",
		Long: `asynq inspects and manages the queues and tasks of asynq in Redis.

Every connection flag is also an environment variable (ASYNQ_URI for --uri) and a key of the
configuration file, which can store several connections as named contexts. A flag takes precedence
over the environment, the environment over the context.

Exit codes: 0 success, 1 failure, 2 usage error, 3 not found.`,
		Version:       newVersionRow().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError("", err) })
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	conn.SetByFlags(root.PersistentFlags())
	addContextConfirm(root)
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

// flagKinds describes the types of flags.
var flagKinds = map[string]string{
	"int": "an integer", "uint64": "a nonnegative integer", "float64": "a number", "bool": "true or false",
	"duration": "a duration such as 90s or 1h30m",
}

// flagError returns a readable error for an invalid flag. If name is empty, the error uses the
// flag's own name.
func flagError(name string, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		flag := invalid.GetFlag()
		if kind := flagKinds[flag.Value.Type()]; kind != "" {
			return fmt.Errorf("--%s: %q is not %s", cmp.Or(name, flag.Name), invalid.GetValue(), kind)
		}
	}
	return errors.New(strings.ReplaceAll(err.Error(), "\n", `\n`)) // it may repeat an argument unquoted
}

// finishDefaults makes cobra's own commands reject unknown arguments.
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

// group returns a noun that has only subcommands.
func group(name, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: onlySubcommands, RunE: help, SuggestionsMinimumDistance: 2}
	cmd.AddCommand(subs...)
	return cmd
}

// noArgs rejects arguments.
func noArgs(cmd *cobra.Command, args []string) error { return argsFrom(0, 0)(cmd, args) }

// argsFrom requires between least and most arguments. A negative most means no maximum.
func argsFrom(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("missing argument: usage: %s", usageLine(cmd))
		case most == 0 && len(args) > 0:
			return fmt.Errorf("unexpected argument %q: %s takes no arguments", args[0], cmd.CommandPath())
		case most > 0 && len(args) > most:
			return fmt.Errorf("unexpected argument %q: usage: %s", args[most], usageLine(cmd))
		}
		return nil
	}
}

// usageLine returns the command path with its arguments.
func usageLine(cmd *cobra.Command) string {
	_, args, _ := strings.Cut(cmd.Use, " ")
	return cmd.CommandPath() + " " + args
}

func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// onlySubcommands rejects arguments that do not name a subcommand.
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

// shortened returns cobra's usage template without the connection flags below each command, which
// outnumber the command's own flags.
func shortened(template string) string {
	begin := strings.Index(template, "{{if .HasAvailableInheritedFlags}}")
	if begin < 0 {
		return template
	}
	length := strings.Index(template[begin:], "{{end}}")
	if length < 0 {
		return template
	}
	return template[:begin] + "{{if .HasAvailableInheritedFlags}}\n\nUse \"asynq --help\" for the connection flags." + template[begin+length:]
}
