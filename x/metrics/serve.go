package metrics

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/internal/reload"
)

// healthTimeout limits how long /healthz waits for Redis.
const healthTimeout = 2 * time.Second

// Handler serves the metrics of the gatherer under /metrics, and a health check under /healthz:
// status 200 if Redis replies to the inspector within 2 s, 503 otherwise. It leaves out metrics
// that the gatherer fails to return.
func Handler(inspector *asynq.Inspector, gatherer prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if _, err := inspector.WithContext(ctx).Queues(); err != nil {
			http.Error(w, "Redis is unreachable", http.StatusServiceUnavailable) // the error may contain the address of Redis
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

// ServeOptions configures Serve.
type ServeOptions struct {
	// Addr is the host:port to listen on. Without a host, it listens on all interfaces; port 0
	// means a free port.
	Addr string

	// CertFile and KeyFile are PEM files with a certificate and its key. Together they enable TLS.
	// They and ClientCAFile are read again after they changed.
	CertFile, KeyFile string

	// ClientCAFile is a PEM file with certificate authorities. If set, clients must present a
	// certificate signed by one of them. It requires TLS.
	ClientCAFile string

	// ShutdownTimeout limits how long active requests may continue after ctx ended. The default is
	// 5 s.
	ShutdownTimeout time.Duration

	// Log receives connection errors. If nil, slog.Default() is used.
	Log *slog.Logger

	// Listening is called with the address when the server accepts connections, if it is set.
	Listening func(addr net.Addr)
}

// Serve serves the handler until ctx ends, and then waits for active requests. It returns nil after
// a complete shutdown.
func Serve(ctx context.Context, handler http.Handler, opts ServeOptions) error {
	config, err := opts.tls()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", opts.Addr)
	if err != nil {
		return fmt.Errorf("metrics: listen: %w", err)
	}
	if opts.Listening != nil {
		opts.Listening(l.Addr())
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	log := opts.Log
	if log == nil {
		log = slog.Default()
	}
	srv := &http.Server{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		Handler:  handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		WriteTimeout: time.Minute, MaxHeaderBytes: 1 << 16,
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("metrics: serve: %w", err)
	case <-ctx.Done():
	}
	timeout := opts.ShutdownTimeout
	if timeout <= 0 {
		timeout = 5 * time.Second
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := srv.Shutdown(last); err != nil {
		return errors.Join(fmt.Errorf("metrics: shutdown incomplete: %w", err), srv.Close())
	}
	return nil
}

// tls returns the TLS configuration, or nil without certificates.
func (opts *ServeOptions) tls() (*tls.Config, error) {
	if opts.CertFile == "" && opts.KeyFile == "" {
		if opts.ClientCAFile != "" {
			return nil, errors.New("metrics: client certificates need TLS: set a certificate and its key")
		}
		return nil, nil
	}
	config, err := reload.TLS(reload.Certificate{
		CertFile: opts.CertFile, KeyFile: opts.KeyFile, ClientCAFile: opts.ClientCAFile, Protocols: []string{"http/1.1"},
	}, opts.Log)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return config, nil
}
