package cli

import (
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/metrics"
)

// redisFlags are aliases of the connection flags: the names that they have in the existing metrics
// exporter.
var redisFlags = []struct{ name, of string }{
	{"redis-addr", "uri"},
	{"redis-db", "db"},
	{"redis-username", "username"},
	{"redis-password", "password"},
}

func newExporter(a *app) *cobra.Command {
	var opts metrics.ServeOptions
	var collect metrics.CollectorOptions
	var alerts alertFlags
	var thresholds healthFlags
	var health bool
	var port, samples int
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Serve Prometheus metrics of all queues, servers and schedulers",
		Long: `exporter serves metrics of all queues, servers and schedulers under /metrics, in the Prometheus formats,
until it receives SIGINT or SIGTERM. /healthz returns 200 while Redis is reachable, and otherwise 503.
docs/METRICS.md describes the metrics.

With --task-types, it serves attempts by outcome, durations, and waiting times of each task type, as the
servers have stored them in Redis. With --flows, it counts flows by status. With --health, it serves the
problems that asynq status finds.

Each request to /metrics reads Redis. Its cost does not depend on the number of tasks. The exporter logs
once when Redis becomes unavailable, and once when it is available again.

With --alert-webhook, --alert-slack or --alert-mail-to, it also sends alerts about problems of queues,
servers and Redis. docs/ALERTS.md describes them.`,
		Example: "  asynq exporter --uri redis://host:6379 --listen 127.0.0.1:9876\n" +
			"  asynq exporter --listen-cert cert.pem --listen-key key.pem --listen-client-ca prometheus-ca.pem",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := setRedisFlags(cmd); err != nil {
				return err
			}
			if cmd.Flags().Changed("port") {
				if cmd.Flags().Changed("listen") {
					return usage("--port and --listen are mutually exclusive")
				}
				opts.Addr = net.JoinHostPort("", strconv.Itoa(port))
			}
			if collect.MemorySamples = samples; samples == 0 {
				collect.MemorySamples = -1 // 0 selects the default of the collector
			}
			if collect.TaskTypes < 0 || collect.ErrorKinds < 0 || collect.Partitions < 0 {
				return usage("--task-types, --error-kinds and --partitions must not be negative")
			}
			if collect.Flows < 0 || collect.Flows > flow.MaxCount {
				return usage("--flows must be from 0 to %d", flow.MaxCount)
			}
			if collect.Timeout <= 0 {
				return usage("--scrape-timeout must be greater than 0")
			}
			settings, err := thresholds.settings()
			if err != nil {
				return err
			}
			if health {
				collect.Health = &settings
			}
			inspector, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			opts.Log = slog.New(slog.NewTextHandler(a.Err, nil))
			collect.Log = opts.Log
			notifier, err := alerts.notifier(cmd.Flags(), opts.Log)
			if err != nil {
				return err
			}
			registry := prometheus.NewRegistry()
			registry.MustRegister(
				metrics.NewCollector(inspector, collect),
				collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
			)
			if notifier != nil {
				registry.MustRegister(alertMetrics{notifier})
			}
			opts.Listening = func(addr net.Addr) {
				scheme := "http"
				if opts.CertFile != "" {
					scheme = "https"
				}
				a.printErrf("asynq: serving metrics at %s://%s/metrics", scheme, addr)
			}
			defer alerts.run(cmd.Context(), notifier, inspector, settings, opts.Log)()
			return metrics.Serve(cmd.Context(), metrics.Handler(inspector, registry), opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&opts.Addr, "listen", ":9876", "host:port to listen on; no host means all interfaces")
	f.IntVar(&port, "port", 9876, "port to listen on, on all interfaces")
	f.StringVar(&opts.CertFile, "listen-cert", "", "PEM file of the server certificate; enables TLS")
	f.StringVar(&opts.KeyFile, "listen-key", "", "PEM file of the certificate's key")
	f.StringVar(&opts.ClientCAFile, "listen-client-ca", "", "PEM file of the CA certificates that client certificates are verified against")
	f.DurationVar(&collect.Timeout, "scrape-timeout", 5*time.Second, "timeout of Redis per scrape; use less than the scrape timeout of Prometheus")
	f.IntVar(&samples, "memory-samples", 3, "number of tasks per state sampled to estimate the memory of a queue, at most 100; 0 omits the metric")
	f.IntVar(&collect.TaskTypes, "task-types", 0, "number of task types with metrics of their attempts from the statistics in Redis, for fleets whose workers are not scraped; 0 omits these metrics")
	f.IntVar(&collect.ErrorKinds, "error-kinds", 0, "number of kinds of errors with a metric from the statistics in Redis; 0 omits it")
	f.IntVar(&collect.Partitions, "partitions", 0, "number of partitions with metrics of their held and active tasks; 0 omits these metrics")
	f.IntVar(&collect.Flows, "flows", 0, "number of flows to count by status, those that were started last, at most 100000; 0 omits the metrics of flows")
	f.BoolVar(&health, "health", false, "serve asynq_health_causes, the number of problems by kind and severity")
	thresholds.add(f, "health-settings")
	alerts.add(f)
	for _, flag := range redisFlags {
		f.String(flag.name, "", "the same as --"+flag.of)
	}
	return cmd
}

// setRedisFlags sets the connection flags from their aliases.
func setRedisFlags(cmd *cobra.Command) error {
	f := cmd.Flags()
	for _, flag := range redisFlags {
		if !f.Changed(flag.name) {
			continue
		}
		if f.Changed(flag.of) {
			return usage("--%s and --%s are aliases: use only one of them", flag.name, flag.of)
		}
		if err := f.Set(flag.of, f.Lookup(flag.name).Value.String()); err != nil {
			return usage("%w", flagError(flag.name, err))
		}
	}
	return nil
}
