package rate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// connection is a client with the namespace of its keys.
type connection struct {
	client    redis.UniversalClient
	namespace string
	owned     bool // opened by this package, which must close it
}

// connect opens the connection of rco. It panics for errors that can only be mistakes in the
// program.
func connect(rco asynq.RedisConnOpt) connection {
	conn, err := asynq.ConnectRedis(rco)
	if err != nil {
		panic(fmt.Errorf("rate: %w", err))
	}
	return connection{conn.Client, conn.Namespace, conn.Owned}
}

var errShared = errors.New("rate: shared Redis connection: close the client that owns it")

func (c connection) close() error {
	if !c.owned {
		return errShared
	}
	return c.client.Close()
}

// semaphoreKey returns the key as in docs/WIRE.md, shared with processes of other libraries.
func (c connection) semaphoreKey(scope string) string { return c.namespace + ":sema:" + scope }

// scopeEscaper escapes colons, so that a scope ends at the first colon and different pairs of scope
// and key have different names.
var scopeEscaper = strings.NewReplacer("%", "%25", ":", "%3A")

func (c connection) bucketKey(scope, key string) string {
	return c.namespace + ":rate:" + scopeEscaper.Replace(scope) + ":" + key
}

// mustScope panics if a scope is blank.
func mustScope(scope string) {
	if strings.TrimSpace(scope) == "" {
		panic("rate: the scope must not be blank")
	}
}
