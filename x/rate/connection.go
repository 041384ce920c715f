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
	owned     bool // ours to close
}

// connect makes the connection that rco describes. What can only be a mistake in the program is a panic.
func connect(rco asynq.RedisConnOpt) connection {
	client, namespace, owned, err := asynq.ConnectRedis(rco)
	if err != nil {
		panic(fmt.Errorf("rate: %w", err))
	}
	return connection{client, namespace, owned}
}

var errShared = errors.New("rate: this works on a shared Redis connection: close that instead")

func (c connection) close() error {
	if !c.owned {
		return errShared
	}
	return c.client.Close()
}

// semaphoreKey is spelled as in docs/WIRE.md: processes of other libraries use the same.
func (c connection) semaphoreKey(scope string) string { return c.namespace + ":sema:" + scope }

// scopeEscaper keeps the colon behind a scope the first one, so that no two pairs of scope and key make the same name.
var scopeEscaper = strings.NewReplacer("%", "%25", ":", "%3A")

func (c connection) bucketKey(scope, key string) string {
	return c.namespace + ":rate:" + scopeEscaper.Replace(scope) + ":" + key
}

// mustScope panics if a scope is blank.
func mustScope(scope string) {
	if strings.TrimSpace(scope) == "" {
		panic("rate: the scope must not be blank: it names what is limited")
	}
}
