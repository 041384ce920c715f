package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/conn"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newContextAdd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Store the connection flags of this command line as a context",
		Long: `Store the connection flags of this command line as a context of the configuration file. The command
does not connect to Redis: asynq context test NAME does. It creates the file if it does not exist,
readable only by its owner.

In a protected context, commands that change Redis ask for the context's name; scripts pass it with
--context-confirm. In a read-only context, they are refused.`,
		Example: "  asynq context add production -u rediss://redis.internal -U operator --password-file /run/secrets/redis --protected\n" +
			"  asynq context add replica -u replica:6379 --read-only --use",
		Args: argsFrom(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if strings.TrimSpace(name) == "" || strings.ContainsFunc(name, out.Unsafe) {
				return usage("invalid name %q: it must not be blank or contain control characters", name)
			}
			f, err := conn.LoadFileToAdd(cmd.Flags(), a.Env)
			if err != nil {
				return err
			}
			replace, _ := cmd.Flags().GetBool("replace")
			if _, ok := f.Contexts[name]; ok && !replace {
				return usage("context %q exists in %s: use --replace to replace it", name, f.Path)
			}
			if c, err := f.Load("", cmd.Flags(), func(string) (string, bool) { return "", false }); err != nil {
				return err
			} else if _, err := c.RedisConnOpt(); err != nil {
				return err
			}
			protected, _ := cmd.Flags().GetBool("protected")
			readOnly, _ := cmd.Flags().GetBool("read-only")
			if err := f.Add(name, cmd.Flags(), map[string]bool{"protected": protected, "read-only": readOnly}); err != nil {
				return err
			}
			a.printErrf("context %q stored in %s", name, f.Path)
			if use, _ := cmd.Flags().GetBool("use"); use {
				if err := f.Use(name); err != nil {
					return err
				}
				a.printErrf("switched to context %q", name)
			}
			_, err = a.configFile(cmd) // warns if others can read a password
			return err
		},
	}
	cmd.Flags().Bool("protected", false, "ask for the context's name before each change")
	cmd.Flags().Bool("read-only", false, "refuse all changes")
	cmd.Flags().Bool("replace", false, "replace an existing context")
	cmd.Flags().Bool("use", false, "select the context for later commands")
	return cmd
}

// contextTest is the result of a connection test in machine-readable output.
type contextTest struct {
	Name         string   `json:"name"` // empty without a context
	Server       string   `json:"server"`
	Database     int      `json:"database"`
	Namespace    string   `json:"namespace"`
	OK           bool     `json:"ok"`
	Error        string   `json:"error"`
	Milliseconds *float64 `json:"round_trip_msec"`
	Queues       *int     `json:"queues"`
	Version      string   `json:"redis_version"` // empty if INFO is not permitted
}

var contextTestColumns = []out.Column[*contextTest]{
	{Head: "NAME", Cell: func(c *contextTest) string { return c.Name }},
	{Head: "RESULT", Cell: func(c *contextTest) string {
		if c.OK {
			return "ok"
		}
		return c.Error
	}, Style: func(c *contextTest) out.Style {
		if c.OK {
			return out.Good
		}
		return out.Bad
	}},
	{Head: "SERVER", Cell: func(c *contextTest) string { return c.Server }},
	{Head: "DATABASE", Right: true, Cell: func(c *contextTest) string { return fmt.Sprint(c.Database) }},
	{Head: "NAMESPACE", Cell: func(c *contextTest) string { return c.Namespace }},
	{Head: "VERSION", Cell: func(c *contextTest) string { return c.Version }},
	countKnown("QUEUES", out.Plain, func(c *contextTest) *int { return c.Queues }),
	{Head: "ROUND TRIP", Right: true, Cell: func(c *contextTest) string {
		return orUnknown(c.Milliseconds, func(ms float64) string { return fmt.Sprintf("%.1fms", ms) })
	}},
}

func newContextTest(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test [NAME…]",
		Short: "Connect to Redis with contexts, and report the results",
		Long: `Connect to Redis with the named contexts, or with the settings of this command line, and report for
each whether it can be used: the error, or the version of Redis, the number of queues and the time of
a round trip. The exit code is 1 if one fails.`,
		Example:           "  asynq context test\n  asynq context test staging production",
		Args:              argsFrom(0, -1),
		ValidArgsFunction: a.contextNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.configFile(cmd)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				args = []string{f.Chosen(cmd.Flags(), a.Env)}
			}
			failed := 0
			for _, name := range args {
				if _, ok := f.Contexts[name]; !ok && name != "" {
					return notFound("no context %q in %s", name, f.Path)
				}
			}
			err = list(a, cmd, contextTestColumns, func(ctx context.Context) iter.Seq2[*contextTest, error] {
				return func(yield func(*contextTest, error) bool) {
					failed = 0
					for _, name := range args {
						row := &contextTest{Name: name}
						if c, err := f.Load(name, cmd.Flags(), a.Env); err != nil {
							row.Error = message(err)
						} else {
							row.test(ctx, c)
						}
						if !row.OK {
							failed++
						}
						if !yield(row, ctx.Err()) {
							return
						}
					}
				}
			})
			if err == nil && failed > 0 {
				return exitError{errPrinted, ExitFailed}
			}
			return err
		},
	}
	addListing(cmd)
	return cmd
}

// test connects with the settings.
func (t *contextTest) test(ctx context.Context, c *conn.Config) {
	target := c.Target()
	t.Server, t.Database, t.Namespace = target.Server, target.Database, target.Namespace
	if err := t.measure(ctx, c); err != nil {
		t.Error = message(err)
		return
	}
	t.OK = true
}

func (t *contextTest) measure(ctx context.Context, c *conn.Config) error {
	opt, err := c.RedisConnOpt()
	if err != nil {
		return err
	}
	client, ok := conn.FewRetries(opt).MakeRedisClient().(redis.UniversalClient)
	if !ok {
		return errors.New("the connection options do not create a client")
	}
	defer client.Close()
	in, err := inNamespace(asynq.SharedRedisClient(client), c.Namespace())
	if err != nil {
		return err
	}
	queues, err := asynq.NewInspector(in).WithContext(ctx).Queues() // opens the connection
	if err != nil {
		return err
	}
	n := len(queues)
	t.Queues = &n
	start := time.Now()
	if err := client.Ping(ctx).Err(); err != nil {
		return err
	}
	ms := float64(time.Since(start).Microseconds()) / 1000
	t.Milliseconds = &ms
	if info, err := client.Info(ctx, "server").Result(); err == nil {
		if row := newRedisRow(info); row.Version != nil {
			t.Version = *row.Version
		}
	}
	return nil
}
