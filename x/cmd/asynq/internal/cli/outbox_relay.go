package cli

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/x/metrics"
	"github.com/asynq-go/asynq/x/outbox"
)

// relayFlags are the flags of asynq outbox relay.
type relayFlags struct {
	poll, ttl, inbox time.Duration
	batch            int
	drop             bool
	metrics          string
}

func newOutboxRelay(a *app) *cobra.Command {
	var flags relayFlags
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Move tasks from a database to Redis",
		Long: `relay moves the rows of an outbox to Redis until it receives SIGINT or SIGTERM. Any number of relays
may run, here and in your programs; run at least two, so that one may die.

On Postgres, it also listens for the notifications of programs whose outbox has the option WithNotify.
docs/OUTBOX.md describes outboxes.`,
		Example: "  asynq outbox relay --database postgres://app@db/shop --uri redis://redis:6379\n" +
			"  ASYNQ_DATABASE=mysql://app:secret@db/shop asynq outbox relay --metrics :9877",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.relay(cmd, &flags) },
	}
	addDatabase(cmd)
	f := cmd.Flags()
	f.DurationVar(&flags.poll, "poll-interval", time.Second, "how often an idle relay reads the table")
	f.IntVar(&flags.batch, "batch-size", 500, "rows to send at a time, at most 500; use less if payloads are large")
	f.DurationVar(&flags.ttl, "idempotency-ttl", 24*time.Hour, "how long Redis recognizes a row that is sent again, at least 10m; each task occupies about 230 bytes for that time")
	f.DurationVar(&flags.inbox, "inbox-retention", 30*24*time.Hour, "how long the records of handled tasks are kept; negative for ever")
	f.BoolVar(&flags.drop, "drop-duplicates", false, "delete rows whose unique task exists already, instead of keeping them as failed rows")
	f.StringVar(&flags.metrics, "metrics", "", "host:port to serve Prometheus metrics at, under /metrics")
	return cmd
}

func (a *app) relay(cmd *cobra.Command, flags *relayFlags) error {
	switch {
	case flags.poll <= 0:
		return usage("--poll-interval must be greater than 0")
	case flags.batch < 1 || flags.batch > 500:
		return usage("--batch-size must be between 1 and 500")
	case flags.ttl < 10*time.Minute:
		return usage("--idempotency-ttl must be at least 10m")
	}
	box, db, d, err := a.openOutbox(cmd)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx := cmd.Context()
	if _, err := box.Stats(ctx, db); err != nil {
		return databaseError(err)
	}
	client, err := a.client(cmd)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(a.Err, nil))
	opts := []outbox.RelayOption{
		outbox.WithPollInterval(flags.poll), outbox.WithBatchSize(flags.batch), outbox.WithIdempotencyTTL(flags.ttl),
		outbox.WithInboxRetention(flags.inbox), outbox.WithLogger(log),
	}
	if flags.drop {
		opts = append(opts, outbox.WithDropDuplicates())
	}
	if d.dialect == outbox.Postgres {
		opts = append(opts, listenTo(d.dsn, box))
	}
	relay := outbox.NewRelay(box, db, client, opts...)
	if err := relay.Start(); err != nil {
		return err
	}
	defer relay.Shutdown()
	a.printErrf("asynq: relaying tasks from %s to Redis", d.dialect)
	if flags.metrics != "" {
		return a.serveRelayMetrics(cmd, flags.metrics, relay, log)
	}
	<-ctx.Done()
	return nil
}

// serveRelayMetrics serves metrics until the command ends.
func (a *app) serveRelayMetrics(cmd *cobra.Command, addr string, relay *outbox.Relay, log *slog.Logger) error {
	inspector, err := a.inspector(cmd)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		metrics.NewOutbox(func(ctx context.Context) (metrics.OutboxStats, error) {
			s, err := relay.Stats(ctx)
			return metrics.OutboxStats(s), err
		}, metrics.OutboxOptions{}),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return metrics.Serve(cmd.Context(), metrics.Handler(inspector, registry), metrics.ServeOptions{
		Addr: addr, Log: log,
		Listening: func(addr net.Addr) { a.printErrf("asynq: serving metrics at http://%s/metrics", addr) },
	})
}

// listenTo notifies a relay of rows that any program commits to Postgres.
func listenTo(dsn string, box *outbox.Outbox) outbox.RelayOption {
	return outbox.WithListener(func(ctx context.Context, notify func()) error {
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		if _, err := conn.Exec(ctx, "LISTEN "+box.Channel()); err != nil {
			return err
		}
		notify() // of rows that were committed before
		for {
			if _, err := conn.WaitForNotification(ctx); err != nil {
				return err
			}
			notify()
		}
	})
}
