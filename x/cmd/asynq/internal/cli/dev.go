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

// devNamespace keeps the demo apart from what else there is in a Redis.
const devNamespace = "asynq-dev"

// devPorts is how many ports after the usual one are tried.
const devPorts = 50

type devFlags struct {
	listen string
	redis  string
	rate   float64
	seed   uint64
}

func newDev(a *app) *cobra.Command {
	var d devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Show all of it at once: an embedded Redis, a shop at work, and the web UI",
		Long: `dev starts a Redis inside of this program, servers and schedulers of a shop with a stream of tasks, and the web UI to look at them. It
needs nothing else, and nothing of it is left when it ends.

There are tasks that fail in many ways, are retried and archived, wait in a paused queue and in one that nobody serves, are
scheduled, unique, or in groups, tell of their progress, and have large payloads or some that are no text. Each three minutes there
is a rush. However long it runs, its queues do not grow.

With --redis it uses that Redis, under the namespace ` + devNamespace + ` (or that of --namespace), and deletes all that is its own in the end.`,
		Example: "  asynq dev\n  asynq dev --rate 60 --seed 7\n  asynq dev --redis redis://127.0.0.1:6379",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.dev(cmd, d) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&d.listen, "listen", webListen, "host:port of the loopback interface for the web UI; if it is not given, the next free port is taken")
	f.StringVar(&d.redis, "redis", "", "address of a Redis to use in place of the embedded one")
	f.Float64Var(&d.rate, "rate", demo.DefaultRate, "tasks a second, on average")
	f.Uint64Var(&d.seed, "seed", 1, "number that the mix of tasks follows from")
	return cmd
}

// maxRate is as many tasks a second as the embedded Redis can bear.
const maxRate = 500

func (a *app) dev(cmd *cobra.Command, d devFlags) (err error) {
	switch f := cmd.Flags(); {
	case f.Changed("uri") || f.Changed("cluster-addrs") || f.Changed("sentinel-addrs") || f.Changed("context"):
		return usage("dev has a Redis of its own: --redis says which other one to use")
	case d.rate <= 0 || d.rate > maxRate || d.rate != d.rate:
		return usage("--rate must be more than 0, and at most %d", maxRate)
	case !site.IsLoopback(d.listen):
		return usage("--listen %s is open to others, and a first look needs no login: listen on %s, or use asynq web", d.listen, webListen)
	}
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()

	log := slog.New(slog.NewTextHandler(a.Err, nil))
	redis, hint, end, err := a.devRedis(cmd, d.redis)
	if err != nil {
		return err
	}
	defer end()
	opts := site.Options{Addr: d.listen, Log: log}
	if !cmd.Flags().Changed("listen") {
		opts.Others = devPorts
	}
	s, err := site.Listen(ctx, opts)
	if err != nil {
		return err
	}
	work, err := demo.Start(ctx, demo.Options{Redis: redis, Rate: d.rate, Seed: d.seed, Remove: d.redis != "", Log: log})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	where := "inside of this program"
	if d.redis != "" {
		where = withoutPassword(d.redis)
	}
	ui := web.New(web.Options{RedisConnOpt: redis, Logger: log})
	a.say(`A shop is at work: about %g tasks a second, with a rush each three minutes.

  web UI    %s
  Redis     %s

Try, in another terminal:

  asynq %s dash
  asynq %s queue ls --watch
  asynq %s task ls -q critical --state retry
  asynq %s doctor

Ctrl-C ends it all.`, d.rate, s.URL(), where, hint, hint, hint, hint)
	return errors.Join(s.Serve(ctx, ui), work.Close())
}

// devRedis is the Redis for the demo, what connects the other commands to it, and what ends it.
func (a *app) devRedis(cmd *cobra.Command, uri string) (opt asynq.RedisConnOpt, hint string, end func(), err error) {
	f := cmd.Flags()
	if uri != "" {
		if err := f.Set("uri", uri); err != nil {
			return nil, "", nil, err
		}
		if !f.Changed("namespace") { // whatever the environment or a context says: that is of other queues
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

// withoutPassword is a URI for people to see.
func withoutPassword(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err == nil && u.User != nil:
		return u.Redacted()
	case strings.Contains(uri, "@"):
		return "…" // what cannot be read may have one too
	}
	return uri
}
