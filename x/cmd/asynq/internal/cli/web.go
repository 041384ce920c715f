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
	"github.com/asynq-go/asynq/x/internal/reload"
	"github.com/asynq-go/asynq/x/metrics"
	"github.com/asynq-go/asynq/x/web"
)

const webListen = "127.0.0.1:8080"

// webFlags are the flags of the web UI.
type webFlags struct {
	site    site.Options
	ui      web.Options
	port    int
	proxy   web.Proxy
	role    string // of users without a role header
	anyone  string // role of anonymous users
	users   []string
	file    string
	metrics bool
	health  healthFlags

	openid    openidFlags
	alerts    alertFlags
	reload    *reload.Files // of the users file; nil without it
	flagUsers []web.User    // of --user, if there is a users file

	payloadLength, resultLength int
}

func newWeb(a *app) *cobra.Command {
	var w webFlags
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Serve the web UI",
		Long: `web serves the web UI and its HTTP API until it receives SIGINT or SIGTERM. docs/WEB.md describes access,
roles and proxies.

By default it listens on the loopback interface, and every user of this machine may view. To make
changes, open the sign-in link that web prints. The link signs in one browser, once; SIGUSR1 prints
another one. Scripts send the token of --token as "Authorization: Bearer TOKEN".

To listen on another interface, configure access with --user, --users-file, --oidc-issuer,
--trusted-proxy with --user-header, or --anonymous. There are no sign-in links then.

Each flag is also an environment variable: ASYNQ_WEB_LISTEN for --listen. The flags and variables of
the existing web UI work too: --redis-addr and REDIS_ADDR.

With --alert-webhook, --alert-slack or --alert-mail-to, it also sends alerts about problems of queues,
servers and Redis. docs/ALERTS.md describes them.

/healthz returns 200 without a login. The audit log of all changes goes to standard error.`,
		Example: "  asynq web --uri redis://host:6379\n" +
			"  asynq web --listen :8443 --listen-cert cert.pem --listen-key key.pem --users-file users\n" +
			"  asynq web --root-path /queues --trusted-proxy 127.0.0.1 --user-header X-Forwarded-User --role-header X-Forwarded-Role",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.web(cmd, &w) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&w.site.Addr, "listen", webListen, "host:port to listen on; no host means all interfaces")
	f.StringVar(&w.ui.RootPath, "root-path", "", "path prefix of the web UI, such as /queues")
	f.BoolVar(&w.ui.ReadOnly, "read-only", false, "reject all changes, for all users")
	f.StringArrayVar(&w.users, "user", nil, "user as NAME:ROLE:PASSWORD; repeatable. ROLE is viewer, operator or admin, PASSWORD may be a bcrypt hash. Other users of this machine can see it in the process list: prefer --users-file")
	f.StringVar(&w.file, "users-file", "", "file with one user per line, in the format of --user; # starts a comment. Changes take effect within seconds")
	f.DurationVar(&w.ui.SessionIdle, "session-idle", 8*time.Hour, "how long a browser stays logged in without a request")
	f.DurationVar(&w.ui.SessionMax, "session-max", 24*time.Hour, "how long a browser stays logged in altogether")
	f.StringVar(&w.ui.AuditFile, "audit-file", "", "file to which changes, logins and log-outs are appended as JSON lines; the audit page reads it at startup")
	w.openid.add(f)
	f.StringSliceVar(&w.proxy.From, "trusted-proxy", nil, "address or network (10.1.0.0/16) of a proxy that authenticates users; repeatable")
	f.StringVar(&w.proxy.UserHeader, "user-header", "", "header with the user name set by the proxy, such as X-Forwarded-User")
	f.StringVar(&w.proxy.RoleHeader, "role-header", "", "header with the user's role set by the proxy")
	f.StringVar(&w.role, "proxy-role", "", "role of users without a role header (default none)")
	f.StringVar(&w.ui.Token, "token", "", "token with which scripts on this machine can make changes, at least 16 characters. Other users of this machine can see it in the process list: prefer ASYNQ_WEB_TOKEN")
	f.StringVar(&w.anyone, "anonymous", "", "role of users who are not logged in, from any address (default none)")
	f.StringSliceVar(&w.ui.Origins, "allow-origin", nil, "origin (https://tools.example.com) whose pages may call the API; repeatable")
	f.StringVar(&w.site.CertFile, "listen-cert", "", "PEM file of the server certificate; enables TLS. It and the key are read again after they changed")
	f.StringVar(&w.site.KeyFile, "listen-key", "", "PEM file of the certificate's key")
	f.DurationVar(&w.ui.PollInterval, "poll-interval", 2*time.Second, "how often Redis is read while a page is open")
	w.health.add(f, "health-settings")
	f.BoolVar(&w.metrics, "enable-metrics-exporter", false, "serve Prometheus metrics under /metrics to users who may view (see docs/METRICS.md)")
	f.StringVar(&w.ui.PrometheusAddress, "prometheus-addr", "", "URL of a Prometheus that scrapes these metrics")
	w.alerts.add(f)
	addAliasFlags(f, &w)
	return cmd
}

// web runs the web UI.
func (a *app) web(cmd *cobra.Command, w *webFlags) error {
	if err := a.setWebEnv(cmd); err != nil {
		return err
	}
	if err := setAliasFlags(cmd); err != nil {
		return err
	}
	if cmd.Flags().Changed("port") {
		if cmd.Flags().Changed("listen") {
			return usage("--port and --listen are mutually exclusive")
		}
		w.site.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(w.port))
	}
	if err := w.access(); err != nil {
		return err
	}
	provider, err := w.openid.provider(w.ui.RootPath)
	if err != nil {
		return err
	}
	if provider != nil {
		w.ui.Provider = provider
	}
	if !site.IsLoopback(w.site.Addr) && !w.guarded() {
		return usage("--listen %s is open to other machines, but access is not configured. Use one of\n"+
			"  --users-file FILE or --user NAME:ROLE:PASSWORD   users log in\n"+
			"  --oidc-issuer URL                                users log in at an OpenID Connect provider\n"+
			"  --trusted-proxy ADDRESS --user-header NAME       a proxy authenticates users\n"+
			"  --anonymous viewer                               everyone may view\n"+
			"or listen on %s, which only this machine can reach", w.site.Addr, webListen)
	}
	opt, err := a.connOpt(cmd)
	if err != nil {
		return err
	}
	w.ui.RedisConnOpt = opt
	w.ui.ReadOnly = w.ui.ReadOnly || a.config.ReadOnly()
	if !w.ui.ReadOnly {
		if do, err := a.confirmContext(cmd, "serve the web UI, with changes,"); !do {
			return err
		}
	}
	w.ui.Logger = slog.New(slog.NewTextHandler(a.Err, nil))
	w.formatters()
	if w.ui.Health, err = w.health.settings(); err != nil {
		return err
	}
	inspector, err := a.inspector(cmd)
	if err != nil {
		return err
	}
	notifier, err := w.alerts.notifier(cmd.Flags(), w.ui.Logger)
	if err != nil {
		return err
	}
	if w.metrics {
		registry := prometheus.NewRegistry()
		registry.MustRegister(
			metrics.NewCollector(inspector, metrics.CollectorOptions{Timeout: 5 * time.Second}),
			collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		)
		if notifier != nil {
			registry.MustRegister(alertMetrics{notifier})
		}
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
	ui := web.New(w.ui)
	defer w.alerts.run(cmd.Context(), notifier, inspector, w.ui.Health, w.ui.Logger)()
	switch path := ui.SignInPath(); {
	case path == "":
		a.printErrf("asynq: the web UI is at %s", s.URL())
		if provider != nil {
			discover(cmd.Context(), provider, w.ui.Logger)
		}
		if w.reload != nil {
			return s.Serve(cmd.Context(), &reloadingUI{ui, w})
		}
		return s.Serve(cmd.Context(), ui)
	case w.ui.Token != "":
		a.printErrf("asynq: the web UI is at %s\nTo make changes, sign in with the configured token: %s?token=TOKEN", s.URL(), s.URL())
	default:
		a.printErrf("asynq: the web UI is at %s\n%s", s.Link(path), onceOnly())
	}
	defer a.signInLinks(func() string { return s.Link(ui.SignInPath()) })()
	return s.Serve(cmd.Context(), ui)
}
