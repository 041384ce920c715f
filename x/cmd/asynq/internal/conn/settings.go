// Package conn resolves the connection settings of Redis from flags, the environment and a
// configuration file with named contexts.
package conn

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// UsageError is an invalid setting.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// UnknownContextError means that the file has no context of the selected name.
type UnknownContextError struct{ Text string }

func (e *UnknownContextError) Error() string { return e.Text }

// kind is the type of a setting.
type kind uint8

const (
	text kind = iota
	number
	boolean
	duration
)

// setting is a connection setting: a flag, an environment variable and a key of the file.
type setting struct {
	name   string // flag name; keys in the file use _ instead of -
	short  string
	kind   kind
	secret bool
	help   string

	stored bool // only a key of the file, not a flag or an environment variable
}

// settings are all settings, in the order of the help text.
var settings = []setting{
	{name: "uri", short: "u", help: "address of Redis: host:port, or a redis://, rediss://, redis-socket://, redis-sentinel:// or redis-cluster:// URI (default 127.0.0.1:6379)"},
	{name: "db", short: "n", kind: number, help: "database number"},
	{name: "username", short: "U", help: "ACL user name"},
	{name: "password", short: "p", secret: true, help: "password. Other users of this machine can see it in the process list: prefer --password-file or ASYNQ_PASSWORD"},
	{name: "password-file", help: "file that contains the password"},
	{name: "cluster", kind: boolean, help: "connect to a Redis Cluster"},
	{name: "cluster-addrs", help: "nodes of the cluster, as host:port,host:port"},
	{name: "sentinel-addrs", help: "sentinels, as host:port,host:port"},
	{name: "sentinel-master", help: "name of the master that the sentinels monitor"},
	{name: "sentinel-username", help: "ACL user name for the sentinels"},
	{name: "sentinel-password", secret: true, help: "password for the sentinels"},
	{name: "tls", kind: boolean, help: "use TLS"},
	{name: "tls-server", help: "server name to verify, if it differs from the host; enables TLS"},
	{name: "tls-ca", help: "PEM file of the trusted CA certificates; enables TLS"},
	{name: "tls-cert", help: "PEM file of the client certificate; enables TLS"},
	{name: "tls-key", help: "PEM file of the client certificate's key"},
	{name: "insecure", kind: boolean, help: "accept any server certificate"},
	{name: "namespace", help: "prefix of all keys (default asynq)"},
	{name: "dial-timeout", kind: duration, help: "timeout of a connection attempt (default 5s)"},
	{name: "timeout", kind: duration, help: "timeout of a reply from Redis (default 5s)"},
	{name: "protected", kind: boolean, stored: true},
	{name: "read-only", kind: boolean, stored: true},
}

// SetByFlags adds a flag per setting, and --config and --context.
func SetByFlags(fs *pflag.FlagSet) {
	fs.String("config", "", "configuration file (default $HOME/.asynq.yaml)")
	fs.String("context", "", "context of the configuration file to use")
	for _, s := range settings {
		if s.stored {
			continue
		}
		switch s.kind {
		case number:
			fs.IntP(s.name, s.short, 0, s.help)
		case boolean:
			fs.BoolP(s.name, s.short, false, s.help)
		case duration:
			fs.DurationP(s.name, s.short, 0, s.help)
		default:
			fs.StringP(s.name, s.short, "", s.help)
		}
	}
}

// EnvName returns the environment variable of a flag: ASYNQ_CLUSTER_ADDRS for cluster-addrs.
func EnvName(flag string) string {
	return "ASYNQ_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// source is where a value comes from. A greater source takes precedence.
type source uint8

const (
	unset source = iota
	fromFlat
	fromContext
	fromEnv
	fromFlag
)

type value struct {
	text string
	from source
}

// Config holds the resolved settings of a connection.
type Config struct {
	// Context is the name of the selected context, or "" if none is selected.
	Context string

	// UnknownKeys are unknown top-level keys of the file.
	UnknownKeys []string

	// Overridden is the environment variable that overrides the server of the selected context, or
	// "" if none does. A flag that does so is not reported: it is part of the command.
	Overridden string

	// ExposedFile is the path of the configuration file if it contains a password and other users
	// may access it, otherwise "".
	ExposedFile string

	values map[string]value
}

// Load resolves each setting: a flag takes precedence over the environment, and the environment
// over the context (or over the top-level keys of the file, if no context is selected).
func Load(fs *pflag.FlagSet, env func(string) (string, bool)) (*Config, error) {
	file, err := LoadFile(fs, env)
	if err != nil {
		return nil, err
	}
	return file.Load(file.Chosen(fs, env), fs, env)
}

// Load is the function Load with the named context instead of the selected one. An empty name means
// no context.
func (f *File) Load(chosen string, fs *pflag.FlagSet, env func(string) (string, bool)) (*Config, error) {
	c := &Config{values: map[string]value{}, UnknownKeys: f.Unknown}
	stored, from := f.Flat, fromFlat
	if chosen != "" {
		ctx, ok := f.Contexts[chosen]
		if !ok {
			return nil, &UnknownContextError{fmt.Sprintf("no context %q in %s: use asynq context ls to list the contexts", chosen, f.Path)}
		}
		c.Context, stored, from = chosen, ctx, fromContext
	}
	for _, s := range settings {
		var v value
		if !s.stored {
			v = flagOrEnv(fs, env, s.name)
		}
		if v.from == unset {
			if t := stored[s.name]; t != "" {
				v = value{t, from}
			}
		}
		if v.from == unset {
			continue
		}
		if err := s.check(v.text); err != nil {
			return nil, usage("%s: %v", v.from.of(s.name), err)
		}
		c.values[s.name] = v
	}
	if c.Context == "" && c.boolean("protected") {
		return nil, usage("protected in the configuration file: move it into a context, whose name confirms changes")
	}
	if f.Exposed {
		c.ExposedFile = f.Path
	}
	if c.Context != "" {
		c.Overridden = c.overridden(stored)
	}
	c.detach()
	// Configuration files of the existing tool contain cluster addresses beside a switch that
	// enables them.
	if no := c.values["cluster"]; no.from != unset && !c.boolean("cluster") && no.from >= c.values["cluster-addrs"].from {
		delete(c.values, "cluster-addrs")
	}
	return c, nil
}

// flagOrEnv returns the value of a flag from the command line or the environment.
func flagOrEnv(fs *pflag.FlagSet, env func(string) (string, bool), name string) value {
	if f := fs.Lookup(name); f != nil && f.Changed {
		return value{f.Value.String(), fromFlag}
	}
	if t, ok := env(EnvName(name)); ok && t != "" {
		return value{t, fromEnv}
	}
	return value{}
}

// serverSettings are the settings that select the server.
var serverSettings = []string{"uri", "cluster-addrs", "sentinel-addrs"}

// keptSettings are the settings of a context that also apply to another server. The guards are
// among them: the other address may lead to the same server.
var keptSettings = []string{"namespace", "timeout", "dial-timeout", "protected", "read-only"}

// detach drops the settings of a context if a flag or the environment selects another server: the
// password of the context must not be sent there.
func (c *Config) detach() {
	highest := unset
	for _, name := range serverSettings {
		highest = max(highest, c.values[name].from)
	}
	if highest <= fromContext {
		return
	}
	for name, v := range c.values {
		if v.from == fromContext && !slices.Contains(keptSettings, name) {
			delete(c.values, name)
		}
	}
	// Drop the top-level settings that select a server: a setting with precedence selects another
	// one.
	for _, name := range []string{"uri", "cluster", "cluster-addrs", "sentinel-addrs", "sentinel-master"} {
		if v := c.values[name]; v.from == fromFlat {
			delete(c.values, name)
		}
	}
}

// overridden returns the environment variable that overrides the server of a context with the given
// values, or "" if none does or if a flag does.
func (c *Config) overridden(context map[string]string) string {
	named, variable := false, ""
	for _, name := range serverSettings {
		named = named || context[name] != ""
		switch c.values[name].from {
		case fromFlag:
			return ""
		case fromEnv:
			variable = cmp.Or(variable, EnvName(name))
		}
	}
	if !named {
		return ""
	}
	return variable
}

// of returns the name of a setting in the form that its source uses.
func (s source) of(name string) string {
	switch s {
	case fromFlag:
		return "--" + name
	case fromEnv:
		return EnvName(name)
	default:
		return strings.ReplaceAll(name, "-", "_") + " in the configuration file"
	}
}

// check validates a value. Errors do not contain secrets.
func (s setting) check(text string) error {
	switch s.kind {
	case number:
		if n, err := strconv.Atoi(text); err != nil || n < 0 {
			return fmt.Errorf("%q is not a nonnegative integer", text)
		}
	case boolean:
		if _, err := strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
	case duration:
		if d, err := time.ParseDuration(text); err != nil || d <= 0 {
			return fmt.Errorf("%q is not a duration such as 500ms or 5s", text)
		}
	}
	return nil
}

func (c *Config) has(name string) bool    { return c.values[name].from != unset }
func (c *Config) text(name string) string { return c.values[name].text }

func (c *Config) database() int {
	n, _ := strconv.Atoi(c.text("db")) // checked by Load
	return n
}

func (c *Config) boolean(name string) bool {
	b, _ := strconv.ParseBool(c.text(name)) // checked by Load
	return b
}

func (c *Config) duration(name string) time.Duration {
	d, _ := time.ParseDuration(c.text(name)) // checked by Load
	return d
}

// password returns the password, or the content of the password file, whichever takes precedence.
func (c *Config) password() (secret string, given bool, err error) {
	v, file := c.values["password"], c.values["password-file"]
	if file.from <= v.from {
		return v.text, v.from != unset, nil
	}
	content, err := os.ReadFile(file.text)
	if err != nil {
		return "", false, usage("%s: %v", file.from.of("password-file"), err)
	}
	return strings.TrimRight(string(content), "\r\n"), true, nil
}
