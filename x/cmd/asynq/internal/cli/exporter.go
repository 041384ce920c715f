package cli

import (
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/x/metrics"
)

// redisFlags are the names that a flag of the connection also has here, as in the exporter that people may know.
var redisFlags = []struct{ name, of string }{
	{"redis-addr", "uri"},
	{"redis-db", "db"},
	{"redis-username", "username"},
	{"redis-password", "password"},
}

func newExporter(a *app) *cobra.Command {
	var opts metrics.ServeOptions
	var collect metrics.CollectorOptions
	var port int
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Serve metrics of all queues, servers and schedulers to Prometheus",
		Long: `exporter serves metrics of all queues, servers and schedulers under /metrics, in the formats that Prometheus reads, until it gets a
signal. /healthz answers 200 while Redis answers, and 503 while it does not. docs/METRICS.md tells what each metric means.

Each request to /metrics looks at Redis: what that costs does not depend on the number of tasks.`,
		Example: "  asynq exporter --uri redis://host:6379 --listen 127.0.0.1:9876\n" +
			"  asynq exporter --listen-cert cert.pem --listen-key key.pem --listen-client-ca prometheus-ca.pem",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := setRedisFlags(cmd); err != nil {
				return err
			}
			if cmd.Flags().Changed("port") {
				if cmd.Flags().Changed("listen") {
					return usage("--port and --listen are two ways to say the same: leave one out")
				}
				opts.Addr = net.JoinHostPort("", strconv.Itoa(port))
			}
			if collect.Timeout <= 0 {
				return usage("--scrape-timeout must be more than 0")
			}
			inspector, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			registry := prometheus.NewRegistry()
			registry.MustRegister(
				metrics.NewCollector(inspector, collect),
				collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
			)
			opts.Log = slog.New(slog.NewTextHandler(a.Err, nil))
			opts.Listening = func(addr net.Addr) {
				scheme := "http"
				if opts.CertFile != "" {
					scheme = "https"
				}
				a.say("asynq: serving metrics at %s://%s/metrics", scheme, addr)
			}
			return metrics.Serve(cmd.Context(), metrics.Handler(inspector, registry), opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&opts.Addr, "listen", ":9876", "host:port to listen on; no host means all interfaces")
	f.IntVar(&port, "port", 9876, "port to listen on, on all interfaces")
	f.StringVar(&opts.CertFile, "listen-cert", "", "PEM file of the certificate to serve with; turns TLS on")
	f.StringVar(&opts.KeyFile, "listen-key", "", "PEM file of the certificate's key")
	f.StringVar(&opts.ClientCAFile, "listen-client-ca", "", "PEM file of the authorities that clients must have a certificate of")
	f.DurationVar(&collect.Timeout, "scrape-timeout", 5*time.Second, "how long a scrape waits for Redis; less than Prometheus waits")
	f.IntVar(&collect.MemorySamples, "memory-samples", 0, "tasks of each state to estimate the memory of a queue from; 0 leaves it out")
	for _, flag := range redisFlags {
		f.String(flag.name, "", "the same as --"+flag.of)
	}
	return cmd
}

// setRedisFlags gives the flags of the connection the values of their other names.
func setRedisFlags(cmd *cobra.Command) error {
	f := cmd.Flags()
	for _, flag := range redisFlags {
		if !f.Changed(flag.name) {
			continue
		}
		if f.Changed(flag.of) {
			return usage("--%s and --%s are two names of one flag: leave one out", flag.name, flag.of)
		}
		if err := f.Set(flag.of, f.Lookup(flag.name).Value.String()); err != nil {
			return usage("--%s: %v", flag.name, err)
		}
	}
	return nil
}
