package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/metrics"
	"github.com/asynq-go/asynq/x/service/internal/api"
	"github.com/asynq-go/asynq/x/service/internal/auth"
	"github.com/asynq-go/asynq/x/service/internal/lease"
	"github.com/asynq-go/asynq/x/web"
)

// ErrClosed is returned by the methods of a Service after Shutdown.
var ErrClosed = errors.New("service: shut down: create a new one")

// Service is the queue service. It is an http.Handler, and safe for concurrent use.
type Service struct {
	log        *slog.Logger
	client     *asynq.Client
	inspector  *asynq.Inspector
	receiver   *asynq.Receiver
	redis      redis.UniversalClient
	owned      bool
	api        *api.API
	leases     *lease.API
	maintainer *maintainer
	mux        *http.ServeMux
	patterns   []string // registered with the mux, for tests
	ui         *web.Handler

	bodyTimeout atomic.Int64 // in ns

	settings atomic.Pointer[settings]
	tls      atomic.Pointer[tls.Config]

	mu      sync.Mutex // held during start, reload and shutdown
	state   atomic.Int32
	ended   context.Context
	end     context.CancelFunc
	servers []*http.Server
}

const (
	stateNew int32 = iota
	stateActive
	stateClosed
)

// settings holds what Reload changes.
type settings struct {
	cfg   Config
	rules *api.Rules
	ring  *auth.Keyring
}

// New returns a Service. It returns an error if Config.Check does, a certificate cannot be read, or
// the RedisConnOpt is not supported. It does not connect to Redis; /readyz reports whether Redis is
// reachable.
func New(cfg Config) (*Service, error) {
	next, tlsConfig, err := prepare(cfg, nil)
	if err != nil {
		return nil, err
	}
	conn, err := asynq.ConnectRedis(cfg.RedisConnOpt)
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	shared := conn.Shared()
	s := &Service{
		log: cfg.Logger, client: asynq.NewClient(shared), inspector: asynq.NewInspector(shared), redis: conn.Client, owned: conn.Owned,
		mux: http.NewServeMux(),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.bodyTimeout.Store(int64(bodyTimeout))
	s.ended, s.end = context.WithCancel(context.Background())
	s.settings.Store(next)
	s.tls.Store(tlsConfig)
	weights, limits := queueSettings(&cfg, nil)
	s.receiver = asynq.NewReceiver(cfg.RedisConnOpt, asynq.ReceiverConfig{
		Queues: weights, QueueConfigs: limits, LeaseDuration: cfg.Limits.LeaseDuration, AttemptLog: cfg.Limits.AttemptLog,
		Logger: asynq.NewSlogLogger(s.log), LogLevel: asynq.InfoLevel,
	})
	s.maintainer = newMaintainer(s)
	s.api = api.New(api.Config{
		Client: s.client, Inspector: s.inspector, Log: s.log, Touch: s.maintainer.touch, Ended: s.ended,
	})
	s.leases = lease.New(lease.Config{Receiver: s.receiver, API: s.api})
	s.routes(&cfg)
	if cfg.UI != nil {
		opts := cfg.ui(shared)
		s.ui = web.New(opts)
		s.mux.Handle(opts.RootPath+"/", s.ui)
	}
	return s, nil
}

// prepare validates a configuration and reads its files.
func prepare(cfg Config, before *auth.Keyring) (*settings, *tls.Config, error) {
	if err := cfg.Check(); err != nil {
		return nil, nil, err
	}
	tlsConfig, err := cfg.TLS.load(cfg.Logger)
	if err != nil {
		return nil, nil, err
	}
	ring, err := auth.New(cfg.Tokens, cfg.Limits.rate(), before)
	if err != nil {
		return nil, nil, fmt.Errorf("service: %w", err)
	}
	return &settings{cfg: cfg, rules: cfg.rules(), ring: ring}, tlsConfig, nil
}

// routes registers the handlers.
func (s *Service) routes(cfg *Config) {
	for _, r := range append(s.api.Routes(), s.leases.Routes()...) {
		s.handle(r.Pattern, s.guarded(r))
	}
	if !cfg.NoMetrics {
		registry := prometheus.NewRegistry()
		registry.MustRegister(metrics.NewCollector(s.inspector, metrics.CollectorOptions{}))
		handler := metrics.Handler(s.inspector, registry)
		s.handle("GET /metrics", s.guarded(api.Route{Scope: auth.Read, Handler: func(c *api.Call) error {
			if !c.Who.HasFullAccess() {
				return api.Problemf(http.StatusForbidden, api.KindForbidden, `metrics cover all queues: the token %q has no access to "*"`, c.Who.Name)
			}
			handler.ServeHTTP(c.W, c.R)
			return nil
		}}))
	}
	s.handle("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, "ok") })
	s.handle("GET /readyz", s.ready)
	s.handle("GET /openapi.json", api.OpenAPI)
	s.mux.HandleFunc("/", s.notFound)
}

func (s *Service) handle(pattern string, handler http.HandlerFunc) {
	s.patterns = append(s.patterns, pattern)
	s.mux.HandleFunc(pattern, handler)
}

// bodyTimeout is how long a client may take to send a body. When the whole body has been read,
// net/http clears the deadline, so that requests may wait.
const bodyTimeout = 30 * time.Second

// ServeHTTP handles a request. Before Start and after Shutdown it responds with status 503.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		// Set it even if no handler reads the body: net/http reads the rest of it before it
		// responds, without a limit of its own.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Duration(s.bodyTimeout.Load()))) // httptest.ResponseRecorder does not support it
	}
	s.mux.ServeHTTP(w, r)
}

// SignInPath returns the path and query of a new sign-in link of the web UI, such as
// "/ui/?token=…". See web.Handler.SignInPath. It is empty if there is no web UI or sign-in is
// disabled.
func (s *Service) SignInPath() string {
	if s.ui == nil {
		return ""
	}
	return s.ui.SignInPath()
}

// Start starts the service and returns immediately. It returns an error if the service is running,
// and ErrClosed after Shutdown. Run and ListenAndServe call it.
func (s *Service) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state.Load() {
	case stateActive:
		return errors.New("service: already running")
	case stateClosed:
		return ErrClosed
	}
	if err := s.receiver.Start(); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	s.maintainer.start()
	s.state.Store(stateActive)
	return nil
}

// Reload replaces queues, tokens, limits and certificates. Waiting requests and leases are not
// affected. If it returns an error, nothing changes. The Redis connection, Listen, LeaseDuration,
// NoMetrics, Logger and UI keep their values.
func (s *Service) Reload(cfg Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Load() == stateClosed {
		return ErrClosed
	}
	before := s.settings.Load()
	if cfg.RedisConnOpt == nil {
		cfg.RedisConnOpt = before.cfg.RedisConnOpt
	}
	if (before.cfg.TLS.CertFile == "") != (cfg.TLS.CertFile == "") {
		return errors.New("service: a reload cannot enable or disable TLS: restart the service")
	}
	next, tlsConfig, err := prepare(cfg, before.ring)
	if err != nil {
		return err
	}
	s.settings.Store(next)
	s.tls.Store(tlsConfig)
	if err := s.maintainer.apply(); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	s.log.Info("configuration reloaded", "queues", len(cfg.Queues), "tokens", len(cfg.Tokens))
	return nil
}

// Shutdown stops the service: waiting requests return immediately without tasks, active requests
// may finish until ctx is done, and settlements in progress reach Redis. Leases remain valid:
// workers can extend and settle them at another instance. Calling Shutdown again is a no-op.
func (s *Service) Shutdown(ctx context.Context) error {
	s.end() // before locking: a reload may hold the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.state.Swap(stateClosed)
	if before == stateClosed {
		return nil
	}
	s.log.Info("service shutting down")
	var errs []error
	for _, server := range s.servers {
		if err := server.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("service: active requests aborted: %w", err), server.Close())
		}
	}
	s.api.Drain(ctx)
	s.maintainer.stop()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	errs = append(errs, s.receiver.ShutdownContext(last))
	if s.ui != nil {
		errs = append(errs, s.ui.Close())
	}
	if s.owned {
		errs = append(errs, s.redis.Close())
	}
	return errors.Join(errs...)
}
