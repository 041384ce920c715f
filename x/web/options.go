package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
)

// What may be asked of whom. Verbs, and the roles that they need, are listed in docs/WEB.md.
type (
	// Role is what a user may do. Each role includes those before it.
	Role = access.Role
	// Verb is what a request does, such as "task.delete".
	Verb = access.Verb
	// Action is what a request wants to do to what.
	Action = access.Action
	// User is somebody who may log in.
	User = access.User
	// Proxy describes a reverse proxy that tells who the user is.
	Proxy = access.Proxy
)

// The roles.
const (
	None     = access.None     // nothing
	Viewer   = access.Viewer   // look at everything
	Operator = access.Operator // and change tasks, pause queues, run schedules
	Admin    = access.Admin    // and remove queues
)

// The verbs.
const (
	View           = access.View
	TaskRun        = access.TaskRun
	TaskArchive    = access.TaskArchive
	TaskDelete     = access.TaskDelete
	TaskCancel     = access.TaskCancel
	TaskReschedule = access.TaskReschedule
	TaskEdit       = access.TaskEdit
	TaskEnqueue    = access.TaskEnqueue
	QueuePause     = access.QueuePause
	QueueResume    = access.QueueResume
	QueueDelete    = access.QueueDelete
	ScheduleRun    = access.ScheduleRun
)

// ErrUnauthenticated may be wrapped by what Options.Authorize returns: it asks the browser to log in.
var ErrUnauthenticated = access.ErrUnauthenticated

// WithUser says who the user is, for a program that has its own login: its middleware calls it before the Handler gets the request.
var WithUser = access.WithUser

// UserFrom is the user of the request with this context, as Options.Authorize may want to know.
var UserFrom = access.UserFrom

// PayloadFormatter makes text of payloads, such as those in a format of your own.
type PayloadFormatter interface {
	FormatPayload(taskType string, payload []byte) string
}

// PayloadFormatterFunc is a PayloadFormatter of a function.
type PayloadFormatterFunc func(taskType string, payload []byte) string

// FormatPayload calls f.
func (f PayloadFormatterFunc) FormatPayload(taskType string, payload []byte) string {
	return f(taskType, payload)
}

// ResultFormatter makes text of results.
type ResultFormatter interface {
	FormatResult(taskType string, result []byte) string
}

// ResultFormatterFunc is a ResultFormatter of a function.
type ResultFormatterFunc func(taskType string, result []byte) string

// FormatResult calls f.
func (f ResultFormatterFunc) FormatResult(taskType string, result []byte) string {
	return f(taskType, result)
}

// Options say what a Handler shows, and to whom. Only RedisConnOpt is required; without Users, Proxy, Anonymous and Authorize only
// requests from the same machine are let in.
type Options struct {
	// RedisConnOpt says where the queues are.
	RedisConnOpt asynq.RedisConnOpt

	// RootPath is where the Handler is mounted, such as "/monitoring": a path that begins with a slash, and does not end with one.
	// Empty: the root of the host. The Handler sees paths that begin with it, so do not strip it.
	RootPath string

	// PayloadFormatter and ResultFormatter make text of payloads and results. Nil: JSON, text or hexadecimal, whatever fits.
	PayloadFormatter PayloadFormatter
	ResultFormatter  ResultFormatter

	// PrometheusAddress is the URL of a Prometheus that scrapes the exporter and the workers, such as "http://localhost:9090", for rates
	// by task type and for /api/metrics. Charts need none.
	PrometheusAddress string

	// Metrics is served at RootPath + "/metrics" to those who may look. metrics.Handler of x/metrics makes one for Prometheus. Nil: none.
	Metrics http.Handler

	// ReadOnly refuses every change, to everybody.
	ReadOnly bool

	// Users may log in with a name and a password (HTTP basic authentication, so let it go over TLS).
	Users []User

	// Proxy stands in front of the Handler and says who the user is. Nil: no header about users is believed.
	Proxy *Proxy

	// Anonymous is the role of those who have not logged in, from wherever they come.
	Anonymous Role

	// Authorize is asked last about every action that the user's role includes, and refuses it with an error, whose text the user is
	// told. It is called by many goroutines.
	Authorize func(*http.Request, Action) error

	// Origins such as "https://tools.example.com", whose pages may call the API by script. Empty: no other origin.
	Origins []string

	// Redact returns what is shown of a payload or a result; it must not change its argument. Neither the pages nor the APIs show
	// anything else of it, and searches look at what it returns. A payload that it changes cannot be edited or copied. Nil: all is shown.
	Redact func(queue, taskType string, data []byte) []byte

	// Logger gets the audit log of changes, and what goes wrong. Nil: slog.Default().
	Logger *slog.Logger

	// PollInterval is how often Redis is asked while somebody looks. Zero: 2 s. It is asked once for all who look.
	PollInterval time.Duration

	// MaxBody is the length of the longest body of a request, in bytes. Zero: 8 MiB.
	MaxBody int64
}

// Check tells what is wrong with the options, for programs that have them from their users.
func (o Options) Check() error {
	var errs []error
	if o.RedisConnOpt == nil {
		errs = append(errs, errors.New("RedisConnOpt is missing: say where the queues are, such as asynq.RedisClientOpt{Addr: \"localhost:6379\"}"))
	}
	if p := o.RootPath; p != "" && (!strings.HasPrefix(p, "/") || p == "/" || path.Clean(p) != p || strings.ContainsAny(p, "?#%{}\\ \"'<>") || strings.ContainsFunc(p, unicode.IsControl)) {
		errs = append(errs, fmt.Errorf("RootPath %q: it must begin with a slash, not end with one, and hold nothing that a URL escapes, such as /monitoring", o.RootPath))
	}
	if o.PollInterval < 0 {
		errs = append(errs, fmt.Errorf("PollInterval %v is less than zero", o.PollInterval))
	}
	rules := o.access()
	rules.RootPath = "" // told of above
	if _, err := access.New(rules); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("web: %w", errors.Join(errs...))
	}
	return nil
}

// access is the part of the options that says who may do what.
func (o Options) access() access.Config {
	return access.Config{
		Users: o.Users, Proxy: o.Proxy, Anonymous: o.Anonymous, ReadOnly: o.ReadOnly, Authorize: o.Authorize, Origins: o.Origins,
		MaxBody: o.MaxBody, Logger: o.Logger, RootPath: o.RootPath,
	}
}

// payloadText is the PayloadFormatter as the pages take it; nil if there is none.
func (o Options) payloadText() func(string, []byte) (string, bool) {
	if o.PayloadFormatter == nil {
		return nil
	}
	return func(taskType string, data []byte) (string, bool) {
		return o.PayloadFormatter.FormatPayload(taskType, data), true
	}
}

// resultText is the ResultFormatter as the pages take it; nil if there is none.
func (o Options) resultText() func(string, []byte) (string, bool) {
	if o.ResultFormatter == nil {
		return nil
	}
	return func(taskType string, data []byte) (string, bool) {
		return o.ResultFormatter.FormatResult(taskType, data), true
	}
}
