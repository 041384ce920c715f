package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/demo"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/site"
	"github.com/asynq-go/asynq/x/web"
)

// devNamespace separates the demo from other data in Redis.
const devNamespace = "asynq-dev"

// devPorts is how many ports after the default one are tried.
const devPorts = 50

type devFlags struct {
	listen string
	token  string
	redis  string
	rate   float64
	seed   uint64
}

func newDev(a *app) *cobra.Command {
	var d devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a demo: an embedded Redis, a busy shop, and the web UI",
		Long: `dev runs a demo: an embedded Redis, the servers and schedulers of a shop with a stream of tasks, and the
web UI. It has no other requirements, and deletes its data when it stops.

The demo has tasks that fail in many ways, are retried and archived, wait in a paused queue or in a
queue without a server, are scheduled, unique or grouped, report progress, and have large or binary
payloads. Every 12 seconds a flow starts, and every three minutes there is a burst. The queues stay
small however long the demo runs.

Every user of this machine can view the web UI. To make changes, open the sign-in link that dev prints.
The link signs in one browser, once; SIGUSR1 prints another one.

With --redis, the demo uses another Redis, under the namespace ` + devNamespace + ` (or the one of --namespace),
and deletes its data from there when it stops. What it leaves of flows expires within ten minutes.`,
		Example: "  asynq dev\n  asynq dev --rate 60 --seed 7\n  asynq dev --redis redis://127.0.0.1:6379",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.dev(cmd, d) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&d.listen, "listen", webListen, "host:port on the loopback interface for the web UI; if omitted, dev uses the first free port from 8080")
	f.StringVar(&d.token, "token", "", "token with which scripts on this machine can make changes through the web UI, at least 16 characters")
	f.StringVar(&d.redis, "redis", "", "address of a Redis to use instead of the embedded one")
	f.Float64Var(&d.rate, "rate", demo.DefaultRate, "average number of tasks per second")
	f.Uint64Var(&d.seed, "seed", 1, "seed of the random mix of tasks")
	return cmd
}

// maxRate is the maximum rate that the embedded Redis sustains, in tasks per second.
const maxRate = 500

func (a *app) dev(cmd *cobra.Command, d devFlags) (err error) {
	switch f := cmd.Flags(); {
	case f.Changed("uri") || f.Changed("cluster-addrs") || f.Changed("sentinel-addrs") || f.Changed("context"):
		return usage("dev uses an embedded Redis: use --redis to select another one")
	case d.rate <= 0 || d.rate > maxRate || d.rate != d.rate:
		return usage("--rate must be greater than 0 and at most %d", maxRate)
	case !site.IsLoopback(d.listen):
		return usage("--listen %s is not a loopback address, and the demo has no login: use %s, or asynq web", d.listen, webListen)
	}
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()

	log := slog.New(slog.NewTextHandler(a.Err, nil))
	redis, hint, end, err := a.devRedis(cmd, d.redis)
	if err != nil {
		return err
	}
	defer end()
	options := web.Options{RedisConnOpt: redis, Logger: log, Token: d.token}
	if err := options.Check(); err != nil {
		return usage("%v", err)
	}
	opts := site.Options{Addr: d.listen, Log: log}
	if !cmd.Flags().Changed("listen") {
		opts.ExtraPorts = devPorts
	}
	s, err := site.Listen(ctx, opts)
	if err != nil {
		return err
	}
	work, err := demo.Start(ctx, demo.Options{Redis: redis, Rate: d.rate, Seed: d.seed, Remove: d.redis != "", Log: log})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	where := "embedded in this process"
	if d.redis != "" {
		where = withoutPassword(d.redis)
	}
	ui := web.New(options)
	link := func() string { return s.Link(ui.SignInPath()) }
	defer a.signInLinks(link)()
	a.printErrf(`The demo is running: about %g tasks per second, with a burst every three minutes.

  web UI    %s
            %s
  Redis     %s

Try, in another terminal:

  asynq %s dash
  asynq %s queue ls --watch
  asynq %s task ls -q critical --state retry
  asynq %s doctor

Press Ctrl-C to stop the demo and delete its data.`, d.rate, link(), onceOnly(), where, hint, hint, hint, hint)
	return errors.Join(s.Serve(ctx, ui), work.Close())
}

// devRedis returns the Redis of the demo, the flags that connect other commands to it, and a
// function that stops it.
func (a *app) devRedis(cmd *cobra.Command, uri string) (opt asynq.RedisConnOpt, hint string, end func(), err error) {
	f := cmd.Flags()
	if uri != "" {
		if err := f.Set("uri", uri); err != nil {
			return nil, "", nil, err
		}
		if !f.Changed("namespace") { // the namespace of the environment or a context belongs to other queues
			if err := f.Set("namespace", devNamespace); err != nil {
				return nil, "", nil, err
			}
		}
		if opt, err = a.connOpt(cmd); err != nil {
			return nil, "", nil, err
		}
		if err := a.shared.Ping(cmd.Context()).Err(); err != nil {
			return nil, "", nil, fmt.Errorf("--redis: %w", err)
		}
		return opt, "-u " + withoutPassword(uri) + " --namespace " + f.Lookup("namespace").Value.String(), func() {}, nil
	}
	namespace := f.Lookup("namespace").Value.String()
	broker, err := demo.StartBroker()
	if err != nil {
		return nil, "", nil, err
	}
	if opt, err = inNamespace(asynq.RedisClientOpt{Addr: broker.Addr()}, namespace); err != nil {
		broker.Close()
		return nil, "", nil, err
	}
	hint = "-u redis://" + broker.Addr()
	if namespace != "" {
		hint += " --namespace " + namespace
	}
	return opt, hint, broker.Close, nil
}

// withoutPassword returns a URI without its password.
func withoutPassword(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err == nil && u.User != nil:
		return u.Redacted()
	case strings.Contains(uri, "@"):
		return "…" // an invalid URI may contain a password too
	}
	return uri
}
