package asynq

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// WithNamespace returns connection options under which all keys begin with the namespace instead of "asynq". What uses
// different namespaces on one Redis sees nothing of each other. Other libraries on the same wire format know only "asynq".
func WithNamespace(r RedisConnOpt, namespace string) RedisConnOpt {
	return namespaced{RedisConnOpt: r, namespace: namespace}
}

type namespaced struct {
	RedisConnOpt
	namespace string
}

// SharedRedisClient returns connection options that use a connection which stays the caller's to close.
func SharedRedisClient(c redis.UniversalClient) RedisConnOpt { return sharedClient{c} }

type sharedClient struct{ client redis.UniversalClient }

// MakeRedisClient returns the shared connection.
func (s sharedClient) MakeRedisClient() interface{} { return s.client }

// connect makes the connection that r describes. As in the rest of the constructors, what can only be a mistake in the program is a
// panic.
func connect(r RedisConnOpt) connection {
	conn := connection{namespace: wire.DefaultNamespace, now: time.Now}
	if n, ok := r.(namespaced); ok {
		conn.namespace = mustNamespace(n.namespace)
		r = n.RedisConnOpt
	}
	_, conn.shared = r.(sharedClient)
	if clock, ok := r.(interface{ Now() time.Time }); ok && !isNilValue(r) {
		conn.now = clock.Now
	}
	client, err := newRedisClient(r)
	if err != nil {
		panic(err)
	}
	conn.client = client
	return conn
}

func connectShared(c redis.UniversalClient) connection { return connect(SharedRedisClient(c)) }

func mustNamespace(name string) wire.Namespace {
	if strings.TrimSpace(name) == "" || strings.ContainsAny(name, "{}") {
		panic(fmt.Sprintf("asynq: namespace %q must not be empty and not contain braces", name))
	}
	return wire.Namespace(name)
}
