package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Run starts the service, listens on Config.Listen, and shuts down when ctx is done, within
// Limits.ShutdownTimeout. It returns nil after a complete shutdown.
func (s *Service) Run(ctx context.Context) error {
	l, err := net.Listen("tcp", or(s.settings.Load().cfg.Listen, defaultListen))
	if err != nil {
		return errors.Join(fmt.Errorf("service: cannot listen: %w", err), s.Shutdown(ctx))
	}
	return s.RunOn(ctx, l)
}

// RunOn is like Run with an existing listener, which it closes.
func (s *Service) RunOn(ctx context.Context, l net.Listener) error {
	if err := s.Start(); err != nil {
		return errors.Join(err, l.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	s.log.Info("service listening", "address", l.Addr().String(), "tls", s.tls.Load() != nil)
	var failed error
	select {
	case failed = <-ended:
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), or(s.settings.Load().cfg.Limits.ShutdownTimeout, 10*time.Second))
	defer cancel()
	return errors.Join(failed, s.Shutdown(last))
}

// ListenAndServe is like Run, but runs until Shutdown is called.
func (s *Service) ListenAndServe() error { return s.Run(context.Background()) }

// Serve serves requests on a listener, with TLS if configured, until Shutdown; it then returns nil.
// Call Start first.
func (s *Service) Serve(l net.Listener) error {
	if config := s.tls.Load(); config != nil {
		l = tls.NewListener(l, &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: config.NextProtos,
			GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return s.tls.Load().GetConfigForClient(hello) },
		})
	}
	// There is no write timeout, because requests may wait, each for a limited time. Call sets the
	// deadlines for reading bodies and writing responses.
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	s.mu.Lock()
	if s.state.Load() == stateClosed {
		s.mu.Unlock()
		return errors.Join(ErrClosed, l.Close())
	}
	s.servers = append(s.servers, server)
	s.mu.Unlock()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("service: serving: %w", err)
	}
	return nil
}
