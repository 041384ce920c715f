package cli

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// addBulk adds --yes and --dry-run to a command.
func addBulk(cmd *cobra.Command) {
	cmd.Flags().BoolP("yes", "y", false, "skip the confirmation")
	cmd.Flags().Bool("dry-run", false, "only print what would be done")
}

// dryRun reports whether --dry-run is set.
func (a *app) dryRun(cmd *cobra.Command) bool {
	dry, _ := cmd.Flags().GetBool("dry-run")
	return dry
}

// confirm reports whether to perform an action, described in the infinitive ("delete 12 tasks"). It
// prompts on a terminal; elsewhere it returns a usage error without --yes. In a protected context,
// it requires the name of the context, with and without --yes. For a dry run it prints the action
// and returns false.
func (a *app) confirm(cmd *cobra.Command, format string, args ...any) (bool, error) {
	what := fmt.Sprintf(format, args...)
	if a.dryRun(cmd) {
		a.printErrf("would %s", what)
		return false, nil
	}
	if a.protected() {
		return a.confirmContext(cmd, what)
	}
	if yes, _ := cmd.Flags().GetBool("yes"); yes {
		return true, nil
	}
	if !a.InIsTerminal {
		return false, usage("this would %s: confirm with --yes (standard input is not a terminal), or preview with --dry-run", what)
	}
	answer, err := a.ask(cmd, what+a.where()+"? [y/N] ")
	if err != nil {
		return false, err
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
		return true, nil
	}
	return false, errCanceled
}

var errCanceled = errors.New("canceled")

// ask prints a question, with a capital first letter, and returns the answer without surrounding
// space. No answer is an empty one.
func (a *app) ask(cmd *cobra.Command, question string) (string, error) {
	fmt.Fprint(a.Err, strings.ToUpper(question[:1])+out.Escape(question[1:]))
	if a.answers == nil {
		a.answers = bufio.NewReader(a.In) // one for all prompts: it reads ahead
	}
	answer := make(chan string, 1)
	go func() {
		line, _ := a.answers.ReadString('\n')
		answer <- line
	}()
	select {
	case <-cmd.Context().Done():
		return "", cmd.Context().Err()
	case line := <-answer:
		return strings.TrimSpace(line), nil
	}
}
