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

// ErrClosed is returned by methods of a Service that was shut down.
var ErrClosed = errors.New("service: it was shut down: make a new one")

// Service is the queue service: an http.Handler and what runs behind it. It is safe for concurrent use.
type Service struct {
	log       *slog.Logger
	client    *asynq.Client
	inspector *asynq.Inspector
	taker     *asynq.Taker
	redis     redis.UniversalClient
	owned     bool
	api       *api.API
	leases    *lease.API
	keeper    *keeper
	mux       *http.ServeMux
	patterns  []string // of the mux
	ui        *web.Handler

	bodyTimeout atomic.Int64 // in ns

	settings atomic.Pointer[settings]
	tls      atomic.Pointer[tls.Config]

	mu      sync.Mutex // held through start, reload and shutdown
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

// settings are what Reload changes.
type settings struct {
	cfg   Config
	rules *api.Rules
	ring  *auth.Keyring
}

// New makes a Service. It fails if Config.Check does, if a certificate cannot be read, or if no connection can be made of the
// RedisConnOpt; whether Redis answers is not known before /readyz is asked.
func New(cfg Config) (*Service, error) {
	next, tlsConfig, err := prepare(cfg, nil)
	if err != nil {
		return nil, err
	}
	client, namespace, owned, err := asynq.ConnectRedis(cfg.RedisConnOpt)
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	shared := asynq.WithNamespace(asynq.SharedRedisClient(client), namespace)
	s := &Service{
		log: cfg.Logger, client: asynq.NewClient(shared), inspector: asynq.NewInspector(shared), redis: client, owned: owned,
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
	s.taker = asynq.NewTaker(cfg.RedisConnOpt, asynq.TakerConfig{
		Queues: weights, QueueConcurrency: limits, LeaseDuration: cfg.Limits.LeaseDuration,
		Logger: asynq.NewSlogLogger(s.log), LogLevel: asynq.InfoLevel,
	})
	s.keeper = newKeeper(s)
	s.api = api.New(api.Config{
		Client: s.client, Inspector: s.inspector, Log: s.log, Touch: s.keeper.touch, Ended: s.ended,
	})
	s.leases = lease.New(lease.Config{Taker: s.taker, API: s.api})
	s.routes(&cfg)
	if cfg.UI != nil {
		opts := cfg.ui(shared)
		s.ui = web.New(opts)
		s.mux.Handle(opts.RootPath+"/", s.ui)
	}
	return s, nil
}

// prepare checks a configuration, and reads what it names.
func prepare(cfg Config, before *auth.Keyring) (*settings, *tls.Config, error) {
	if err := cfg.Check(); err != nil {
		return nil, nil, err
	}
	tlsConfig, err := cfg.TLS.load()
	if err != nil {
		return nil, nil, err
	}
	ring, err := auth.New(cfg.Tokens, cfg.Limits.rate(), before)
	if err != nil {
		return nil, nil, fmt.Errorf("service: %w", err)
	}
	return &settings{cfg: cfg, rules: cfg.rules(), ring: ring}, tlsConfig, nil
}

// routes says who answers what.
func (s *Service) routes(cfg *Config) {
	for _, r := range append(s.api.Routes(), s.leases.Routes()...) {
		s.handle(r.Pattern, s.guarded(r))
	}
	if !cfg.NoMetrics {
		registry := prometheus.NewRegistry()
		registry.MustRegister(metrics.NewCollector(s.inspector, metrics.CollectorOptions{}))
		handler := metrics.Handler(s.inspector, registry)
		s.handle("GET /metrics", s.guarded(api.Route{Scope: auth.Read, Handler: func(c *api.Call) error {
			if !c.Who.SeesAll() {
				return api.Problemf(http.StatusForbidden, api.KindForbidden, `metrics are about all queues: the token %q is not good for "*"`, c.Who.Name)
			}
			handler.ServeHTTP(c.W, c.R)
			return nil
		}}))
	}
	s.handle("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	s.handle("GET /readyz", s.ready)
	s.handle("GET /openapi.json", api.OpenAPI)
	s.mux.HandleFunc("/", s.missing)
}

func (s *Service) handle(pattern string, handler http.HandlerFunc) {
	s.patterns = append(s.patterns, pattern)
	s.mux.HandleFunc(pattern, handler)
}

// bodyTimeout is how long a client may take to send a body. When all of it has come, net/http lifts the deadline, and requests may wait.
const bodyTimeout = 30 * time.Second

// ServeHTTP answers a request. Before Start and after Shutdown it answers that the service is not available.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		// Also where nobody reads the body, as without a token: net/http reads the rest of it before it answers, for any time.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Duration(s.bodyTimeout.Load()))) // a recorder of tests has none
	}
	s.mux.ServeHTTP(w, r)
}

// Start lets the service work, and returns at once. It fails if the service was started before, and with ErrClosed after Shutdown. Who
// calls Run or ListenAndServe need not.
func (s *Service) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state.Load() {
	case stateActive:
		return errors.New("service: it is already running")
	case stateClosed:
		return ErrClosed
	}
	if err := s.taker.Start(); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	s.keeper.start()
	s.state.Store(stateActive)
	return nil
}

// Reload puts another configuration in the place of the one at work: queues, tokens, limits and certificates. Requests that wait go on
// waiting, leases stay, and nothing changes if there is an error. The Redis connection, Listen, LeaseDuration, NoMetrics, Logger and UI
// stay as they were.
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
		return errors.New("service: TLS cannot be turned on or off by a reload: start the service anew")
	}
	next, tlsConfig, err := prepare(cfg, before.ring)
	if err != nil {
		return err
	}
	s.settings.Store(next)
	s.tls.Store(tlsConfig)
	if err := s.keeper.apply(); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	s.log.Info("configuration reloaded", "queues", len(cfg.Queues), "tokens", len(cfg.Tokens))
	return nil
}

// Shutdown ends the service: requests that wait are answered at once, with no tasks; those at work go on until ctx ends; outcomes on
// their way get to Redis. Leases stay with their workers, for another instance to extend and settle. It may be called more than once.
func (s *Service) Shutdown(ctx context.Context) error {
	s.end() // first of all: a reload may hold the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.state.Swap(stateClosed)
	if before == stateClosed {
		return nil
	}
	s.log.Info("service shuts down")
	var errs []error
	for _, server := range s.servers {
		if err := server.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("service: requests were cut off: %w", err), server.Close())
		}
	}
	s.api.Drain(ctx)
	s.keeper.stop()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	errs = append(errs, s.taker.ShutdownContext(last))
	if s.ui != nil {
		errs = append(errs, s.ui.Close())
	}
	s.api.Close()
	if s.owned {
		errs = append(errs, s.redis.Close())
	}
	return errors.Join(errs...)
}
