package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/site"
	"github.com/asynq-go/asynq/x/service/standalone"
)

func newService(a *app) *cobra.Command {
	var level slog.Level
	var format string
	cmd := &cobra.Command{
		Use:   "service --config FILE",
		Short: "Run the queue service: tasks over HTTP for any language",
		Long: `service lets programs in any language enqueue and process tasks over HTTP. It can also process tasks
itself: it posts them to HTTP endpoints, or runs commands. It is configured by one file, described in
docs/SERVICE_CONFIG.md; the connection flags and named contexts do not apply.

SIGHUP reloads the file without losing tasks; a file with errors changes nothing. SIGTERM shuts the
service down after active requests and tasks finish. A second SIGTERM stops it at once: its tasks run
again when their leases expire.`,
		Example: "  asynq service init\n  asynq service check service.yaml\n  asynq service --config service.yaml",
		Args:    onlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := cmd.Flags().GetString("config")
			if err != nil || file == "" {
				return usage("no configuration file: use --config FILE, or create one with asynq service init")
			}
			log, err := a.serviceLog(level, format)
			if err != nil {
				return err
			}
			reload, stop := reloadSignals()
			defer stop()
			newLink, stopLinks := linkSignals()
			defer stopLinks()
			var at string // scheme and host
			return a.configured(a.Err, ExitUsage, standalone.Run(cmd.Context(), standalone.Options{
				Path: file, Reload: reload, Logger: log,
				Listening: func(addr net.Addr, tls bool) {
					scheme := "http"
					if tls {
						scheme = "https"
					}
					at = scheme + "://" + site.DisplayAddr(addr)
					a.printErrf("asynq: service at %s://%s", scheme, addr)
				},
				NewLink: newLink,
				SignInLink: func(path string) {
					a.printErrf("asynq: the web UI is at %s%s\n%s", at, path, onceOnly())
				},
			}))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.TextVar(&level, "log-level", slog.LevelInfo, "minimum level of log messages: debug, info, warn or error")
	f.StringVar(&format, "log-format", "text", "log format: text or json")
	cmd.AddCommand(newServiceInit(a), newServiceCheck(a))
	return cmd
}

func newServiceInit(a *app) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a service configuration with a generated token",
		Long: `init writes a commented configuration with a generated token to FILE (default: service.yaml), which
only its owner can read, and prints the commands that run the service. It does not overwrite a file
unless --force is given. It does not connect to Redis.`,
		Example: "  asynq service init\n  asynq service init --force /etc/asynq/service.yaml",
		Args:    argsFrom(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			file := "service.yaml"
			if len(args) > 0 {
				file = args[0]
			}
			err := standalone.Init(file, force)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%q exists: use --force to replace it", file)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Out, serviceNext, shellQuoted(file))
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return cmd
}

// serviceNext lists the next commands after init.
const serviceNext = `# Wrote %[1]s. Check it and run the service:
asynq service check %[1]s
asynq service --config %[1]s

# In another terminal, enqueue a task:
URL=http://localhost:8600
TOKEN=$(sed -n 's/^ *secret: //p' %[1]s)
curl -sS -H "Authorization: Bearer $TOKEN" "$URL/v1/tasks" -d '{"type": "email:hello", "payload": {"user": 42}}'
`

// plainWord matches a text that needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=][A-Za-z0-9_./:@%+=-]*$`)

// shellQuoted quotes a text as one word of a shell command.
func shellQuoted(text string) string {
	if strings.HasPrefix(text, "-") {
		text = "./" + text
	}
	return quotedWord(text)
}

// quotedWord quotes a text for a shell, if necessary.
func quotedWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func newServiceCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a service configuration",
		Long: `check prints all errors in a configuration file with line and column, and warnings on standard error.
It resolves environment variables and secret files. It does not connect to Redis.

Exit codes: 0 no errors, 1 errors, 2 usage error or unreadable file.`,
		Args: argsFrom(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			warnings, err := standalone.Check(args[0])
			for _, w := range warnings {
				a.printErrf("%s:%d:%d: warning: %s", w.File, w.Line, w.Column, w.Text)
			}
			if err := a.configured(a.Out, ExitFailed, err); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s: no errors\n", out.Escape(args[0]))
			return nil
		},
	}
}

// configured prints the errors of a configuration file, one per line and without a prefix, so that
// editors can jump to them.
func (a *app) configured(to io.Writer, code int, err error) error {
	var wrong standalone.Errors
	var path *fs.PathError
	switch {
	case errors.As(err, &wrong):
		for _, issue := range wrong {
			fmt.Fprintln(to, out.Escape(fmt.Sprint(issue)))
		}
		return exitError{errPrinted, code}
	case errors.As(err, &path) && path.Op == "open":
		return usage("%w", err)
	}
	return err
}

// serviceLog returns the logger of the service.
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
