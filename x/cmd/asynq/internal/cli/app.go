package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/conn"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// app is one execution of the program.
type app struct {
	Streams

	running *cobra.Command // nil until flags and arguments are validated
	config  *conn.Config
	shared  redis.UniversalClient
	hinted  bool          // hint has printed
	answers *bufio.Reader // reads a.In
}

// settings returns the connection settings, from flags, the environment and the configuration file.
func (a *app) settings(cmd *cobra.Command) (*conn.Config, error) {
	if a.config == nil {
		config, err := conn.Load(cmd.Flags(), a.Env)
		if err != nil {
			return nil, err
		}
		a.config = config
		for _, key := range config.UnknownKeys {
			a.printErrf("asynq: warning: unknown key %q in the configuration file", key)
		}
		a.warnExposed(config.ExposedFile)
		if config.Overridden != "" {
			a.printErrf("asynq: warning: %s overrides the server of context %q", config.Overridden, config.Context)
		}
	}
	return a.config, nil
}

// warnExposed warns that other users can read the configuration file. An empty path means no
// warning.
func (a *app) warnExposed(path string) {
	if path != "" {
		a.printErrf("asynq: warning: %s contains a password and is accessible to other users: restrict it with chmod 600", path)
	}
}

// configFile reads the configuration file, and warns if other users can read its passwords.
func (a *app) configFile(cmd *cobra.Command) (*conn.File, error) {
	f, err := conn.LoadFile(cmd.Flags(), a.Env)
	if err == nil && f.Exposed {
		a.warnExposed(f.Path)
	}
	return f, err
}

// connOpt returns connection options that share one connection until the command ends.
func (a *app) connOpt(cmd *cobra.Command) (asynq.RedisConnOpt, error) {
	client, err := a.redis(cmd)
	if err != nil {
		return nil, err
	}
	opt := asynq.SharedRedisClient(client)
	return inNamespace(opt, a.config.Namespace())
}

// inNamespace adds the namespace to the connection options. An empty namespace changes nothing.
func inNamespace(opt asynq.RedisConnOpt, ns string) (asynq.RedisConnOpt, error) {
	if ns == "" {
		return opt, nil
	}
	if strings.TrimSpace(ns) == "" || strings.ContainsAny(ns, "{}") || !utf8.ValidString(ns) {
		return nil, usage("invalid namespace %q: it must not be blank, must be UTF-8, and must not contain braces", ns)
	}
	return asynq.WithNamespace(opt, ns), nil
}

// redis returns the connection.
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
	client, ok := conn.FewRetries(opt).MakeRedisClient().(redis.UniversalClient)
	if !ok {
		return nil, fmt.Errorf("%T does not create a client", opt)
	}
	a.shared = client
	return client, nil
}

// inspector returns an inspector whose methods without a context end with the command.
func (a *app) inspector(cmd *cobra.Command) (*asynq.Inspector, error) {
	opt, err := a.connOpt(cmd)
	if err != nil {
		return nil, err
	}
	return asynq.NewInspector(opt).WithContext(cmd.Context()), nil
}

// client returns a client that enqueues tasks.
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

// printErrf writes a message to standard error. Formats quote names with %q; other characters that
// could control the terminal are escaped.
func (a *app) printErrf(format string, args ...any) {
	fmt.Fprintln(a.Err, out.Escape(fmt.Sprintf(format, args...)))
}

// packageNames removes package names from errors: they do not help a user of the command line.
var packageNames = strings.NewReplacer(": asynq: ", ": ", ": rdb: ", ": ", ": inspect: ", ": ", ": doctor: ", ": ", ": outbox: ", ": ",
	": flow: rdb: ", ": ", ": flow: ", ": ",
	"(rdb: ", "(", "(inspect: ", "(")

// message returns the text of an error for users.
func message(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	text := err.Error()
	if missing := (*asynq.NotFoundError)(nil); errors.As(err, &missing) {
		text = strings.Replace(text, missing.Error(), notFoundText(missing), 1)
	}
	text = packageNames.Replace(": " + text)
	for cut := true; cut; {
		text, cut = strings.CutPrefix(packageNames.Replace(text), ": ")
	}
	if dial := dialError(err); dial != nil {
		text = strings.ReplaceAll(text, dial.Error(), dialErrorText(dial))
	}
	return text
}

// notFoundText returns the error text with the names of the queue and the task, which the library
// omits.
func notFoundText(missing *asynq.NotFoundError) string {
	if missing.ID != "" {
		return fmt.Sprintf("%v: %q in queue %q", missing.Unwrap(), missing.ID, missing.Queue)
	}
	return fmt.Sprintf("%v: %q", missing.Unwrap(), missing.Queue)
}

// dialError returns the error of a failed connection attempt in err's chain, or nil.
func dialError(err error) *net.OpError {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return op
	}
	return nil
}

// dialErrorText returns the text of a failed connection attempt for users.
func dialErrorText(dial *net.OpError) string {
	where, cause := "", dial.Err
	if dial.Addr != nil {
		where = " at " + dial.Addr.String()
	}
	var call *os.SyscallError
	if errors.As(cause, &call) {
		cause = call.Err
	}
	return fmt.Sprintf("cannot connect to Redis%s: %v", where, cause)
}
