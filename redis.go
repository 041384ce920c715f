package asynq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// RedisConnOpt says how to reach Redis. RedisClientOpt (one server), RedisFailoverClientOpt (Sentinel) and
// RedisClusterClientOpt (Redis Cluster) are the three that come with the package; ParseRedisURI makes one from a URI.
//
// A test that moves the clock of its Redis gives the connection option a method Now() time.Time as well: a Client then takes the
// time from there, for ProcessIn, and for whether ProcessAt is over already (see x/asynqtest). Servers do not.
type RedisConnOpt interface {
	// MakeRedisClient returns a new client. The caller owns it and closes it. The value must implement
	// redis.UniversalClient of go-redis v9; the type says less so that a program can name a RedisConnOpt without
	// importing go-redis.
	MakeRedisClient() interface{}
}

// RedisClientOpt connects to one Redis server. The zero value of a field leaves go-redis's default. Numbers of connections are from 0 to
// 100,000; what is outside counts as the nearer of both.
type RedisClientOpt struct {
	// Network is "tcp" or "unix". By default "unix" if Addr begins with a slash, else "tcp".
	Network string

	// Addr is "host:port", or the path of a unix socket. Default "localhost:6379".
	Addr string

	// Username is the ACL user to authenticate as. It counts only with a Password.
	Username string

	// Password authenticates each connection; empty means none is sent.
	Password string

	// DB is the number of the database to select.
	DB int

	// DialTimeout limits the making of a connection. Default 5 s.
	DialTimeout time.Duration

	// ReadTimeout limits the wait for a reply; -1 means no limit. Default 5 s.
	ReadTimeout time.Duration

	// WriteTimeout limits the sending of a command; -1 means no limit. Default ReadTimeout.
	WriteTimeout time.Duration

	// PoolSize is the number of connections kept for use. Default 10 for each CPU (GOMAXPROCS).
	PoolSize int

	// TLSConfig turns TLS on if it is not nil. It has no effect if Dialer is set.
	TLSConfig *tls.Config

	// MaxRetries is how often go-redis repeats a command that failed on the network; -1 means never. Default 3.
	MaxRetries int

	// MinIdleConns is the number of connections to keep open even if unused. Default 0.
	MinIdleConns int

	// MaxActiveConns is the most connections the pool opens at a time. Default 0: no limit, and PoolSize may be exceeded.
	MaxActiveConns int

	// PoolTimeout limits the wait for a free connection. Default ReadTimeout + 1 s.
	PoolTimeout time.Duration

	// ConnMaxIdleTime is the time after which an unused connection is closed; -1 means never. Default 30 min.
	ConnMaxIdleTime time.Duration

	// ConnMaxLifetime is the age at which a connection is no longer used. Default 0: no limit.
	ConnMaxLifetime time.Duration

	// ClientName is the name each connection gives itself (CLIENT SETNAME), without spaces.
	ClientName string

	// Protocol is the version of RESP to speak, 2 or 3. Default 3.
	Protocol int

	// CredentialsProviderContext is asked for user and password before each new connection, in place of Username
	// and Password: for credentials that expire.
	CredentialsProviderContext func(ctx context.Context) (username, password string, err error)

	// Dialer makes the connections, in place of net.Dialer and TLSConfig.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

	// Configure, if set, is called last, with the options that the fields above made, and may change any of them.
	Configure func(*redis.Options)
}

// MakeRedisClient returns a new *redis.Client. It does not connect yet.
func (opt RedisClientOpt) MakeRedisClient() interface{} {
	o := &redis.Options{
		Network:                    opt.Network,
		Addr:                       opt.Addr,
		Username:                   opt.Username,
		Password:                   opt.Password,
		DB:                         opt.DB,
		DialTimeout:                opt.DialTimeout,
		ReadTimeout:                opt.ReadTimeout,
		WriteTimeout:               opt.WriteTimeout,
		PoolSize:                   connCount(opt.PoolSize),
		TLSConfig:                  opt.TLSConfig,
		MaxRetries:                 opt.MaxRetries,
		MinIdleConns:               connCount(opt.MinIdleConns),
		MaxActiveConns:             connCount(opt.MaxActiveConns),
		PoolTimeout:                opt.PoolTimeout,
		ConnMaxIdleTime:            opt.ConnMaxIdleTime,
		ConnMaxLifetime:            opt.ConnMaxLifetime,
		ClientName:                 opt.ClientName,
		Protocol:                   opt.Protocol,
		CredentialsProviderContext: opt.CredentialsProviderContext,
		Dialer:                     opt.Dialer,
		MaintNotificationsConfig:   noMaintNotifications(),
	}
	if opt.Configure != nil {
		opt.Configure(o)
	}
	return redis.NewClient(o)
}

// RedisFailoverClientOpt connects to the master that Redis Sentinel names, and follows it when it changes. The zero
// value of a field leaves go-redis's default. Timeouts, pool, TLS and dialer hold for the sentinels too. Numbers of connections are
// bounded as those of RedisClientOpt.
type RedisFailoverClientOpt struct {
	// MasterName is the name by which the sentinels know the master.
	MasterName string

	// SentinelAddrs are the sentinels as "host:port", at least three for a failover that can be relied on.
	SentinelAddrs []string

	// SentinelUsername is the ACL user to authenticate as with the sentinels. It counts only with a SentinelPassword.
	SentinelUsername string

	// SentinelPassword authenticates with the sentinels; empty means none is sent.
	SentinelPassword string

	// Username is the ACL user to authenticate as with Redis. It counts only with a Password.
	Username string

	// Password authenticates with Redis; empty means none is sent.
	Password string

	// DB is the number of the database to select.
	DB int

	// DialTimeout limits the making of a connection. Default 5 s.
	DialTimeout time.Duration

	// ReadTimeout limits the wait for a reply; -1 means no limit. Default 5 s.
	ReadTimeout time.Duration

	// WriteTimeout limits the sending of a command; -1 means no limit. Default ReadTimeout.
	WriteTimeout time.Duration

	// PoolSize is the number of connections kept for use. Default 10 for each CPU (GOMAXPROCS).
	PoolSize int

	// TLSConfig turns TLS on if it is not nil. It has no effect if Dialer is set.
	TLSConfig *tls.Config

	// MaxRetries is how often go-redis repeats a command that failed on the network; -1 means never. Default 3, which is over
	// after about a second where nobody can be reached; enqueue calls of a Client then go on for about 10 s, or until their ctx ends, so
	// that a failover does not leave them open.
	MaxRetries int

	// MinIdleConns is the number of connections to keep open even if unused. Default 0.
	MinIdleConns int

	// MaxActiveConns is the most connections the pool opens at a time. Default 0: no limit, and PoolSize may be exceeded.
	MaxActiveConns int

	// PoolTimeout limits the wait for a free connection. Default ReadTimeout + 1 s.
	PoolTimeout time.Duration

	// ConnMaxIdleTime is the time after which an unused connection is closed; -1 means never. Default 30 min.
	ConnMaxIdleTime time.Duration

	// ConnMaxLifetime is the age at which a connection is no longer used. Default 0: no limit.
	ConnMaxLifetime time.Duration

	// ClientName is the name each connection gives itself (CLIENT SETNAME), without spaces.
	ClientName string

	// Protocol is the version of RESP to speak, 2 or 3. Default 3.
	Protocol int

	// CredentialsProviderContext is asked for user and password before each new connection to Redis, in place of
	// Username and Password. The sentinels are not part of it.
	CredentialsProviderContext func(ctx context.Context) (username, password string, err error)

	// Dialer makes the connections, in place of net.Dialer and TLSConfig.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

	// Configure, if set, is called last, with the options that the fields above made, and may change any of them.
	Configure func(*redis.FailoverOptions)
}

// MakeRedisClient returns a new *redis.Client that asks the sentinels for its address. It does not connect yet.
func (opt RedisFailoverClientOpt) MakeRedisClient() interface{} {
	// FailoverOptions has no field for maintenance notifications: go-redis never asks for them here.
	o := &redis.FailoverOptions{
		MasterName:                 opt.MasterName,
		SentinelAddrs:              opt.SentinelAddrs,
		SentinelUsername:           opt.SentinelUsername,
		SentinelPassword:           opt.SentinelPassword,
		Username:                   opt.Username,
		Password:                   opt.Password,
		DB:                         opt.DB,
		DialTimeout:                opt.DialTimeout,
		ReadTimeout:                opt.ReadTimeout,
		WriteTimeout:               opt.WriteTimeout,
		PoolSize:                   connCount(opt.PoolSize),
		TLSConfig:                  opt.TLSConfig,
		MaxRetries:                 opt.MaxRetries,
		MinIdleConns:               connCount(opt.MinIdleConns),
		MaxActiveConns:             connCount(opt.MaxActiveConns),
		PoolTimeout:                opt.PoolTimeout,
		ConnMaxIdleTime:            opt.ConnMaxIdleTime,
		ConnMaxLifetime:            opt.ConnMaxLifetime,
		ClientName:                 opt.ClientName,
		Protocol:                   opt.Protocol,
		CredentialsProviderContext: opt.CredentialsProviderContext,
		Dialer:                     opt.Dialer,
	}
	if opt.Configure != nil {
		opt.Configure(o)
	}
	return redis.NewFailoverClient(o)
}

// RedisClusterClientOpt connects to a Redis Cluster. The zero value of a field leaves go-redis's default. A cluster has
// only database 0. The limits of the pool hold for each node, not for the cluster. Numbers of connections are bounded as those of
// RedisClientOpt.
type RedisClusterClientOpt struct {
	// Addrs are some nodes of the cluster as "host:port"; the others are learned from them.
	Addrs []string

	// MaxRedirects is how often a command is repeated after a network error or a MOVED or ASK reply; -1 means never.
	// Default 3, which is over after about a second without an answer; enqueue calls of a Client then go on for about 10 s, or until their
	// ctx ends, so that a failover does not leave them open.
	MaxRedirects int

	// Username is the ACL user to authenticate as. It counts only with a Password.
	Username string

	// Password authenticates each connection; empty means none is sent.
	Password string

	// DialTimeout limits the making of a connection. Default 5 s.
	DialTimeout time.Duration

	// ReadTimeout limits the wait for a reply; -1 means no limit. Default 5 s.
	ReadTimeout time.Duration

	// WriteTimeout limits the sending of a command; -1 means no limit. Default ReadTimeout.
	WriteTimeout time.Duration

	// TLSConfig turns TLS on if it is not nil. It has no effect if Dialer is set.
	TLSConfig *tls.Config

	// PoolSize is the number of connections kept for use, for each node. Default 5 for each CPU (GOMAXPROCS).
	PoolSize int

	// MaxRetries is how often a node's client repeats a command by itself. Default -1, never: MaxRedirects already
	// bounds the repeats, and the two multiply.
	MaxRetries int

	// MinIdleConns is the number of connections to keep open even if unused. Default 0.
	MinIdleConns int

	// MaxActiveConns is the most connections the pool opens at a time. Default 0: no limit, and PoolSize may be exceeded.
	MaxActiveConns int

	// PoolTimeout limits the wait for a free connection. Default ReadTimeout + 1 s.
	PoolTimeout time.Duration

	// ConnMaxIdleTime is the time after which an unused connection is closed; -1 means never. Default 30 min.
	ConnMaxIdleTime time.Duration

	// ConnMaxLifetime is the age at which a connection is no longer used. Default 0: no limit.
	ConnMaxLifetime time.Duration

	// ClientName is the name each connection gives itself (CLIENT SETNAME), without spaces.
	ClientName string

	// Protocol is the version of RESP to speak, 2 or 3. Default 3.
	Protocol int

	// CredentialsProviderContext is asked for user and password before each new connection, in place of Username
	// and Password: for credentials that expire.
	CredentialsProviderContext func(ctx context.Context) (username, password string, err error)

	// Dialer makes the connections, in place of net.Dialer and TLSConfig.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

	// Configure, if set, is called last, with the options that the fields above made, and may change any of them.
	Configure func(*redis.ClusterOptions)
}

// MakeRedisClient returns a new *redis.ClusterClient. It does not connect yet.
func (opt RedisClusterClientOpt) MakeRedisClient() interface{} {
	o := &redis.ClusterOptions{
		Addrs:                      opt.Addrs,
		MaxRedirects:               opt.MaxRedirects,
		Username:                   opt.Username,
		Password:                   opt.Password,
		DialTimeout:                opt.DialTimeout,
		ReadTimeout:                opt.ReadTimeout,
		WriteTimeout:               opt.WriteTimeout,
		TLSConfig:                  opt.TLSConfig,
		PoolSize:                   connCount(opt.PoolSize),
		MaxRetries:                 opt.MaxRetries,
		MinIdleConns:               connCount(opt.MinIdleConns),
		MaxActiveConns:             connCount(opt.MaxActiveConns),
		PoolTimeout:                opt.PoolTimeout,
		ConnMaxIdleTime:            opt.ConnMaxIdleTime,
		ConnMaxLifetime:            opt.ConnMaxLifetime,
		ClientName:                 opt.ClientName,
		Protocol:                   opt.Protocol,
		CredentialsProviderContext: opt.CredentialsProviderContext,
		Dialer:                     opt.Dialer,
		MaintNotificationsConfig:   noMaintNotifications(),
	}
	if opt.Configure != nil {
		opt.Configure(o)
	}
	return redis.NewClusterClient(o)
}

// maxConns bounds the connections of a pool: go-redis sets aside room for as many as it is told, and panics at a number below zero.
const maxConns = 100_000

// connCount is a number of connections that go-redis can do with.
func connCount(n int) int { return min(max(n, 0), maxConns) }

// failoverPatience is for how long enqueue calls go on where Redis fails over, which takes a Cluster about 3 s by default, and Sentinels
// longer.
const failoverPatience = 10 * time.Second

// patience is for how long enqueue calls on a connection of r go on during a failover. Whoever says how often to repeat a command has
// said it for all of them; one server has no failover.
func patience(r RedisConnOpt) time.Duration {
	if isNilValue(r) {
		return 0
	}
	repeats := -1
	switch r := r.(type) {
	case RedisFailoverClientOpt:
		repeats = r.MaxRetries
	case *RedisFailoverClientOpt:
		repeats = r.MaxRetries
	case RedisClusterClientOpt:
		repeats = r.MaxRedirects
	case *RedisClusterClientOpt:
		repeats = r.MaxRedirects
	}
	if repeats != 0 {
		return 0
	}
	return failoverPatience
}

// noMaintNotifications keeps go-redis from asking each new connection for maintenance notifications: a service of
// Redis Cloud and Enterprise that every other server answers with an error, at the cost of a round trip.
func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// newRedisClient makes the client of r. Whatever r lacks is an error here, and not a nil dereference later.
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

// isNilValue reports whether v is nil or an interface around a nil pointer, which calls would follow into a panic.
func isNilValue(v any) bool {
	rv := reflect.ValueOf(v)
	return !rv.IsValid() || rv.Kind() == reflect.Pointer && rv.IsNil()
}
