// Package conn finds out how to reach Redis: from flags, the environment and a file with named contexts.
package conn

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// UsageError says that what the user gave cannot be used.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// UnknownContextError says that the file has no context of the name that was asked for.
type UnknownContextError struct{ Text string }

func (e *UnknownContextError) Error() string { return e.Text }

// kind is how the text of a setting is read.
type kind uint8

const (
	text kind = iota
	number
	yesNo
	duration
)

// setting is one of the things to know of a connection: a flag, an environment variable and a key of the file.
type setting struct {
	name   string // as a flag; in the file with _ for -
	short  string
	kind   kind
	secret bool
	help   string
}

// settings are in the order of the help.
var settings = []setting{
	{name: "uri", short: "u", help: "address of Redis: host:port, or redis://, rediss://, redis-socket://, redis-sentinel://, redis-cluster:// with all that belongs to it (default 127.0.0.1:6379)"},
	{name: "db", short: "n", kind: number, help: "number of the database"},
	{name: "username", short: "U", help: "ACL user to log in as"},
	{name: "password", short: "p", secret: true, help: "password; others see it in the list of processes: better use --password-file or ASYNQ_PASSWORD"},
	{name: "password-file", help: "file that holds the password"},
	{name: "cluster", kind: yesNo, help: "Redis is a cluster"},
	{name: "cluster-addrs", help: "nodes of the cluster, as host:port,host:port"},
	{name: "sentinel-addrs", help: "sentinels, as host:port,host:port"},
	{name: "sentinel-master", help: "name of the master that the sentinels watch"},
	{name: "sentinel-username", help: "ACL user to log in to the sentinels as"},
	{name: "sentinel-password", secret: true, help: "password of the sentinels"},
	{name: "tls", kind: yesNo, help: "use TLS"},
	{name: "tls-server", help: "name that the server's certificate is for, if it is not the host's; turns TLS on"},
	{name: "tls-ca", help: "file of the CA certificates (PEM) to trust; turns TLS on"},
	{name: "tls-cert", help: "file of the client certificate (PEM); turns TLS on"},
	{name: "tls-key", help: "file of the key of the client certificate (PEM)"},
	{name: "insecure", kind: yesNo, help: "with TLS: accept any certificate"},
	{name: "namespace", help: "what keys begin with (default asynq)"},
	{name: "dial-timeout", kind: duration, help: "limit for making a connection (default 5s)"},
	{name: "timeout", kind: duration, help: "limit for a reply of Redis (default 5s)"},
}

// SetByFlags adds a flag for each setting, and --config and --context.
func SetByFlags(fs *pflag.FlagSet) {
	fs.String("config", "", "configuration file (default $HOME/.asynq.yaml)")
	fs.String("context", "", "named context of the configuration file")
	for _, s := range settings {
		switch s.kind {
		case number:
			fs.IntP(s.name, s.short, 0, s.help)
		case yesNo:
			fs.BoolP(s.name, s.short, false, s.help)
		case duration:
			fs.DurationP(s.name, s.short, 0, s.help)
		default:
			fs.StringP(s.name, s.short, "", s.help)
		}
	}
}

// EnvName is the environment variable for a flag: ASYNQ_CLUSTER_ADDRS for cluster-addrs.
func EnvName(flag string) string {
	return "ASYNQ_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// source is where a value comes from; the greater one wins.
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

// Config is what is known of a connection.
type Config struct {
	// Context is the name of the context in use, "" if it is none.
	Context string

	// UnknownKeys of the outermost level of the file mean nothing.
	UnknownKeys []string

	values map[string]value
}

// Load finds the value of each setting: the flag's, else the environment's, else that of the context (or of the file's outermost
// level, if no context is chosen).
func Load(fs *pflag.FlagSet, env func(string) (string, bool)) (*Config, error) {
	file, err := LoadFile(fs, env)
	if err != nil {
		return nil, err
	}
	c := &Config{values: map[string]value{}, UnknownKeys: file.Unknown}
	chosen := file.Chosen(fs, env)
	stored, from := file.Flat, fromFlat
	if chosen != "" {
		ctx, ok := file.Contexts[chosen]
		if !ok {
			return nil, &UnknownContextError{fmt.Sprintf("no context %q in %s: asynq context ls tells those that there are", chosen, file.Path)}
		}
		c.Context, stored, from = chosen, ctx, fromContext
	}
	for _, s := range settings {
		v := flagOrEnv(fs, env, s.name)
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
	c.detach()
	// Files of the existing tool hold addresses of a cluster next to the switch that says whether to use them.
	if no := c.values["cluster"]; no.from != unset && !c.yes("cluster") && no.from >= c.values["cluster-addrs"].from {
		delete(c.values, "cluster-addrs")
	}
	return c, nil
}

// flagOrEnv is the value of a flag, if it was given there or in the environment.
func flagOrEnv(fs *pflag.FlagSet, env func(string) (string, bool), name string) value {
	if f := fs.Lookup(name); f != nil && f.Changed {
		return value{f.Value.String(), fromFlag}
	}
	if t, ok := env(EnvName(name)); ok && t != "" {
		return value{t, fromEnv}
	}
	return value{}
}

// where tells settings that say which server to talk to.
var where = []string{"uri", "cluster-addrs", "sentinel-addrs"}

// detach keeps what a context says of its own server from another one that was named above it: its password must not go there.
func (c *Config) detach() {
	highest := unset
	for _, name := range where {
		highest = max(highest, c.values[name].from)
	}
	if highest <= fromContext {
		return
	}
	for name, v := range c.values {
		if v.from == fromContext && name != "namespace" && name != "timeout" && name != "dial-timeout" {
			delete(c.values, name)
		}
	}
	// Of several ways to name a server the one with precedence holds.
	for _, name := range []string{"uri", "cluster", "cluster-addrs", "sentinel-addrs", "sentinel-master"} {
		if v := c.values[name]; v.from == fromFlat {
			delete(c.values, name)
		}
	}
}

// of names a setting as the user wrote it.
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

// check reads a value as what it must be. No error tells the value of a secret.
func (s setting) check(text string) error {
	switch s.kind {
	case number:
		if n, err := strconv.Atoi(text); err != nil || n < 0 {
			return fmt.Errorf("%q is not a number of 0 or more", text)
		}
	case yesNo:
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

func (c *Config) number(name string) int {
	n, _ := strconv.Atoi(c.text(name)) // checked by Load
	return n
}

func (c *Config) yes(name string) bool {
	b, _ := strconv.ParseBool(c.text(name)) // checked by Load
	return b
}

func (c *Config) duration(name string) time.Duration {
	d, _ := time.ParseDuration(c.text(name)) // checked by Load
	return d
}

// password is the one given, or the content of the file given. The one with precedence wins.
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
