package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/x/service/standalone"
)

func newService(a *app) *cobra.Command {
	var level slog.Level
	var format string
	cmd := &cobra.Command{
		Use:   "service --config FILE",
		Short: "Run the queue service: tasks over HTTP, for every language",
		Long: `service lets programs in any language enqueue tasks and work on them over HTTP, and carries out tasks by itself: it posts them to HTTP
endpoints or runs commands. All of it is in one configuration file, which docs/SERVICE_CONFIG.md describes; the connection flags and
named contexts do not count here.

SIGHUP has the file read again without losing a task; one with errors changes nothing. SIGTERM lets requests and tasks at work end
first. A second SIGTERM ends the service at once: its tasks run again when their leases have ended.`,
		Example: "  asynq service check service.yaml\n  asynq service --config service.yaml",
		Args:    onlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := cmd.Flags().GetString("config")
			if err != nil || file == "" {
				return usage("which configuration? Say --config FILE")
			}
			log, err := a.serviceLog(level, format)
			if err != nil {
				return err
			}
			reload, stop := reloadSignals()
			defer stop()
			return a.configured(a.Err, ExitUsage, standalone.Run(cmd.Context(), standalone.Options{
				Path: file, Reload: reload, Logger: log,
				Listening: func(addr net.Addr, tls bool) {
					scheme := "http"
					if tls {
						scheme = "https"
					}
					a.say("asynq: service at %s://%s", scheme, addr)
				},
			}))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.TextVar(&level, "log-level", slog.LevelInfo, "the least that is logged: debug, info, warn or error")
	f.StringVar(&format, "log-format", "text", "text or json")
	cmd.AddCommand(newServiceCheck(a))
	return cmd
}

func newServiceCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Tell all that is wrong with a configuration of the service",
		Long: `check tells all that is wrong with a configuration file, with line and column, and on standard error what works but is probably not
meant. Secrets are read from where the file says, and Redis is not asked.

Exit codes: 0 nothing is wrong, 1 something is, 2 wrong usage, or the file cannot be read.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			warnings, err := standalone.Check(args[0])
			for _, w := range warnings {
				a.say("%s:%d:%d: warning: %s", w.File, w.Line, w.Column, w.Text)
			}
			if err := a.configured(a.Out, ExitFailed, err); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s: nothing is wrong\n", args[0])
			return nil
		},
	}
}

// configured tells errors of a configuration file one a line, without anything in front, so that editors find the places.
func (a *app) configured(to io.Writer, code int, err error) error {
	var wrong standalone.Errors
	var path *fs.PathError
	switch {
	case errors.As(err, &wrong):
		for _, issue := range wrong {
			fmt.Fprintln(to, issue)
		}
		return exitError{errSaid, code}
	case errors.As(err, &path) && path.Op == "open":
		return usage("%w", err)
	}
	return err
}

// serviceLog is where the service tells what happens.
func (a *app) serviceLog(level slog.Level, format string) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(a.Err, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.Err, opts)), nil
	}
	return nil, usage("--log-format must be text or json, not %q", format)
}
