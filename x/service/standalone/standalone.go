// Package standalone runs a queue service from a configuration file, including hosted tasks. It
// implements the command asynq service. docs/SERVICE_CONFIG.md describes the file.
package standalone

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service"
	"github.com/asynq-go/asynq/x/service/internal/config"
	"github.com/asynq-go/asynq/x/service/internal/hosted"
)

// Issue is an error or warning at a position of a configuration file.
type Issue = config.Issue

// Errors holds all errors of a configuration file.
type Errors = config.Errors

// Check validates a configuration file without connecting to Redis, and returns warnings. The error
// is of type Errors if the contents are invalid.
func Check(path string) (warnings []Issue, err error) {
	f, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	conf := f.Hosted()
	if _, err := hosted.New(conf.Config, slog.New(slog.DiscardHandler)); err != nil {
		return nil, Errors{{File: path, Line: 1, Column: 1, Text: err.Error()}}
	}
	return f.Warnings(), nil
}

// Options configures Run.
type Options struct {
	// Path of the configuration file.
	Path string

	// Reload re-reads the file for each value. Requests and tasks are not affected; if the file is
	// invalid, the error is logged and nothing changes. If nil, the file is read once.
	Reload <-chan struct{}

	// Logger receives log messages. The default is slog.Default().
	Logger *slog.Logger

	// Listening, if set, is called with the address, and whether TLS is enabled, when the service
	// accepts connections.
	Listening func(addr net.Addr, tls bool)

	// SignInLink, if set, is called with the path and query of a new sign-in link of the web UI,
	// after Listening and for each value from NewLink. It is not called if the web UI is disabled
	// or sign-in is not required.
	SignInLink func(path string)

	// NewLink requests another sign-in link for each value. It may be nil.
	NewLink <-chan struct{}

	// Reloaded, if set, is called after each reload, with nil if the new configuration is in
	// effect.
	Reloaded func(error)
}

// Run runs a service until ctx is done, then waits for requests and hosted tasks within the
// configured timeouts. It returns nil after a complete shutdown, and Errors if the file is invalid.
func Run(ctx context.Context, opts Options) error {
	r := &runner{opts: opts, log: opts.Logger}
	if r.log == nil {
		r.log = slog.Default()
	}
	f, set, err := r.load()
	if err != nil {
		return err
	}
	cfg := f.Service()
	cfg.Logger = r.log
	listener, err := net.Listen("tcp", listenAddress(&cfg))
	if err != nil {
		set.Close()
		return fmt.Errorf("cannot listen: %w", err)
	}
	if r.service, err = service.New(cfg); err != nil {
		set.Close()
		return errors.Join(err, listener.Close())
	}
	r.host = hosted.NewHost(cfg.RedisConnOpt, r.log)
	r.fixed = fixedDigest(f)
	if err := r.host.Apply(set, hostSettings(f)); err != nil {
		return errors.Join(err, listener.Close(), r.service.Shutdown(ctx), r.host.Shutdown(ctx))
	}
	r.shutdownTimeout = f.Hosted().ShutdownTimeout
	if opts.Listening != nil {
		opts.Listening(listener.Addr(), cfg.TLS.CertFile != "")
	}
	if cfg.UI != nil && cfg.UI.Token == "" { // with a token, the log needs no link
		r.signInLink()
	}
	return r.run(ctx, listener)
}

// signInLink creates a sign-in link, if sign-in is required.
func (r *runner) signInLink() {
	if r.opts.SignInLink == nil {
		return
	}
	if path := r.service.SignInPath(); path != "" {
		r.opts.SignInLink(path)
	}
}

// listenAddress returns the address to listen on.
func listenAddress(cfg *service.Config) string {
	if cfg.Listen == "" {
		return "localhost:8600"
	}
	return cfg.Listen
}

// runner is a running service.
type runner struct {
	opts            Options
	log             *slog.Logger
	service         *service.Service
	host            *hosted.Host
	fixed           [sha256.Size]byte
	shutdownTimeout time.Duration
}

// load reads the file and creates the handlers of hosted tasks.
func (r *runner) load() (*config.File, *hosted.Set, error) {
	f, err := config.Load(r.opts.Path)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range f.Warnings() {
		r.log.Warn("configuration: "+w.Text, "file", w.File, "line", w.Line)
	}
	conf := f.Hosted()
	set, err := hosted.New(conf.Config, r.log)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", r.opts.Path, err)
	}
	return f, set, nil
}

// run runs the service and handles reloads. On shutdown, requests and hosted tasks end
// concurrently.
func (r *runner) run(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx) // also if the service stops by itself
	ended := make(chan error, 1)
	go func() {
		defer stop()
		ended <- r.service.RunOn(ctx, listener)
	}()
	reloads := r.opts.Reload
	for {
		select {
		case <-ctx.Done():
			stop()
			err := r.shutdownHost(ctx)
			return errors.Join(<-ended, err)
		case _, ok := <-reloads:
			if !ok {
				reloads = nil
				continue
			}
			err := r.reload()
			if err != nil {
				r.log.Error("reload failed: keeping the previous configuration", "error", err)
			}
			if r.opts.Reloaded != nil {
				r.opts.Reloaded(err)
			}
		case <-r.opts.NewLink:
			r.signInLink()
		}
	}
}

// shutdownHost waits for hosted tasks within the shutdown timeout.
func (r *runner) shutdownHost(ctx context.Context) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.shutdownTimeout)
	defer cancel()
	return r.host.Shutdown(last)
}

// reload changes everything or nothing: the steps that can fail come first.
func (r *runner) reload() error {
	f, set, err := r.load()
	if err != nil {
		return err
	}
	if fixedDigest(f) != r.fixed {
		r.log.Warn("changes of redis, listen, ui, metrics, limits.lease_duration and limits.attempt_log need a restart")
	}
	cfg := f.Service()
	cfg.RedisConnOpt = nil // keeps the current connection
	cfg.Logger = r.log
	if err := r.service.Reload(cfg); err != nil {
		set.Close()
		return err
	}
	r.shutdownTimeout = f.Hosted().ShutdownTimeout
	return r.host.Apply(set, hostSettings(f))
}

// fixedDigest returns a digest of the settings that a reload does not change.
func fixedDigest(f *config.File) [sha256.Size]byte {
	c := f.Service()
	var ui string
	if c.UI != nil {
		ui = fmt.Sprintf("%q %q %v %t %q", c.UI.RootPath, c.UI.PrometheusAddress, c.UI.Anonymous, c.UI.ReadOnly, c.UI.Token)
		for _, u := range c.UI.Users {
			ui += fmt.Sprintf(" %q %q %v", u.Name, u.Password, u.Role)
		}
	}
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %t %v %d %q", f.RedisDigest(), c.Listen, c.NoMetrics, c.Limits.LeaseDuration, c.Limits.AttemptLog, ui))
}

// hostSettings returns the settings of the host.
func hostSettings(f *config.File) hosted.Settings {
	conf, cfg := f.Hosted(), f.Service()
	s := hosted.Settings{
		Concurrency: conf.Concurrency, Weights: make(map[string]int), Limits: make(map[string]asynq.QueueConfig),
		AttemptLog: conf.AttemptLog, Grace: conf.Grace(),
	}
	for _, queue := range conf.Queues() {
		rule := cfg.Queues[queue]
		s.Weights[queue] = max(rule.Weight, 1)
		s.Limits[queue] = rule.Limits(cfg.Archive)
	}
	return s
}
