// Package cli implements the commands.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/conn"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/filter"
)

// The exit codes.
const (
	ExitDone     = 0
	ExitFailed   = 1
	ExitUsage    = 2
	ExitNotFound = 3
)

// Streams are the inputs and outputs of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer

	// Env looks up an environment variable.
	Env func(string) (string, bool)

	// InIsTerminal and OutIsTerminal report whether In and Out are terminals.
	InIsTerminal, OutIsTerminal bool

	// Height returns the number of lines of the terminal; nil if unknown.
	Height func() int

	// Width returns the number of columns of the terminal; nil if unknown.
	Width func() int
}

// System returns the streams of the process.
func System() Streams {
	return Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv,
		InIsTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutIsTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		Height: func() int {
			_, h, err := term.GetSize(int(os.Stdout.Fd()))
			if err != nil {
				return 0
			}
			return h
		},
		Width: func() int {
			w, _, err := term.GetSize(int(os.Stdout.Fd()))
			if err != nil {
				return 0
			}
			return w
		},
	}
}

// Run executes a command line and returns its exit code.
func Run(ctx context.Context, args []string, s Streams) int {
	a := &app{Streams: s}
	defer a.close()
	root := newRoot(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	code := a.exitCode(err)
	if err != nil && !errors.Is(err, errPrinted) {
		a.printErrf("asynq: %s", message(err))
		a.hint(err)
		if code == ExitUsage && a.running == nil {
			a.printErrf("Try %s --help.", cmd.CommandPath())
		}
	}
	return code
}

// errPrinted marks errors that are already printed.
var errPrinted = errors.New("already printed")

// exitError is an error with its own exit code.
type exitError struct {
	error

	code int
}

func (e exitError) Unwrap() error { return e.error }

// usage returns an error in the command line.
func usage(format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), ExitUsage}
}

// notFound returns the error of a missing item.
func notFound(format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), ExitNotFound}
}

func (a *app) exitCode(err error) int {
	var coded exitError
	var config *conn.UsageError
	var syntaxErr *filter.SyntaxError // an unknown field, detected when rows are filtered
	var templateErr *out.TemplateError
	var fieldErr *out.UnknownFieldError
	var unknownContext *conn.UnknownContextError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &unknownContext):
		return ExitNotFound
	case errors.As(err, &config), errors.As(err, &syntaxErr), errors.As(err, &templateErr), errors.As(err, &fieldErr), a.running == nil: // cobra's own errors come before a command runs
		return ExitUsage
	case errors.Is(err, asynq.ErrQueueNotFound), errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrSchedulerEntryNotFound),
		errors.Is(err, asynq.ErrServerNotFound):
		return ExitNotFound
	default:
		return ExitFailed
	}
}

// eachArg calls do for each argument. It prints errors as they occur, and returns an error with the
// worst exit code.
func (a *app) eachArg(args []string, do func(string) error) error {
	worst := ExitDone
	for _, arg := range args {
		err := do(arg)
		if errors.Is(err, context.Canceled) {
			return err
		}
		if err == nil {
			continue
		}
		a.printErrf("asynq: %s", message(err))
		a.hint(err)
		if code := a.exitCode(err); worst == ExitDone || code < worst {
			worst = code // a failure outweighs a missing item
		}
	}
	if worst == ExitDone {
		return nil
	}
	return exitError{errPrinted, worst}
}

// fromEnv are the command flags that are also environment variables. Flags that control changes are
// not: a forgotten variable could delete data.
var fromEnv = []string{"output", "no-headers"}

// setFromEnv sets flags that the command line omits from their environment variables.
func (a *app) setFromEnv(cmd *cobra.Command) error {
	for _, name := range fromEnv {
		f := cmd.Flags().Lookup(name)
		if f == nil || f.Changed {
			continue
		}
		if text, ok := a.Env(conn.EnvName(name)); ok && text != "" {
			if err := cmd.Flags().Set(name, text); err != nil {
				return usage("%s: invalid value %q", conn.EnvName(name), text)
			}
		}
	}
	return nil
}

// explainWatch explains why the interval after --watch was parsed as an argument: the value of the
// flag is optional.
func explainWatch(cmd *cobra.Command, args []string, err error) error {
	if f := cmd.Flags().Lookup("watch"); err == nil || f == nil || !f.Changed {
		return err
	}
	for _, arg := range args {
		if _, notDuration := time.ParseDuration(arg); notDuration == nil {
			return fmt.Errorf("%w: use --watch=%s", err, arg)
		}
	}
	return err
}

// withRun marks the point after which errors are not usage errors, for cmd and its subcommands.
func withRun(a *app, cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			a.running = cmd
			if err := a.setFromEnv(cmd); err != nil {
				return err
			}
			if err := a.guard(cmd); err != nil {
				return err
			}
			return run(cmd, args)
		}
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return explainWatch(cmd, args, check(cmd, args)) }
	}
	for _, c := range cmd.Commands() {
		withRun(a, c)
	}
}

// inQueue adds the queue name to an error, unless the error names it already.
func inQueue(name string, err error) error {
	if errors.Is(err, asynq.ErrQueueNotFound) || errors.Is(err, asynq.ErrQueueNotEmpty) {
		return err
	}
	return fmt.Errorf("queue %q: %w", name, err)
}
