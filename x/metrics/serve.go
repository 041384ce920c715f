package metrics

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/asynq-go/asynq"
)

// healthTimeout is how long /healthz waits for Redis.
const healthTimeout = 2 * time.Second

// Handler serves the metrics of the gatherer under /metrics, and under /healthz whether Redis answers the inspector within 2 s: 200 if
// it does, 503 if not. What a gatherer cannot tell it leaves out.
func Handler(inspector *asynq.Inspector, gatherer prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if _, err := inspector.WithContext(ctx).Queues(); err != nil {
			http.Error(w, "Redis does not answer", http.StatusServiceUnavailable) // the error may tell where Redis is
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

// ServeOptions say where and how Serve listens.
type ServeOptions struct {
	// Addr is host:port to listen on; no host means all interfaces, port 0 a free one.
	Addr string

	// CertFile and KeyFile are PEM files of a certificate and its key. Together they turn TLS on. They are read once.
	CertFile, KeyFile string

	// ClientCAFile is a PEM file of the authorities of which one must have signed the certificate that a client shows. Needs TLS.
	ClientCAFile string

	// ShutdownTimeout is how long requests at work may go on after ctx ended. Default: 5 s.
	ShutdownTimeout time.Duration

	// Log is told of connections that fail. Default: slog.Default().
	Log *slog.Logger

	// Listening, if set, is told the address when connections can be made.
	Listening func(addr net.Addr)
}

// Serve serves the handler until ctx ends, and then lets requests at work end. The error is nil after an orderly end.
func Serve(ctx context.Context, handler http.Handler, opts ServeOptions) error {
	config, err := opts.tls()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", opts.Addr)
	if err != nil {
		return fmt.Errorf("metrics: cannot listen: %w", err)
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
		return fmt.Errorf("metrics: serving: %w", err)
	case <-ctx.Done():
	}
	timeout := opts.ShutdownTimeout
	if timeout <= 0 {
		timeout = 5 * time.Second
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := srv.Shutdown(last); err != nil {
		return errors.Join(fmt.Errorf("metrics: requests were cut off: %w", err), srv.Close())
	}
	return nil
}

// tls reads the certificates; nil without any.
func (opts *ServeOptions) tls() (*tls.Config, error) {
	if opts.CertFile == "" && opts.KeyFile == "" {
		if opts.ClientCAFile != "" {
			return nil, errors.New("metrics: client certificates need TLS: give a certificate and its key as well")
		}
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(opts.CertFile, opts.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("metrics: the certificate and its key: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if opts.ClientCAFile != "" {
		pem, err := os.ReadFile(opts.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("metrics: the authorities of clients: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("metrics: there is no certificate in %s", opts.ClientCAFile)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}
