package service

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service/internal/api"
	"github.com/asynq-go/asynq/x/service/internal/auth"
	"github.com/asynq-go/asynq/x/web"
)

type (
	// Token is a bearer token with its scopes and queues.
	Token = auth.Token
	// Scope is a permission of a token.
	Scope = auth.Scope
	// QueueConfig holds the settings of a queue.
	QueueConfig = api.QueueRule
)

// The scopes. None includes another.
const (
	Enqueue = auth.Enqueue // enqueue tasks
	Work    = auth.Work    // take and settle tasks
	Read    = auth.Read    // read tasks, queues and metrics; wait for results
	Manage  = auth.Manage  // delete, cancel, run, archive and reschedule tasks; pause and resume queues
)

// Config configures a Service. RedisConnOpt and Tokens are required.
type Config struct {
	// RedisConnOpt is the connection to the Redis that holds the queues.
	RedisConnOpt asynq.RedisConnOpt

	// Queues holds the settings of individual queues.
	Queues map[string]QueueConfig

	// Archive limits the archives of all queues. QueueConfig.Archive overrides it for single
	// queues.
	Archive asynq.ArchiveConfig

	// OnlyQueues rejects queues that are not in Queues. Otherwise a queue is created with its first
	// task, and the service maintains all queues in Redis.
	OnlyQueues bool

	// TaskQueues maps task types to queues, for tasks whose client names no queue. A key is a type,
	// or a prefix followed by "*"; the longest prefix applies. The default queue of other types has
	// the name of the type.
	TaskQueues map[string]string

	// Tokens authenticate clients. Requests without a token can access only /healthz, /readyz,
	// /openapi.json and the web UI.
	Tokens []Token

	// Listen is the address to listen on, as host:port. Without a host, the service listens on all
	// interfaces; port 0 selects a free port. The default is "localhost:8600".
	Listen string

	// TLS enables TLS.
	TLS TLS

	// Limits restricts what clients may request.
	Limits Limits

	// UI mounts the web UI at UI.RootPath, by default "/ui". The web UI has its own users. If nil,
	// there is no web UI.
	UI *web.Options

	// NoMetrics disables /metrics.
	NoMetrics bool

	// Logger receives the audit log (enqueued tasks at level Debug, changes at Info), warnings and
	// errors. Payloads and secrets are never logged. The default is slog.Default().
	Logger *slog.Logger
}

// TLS names the certificate files. New and Reload read them, and new connections read them again
// after they changed.
type TLS struct {
	// CertFile and KeyFile are PEM files with the certificate and its key. Setting both enables
	// TLS.
	CertFile, KeyFile string

	// ClientCAFile is a PEM file with certificate authorities. If set, clients must present a
	// certificate that one of them signed, in addition to a token.
	ClientCAFile string
}

// Limits restricts what clients may request. A zero field has its default.
type Limits struct {
	// MaxBody is the maximum size of a request body in bytes, also after decompression. The default
	// is 8 MiB.
	MaxBody int64

	// MaxBatch is the maximum number of tasks, leases or outcomes in a request. The default is
	// 1,000.
	MaxBatch int

	// MaxTake is the maximum number of tasks that a request may take. The default is 100, the
	// maximum 500.
	MaxTake int

	// MaxWait is how long a request may wait for tasks or a result. The default is one minute.
	MaxWait time.Duration

	// MaxWaiting is the maximum number of waiting requests. If several tokens may wait, no token
	// may have more waiting requests than remain for others: one token uses up to a half, two a
	// third each. The default is 10,000.
	MaxWaiting int

	// RatePerToken is the maximum number of requests per second of each token, and Burst the number
	// of requests that may be made at once. By default there is no limit; the default burst is
	// twice the rate.
	RatePerToken float64
	Burst        int

	// LeaseDuration is how long a worker may go without extending a lease before its task is given
	// to another worker. It is rounded up to whole seconds, and at least MinLeaseDuration. Reload
	// does not change it. The default is 30 seconds.
	LeaseDuration time.Duration

	// AttemptLog is the number of failed attempts that are kept with a task of a worker, see
	// asynq.Config.AttemptLog. It is at most 100. Reload does not change it. The default is 0: none
	// are kept.
	AttemptLog int

	// ShutdownTimeout is how long Run waits for active requests after its context is done. The
	// default is 10 seconds.
	ShutdownTimeout time.Duration
}

// MinLeaseDuration is the minimum of Limits.LeaseDuration: workers need time to extend their
// leases.
const MinLeaseDuration = time.Second

const (
	defaultListen  = "localhost:8600"
	defaultMaxBody = 8 << 20
	maxMaxTake     = 500 // limit of Receiver.Receive
)

// Check validates the configuration. The error lists everything that is invalid. Check does not
// read files or connect to Redis.
func (c *Config) Check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.RedisConnOpt == nil {
		wrong("RedisConnOpt is missing: set it, for example to asynq.RedisClientOpt{Addr: \"localhost:6379\"}")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Queues)) {
		if err := api.CheckQueueName(name); err != nil {
			wrong("queue %q: %w", name, err)
		}
		rule := c.Queues[name]
		if err := rule.Check(); err != nil {
			wrong("queue %q: %w", name, err)
		}
	}
	if err := api.CheckArchive(c.Archive); err != nil {
		errs = append(errs, err)
	}
	if c.OnlyQueues && len(c.Queues) == 0 {
		wrong("OnlyQueues is set, but Queues is empty")
	}
	for _, pattern := range slices.Sorted(maps.Keys(c.TaskQueues)) {
		queue := c.TaskQueues[pattern]
		if pattern == "" || strings.Contains(strings.TrimSuffix(pattern, "*"), "*") {
			wrong("TaskQueues: %q is not a type pattern: use a type, or a prefix followed by \"*\"", pattern)
		}
		if err := api.CheckQueueName(queue); err != nil {
			wrong("TaskQueues: queue %q of %q: %w", queue, pattern, err)
		} else if _, ok := c.Queues[queue]; c.OnlyQueues && !ok {
			wrong("TaskQueues: queue %q of %q is not in Queues", queue, pattern)
		}
	}
	if len(c.Tokens) == 0 {
		wrong("Tokens is empty: every request would be rejected")
	}
	if _, err := auth.New(c.Tokens, c.Limits.rate(), nil); err != nil {
		errs = append(errs, err)
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		wrong("TLS needs both CertFile and KeyFile")
	}
	if c.TLS.ClientCAFile != "" && c.TLS.CertFile == "" {
		wrong("ClientCAFile needs TLS: set CertFile and KeyFile as well")
	}
	errs = append(errs, c.Limits.check()...)
	if c.UI != nil && api.Reserved(c.UI.RootPath) {
		wrong("web UI: the service itself uses the path %s: choose another RootPath, such as /ui", c.UI.RootPath)
	}
	if c.UI != nil && c.RedisConnOpt != nil {
		if err := c.ui(c.RedisConnOpt).Check(); err != nil {
			wrong("web UI: %w", err)
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("service: %w", errors.Join(errs...))
	}
	return nil
}

func (l *Limits) check() (errs []error) {
	for _, v := range []struct {
		name    string
		invalid bool
	}{
		{"MaxBody", l.MaxBody < 0}, {"MaxBatch", l.MaxBatch < 0}, {"MaxTake", l.MaxTake < 0}, {"MaxWait", l.MaxWait < 0},
		{"MaxWaiting", l.MaxWaiting < 0}, {"RatePerToken", l.RatePerToken < 0}, {"Burst", l.Burst < 0},
		{"LeaseDuration", l.LeaseDuration < 0}, {"ShutdownTimeout", l.ShutdownTimeout < 0},
		{"AttemptLog", l.AttemptLog < 0},
	} {
		if v.invalid {
			errs = append(errs, fmt.Errorf("negative Limits.%s", v.name))
		}
	}
	if d := l.LeaseDuration; d > 0 && d < MinLeaseDuration {
		errs = append(errs, fmt.Errorf("Limits.LeaseDuration is %v: it must be at least %v", d, MinLeaseDuration))
	}
	if l.MaxTake > maxMaxTake {
		errs = append(errs, fmt.Errorf("Limits.MaxTake is %d: it must be at most %d", l.MaxTake, maxMaxTake))
	}
	return errs
}

func (l *Limits) rate() auth.Rate { return auth.Rate{Requests: l.RatePerToken, Burst: l.Burst} }

// ui returns the options of the web UI.
func (c *Config) ui(r asynq.RedisConnOpt) web.Options {
	opts := *c.UI
	opts.RedisConnOpt = r
	opts.RootPath = or(opts.RootPath, "/ui")
	opts.Logger = or(opts.Logger, c.Logger)
	return opts
}

// rules returns the rules of the API.
func (c *Config) rules() *api.Rules {
	waiters := 0
	for i := range c.Tokens {
		if slices.Contains(c.Tokens[i].Scopes, Work) || slices.Contains(c.Tokens[i].Scopes, Read) {
			waiters++
		}
	}
	return &api.Rules{
		Queues: c.Queues, Only: c.OnlyQueues, TaskQueues: c.TaskQueues,
		MaxBody:    or(c.Limits.MaxBody, defaultMaxBody),
		MaxBatch:   or(c.Limits.MaxBatch, 1000),
		MaxTake:    or(c.Limits.MaxTake, 100),
		MaxWait:    or(c.Limits.MaxWait, time.Minute),
		MaxWaiting: or(c.Limits.MaxWaiting, 10000),
		Shared:     waiters > 1,
	}
}

// or returns the value, or its default if it is zero.
func or[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}
