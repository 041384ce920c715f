package cli

import (
	"context"
	"fmt"
	"io"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/health"
)

// Exit codes of status, as monitors expect them.
const (
	exitWarning = 1
	exitTrouble = 2
	exitUnknown = 3
)

// statusTimeout bounds a check.
const statusTimeout = 20 * time.Second

func newStatus(a *app) *cobra.Command {
	var settings healthFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the causes of problems, most severe first",
		Long: `Show the causes of all problems of queues, servers, schedulers and Redis, most severe first, with
their evidence. docs/HEALTH.md lists the kinds of causes and the settings.

One check sees one moment. With --watch, status also finds what grows over time, as asynq web does.

Exit codes: 0 no problems, or notices only; 1 a warning; 2 trouble: tasks are not processed;
3 unknown: Redis is unreachable, or an error. Muted causes do not count.`,
		Example: "  asynq status\n" +
			"  asynq status -o json --settings health.json --threshold wait_warning=10m\n" +
			"  asynq status mute paused:mail --for 1h --note migration",
		Args: onlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.status(cmd, &settings) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	settings.add(f, "settings")
	f.Bool("muted", false, "also show muted causes")
	addOutput(cmd)
	addWatch(cmd)
	cmd.AddCommand(newStatusMute(a), newStatusUnmute(a))
	return cmd
}

// statusRow is a report in machine-readable output.
type statusRow struct {
	Status string `json:"status"` // ok, notice, warning, trouble or unknown
	*health.Report
}

func newStatusRow(r *health.Report) *statusRow {
	row := &statusRow{Status: "ok", Report: r}
	if severity, ok := r.Severity(); ok {
		row.Status = severity.String()
	}
	if slices.ContainsFunc(r.Causes, func(c health.Cause) bool { return c.Kind == "redis-unreachable" }) {
		row.Status = "unknown"
	}
	return row
}

func (a *app) status(cmd *cobra.Command, flags *healthFlags) error {
	unknown := func(err error) error { return exitError{err, exitUnknown} }
	settings, err := flags.settings()
	if err != nil {
		return unknown(err)
	}
	monitor, err := health.NewMonitor(settings)
	if err != nil {
		return unknown(err)
	}
	o, err := a.output(cmd)
	if err != nil {
		return err
	}
	i, err := a.inspector(cmd)
	if err != nil {
		return unknown(err)
	}
	muted, _ := cmd.Flags().GetBool("muted")
	code := ExitDone
	err = a.watched(cmd, o, func(w io.Writer) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), statusTimeout)
		defer cancel()
		row := newStatusRow(monitor.Check(health.Collect(ctx, i, settings)))
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		code = map[string]int{"warning": exitWarning, "trouble": exitTrouble, "unknown": exitUnknown}[row.Status]
		return out.One(w, o, row, func(w io.Writer) error {
			_, err := io.WriteString(w, statusText(row, o, muted))
			return err
		})
	})
	if err != nil {
		return unknown(err)
	}
	if code != ExitDone {
		return exitError{errPrinted, code}
	}
	return nil
}

var severityStyles = map[health.Severity]out.Style{health.Notice: out.Plain, health.Warning: out.Warn, health.Trouble: out.Bad}

// statusText formats a report for people.
func statusText(row *statusRow, o out.Options, muted bool) string {
	var b strings.Builder
	if len(row.Causes) == 0 {
		b.WriteString("ok: no problems\n")
	}
	for _, c := range row.Causes {
		writeCause(&b, c, o)
	}
	for _, problem := range row.Problems {
		fmt.Fprintf(&b, "not read: %s\n", out.Clean(problem))
	}
	if !muted {
		if n := len(row.Muted); n > 0 {
			fmt.Fprintf(&b, "%s: use --muted to show\n", plural(n, "muted cause"))
		}
		return b.String()
	}
	for _, c := range row.Muted {
		writeCause(&b, c, o)
	}
	return b.String()
}

// writeCause writes a cause with its evidence.
func writeCause(b *strings.Builder, c health.Cause, o out.Options) {
	word := c.Severity.String()
	if o.Color {
		word = severityStyles[c.Severity].Paint(word)
	}
	fmt.Fprintf(b, "%s: %s\n", word, out.Clean(c.Title))
	for _, e := range c.Evidence {
		if e.Text != c.Title {
			fmt.Fprintf(b, "  - %s\n", out.Clean(e.Text))
		}
	}
	fmt.Fprintf(b, "  %s\n  id %s", out.Clean(c.Hint), out.Clean(c.ID))
	if !c.Since.IsZero() {
		fmt.Fprintf(b, ", since %s", c.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	b.WriteByte('\n')
	if m := c.Mute; m != nil {
		b.WriteString("  " + out.Clean(muteText(m)) + "\n")
	}
}

// muteText describes a mute.
func muteText(m *health.Mute) string {
	text := "acknowledged until it is gone"
	if !m.Until.IsZero() {
		text = "muted until " + m.Until.UTC().Format("2006-01-02 15:04 UTC")
	}
	if m.By != "" {
		text += " by " + m.By
	}
	if m.Note != "" {
		text += ": " + m.Note
	}
	return text
}

func newStatusMute(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mute ID…",
		Short: "Mute causes for some time, or until they are gone",
		Long: `Mute causes on all surfaces that share this Redis: status and web list them apart, and they do not
count for the exit code. Without --for, a cause is acknowledged: it is muted until it is gone,
as far as asynq web notices, and for 30 days at most.`,
		Args:              argsFrom(1, -1),
		ValidArgsFunction: a.causeIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			span, _ := cmd.Flags().GetDuration("for")
			note, _ := cmd.Flags().GetString("note")
			by, _ := cmd.Flags().GetString("by")
			if cmd.Flags().Changed("for") && span <= 0 {
				return usage("--for must be positive")
			}
			return a.eachArg(args, func(id string) error {
				m := asynq.Mute{ID: id, By: by, Note: note}
				if span > 0 {
					m.Until = time.Now().Add(span)
				}
				if err := i.MuteCause(cmd.Context(), m); err != nil {
					return err
				}
				a.printErrf("%q %s", id, out.Clean(muteText(&health.Mute{Until: m.Until, By: by, Note: note})))
				return nil
			})
		},
	}
	cmd.Flags().Duration("for", 0, "how long, up to 2160h (default until the cause is gone)")
	cmd.Flags().String("note", "", "why")
	cmd.Flags().String("by", userName(), "who")
	cmd.Flags().Lookup("by").DefValue = ""
	return cmd
}

// userName returns the name of the user of this process, empty if it is unknown.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

func newStatusUnmute(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "unmute ID…",
		Short:             "End the mutes of causes",
		Args:              argsFrom(1, -1),
		ValidArgsFunction: a.mutedIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			return a.eachArg(args, func(id string) error {
				n, err := i.UnmuteCause(cmd.Context(), id)
				if err != nil {
					return err
				}
				if n == 0 {
					return notFound("%q is not muted", id)
				}
				a.printErrf("%q unmuted", id)
				return nil
			})
		},
	}
}

// causeIDs completes the IDs of current causes.
func (a *app) causeIDs(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeFromRedis(cmd, begun, func(i *asynq.Inspector) ([]string, error) {
		report, err := health.Check(cmd.Context(), i, health.Settings{})
		if err != nil {
			return nil, err
		}
		var ids []string
		for _, c := range report.Causes {
			ids = append(ids, c.ID)
		}
		return ids, nil
	})
}

// mutedIDs completes the IDs of muted causes.
func (a *app) mutedIDs(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeFromRedis(cmd, begun, func(i *asynq.Inspector) ([]string, error) {
		mutes, err := i.Mutes(cmd.Context())
		var ids []string
		for _, m := range mutes {
			ids = append(ids, m.ID)
		}
		return ids, err
	})
}
