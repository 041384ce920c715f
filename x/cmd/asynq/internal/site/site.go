// Package site serves the web UI over HTTP, with a graceful shutdown.
package site

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/asynq-go/asynq/x/internal/reload"
)

const (
	// shutdownTimeout is how long active requests may continue after shutdown begins.
	shutdownTimeout = 5 * time.Second
	// bodyTime is the time limit for receiving a request body. Requests as a whole have no limit,
	// since event streams have none.
	bodyTime = time.Minute
)

// UI is the web UI. Close ends its event streams.
type UI interface {
	http.Handler
	io.Closer
}

// Options configures a Site.
type Options struct {
	// Addr is the address to listen on, host:port.
	Addr string

	// ExtraPorts is how many of the following ports to try if the port is in use.
	ExtraPorts int

	// CertFile and KeyFile are PEM files of a certificate and its key, and enable TLS.
	// They are read again after they changed.
	CertFile, KeyFile string

	// RootPath is the path of the UI. The root of the host redirects to it.
	RootPath string

	Log *slog.Logger
}

// Site is a listener for the web UI. Serve starts serving.
type Site struct {
	opts Options
	l    net.Listener
	at   string // scheme and host
}

// Listen opens the listener.
func Listen(ctx context.Context, opts Options) (*Site, error) {
	s := &Site{opts: opts}
	var config *tls.Config
	var err error
	scheme := "http"
	if opts.CertFile != "" || opts.KeyFile != "" {
		if config, err = reload.TLS(reload.Certificate{CertFile: opts.CertFile, KeyFile: opts.KeyFile, Protocols: []string{"h2", "http/1.1"}}, opts.Log); err != nil {
			return nil, err
		}
		scheme = "https"
	}
	if s.l, err = listen(ctx, opts.Addr, opts.ExtraPorts); err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	s.at = scheme + "://" + DisplayAddr(s.l.Addr())
	if config != nil {
		s.l = tls.NewListener(s.l, config)
	}
	return s, nil
}

// URL returns the URL of the UI for a browser on this machine.
func (s *Site) URL() string { return s.Link(s.opts.RootPath + "/") }

// Link returns the URL of a path and query.
func (s *Site) Link(path string) string { return s.at + path }

// Close closes the listener. Call it if Serve is not called.
func (s *Site) Close() error { return s.l.Close() }

// Serve serves the UI until ctx ends. Then it closes the UI and waits for active requests. It
// returns nil after a graceful shutdown.
func (s *Site) Serve(ctx context.Context, ui UI) error {
	srv := &http.Server{
		Handler: s.routes(ui), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16,
		ErrorLog: slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(s.l) }()
	select {
	case err := <-ended:
		return errors.Join(fmt.Errorf("serving: %w", err), ui.Close())
	case <-ctx.Done():
	}
	s.opts.Log.Info("web UI stopping")
	err := ui.Close() // first, since event streams last until the browser closes them
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if cut := srv.Shutdown(last); cut != nil {
		err = errors.Join(err, fmt.Errorf("requests were interrupted: %w", cut), srv.Close())
	}
	if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// routes adds the routes outside the UI, which need no login: /healthz, which reveals nothing about
// the queues.
func (s *Site) routes(ui http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		fmt.Fprintln(w, "ok")
	})
	if root := s.opts.RootPath; root != "" {
		mux.Handle("GET /{$}", http.RedirectHandler(root+"/", http.StatusFound))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // supported by all servers of net/http
		}
		// Bypass the mux, which would clean paths: API paths may contain arbitrary names.
		if h, pattern := mux.Handler(r); pattern != "" && (r.URL.Path == "/" || r.URL.Path == "/healthz") {
			h.ServeHTTP(w, r)
			return
		}
		ui.ServeHTTP(w, r)
	})
}

// listen tries the port and up to extra following ports.
func listen(ctx context.Context, addr string, extra int) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	host, port, split := net.SplitHostPort(addr)
	if split != nil {
		return l, err
	}
	first, lookup := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if lookup != nil {
		return l, err
	}
	for i := 1; i <= extra && errors.Is(err, syscall.EADDRINUSE); i++ {
		l, err = config.Listen(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(first+i)))
	}
	return l, err
}

// DisplayAddr returns the address for a browser on this machine, with localhost for all interfaces.
func DisplayAddr(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(strings.Split(host, "%")[0]); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// IsLoopback reports whether host:port is reachable only from this machine.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
