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
	// Token is a bearer token, what it may do, and where.
	Token = auth.Token
	// Scope is something that a token may do.
	Scope = auth.Scope
	// QueueConfig is what is set for a queue.
	QueueConfig = api.QueueRule
)

// The scopes. None includes another.
const (
	Enqueue = auth.Enqueue // put tasks into queues
	Work    = auth.Work    // take tasks, and settle them
	Read    = auth.Read    // look at tasks, queues and metrics, and wait for results
	Manage  = auth.Manage  // delete, cancel, run, archive and reschedule tasks; pause and resume queues
)

// Config says what a Service does, and for whom. RedisConnOpt and Tokens are required.
type Config struct {
	// RedisConnOpt says where the queues are.
	RedisConnOpt asynq.RedisConnOpt

	// Queues are the settings of single queues.
	Queues map[string]QueueConfig

	// OnlyQueues refuses all other queues than those in Queues. Without it, a queue comes to be with its first task, and the service
	// sees to all queues that are in Redis.
	OnlyQueues bool

	// TaskQueues says which queue the tasks of a type go to, where the client names none: by type, or by the beginning of one that ends
	// in "*", of which the longest counts. Others go to the queue that has the name of the type.
	TaskQueues map[string]string

	// Tokens let clients in. Without one of them, only /healthz, /readyz, /openapi.json and the web UI answer.
	Tokens []Token

	// Listen is the address to listen on, as host:port. No host: all interfaces; port 0: a free one. Default: "localhost:8600".
	Listen string

	// TLS turns TLS on.
	TLS TLS

	// Limits of what clients may ask for.
	Limits Limits

	// UI mounts the web UI at UI.RootPath, which is "/ui" unless set. It has users of its own. Nil: there is none.
	UI *web.Options

	// NoMetrics leaves /metrics out.
	NoMetrics bool

	// Logger gets the audit log (enqueued tasks at level Debug, changes at Info) and what goes wrong. It is never told payloads or
	// secrets. Nil: slog.Default().
	Logger *slog.Logger
}

// TLS names the files of certificates. They are read at the start and by Reload.
type TLS struct {
	// CertFile and KeyFile are PEM files of the certificate and its key. Together they turn TLS on.
	CertFile, KeyFile string

	// ClientCAFile is a PEM file of authorities, one of which must have signed the certificate that a client shows. Clients need a
	// token as well.
	ClientCAFile string
}

// Limits bound what clients may ask for. The zero value of a field stands for its default.
type Limits struct {
	// MaxBody is the length of the longest body of a request, in bytes. Default: 8 MiB.
	MaxBody int64

	// MaxBatch is how many tasks, leases or outcomes one request may name. Default: 1,000.
	MaxBatch int

	// MaxTake is how many tasks one request may take. Default: 100, at most 500.
	MaxTake int

	// MaxWait is how long a request may wait, for tasks or for a result. Default: 60 s.
	MaxWait time.Duration

	// MaxWaiting is how many requests may wait at the same time. Where several tokens may wait, none has more of them than are left for
	// others: one takes up to a half, two take up to a third each. Default: 10,000.
	MaxWaiting int

	// RatePerToken is how many requests a second each token may make, and Burst how many at once. Default: no limit; twice the rate.
	RatePerToken float64
	Burst        int

	// LeaseDuration is how long a worker may be silent before its task is given to another one, in whole seconds rounded up, at least
	// MinLeaseDuration. Reload does not change it. Default: 30 s.
	LeaseDuration time.Duration

	// ShutdownTimeout is how long Run lets requests at work go on after its context has ended. Default: 10 s.
	ShutdownTimeout time.Duration
}

// MinLeaseDuration is the shortest Limits.LeaseDuration: workers must get round to extending their leases.
const MinLeaseDuration = time.Second

const (
	defaultListen  = "localhost:8600"
	defaultMaxBody = 8 << 20
	maxMaxTake     = 500 // what Taker.Take gives
)

// Check tells all that is wrong with the configuration, but not whether files can be read and Redis answers.
func (c *Config) Check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.RedisConnOpt == nil {
		wrong("RedisConnOpt is missing: say where the queues are, such as asynq.RedisClientOpt{Addr: \"localhost:6379\"}")
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
	if c.OnlyQueues && len(c.Queues) == 0 {
		wrong("OnlyQueues is set, and no queue is")
	}
	for _, pattern := range slices.Sorted(maps.Keys(c.TaskQueues)) {
		queue := c.TaskQueues[pattern]
		if pattern == "" || strings.Contains(strings.TrimSuffix(pattern, "*"), "*") {
			wrong("TaskQueues: %q is no pattern of types: give a type, or the beginning of one and \"*\"", pattern)
		}
		if err := api.CheckQueueName(queue); err != nil {
			wrong("TaskQueues: the queue %q of %q: %w", queue, pattern, err)
		} else if _, ok := c.Queues[queue]; c.OnlyQueues && !ok {
			wrong("TaskQueues: the queue %q of %q is not in Queues", queue, pattern)
		}
	}
	if len(c.Tokens) == 0 {
		wrong("there are no tokens: nobody could do anything")
	}
	if _, err := auth.New(c.Tokens, c.Limits.rate(), nil); err != nil {
		errs = append(errs, err)
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		wrong("TLS needs both a certificate and its key")
	}
	if c.TLS.ClientCAFile != "" && c.TLS.CertFile == "" {
		wrong("client certificates need TLS: give a certificate and its key as well")
	}
	errs = append(errs, c.Limits.check()...)
	if c.UI != nil && api.Reserved(c.UI.RootPath) {
		wrong("the web UI: the service itself answers at %s: give it another RootPath, such as /ui", c.UI.RootPath)
	}
	if c.UI != nil && c.RedisConnOpt != nil {
		if err := c.ui(c.RedisConnOpt).Check(); err != nil {
			wrong("the web UI: %w", err)
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
	} {
		if v.invalid {
			errs = append(errs, fmt.Errorf("the limit %s is less than zero", v.name))
		}
	}
	if d := l.LeaseDuration; d > 0 && d < MinLeaseDuration {
		errs = append(errs, fmt.Errorf("the limit LeaseDuration is %v: it must be %v at least", d, MinLeaseDuration))
	}
	if l.MaxTake > maxMaxTake {
		errs = append(errs, fmt.Errorf("the limit MaxTake is %d: at most %d tasks can be taken at once", l.MaxTake, maxMaxTake))
	}
	return errs
}

func (l *Limits) rate() auth.Rate { return auth.Rate{Requests: l.RatePerToken, Burst: l.Burst} }

// ui are the options of the web UI.
func (c *Config) ui(r asynq.RedisConnOpt) web.Options {
	opts := *c.UI
	opts.RedisConnOpt = r
	opts.RootPath = or(opts.RootPath, "/ui")
	opts.Logger = or(opts.Logger, c.Logger)
	return opts
}

// rules are what the API goes by.
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
