package asynq

import (
	"crypto/tls"
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/redisopt"
)

// RedisConnOpt describes a connection to Redis. The package provides RedisClientOpt for a single
// server, RedisFailoverClientOpt for Redis Sentinel and RedisClusterClientOpt for Redis Cluster;
// ParseRedisURI returns one of them. SharedRedisClient, WithNamespace, WithClock and
// WithMillisecondTimes return variants.
type RedisConnOpt interface {
	// MakeRedisClient returns a new redis.UniversalClient of github.com/redis/go-redis/v9, which
	// the caller must close. The result type is that of the original library.
	MakeRedisClient() interface{}
}

// RedisClientOpt describes a connection to a single Redis server. It is comparable. A field that is
// zero has the default of go-redis. Numbers of connections are clamped to the range from 0 to
// 100,000.
type RedisClientOpt struct {
	// Network is "tcp" or "unix". The default is "unix" if Addr begins with a slash, and "tcp"
	// otherwise.
	Network string

	// Addr is "host:port" or the path of a Unix socket. The default is "localhost:6379".
	Addr string

	Username string // name of the ACL user; ignored without a Password
	Password string // of each connection; if empty, connections do not authenticate
	DB       int    // number of the database

	// Time limits for connecting, for receiving a reply, and for sending a command. -1 means no
	// limit, except for connecting. The default is 5 seconds; of WriteTimeout, it is ReadTimeout.
	DialTimeout, ReadTimeout, WriteTimeout time.Duration

	PoolSize  int         // number of pooled connections; the default is 10 per CPU (GOMAXPROCS)
	TLSConfig *tls.Config // enables TLS; if nil, TLS is not used

	// Params are further options of go-redis, as the query of a URL for redis.ParseURL:
	// "max_retries=5&min_idle_conns=2&client_name=web". Fields that are not zero take precedence.
	// See also Configure.
	Params string
}

// MakeRedisClient returns a new *redis.Client without connecting. It panics if Params is invalid.
func (opt RedisClientOpt) MakeRedisClient() interface{} { return redis.NewClient(opt.options()) }

// Configure returns connection options that call change with the go-redis options derived from opt
// before a client is created, for settings that have no field here: a custom Dialer, or credentials
// that expire (CredentialsProviderContext). If change is nil, Configure returns opt.
func (opt RedisClientOpt) Configure(change func(*redis.Options)) RedisConnOpt {
	return configure(opt, opt.options, change, redis.NewClient)
}

func (opt RedisClientOpt) options() *redis.Options {
	return mustOptions(redis.ParseURL, opt.Params, opt)
}

// RedisFailoverClientOpt describes a connection to the master of a Redis Sentinel deployment, which
// follows failovers. A field that is zero has the default of go-redis. Timeouts, pool settings and
// TLS also apply to the connections to the sentinels. Numbers of connections are clamped as in
// RedisClientOpt.
type RedisFailoverClientOpt struct {
	MasterName string // name of the master

	// SentinelAddrs are the addresses of the sentinels, as "host:port". A reliable failover needs
	// at least three.
	SentinelAddrs []string

	SentinelUsername string // name of the ACL user for the sentinels; ignored without a password
	SentinelPassword string // if empty, connections to the sentinels do not authenticate

	// Username, Password and DB are for Redis. These and the fields below are as in RedisClientOpt.
	Username     string
	Password     string
	DB           int
	DialTimeout  time.Duration
	ReadTimeout  time.Duration
	WriteTimeout time.Duration
	PoolSize     int
	TLSConfig    *tls.Config

	// Params are further options of go-redis, as in RedisClientOpt. The default of max_retries is
	// 3, which takes about a second while Redis is unreachable. With the default, a Client retries
	// enqueue calls for about 10 seconds, or until their ctx ends, to outlast a failover.
	Params string
}

// MakeRedisClient returns a new *redis.Client without connecting. It panics if Params is invalid.
func (opt RedisFailoverClientOpt) MakeRedisClient() interface{} {
	return redis.NewFailoverClient(opt.options())
}

// Configure returns connection options that call change with the go-redis options derived from opt
// before a client is created, for settings that have no field here. A custom Dialer also applies to
// the sentinels, a CredentialsProviderContext does not. If change is nil, Configure returns opt.
func (opt RedisFailoverClientOpt) Configure(change func(*redis.FailoverOptions)) RedisConnOpt {
	return configure(opt, opt.options, change, redis.NewFailoverClient)
}

func (opt RedisFailoverClientOpt) options() *redis.FailoverOptions {
	return mustOptions(redis.ParseFailoverURL, opt.Params, opt)
}

func (opt RedisFailoverClientOpt) retries() int { return opt.options().MaxRetries }

// RedisClusterClientOpt describes a connection to a Redis Cluster. A field that is zero has the
// default of go-redis. A cluster has only database 0. The pool settings apply per node. Numbers of
// connections are clamped as in RedisClientOpt.
type RedisClusterClientOpt struct {
	// Addrs are the addresses of some nodes of the cluster, as "host:port". The others are
	// discovered.
	Addrs []string

	// MaxRedirects is how often a command is retried after a network error or a MOVED or ASK reply;
	// -1 means never. The default is 3, which takes about a second while a node is unreachable.
	// With the default, a Client retries enqueue calls for about 10 seconds, or until their ctx
	// ends, to outlast a failover.
	MaxRedirects int

	// The fields below are as in RedisClientOpt, and apply to each node.
	Username     string
	Password     string
	DialTimeout  time.Duration
	ReadTimeout  time.Duration
	WriteTimeout time.Duration
	TLSConfig    *tls.Config

	// Params are further options of go-redis, as in RedisClientOpt. max_retries is how often the
	// client of a node retries a command, in addition to MaxRedirects; by default, it never does.
	Params string
}

// MakeRedisClient returns a new *redis.ClusterClient without connecting. It panics if Params is
// invalid.
func (opt RedisClusterClientOpt) MakeRedisClient() interface{} {
	return redis.NewClusterClient(opt.options())
}

// Configure returns connection options that call change with the go-redis options derived from opt
// before a client is created, for settings that have no field here: a custom Dialer, or credentials
// that expire (CredentialsProviderContext). If change is nil, Configure returns opt.
func (opt RedisClusterClientOpt) Configure(change func(*redis.ClusterOptions)) RedisConnOpt {
	return configure(opt, opt.options, change, redis.NewClusterClient)
}

func (opt RedisClusterClientOpt) options() *redis.ClusterOptions {
	return mustOptions(redis.ParseClusterURL, opt.Params, opt)
}

func (opt RedisClusterClientOpt) retries() int { return opt.options().MaxRedirects }

// configured is a connection option with changed go-redis options.
type configured struct {
	RedisConnOpt // the original options
	connect      func() interface{}
}

// MakeRedisClient returns a new client with the changed options.
func (c configured) MakeRedisClient() interface{} { return c.connect() }

func configure[O, C any](opt RedisConnOpt, options func() *O, change func(*O), connect func(*O) C) RedisConnOpt {
	if change == nil {
		return opt
	}
	return configured{opt, func() interface{} {
		o := options()
		change(o)
		return connect(o)
	}}
}

// mustOptions returns the options of go-redis for opt: params, then the fields of opt that are not
// zero.
func mustOptions[O any](parse func(url string) (*O, error), params string, opt any) *O {
	o, err := parse("redis://localhost?" + params)
	if err != nil {
		panic(fmt.Errorf("asynq: Params of the connection option: %w", err))
	}
	redisopt.Reset(o, "Network", "Addr", "Addrs", "SentinelAddrs") // of the URL above
	from, to := reflect.ValueOf(opt), reflect.ValueOf(o).Elem()
	for i := range from.NumField() {
		if name, value := from.Type().Field(i).Name, from.Field(i); name != "Params" && !value.IsZero() {
			to.FieldByName(name).Set(value)
		}
	}
	for _, name := range []string{"PoolSize", "MinIdleConns", "MaxActiveConns"} {
		n := to.FieldByName(name)
		n.SetInt(min(max(n.Int(), 0), maxConns)) // go-redis panics if it is negative
	}
	redisopt.DisableMaintNotifications(o)
	return o
}

// maxConns bounds the connections of a pool, for which go-redis allocates memory in advance.
const maxConns = 100_000

// failoverBudget is the retry budget of enqueue calls during a failover, which takes about 3
// seconds on Redis Cluster by default, and longer with Sentinel.
const failoverBudget = 10 * time.Second

// retryBudget returns the retry budget of enqueue calls on a connection of r. It is zero for a
// single server, which has no failover, and if the number of retries is configured.
func retryBudget(r RedisConnOpt) time.Duration {
	if c, ok := r.(configured); ok {
		r = c.RedisConnOpt
	}
	if o, ok := r.(interface{ retries() int }); !ok || isNilValue(r) || o.retries() != 0 {
		return 0
	}
	return failoverBudget
}
