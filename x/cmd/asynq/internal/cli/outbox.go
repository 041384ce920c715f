package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/outbox"
)

func newOutbox(a *app) *cobra.Command {
	return group("outbox", "Relay tasks from SQL databases, and manage failed rows",
		newOutboxRelay(a), newOutboxSchema(a), newOutboxStats(a), newOutboxFailed(a), newOutboxRetry(a), newOutboxDiscard(a))
}

// addTablePrefix adds --table-prefix to a command.
func addTablePrefix(cmd *cobra.Command) {
	cmd.Flags().String("table-prefix", "asynq_", "first part of the names of the tables")
}

// addDatabase adds the flags of the database to a command.
func addDatabase(cmd *cobra.Command) {
	cmd.Flags().StringP("database", "d", "", "URL of the database: postgres://user@host/name, mysql://user@host/name or sqlite:FILE. "+
		"Other users of this machine can see a password in it: prefer ASYNQ_DATABASE")
	addTablePrefix(cmd)
}

// outboxOptions reads the flag that addTablePrefix added.
func outboxOptions(cmd *cobra.Command) (opts []outbox.Option, err error) {
	defer func() {
		if text, ok := recover().(string); ok { // an invalid prefix
			err = usage("--table-prefix: %s", strings.TrimPrefix(text, "outbox: "))
		}
	}()
	prefix, _ := cmd.Flags().GetString("table-prefix")
	opts = []outbox.Option{outbox.WithTablePrefix(prefix)}
	outbox.New(outbox.SQLite, opts...)
	return opts, nil
}

// openOutbox opens the database and its outbox. The caller must close the database.
func (a *app) openOutbox(cmd *cobra.Command) (*outbox.Outbox, *sql.DB, *database, error) {
	opts, err := outboxOptions(cmd)
	if err != nil {
		return nil, nil, nil, err
	}
	url, _ := cmd.Flags().GetString("database")
	if url == "" {
		url, _ = a.Env("ASYNQ_DATABASE")
	}
	d, err := parseDatabase(url)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := d.fileError(); err != nil {
		return nil, nil, nil, err
	}
	db, err := sql.Open(d.driver, d.dsn)
	if err != nil {
		return nil, nil, nil, usage("--database: %w", err)
	}
	return outbox.New(d.dialect, opts...), db, d, nil
}

// withOutbox calls f with the outbox of the flags.
func (a *app) withOutbox(cmd *cobra.Command, f func(box *outbox.Outbox, db *sql.DB) error) error {
	box, db, _, err := a.openOutbox(cmd)
	if err != nil {
		return err
	}
	defer db.Close()
	return databaseError(f(box, db))
}

// databaseError returns an error of a database connection as plain text: as a dial error, it would
// be reported as one of Redis.
func databaseError(err error) error {
	if dialError(err) != nil {
		return errors.New(err.Error())
	}
	return err
}

func newOutboxSchema(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schema",
		Short:   "Print the statements that create the tables",
		Long:    "Print the statements that create the tables of the outbox, for the migrations of your program. They can be repeated.",
		Example: "  asynq outbox schema --dialect postgres > migrations/0007_asynq_outbox.up.sql\n  asynq outbox schema --dialect postgres --down",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, _ := cmd.Flags().GetString("dialect")
			if name == "" {
				return usage("--dialect is required: use sqlite, postgres or mysql")
			}
			dialect, err := outbox.ParseDialect(name)
			if err != nil {
				return usage("--dialect: unknown dialect %q: use sqlite, postgres or mysql", name)
			}
			opts, err := outboxOptions(cmd)
			if err != nil {
				return err
			}
			down, _ := cmd.Flags().GetBool("down")
			for _, m := range outbox.Schema(dialect, opts...) {
				statements := m.Up
				if down {
					statements = m.Down
				}
				for _, s := range statements {
					if _, err := fmt.Fprintf(a.Out, "%s;\n", s); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	cmd.Flags().String("dialect", "", "sqlite, postgres or mysql (also for MariaDB)")
	cmd.Flags().Bool("down", false, "print the statements that drop the tables")
	addTablePrefix(cmd)
	_ = cmd.RegisterFlagCompletionFunc("dialect", cobra.FixedCompletions([]string{"sqlite", "postgres", "mysql"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// outboxStats are the figures of an outbox in machine-readable output.
type outboxStats struct {
	Waiting int   `json:"waiting"`
	Claimed int   `json:"claimed"`
	Failed  int   `json:"failed"`
	LagMsec int64 `json:"lag_msec"`
}

func newOutboxStats(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "stats",
		Short:   "Show how many rows wait, and for how long",
		Example: "  asynq outbox stats --database postgres://app@db/shop",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withOutbox(cmd, func(box *outbox.Outbox, db *sql.DB) error {
				s, err := box.Stats(cmd.Context(), db)
				if err != nil {
					return err
				}
				v := outboxStats{s.Waiting, s.Claimed, s.Failed, s.Lag.Milliseconds()}
				return a.show(cmd, v, func(w io.Writer, _ out.Options) error {
					_, err := fmt.Fprintf(w, "waiting  %d\nclaimed  %d\nfailed   %d\nlag      %s\n", v.Waiting, v.Claimed, v.Failed, s.Lag.Round(time.Millisecond))
					return err
				})
			})
		},
	}
	addDatabase(cmd)
	addOutput(cmd)
	return cmd
}

// failedRow is a failed row in machine-readable output.
type failedRow struct {
	ID            string            `json:"id"`
	Type          string            `json:"type"`
	Payload       string            `json:"payload"`        // empty if it is not text
	PayloadBase64 string            `json:"payload_base64"` // empty if it is text
	Headers       map[string]string `json:"headers"`
	Options       []string          `json:"options"`
	CreatedAt     time.Time         `json:"created_at"`
	FailedAt      time.Time         `json:"failed_at"`
	Attempts      int               `json:"attempts"`
	Error         string            `json:"error"`

	payload []byte
}

func newFailedRow(r outbox.FailedRow) *failedRow {
	row := &failedRow{
		ID: r.ID, Type: r.Type, Headers: r.Headers, Options: r.Options, CreatedAt: r.CreatedAt.UTC(), FailedAt: r.FailedAt.UTC(),
		Attempts: r.Attempts, Error: r.Err, payload: r.Payload,
	}
	row.Payload, row.PayloadBase64 = textOrBase64(r.Payload)
	if row.Headers == nil {
		row.Headers = map[string]string{}
	}
	if row.Options == nil {
		row.Options = []string{}
	}
	return row
}

var failedColumns = []out.Column[*failedRow]{
	{Head: "ID", Cell: func(r *failedRow) string { return r.ID }},
	{Head: "TYPE", Cell: func(r *failedRow) string { return r.Type }},
	{Head: "PAYLOAD", Cell: func(r *failedRow) string { return clipped(brief(r.payload)) }},
	{Head: "FAILED", Cell: func(r *failedRow) string { return out.Time(r.FailedAt) }},
	{Head: "ERROR", Cell: func(r *failedRow) string { return r.Error }},
	{Head: "CREATED", Wide: true, Cell: func(r *failedRow) string { return out.Time(r.CreatedAt) }},
	{Head: "ATTEMPTS", Wide: true, Right: true, Cell: func(r *failedRow) string { return strconv.Itoa(r.Attempts) }},
	{Head: "OPTIONS", Wide: true, Cell: func(r *failedRow) string { return strings.Join(r.Options, ", ") }},
}

func newOutboxFailed(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "failed",
		Short:   "List failed rows, which relays do not send",
		Example: "  asynq outbox failed --database postgres://app@db/shop",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withOutbox(cmd, func(box *outbox.Outbox, db *sql.DB) error {
				return list(a, cmd, failedColumns, func(ctx context.Context) iter.Seq2[*failedRow, error] {
					return func(yield func(*failedRow, error) bool) {
						for r, err := range box.Failed(ctx, db) {
							if !yield(newFailedRow(r), err) {
								return
							}
						}
					}
				})
			})
		},
	}
	addDatabase(cmd)
	addListing(cmd)
	return cmd
}

func newOutboxRetry(a *app) *cobra.Command {
	return newOutboxChange(a, "retry", "Make failed rows wait for a relay again", "retry", "retried", (*outbox.Outbox).Retry)
}

func newOutboxDiscard(a *app) *cobra.Command {
	return newOutboxChange(a, "discard", "Delete failed rows", "delete", "deleted", (*outbox.Outbox).Discard)
}

// newOutboxChange returns a command that changes failed rows.
func newOutboxChange(a *app, name, short, verb, done string, change func(*outbox.Outbox, context.Context, outbox.Tx, ...string) (int64, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:     name + " [ID…]",
		Short:   short,
		Example: "  asynq outbox " + name + " --database postgres://app@db/shop 019ac1d2-7b1e-7c44-9a53-0a6a1c9f2e11\n  asynq outbox " + name + " --all",
		Args:    argsFrom(0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, _ := cmd.Flags().GetBool("all")
			if all == (len(args) > 0) {
				return usage("name the rows, or use --all")
			}
			return a.withOutbox(cmd, func(box *outbox.Outbox, db *sql.DB) error {
				if all {
					for r, err := range box.Failed(cmd.Context(), db) {
						if err != nil {
							return err
						}
						args = append(args, r.ID)
					}
					if len(args) == 0 {
						a.printErrf("no failed rows")
						return nil
					}
				}
				if ok, err := a.confirm(cmd, "%s %s", verb, plural(len(args), "failed row")); !ok || err != nil {
					return err
				}
				n, err := change(box, cmd.Context(), db, args...)
				a.printErrf("%s %s", plural(int(n), "failed row"), done)
				if err == nil && int(n) < len(args) {
					err = notFound("%s not found among the failed rows", plural(len(args)-int(n), "row"))
				}
				return err
			})
		},
	}
	cmd.Flags().Bool("all", false, "all failed rows")
	addDatabase(cmd)
	addBulk(cmd)
	return cmd
}
