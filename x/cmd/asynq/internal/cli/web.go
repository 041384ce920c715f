package cli

import (
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/site"
	"github.com/asynq-go/asynq/x/metrics"
	"github.com/asynq-go/asynq/x/web"
)

const webListen = "127.0.0.1:8080"

// webFlags is what the command line says of the web UI.
type webFlags struct {
	site    site.Options
	ui      web.Options
	port    int
	proxy   web.Proxy
	role    string // of those whom the proxy gives none
	anyone  string // role of
	users   []string
	file    string
	metrics bool

	payloadLength, resultLength int
}

func newWeb(a *app) *cobra.Command {
	var w webFlags
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Serve the web UI",
		Long: `web serves the web UI and its HTTP API until it gets a signal. docs/WEB.md tells of access, roles and proxies.

It listens on the loopback interface, where whoever is on this machine may do everything. To listen elsewhere, say first who may
do what: --user, --users-file, --trusted-proxy with --user-header, or --anonymous.

Each of its flags can be given as an environment variable, ASYNQ_WEB_LISTEN for --listen. The flags of the existing web UI are
understood too, and their variables (REDIS_ADDR for --redis-addr).

/healthz answers 200 to everybody. The log of all changes goes to standard error.`,
		Example: "  asynq web --uri redis://host:6379\n" +
			"  asynq web --listen :8443 --listen-cert cert.pem --listen-key key.pem --users-file users\n" +
			"  asynq web --root-path /queues --trusted-proxy 127.0.0.1 --user-header X-Forwarded-User --role-header X-Forwarded-Role",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.web(cmd, &w) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&w.site.Addr, "listen", webListen, "host:port to listen on; no host means all interfaces")
	f.StringVar(&w.ui.RootPath, "root-path", "", "path that the web UI is served under, such as /queues")
	f.BoolVar(&w.ui.ReadOnly, "read-only", false, "refuse every change, to everybody")
	f.StringArrayVar(&w.users, "user", nil, "somebody who may log in, as NAME:ROLE:PASSWORD; may be repeated. A role is viewer, operator or admin, a password may be a bcrypt hash; others see it in the list of processes: better use --users-file")
	f.StringVar(&w.file, "users-file", "", "file with such users, one a line; # begins a comment")
	f.StringSliceVar(&w.proxy.From, "trusted-proxy", nil, "address or network (10.1.0.0/16) of a proxy that is believed who the user is; may be repeated")
	f.StringVar(&w.proxy.UserHeader, "user-header", "", "header in which the proxy names the user, such as X-Forwarded-User")
	f.StringVar(&w.proxy.RoleHeader, "role-header", "", "header in which the proxy names the user's role")
	f.StringVar(&w.role, "proxy-role", "", "role of users to whom the proxy gives none (default none)")
	f.StringVar(&w.anyone, "anonymous", "", "role of those who have not logged in, from wherever they come (default none)")
	f.StringSliceVar(&w.ui.Origins, "allow-origin", nil, "origin (https://tools.example.com) whose pages may call the API; may be repeated")
	f.StringVar(&w.site.CertFile, "listen-cert", "", "PEM file of the certificate to serve with; turns TLS on")
	f.StringVar(&w.site.KeyFile, "listen-key", "", "PEM file of the certificate's key")
	f.DurationVar(&w.ui.PollInterval, "poll-interval", 2*time.Second, "how often Redis is asked while somebody looks")
	f.BoolVar(&w.metrics, "enable-metrics-exporter", false, "serve metrics for Prometheus under /metrics, to those who may look: see docs/METRICS.md")
	f.StringVar(&w.ui.PrometheusAddress, "prometheus-addr", "", "URL of a Prometheus that scrapes these metrics")
	addKnownFlags(f, &w)
	return cmd
}

// web serves what the flags say.
func (a *app) web(cmd *cobra.Command, w *webFlags) error {
	if err := a.setWebEnv(cmd); err != nil {
		return err
	}
	if err := setKnownFlags(cmd); err != nil {
		return err
	}
	if cmd.Flags().Changed("port") {
		if cmd.Flags().Changed("listen") {
			return usage("--port and --listen are two ways to say the same: leave one out")
		}
		w.site.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(w.port))
	}
	if err := w.access(); err != nil {
		return err
	}
	if !site.IsLoopback(w.site.Addr) && !w.guarded() {
		return usage("--listen %s is open to others, and nobody has said who may do what. Say one of\n"+
			"  --users-file FILE or --user NAME:ROLE:PASSWORD   who may log in\n"+
			"  --trusted-proxy ADDRESS --user-header NAME       a proxy tells who the user is\n"+
			"  --anonymous viewer                               everybody may look\n"+
			"or listen on %s, where only this machine gets in", w.site.Addr, webListen)
	}
	opt, err := a.connOpt(cmd)
	if err != nil {
		return err
	}
	w.ui.RedisConnOpt = opt
	w.ui.Logger = slog.New(slog.NewTextHandler(a.Err, nil))
	w.formatters()
	if w.metrics {
		inspector, err := a.inspector(cmd)
		if err != nil {
			return err
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(
			metrics.NewCollector(inspector, metrics.CollectorOptions{Timeout: 5 * time.Second}),
			collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		)
		w.ui.Metrics = metrics.Handler(inspector, registry)
	}
	if err := w.ui.Check(); err != nil {
		return usage("%v", err)
	}
	w.site.RootPath, w.site.Log = w.ui.RootPath, w.ui.Logger
	s, err := site.Listen(cmd.Context(), w.site)
	if err != nil {
		return err
	}
	a.say("asynq: the web UI is at %s", s.URL())
	return s.Serve(cmd.Context(), web.New(w.ui))
}
