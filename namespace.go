package asynq

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// WithNamespace returns connection options under which all keys begin with the namespace instead of "asynq". What uses
// different namespaces on one Redis sees nothing of each other. Other libraries on the same wire format know only "asynq". Of several
// namespaces the outermost holds. Who connects with these options panics if the namespace is blank, has a brace in it or is not UTF-8.
func WithNamespace(r RedisConnOpt, namespace string) RedisConnOpt {
	return namespaced{RedisConnOpt: r, namespace: namespace}
}

type namespaced struct {
	RedisConnOpt
	namespace string
}

// MakeRedisClient returns what the options make that the namespace was added to.
func (n namespaced) MakeRedisClient() interface{} {
	if isNilValue(n.RedisConnOpt) {
		return nil
	}
	return n.RedisConnOpt.MakeRedisClient()
}

// SharedRedisClient returns connection options that use a connection which stays the caller's to close. Who connects with them panics if
// c is nil.
func SharedRedisClient(c redis.UniversalClient) RedisConnOpt { return sharedClient{c} }

type sharedClient struct{ client redis.UniversalClient }

// MakeRedisClient returns the shared connection.
func (s sharedClient) MakeRedisClient() interface{} { return s.client }

// ConnectRedis makes the connection that r describes, for packages that keep keys of their own beside those of tasks: namespace is
// what all of their keys are to begin with, and owned tells whether the caller is to close the client. It is not where r comes from
// SharedRedisClient. The error says what is wrong with r; whether Redis answers is not known yet.
func ConnectRedis(r RedisConnOpt) (client redis.UniversalClient, namespace string, owned bool, err error) {
	conn, err := tryConnect(r)
	if err != nil {
		return nil, "", false, err
	}
	return conn.client, string(conn.namespace), !conn.shared, nil
}

// connect makes the connection that r describes. As in the rest of the constructors, what can only be a mistake in the program is a
// panic.
func connect(r RedisConnOpt) connection {
	conn, err := tryConnect(r)
	if err != nil {
		panic(err)
	}
	return conn
}

func tryConnect(r RedisConnOpt) (connection, error) {
	conn := connection{namespace: wire.DefaultNamespace, now: time.Now}
	for outermost := true; ; outermost = false {
		n, ok := r.(namespaced)
		if !ok {
			break
		}
		if outermost {
			if err := validateNamespace(n.namespace); err != nil {
				return conn, err
			}
			conn.namespace = wire.Namespace(n.namespace)
		}
		r = n.RedisConnOpt
	}
	_, conn.shared = r.(sharedClient)
	conn.patience = patience(r)
	if clock, ok := r.(interface{ Now() time.Time }); ok && !isNilValue(r) {
		conn.now = clock.Now
	}
	var err error
	conn.client, err = newRedisClient(r)
	return conn, err
}

func connectShared(c redis.UniversalClient) connection { return connect(SharedRedisClient(c)) }

func mustNamespace(name string) wire.Namespace {
	if err := validateNamespace(name); err != nil {
		panic(err)
	}
	return wire.Namespace(name)
}

func validateNamespace(name string) error {
	switch {
	case strings.TrimSpace(name) == "" || strings.ContainsAny(name, "{}"):
		return fmt.Errorf("asynq: namespace %q must not be empty and not contain braces", name)
	case !utf8.ValidString(name):
		return fmt.Errorf("asynq: namespace %q must be valid UTF-8", name) // it is a part of texts in messages
	default:
		return nil
	}
}
