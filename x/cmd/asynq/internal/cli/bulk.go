package cli

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// addBulk gives a command --yes and --dry-run.
func addBulk(cmd *cobra.Command) {
	cmd.Flags().BoolP("yes", "y", false, "do it without asking")
	cmd.Flags().Bool("dry-run", false, "only say what would be done")
}

// dryRun reports whether nothing is to be changed.
func (a *app) dryRun(cmd *cobra.Command) bool {
	dry, _ := cmd.Flags().GetBool("dry-run")
	return dry
}

// confirm reports whether to do what the words say (in the infinitive: "delete 12 tasks"). It asks on a terminal, and is an error of
// usage elsewhere without --yes. A dry run prints the words, and is not to be done.
func (a *app) confirm(cmd *cobra.Command, format string, args ...any) (bool, error) {
	what := fmt.Sprintf(format, args...)
	if a.dryRun(cmd) {
		a.say("would %s", what)
		return false, nil
	}
	if yes, _ := cmd.Flags().GetBool("yes"); yes {
		return true, nil
	}
	if !a.InIsTerminal {
		return false, usage("this would %s: there is nobody to ask, so say --yes, or --dry-run to see what it would do", what)
	}
	fmt.Fprintf(a.Err, "%s%s? [y/N] ", strings.ToUpper(what[:1]), what[1:])
	if a.answers == nil {
		a.answers = bufio.NewReader(a.In) // one for all questions: it reads ahead
	}
	answer := make(chan string, 1)
	go func() {
		line, _ := a.answers.ReadString('\n') // no answer is a no
		answer <- line
	}()
	select {
	case <-cmd.Context().Done():
		return false, cmd.Context().Err()
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true, nil
		}
		return false, fmt.Errorf("not done")
	}
}
