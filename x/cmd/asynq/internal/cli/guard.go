package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/conn"
)

// readers are the commands that do not change Redis, each with the flag that makes it do so, if
// any. All other commands are refused in a read-only context, and ask for the name of a protected
// one.
var readers = map[string]string{
	"stats types": "", "stats history": "", "status": "", "errors inspect": "", "doctor": "repair", "export": "pause", "exporter": "",
	"queue ls": "", "queue inspect": "", "queue history": "", "queue top": "", "group ls": "", "partition ls": "", "partition inspect": "",
	"flow ls": "", "flow inspect": "",
	"task ls": "", "task inspect": "", "task wait": "", "task tail": "", "server ls": "", "cron ls": "", "cron history": "",
	"limit ls": "", "lock ls": "",
	"dash": "", "web": "", // guarded by themselves
	"context ls": "", "context use": "", "context show": "", "context add": "", "context test": "",
	"outbox schema": "", "outbox stats": "", "outbox failed": "", "outbox retry": "", "outbox discard": "", // only change the SQL database
	"service": "", "service check": "", "service init": "", "dev": "", // do not use contexts
	"probe": "", "version": "", "man": "", "help": "", cobra.ShellCompRequestCmd: "", cobra.ShellCompNoDescRequestCmd: "",
	"completion bash": "", "completion zsh": "", "completion fish": "", "completion powershell": "",
}

// contextConfirm is the flag that confirms changes in a protected context.
const contextConfirm = "context-confirm"

func addContextConfirm(root *cobra.Command) {
	root.PersistentFlags().String(contextConfirm, "", "name of the protected context, to confirm changes without a prompt")
}

// changes reports whether a command changes Redis.
func (a *app) changes(cmd *cobra.Command) bool {
	flag, reads := readers[strings.TrimPrefix(cmd.CommandPath(), "asynq ")]
	switch {
	case cmd.HasSubCommands() || cmd.Parent() == nil || a.dryRun(cmd):
		return false
	case flag != "":
		on, _ := cmd.Flags().GetBool(flag)
		return on
	}
	return !reads
}

// guard refuses a command that changes Redis if the context is read-only. If the context is
// protected, it asks for the context's name, unless the command asks a question of its own.
func (a *app) guard(cmd *cobra.Command) error {
	if !a.changes(cmd) {
		return nil
	}
	config, err := a.settings(cmd)
	if err != nil {
		return err
	}
	if config.ReadOnly() {
		return usage("%s is read-only: asynq %s would change it", contextText(config), strings.TrimPrefix(cmd.CommandPath(), "asynq "))
	}
	if cmd.Flags().Lookup("yes") != nil {
		return nil // see confirm and confirmContext
	}
	if do, err := a.confirmContext(cmd, "run "+cmd.CommandPath()); !do {
		return err
	}
	return nil
}

// contextText names the source of the settings.
func contextText(config *conn.Config) string {
	if config.Context == "" {
		return "the connection"
	}
	return fmt.Sprintf("context %q", config.Context)
}

// protected reports whether changes require the name of the context.
func (a *app) protected() bool { return a.config != nil && a.config.Protected() }

// where describes what a command works on, for questions: " in context …", or "" if the command has
// no connection.
func (a *app) where() string {
	if a.config == nil {
		return ""
	}
	return " in " + a.config.Target().String()
}

// confirmContext reports whether to perform a change, described in the infinitive. It asks only if
// the context is protected: the user must type its name. Without a terminal, --context-confirm must
// contain the name.
func (a *app) confirmContext(cmd *cobra.Command, what string) (bool, error) {
	if !a.protected() {
		return true, nil
	}
	name := a.config.Context
	given, _ := cmd.Flags().GetString(contextConfirm)
	switch {
	case given == name:
		return true, nil
	case given != "":
		return false, usage("--%s %q does not match: the context is %q", contextConfirm, given, name)
	case !a.InIsTerminal:
		return false, usage("context %q is protected, and this would %s: confirm with --%s %s", name, what, contextConfirm, shellQuoted(name))
	}
	answer, err := a.ask(cmd, fmt.Sprintf("%s%s? Type %s to confirm: ", what, a.where(), name))
	if err != nil || answer == name {
		return err == nil, err
	}
	return false, errCanceled
}
