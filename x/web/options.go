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
	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/access"
)

// Types for configuring access. docs/WEB.md lists the verbs and the roles that they require.
type (
	// Role is the set of permissions of a user. Each role includes the ones before it.
	Role = access.Role
	// Verb is a kind of action, such as "task.delete".
	Verb = access.Verb
	// Action is a requested action and its target.
	Action = access.Action
	// User is a user who can log in.
	User = access.User
	// Proxy configures a reverse proxy that authenticates users.
	Proxy = access.Proxy
	// LoginProvider is a site where users log in, such as an OpenID Connect provider.
	LoginProvider = access.LoginProvider
	// ProviderLogin are the secrets of one login at a LoginProvider.
	ProviderLogin = access.ProviderLogin
)

// The roles.
const (
	None     = access.None     // nothing
	Viewer   = access.Viewer   // view everything
	Operator = access.Operator // also change tasks, pause queues, run and pause schedules, change the load of servers
	Admin    = access.Admin    // also delete queues, stop servers, view the audit log
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
	PartitionSet   = access.PartitionSet
	FlowChange     = access.FlowChange
	ScheduleRun    = access.ScheduleRun
	SchedulePause  = access.SchedulePause
	ScheduleResume = access.ScheduleResume

	ServerPauseQueue  = access.ServerPauseQueue
	ServerResumeQueue = access.ServerResumeQueue
	ServerConcurrency = access.ServerConcurrency
	ServerQuiet       = access.ServerQuiet
	ServerStop        = access.ServerStop
	AuditView         = access.AuditView
	HealthMute        = access.HealthMute
)

// ErrUnauthenticated means that the user must log in. If the error of Options.Authorize wraps it,
// browsers show their login dialog.
var ErrUnauthenticated = access.ErrUnauthenticated

// WithUser sets the user of a request, for programs with their own login. Their middleware must
// call it before the Handler receives the request.
var WithUser = access.WithUser

// UserFrom returns the user of the request with this context, for example in Options.Authorize.
var UserFrom = access.UserFrom

// PayloadFormatter formats payloads as text, for example those in a custom format.
type PayloadFormatter interface {
	FormatPayload(taskType string, payload []byte) string
}

// PayloadFormatterFunc is a function that implements PayloadFormatter.
type PayloadFormatterFunc func(taskType string, payload []byte) string

// FormatPayload calls f.
func (f PayloadFormatterFunc) FormatPayload(taskType string, payload []byte) string {
	return f(taskType, payload)
}

// ResultFormatter formats results as text.
type ResultFormatter interface {
	FormatResult(taskType string, result []byte) string
}

// ResultFormatterFunc is a function that implements ResultFormatter.
type ResultFormatterFunc func(taskType string, result []byte) string

// FormatResult calls f.
func (f ResultFormatterFunc) FormatResult(taskType string, result []byte) string {
	return f(taskType, result)
}

// Options configure a Handler. Only RedisConnOpt is required. Without Users, Provider, Proxy,
// Anonymous and Authorize, only requests from the same machine are served: as Viewer, or as Admin
// after signing in with Token or a link of Handler.SignInPath.
type Options struct {
	// RedisConnOpt is the Redis of the queues.
	RedisConnOpt asynq.RedisConnOpt

	// RootPath is the path of the Handler, such as "/monitoring". It must begin with a slash and
	// not end with one. If empty, the Handler serves the root of the host. The Handler receives the
	// full paths, so do not use http.StripPrefix.
	RootPath string

	// PayloadFormatter and ResultFormatter format payloads and results as text. If nil, they are
	// shown as JSON, text or hexadecimal, depending on the content.
	PayloadFormatter PayloadFormatter
	ResultFormatter  ResultFormatter

	// PrometheusAddress is the URL of a Prometheus that scrapes the exporter and the workers, such
	// as "http://localhost:9090". It is required for rates by task type and for /api/metrics.
	// Charts do not need it.
	PrometheusAddress string

	// Metrics is served at RootPath + "/metrics" to users who may view. metrics.Handler of
	// x/metrics returns one for Prometheus. If nil, the path is not served.
	Metrics http.Handler

	// Token lets requests from the same machine make changes: a script sends it as "Authorization:
	// Bearer <token>", and a browser can open RootPath + "/?token=<token>". It must have at least
	// 16 characters of printable ASCII, and can be used any number of times. It cannot be combined
	// with Users, Provider, Proxy, Anonymous or Authorize. If empty, only links of
	// Handler.SignInPath sign in.
	Token string

	// ReadOnly refuses all changes.
	ReadOnly bool

	// Users can log in with a name and a password: browsers on the page RootPath + "/login", and
	// scripts by HTTP basic authentication. Both transmit passwords, so use TLS. Handler.SetUsers
	// replaces them.
	Users []User

	// Provider is a site where users log in, such as an OpenID Connect provider. The login page
	// links to it. If nil, users log in with passwords only.
	Provider LoginProvider

	// SessionIdle is how long a browser stays logged in without a request, 8 hours by default.
	// SessionMax is how long it stays logged in altogether, 24 hours by default. Sessions are in
	// memory: a restart logs all browsers out, and several processes do not share them.
	SessionIdle, SessionMax time.Duration

	// AuditFile is a file to which changes, logins and log-outs are appended as lines of JSON, in
	// addition to the log. New reads the last 1,000 for the audit page. The file may be moved away
	// at any time. If empty, the page shows the events since New.
	AuditFile string

	// Proxy is a reverse proxy that authenticates users. If nil, headers with users are ignored.
	Proxy *Proxy

	// Anonymous is the role of users who have not logged in, from any address.
	Anonymous Role

	// Authorize is called for each action that the user's role includes, and refuses the action by
	// returning an error. The user sees the text of the error. It must be safe for concurrent use.
	Authorize func(*http.Request, Action) error

	// Origins are origins such as "https://tools.example.com". Scripts of their pages may call the
	// API. If empty, no other origins are allowed.
	Origins []string

	// Redact returns the visible part of a payload or a result. It must not modify its argument.
	// Pages, APIs and searches use only the returned data. Payloads that it changes cannot be
	// edited or cloned. If nil, everything is visible.
	Redact func(queue, taskType string, data []byte) []byte

	// Logger receives the audit log of changes, and errors. If nil, slog.Default() is used.
	Logger *slog.Logger

	// PollInterval is the interval of Redis polls while a page is open. All open pages share the
	// polls. The default is 2 seconds.
	PollInterval time.Duration

	// Health has the thresholds of problems that the overview and the API report. The zero value
	// has the defaults, see docs/HEALTH.md.
	Health health.Settings

	// MaxBody is the limit of a request body, in bytes. The default is 8 MiB.
	MaxBody int64
}

// Check returns all errors in the options, for programs that accept options from their users.
func (o Options) Check() error {
	var errs []error
	if o.RedisConnOpt == nil {
		errs = append(errs, errors.New("RedisConnOpt is required, such as asynq.RedisClientOpt{Addr: \"localhost:6379\"}"))
	}
	if p := o.RootPath; p != "" && (!strings.HasPrefix(p, "/") || p == "/" || path.Clean(p) != p || strings.ContainsAny(p, "?#%{}\\ \"'<>") || strings.ContainsFunc(p, unicode.IsControl)) {
		errs = append(errs, fmt.Errorf("RootPath %q must begin with a slash, not end with one, and contain no character that a URL escapes; an example is /monitoring", o.RootPath))
	}
	if o.PollInterval < 0 {
		errs = append(errs, fmt.Errorf("PollInterval is negative: %v", o.PollInterval))
	}
	if err := o.Health.Validate(); err != nil {
		errs = append(errs, err)
	}
	rules := o.access()
	rules.RootPath = "" // already reported
	if _, err := access.New(rules); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("web: %w", errors.Join(errs...))
	}
	return nil
}

// access returns the options that control access.
func (o Options) access() access.Config {
	return access.Config{
		Users: o.Users, Provider: o.Provider, SessionIdle: o.SessionIdle, SessionMax: o.SessionMax, AuditFile: o.AuditFile, Proxy: o.Proxy, Anonymous: o.Anonymous, Token: o.Token, ReadOnly: o.ReadOnly, Authorize: o.Authorize, Origins: o.Origins,
		MaxBody: o.MaxBody, Logger: o.Logger, RootPath: o.RootPath,
	}
}

// payloadText returns the PayloadFormatter for the pages; nil if there is none.
func (o Options) payloadText() func(string, []byte) (string, bool) {
	if o.PayloadFormatter == nil {
		return nil
	}
	return func(taskType string, data []byte) (string, bool) {
		return o.PayloadFormatter.FormatPayload(taskType, data), true
	}
}

// resultText returns the ResultFormatter for the pages; nil if there is none.
func (o Options) resultText() func(string, []byte) (string, bool) {
	if o.ResultFormatter == nil {
		return nil
	}
	return func(taskType string, data []byte) (string, bool) {
		return o.ResultFormatter.FormatResult(taskType, data), true
	}
}
