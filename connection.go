package asynq

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// newRedisClient creates the client of r. It returns an error if r is nil or returns no client.
func newRedisClient(r RedisConnOpt) (redis.UniversalClient, error) {
	if isNilValue(r) {
		return nil, errors.New("asynq: RedisConnOpt is nil: " +
			"pass a RedisClientOpt, RedisFailoverClientOpt or RedisClusterClientOpt")
	}
	made := r.MakeRedisClient()
	if isNilValue(made) {
		return nil, fmt.Errorf("asynq: MakeRedisClient of %T returned nil: it must return a new client", r)
	}
	client, ok := made.(redis.UniversalClient)
	if !ok {
		return nil, fmt.Errorf("asynq: unsupported RedisConnOpt type %T: its MakeRedisClient must return "+
			"a redis.UniversalClient of github.com/redis/go-redis/v9, not %T", r, made)
	}
	return client, nil
}

// isNilValue reports whether v is nil or a nil pointer.
func isNilValue(v any) bool {
	rv := reflect.ValueOf(v)
	return !rv.IsValid() || rv.Kind() == reflect.Pointer && rv.IsNil()
}

// WithNamespace returns connection options under which all keys begin with namespace instead of
// "asynq". Programs that use different namespaces on the same Redis do not see each other's tasks.
// Other libraries that share the wire format only know "asynq". If namespaces are nested, the
// outermost takes precedence. Constructors panic if the namespace is blank, contains a brace or is
// not valid UTF-8.
func WithNamespace(opt RedisConnOpt, namespace string) RedisConnOpt {
	return namespaced{wrapped{opt}, namespace}
}

type namespaced struct {
	wrapped
	namespace string
}

// WithClock returns connection options with which a Client reads the time from now, for ProcessIn
// and to decide whether the time of ProcessAt has passed. It is meant for tests that control the
// clock of Redis, see x/asynqtest. A Server, Receiver, Scheduler or Inspector ignores it. If clocks
// are nested, the outermost takes precedence. If now is nil, the clock is time.Now.
func WithClock(opt RedisConnOpt, now func() time.Time) RedisConnOpt {
	if now == nil {
		now = time.Now
	}
	return clocked{wrapped{opt}, now}
}

type clocked struct {
	wrapped
	now func() time.Time
}

// WithMillisecondTimes returns connection options with which times are stored to the millisecond
// instead of rounded up to whole seconds: those of ProcessAt, ProcessIn and RescheduleTask, and the
// delays of retries, RetryAfter and Snooze. Tasks still never run early. Programs with and without
// it, and programs of the original library, can share queues (see docs/COMPATIBILITY.md): servers
// of the original library run such tasks within a second after their time.
func WithMillisecondTimes(opt RedisConnOpt) RedisConnOpt { return exact{wrapped{opt}} }

type exact struct{ wrapped }

type wrapped struct{ inner RedisConnOpt }

// MakeRedisClient calls the method of the wrapped options.
func (w wrapped) MakeRedisClient() interface{} {
	if isNilValue(w.inner) {
		return nil
	}
	return w.inner.MakeRedisClient()
}

// SharedRedisClient returns connection options that use an existing client. The caller remains
// responsible for closing it. Constructors panic if c is nil.
func SharedRedisClient(c redis.UniversalClient) RedisConnOpt { return sharedClient{c} }

type sharedClient struct{ client redis.UniversalClient }

// MakeRedisClient returns the shared client.
func (s sharedClient) MakeRedisClient() interface{} { return s.client }

// RedisConn is a connection for packages that store keys of their own beside those of tasks.
type RedisConn struct {
	Client    redis.UniversalClient // the connection
	Namespace string                // prefix of all keys, without the colon that follows it
	Owned     bool                  // whether Close closes Client; false for a SharedRedisClient

	millis bool // see WithMillisecondTimes
}

// ConnectRedis creates the connection that opt describes. It does not contact Redis. It returns an
// error if opt is nil or invalid.
func ConnectRedis(opt RedisConnOpt) (*RedisConn, error) {
	conn, err := tryConnect(opt)
	if err != nil {
		return nil, err
	}
	return &RedisConn{Client: conn.client, Namespace: string(conn.namespace), Owned: !conn.shared, millis: conn.millis}, nil
}

// Shared returns connection options that use the same client, namespace and precision of times, for
// a Client, an Inspector or a Server beside it. Closing these does not close the connection.
func (c *RedisConn) Shared() RedisConnOpt {
	opt := WithNamespace(SharedRedisClient(c.Client), c.Namespace)
	if c.millis {
		opt = WithMillisecondTimes(opt)
	}
	return opt
}

// Close closes Client if it is Owned, and does nothing otherwise.
func (c *RedisConn) Close() error {
	if !c.Owned {
		return nil
	}
	return c.Client.Close()
}

// connection is a Redis connection with its namespace and clock.
type connection struct {
	client      redis.UniversalClient
	namespace   wire.Namespace
	now         func() time.Time // the clock of a Client
	millis      bool             // times are stored to the millisecond
	shared      bool             // closed by the caller
	retryBudget time.Duration    // how long enqueue calls are retried during a failover
}

// connect creates the connection that opt describes, and panics if opt is invalid, as all
// constructors do on programming errors.
func connect(opt RedisConnOpt) connection {
	conn, err := tryConnect(opt)
	if err != nil {
		panic(err)
	}
	return conn
}

func tryConnect(opt RedisConnOpt) (connection, error) {
	var conn connection
	for more := true; more; {
		switch w := opt.(type) {
		case namespaced:
			if conn.namespace == "" {
				if err := validateNamespace(w.namespace); err != nil {
					return conn, err
				}
				conn.namespace = wire.Namespace(w.namespace)
			}
			opt = w.inner
		case clocked:
			if conn.now == nil {
				conn.now = w.now
			}
			opt = w.inner
		case exact:
			conn.millis = true
			opt = w.inner
		default:
			more = false
		}
	}
	conn.namespace = cmp.Or(conn.namespace, wire.DefaultNamespace)
	if conn.now == nil {
		conn.now = time.Now
	}
	_, conn.shared = opt.(sharedClient)
	conn.retryBudget = retryBudget(opt)
	var err error
	conn.client, err = newRedisClient(opt)
	return conn, err
}

// newBroker returns a broker.
func (c connection) newBroker() *rdb.Broker {
	broker := rdb.New(c.client, c.namespace)
	broker.MillisecondTimes = c.millis
	return broker
}

// enqueuer returns a broker that registers the queues that it enqueues to.
func (c connection) enqueuer() *rdb.Broker {
	broker := c.newBroker()
	broker.Later = func(d time.Duration, f func()) { time.AfterFunc(d, f) }
	return broker
}

// close closes the connection of an owner, such as "Client". It returns an error if the connection
// is shared.
func (c connection) close(owner string) error {
	if c.shared {
		return fmt.Errorf("asynq: the %s uses a shared Redis connection: close that instead", owner)
	}
	return c.client.Close()
}

// release closes the connection unless it is shared.
func (c connection) release() error {
	if c.shared {
		return nil
	}
	if err := c.client.Close(); err != nil {
		return fmt.Errorf("asynq: close the connection: %w", err)
	}
	return nil
}

func validateNamespace(name string) error {
	switch {
	case strings.TrimSpace(name) == "" || strings.ContainsAny(name, "{}"):
		return fmt.Errorf("asynq: namespace %q must not be empty and not contain braces", name)
	case !utf8.ValidString(name):
		return fmt.Errorf("asynq: namespace %q must be valid UTF-8", name) // messages with a unique key contain it
	default:
		return nil
	}
}
