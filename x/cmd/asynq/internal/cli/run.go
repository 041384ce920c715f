// Package cli is the tree of commands.
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

// Streams are what a command has of the world.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer

	// Env looks up an environment variable.
	Env func(string) (string, bool)

	// InIsTerminal and OutIsTerminal say whether a person is at the other end.
	InIsTerminal, OutIsTerminal bool

	// Height is how many lines the terminal has; nil if that cannot be known.
	Height func() int
}

// System are the streams of the process.
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
	if err != nil && !errors.Is(err, errSaid) {
		fmt.Fprintf(s.Err, "asynq: %s\n", message(err))
		a.hint(err)
		if code == ExitUsage && a.running == nil {
			fmt.Fprintf(s.Err, "Try %s --help.\n", cmd.CommandPath())
		}
	}
	return code
}

// errSaid is wrapped by errors that were printed already.
var errSaid = errors.New("said")

// exitError has a code of its own.
type exitError struct {
	error

	code int
}

func (e exitError) Unwrap() error { return e.error }

// usage is an error of whoever wrote the command line.
func usage(format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), ExitUsage}
}

// notFound is the error of something that is not there.
func notFound(format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), ExitNotFound}
}

func (a *app) exitCode(err error) int {
	var own exitError
	var config *conn.UsageError
	var wrong *filter.SyntaxError // a field that the rows have not, which shows late
	var unfit *out.TemplateError
	var nowhere *conn.UnknownContextError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &nowhere):
		return ExitNotFound
	case errors.As(err, &config), errors.As(err, &wrong), errors.As(err, &unfit), a.running == nil: // cobra's own errors come before a command runs
		return ExitUsage
	case errors.Is(err, asynq.ErrQueueNotFound), errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrSchedulerEntryNotFound):
		return ExitNotFound
	default:
		return ExitFailed
	}
}

// eachArg does something for each argument. Errors are printed as they come; the last of the worst code is the result.
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
		a.say("asynq: %s", message(err))
		a.hint(err)
		if code := a.exitCode(err); worst == ExitDone || code < worst {
			worst = code // what failed outright weighs more than what was not there
		}
	}
	if worst == ExitDone {
		return nil
	}
	return exitError{errSaid, worst}
}

// fromEnv are the flags of commands that can be given as environment variables too. Those that say what to do cannot: a variable that
// was forgotten would delete things.
var fromEnv = []string{"output", "no-headers"}

// setFromEnv sets flags that were not given by their environment variables.
func (a *app) setFromEnv(cmd *cobra.Command) error {
	for _, name := range fromEnv {
		f := cmd.Flags().Lookup(name)
		if f == nil || f.Changed {
			continue
		}
		if text, ok := a.Env(conn.EnvName(name)); ok && text != "" {
			if err := cmd.Flags().Set(name, text); err != nil {
				return usage("%s: %q is no value for it", conn.EnvName(name), text)
			}
		}
	}
	return nil
}

// mindWatch explains why the distance after --watch was taken for an argument: the flag can be given without one.
func mindWatch(cmd *cobra.Command, args []string, err error) error {
	if f := cmd.Flags().Lookup("watch"); err == nil || f == nil || !f.Changed {
		return err
	}
	for _, arg := range args {
		if _, notDuration := time.ParseDuration(arg); notDuration == nil {
			return fmt.Errorf("%w: write --watch=%s", err, arg)
		}
	}
	return err
}

// withRun marks the moment from which on errors are not of usage, for the command and all below it.
func withRun(a *app, cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			a.running = cmd
			if err := a.setFromEnv(cmd); err != nil {
				return err
			}
			return run(cmd, args)
		}
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return mindWatch(cmd, args, check(cmd, args)) }
	}
	for _, c := range cmd.Commands() {
		withRun(a, c)
	}
}

// inQueue says which queue an error is of, unless it does so itself.
func inQueue(name string, err error) error {
	if errors.Is(err, asynq.ErrQueueNotFound) || errors.Is(err, asynq.ErrQueueNotEmpty) {
		return err
	}
	return fmt.Errorf("queue %q: %w", name, err)
}
