package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/conn"
)

// app is one run of the program.
type app struct {
	Streams

	running *cobra.Command // nil until flags and arguments are found good
	config  *conn.Config
	shared  redis.UniversalClient
	hinted  bool          // by hint
	answers *bufio.Reader // of a.In
}

// settings of the connection, from wherever they come.
func (a *app) settings(cmd *cobra.Command) (*conn.Config, error) {
	if a.config == nil {
		config, err := conn.Load(cmd.Flags(), a.Env)
		if err != nil {
			return nil, err
		}
		a.config = config
		for _, key := range config.UnknownKeys {
			a.say("asynq: the configuration file has a key %q that means nothing here", key)
		}
	}
	return a.config, nil
}

// connOpt are connection options that share one connection for as long as the command runs.
func (a *app) connOpt(cmd *cobra.Command) (asynq.RedisConnOpt, error) {
	client, err := a.redis(cmd)
	if err != nil {
		return nil, err
	}
	opt := asynq.SharedRedisClient(client)
	return inNamespace(opt, a.config.Namespace())
}

// inNamespace adds a namespace to connection options, unless it is empty.
func inNamespace(opt asynq.RedisConnOpt, ns string) (asynq.RedisConnOpt, error) {
	if ns == "" {
		return opt, nil
	}
	if strings.TrimSpace(ns) == "" || strings.ContainsAny(ns, "{}") || !utf8.ValidString(ns) {
		return nil, usage("namespace %q must not be blank, must be UTF-8, and must have no braces in it", ns)
	}
	return asynq.WithNamespace(opt, ns), nil
}

// redis is the connection itself.
func (a *app) redis(cmd *cobra.Command) (redis.UniversalClient, error) {
	if a.shared != nil {
		return a.shared, nil
	}
	config, err := a.settings(cmd)
	if err != nil {
		return nil, err
	}
	opt, err := config.RedisConnOpt()
	if err != nil {
		return nil, err
	}
	client, ok := opt.MakeRedisClient().(redis.UniversalClient)
	if !ok {
		return nil, fmt.Errorf("%T makes no client", opt)
	}
	a.shared = client
	return client, nil
}

// inspector whose methods without a context end with the command.
func (a *app) inspector(cmd *cobra.Command) (*asynq.Inspector, error) {
	opt, err := a.connOpt(cmd)
	if err != nil {
		return nil, err
	}
	return asynq.NewInspector(opt).WithContext(cmd.Context()), nil
}

// client that enqueues.
func (a *app) client(cmd *cobra.Command) (*asynq.Client, error) {
	opt, err := a.connOpt(cmd)
	if err != nil {
		return nil, err
	}
	return asynq.NewClient(opt), nil
}

func (a *app) close() {
	if a.shared != nil {
		_ = a.shared.Close() // the program ends
	}
}

// say tells people something, on standard error.
func (a *app) say(format string, args ...any) { fmt.Fprintf(a.Err, format+"\n", args...) }

// packages are names that stand in errors for where they come from, which helps nobody here.
var packages = strings.NewReplacer(": asynq: ", ": ", ": rdb: ", ": ", "(rdb: ", "(")

// message is the text of an error for people.
func message(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	text := packages.Replace(": " + err.Error())
	for cut := true; cut; {
		text, cut = strings.CutPrefix(packages.Replace(text), ": ")
	}
	return text
}
