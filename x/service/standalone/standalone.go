// Package standalone runs a queue service by a configuration file, with the tasks that it hosts. It is what the command asynq service
// does; docs/SERVICE_CONFIG.md tells what is in the file.
package standalone

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/asynq-go/asynq/x/service"
	"github.com/asynq-go/asynq/x/service/internal/config"
	"github.com/asynq-go/asynq/x/service/internal/hosted"
)

// Issue is something about a place in a configuration file.
type Issue = config.Issue

// Errors are all that is wrong with what is in a configuration file.
type Errors = config.Errors

// Check reads a configuration file without running anything, and returns what is probably not meant. If there is something wrong with
// what is in the file, the error is an Errors. Redis is not asked.
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

// Options say how a service runs.
type Options struct {
	// Path of the configuration file.
	Path string

	// Reload has the file read again for each value. What is at work goes on; a file with errors changes nothing, and is logged. Nil: never.
	Reload <-chan struct{}

	// Logger gets what happens. Nil: slog.Default().
	Logger *slog.Logger

	// Listening, if set, is told the address when connections can be made, and whether they are made with TLS.
	Listening func(addr net.Addr, tls bool)

	// Reloaded, if set, is told after each reload whether it did: nil if the new configuration is at work.
	Reloaded func(error)
}

// Run runs a service until ctx ends, and then lets requests and hosted tasks at work come to an end, as long as the configuration gives
// them. The error is nil after an orderly end, and an Errors if the file is wrong.
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
	r.fixed = fixedOf(f)
	if err := r.host.Apply(set, settingsOf(f)); err != nil {
		return errors.Join(err, listener.Close(), r.service.Shutdown(ctx), r.host.Shutdown(ctx))
	}
	r.patience = f.Hosted().ShutdownTimeout
	if opts.Listening != nil {
		opts.Listening(listener.Addr(), cfg.TLS.CertFile != "")
	}
	return r.run(ctx, listener)
}

// listenAddress is where a service listens.
func listenAddress(cfg *service.Config) string {
	if cfg.Listen == "" {
		return "localhost:8600"
	}
	return cfg.Listen
}

// runner is a service at work.
type runner struct {
	opts     Options
	log      *slog.Logger
	service  *service.Service
	host     *hosted.Host
	fixed    [sha256.Size]byte
	patience time.Duration
}

// load reads the file, and makes the handlers of its hosted tasks.
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

// run lets the service work, and reloads it when asked to. Requests and hosted tasks come to their ends side by side.
func (r *runner) run(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx) // also where the service ends by itself
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
			err := r.endHosted(ctx)
			return errors.Join(<-ended, err)
		case _, ok := <-reloads:
			if !ok {
				reloads = nil
				continue
			}
			err := r.reload()
			if err != nil {
				r.log.Error("the configuration stays as it was", "error", err)
			}
			if r.opts.Reloaded != nil {
				r.opts.Reloaded(err)
			}
		}
	}
}

// endHosted lets hosted tasks come to their ends, for as long as there is patience.
func (r *runner) endHosted(ctx context.Context) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.patience)
	defer cancel()
	return r.host.Shutdown(last)
}

// reload changes all or nothing: the steps that can fail come first.
func (r *runner) reload() error {
	f, set, err := r.load()
	if err != nil {
		return err
	}
	if fixedOf(f) != r.fixed {
		r.log.Warn("redis, listen, ui, metrics and limits.lease_duration change only when the service starts anew: they stay as they were")
	}
	cfg := f.Service()
	cfg.RedisConnOpt = nil // the one at work
	cfg.Logger = r.log
	if err := r.service.Reload(cfg); err != nil {
		set.Close()
		return err
	}
	r.patience = f.Hosted().ShutdownTimeout
	return r.host.Apply(set, settingsOf(f))
}

// fixedOf is a digest of what a reload does not change.
func fixedOf(f *config.File) [sha256.Size]byte {
	c := f.Service()
	var ui string
	if c.UI != nil {
		ui = fmt.Sprintf("%q %q %v %t", c.UI.RootPath, c.UI.PrometheusAddress, c.UI.Anonymous, c.UI.ReadOnly)
		for _, u := range c.UI.Users {
			ui += fmt.Sprintf(" %q %q %v", u.Name, u.Password, u.Role)
		}
	}
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %t %v %q", f.RedisDigest(), c.Listen, c.NoMetrics, c.Limits.LeaseDuration, ui))
}

// settingsOf are how hosted tasks are taken.
func settingsOf(f *config.File) hosted.Settings {
	conf, rules := f.Hosted(), f.Service().Queues
	s := hosted.Settings{Concurrency: conf.Concurrency, Weights: make(map[string]int), Limits: make(map[string]int), Grace: conf.Grace()}
	for _, queue := range conf.Queues() {
		rule := rules[queue]
		s.Weights[queue] = max(rule.Weight, 1)
		if limit := rule.Limit(); limit != 0 {
			s.Limits[queue] = limit
		}
	}
	return s
}
