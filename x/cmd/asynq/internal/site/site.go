// Package site serves the web UI: it listens, tells where, and ends in order.
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
)

const (
	// patience is how long requests at work may go on after the end.
	patience = 5 * time.Second
	// bodyTime is for how long a request's body may come in. There is no limit for the whole of a request, as streams of events have none.
	bodyTime = time.Minute
)

// UI is the web UI, of which Close ends the streams of events.
type UI interface {
	http.Handler
	io.Closer
}

// Options say where to listen.
type Options struct {
	// Addr is host:port to listen on.
	Addr string

	// Others is how many of the next ports are tried while one is taken.
	Others int

	// CertFile and KeyFile are PEM files of a certificate and its key. Together they turn TLS on. They are read once.
	CertFile, KeyFile string

	// RootPath is where the UI is mounted: the root of the host leads there.
	RootPath string

	Log *slog.Logger
}

// Site has its place to listen at, where nobody is served yet.
type Site struct {
	opts Options
	l    net.Listener
	url  string
}

// Listen opens the place to listen at.
func Listen(ctx context.Context, opts Options) (*Site, error) {
	s := &Site{opts: opts}
	var config *tls.Config
	scheme := "http"
	if opts.CertFile != "" || opts.KeyFile != "" {
		cert, err := tls.LoadX509KeyPair(opts.CertFile, opts.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("the certificate and its key: %w", err)
		}
		config = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
		scheme = "https"
	}
	var err error
	if s.l, err = listen(ctx, opts.Addr, opts.Others); err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	s.url = scheme + "://" + shown(s.l.Addr()) + opts.RootPath + "/"
	if config != nil {
		s.l = tls.NewListener(s.l, config)
	}
	return s, nil
}

// URL is where a browser on this machine finds the UI.
func (s *Site) URL() string { return s.url }

// Close gives the place up, for those who do not come to Serve.
func (s *Site) Close() error { return s.l.Close() }

// Serve serves the UI until ctx ends, and then closes it and lets requests at work end. The error is nil after an orderly end.
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
	s.opts.Log.Info("the web UI ends")
	err := ui.Close() // first, since a stream of events would last as long as the browser likes
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if cut := srv.Shutdown(last); cut != nil {
		err = errors.Join(err, fmt.Errorf("requests were cut off: %w", cut), srv.Close())
	}
	if why := <-ended; !errors.Is(why, http.ErrServerClosed) {
		err = errors.Join(err, why)
	}
	return err
}

// routes adds to the UI what lies outside of it, and so of all rules of access: /healthz, which tells nothing of the queues.
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
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // all servers of net/http can
		}
		// Not through the mux: it would clean paths, and those of the API may have names with anything in them.
		if h, pattern := mux.Handler(r); pattern != "" && (r.URL.Path == "/" || r.URL.Path == "/healthz") {
			h.ServeHTTP(w, r)
			return
		}
		ui.ServeHTTP(w, r)
	})
}

// listen tries the port, and as many of those after it as others says.
func listen(ctx context.Context, addr string, others int) (net.Listener, error) {
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
	for i := 1; i <= others && errors.Is(err, syscall.EADDRINUSE); i++ {
		l, err = config.Listen(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(first+i)))
	}
	return l, err
}

// shown is the address for a browser: no host stands for all interfaces, of which this machine's own is one.
func shown(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(strings.Split(host, "%")[0]); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// IsLoopback says whether only this machine reaches an address of host:port.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
