package asynq

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/redisopt"
)

// redisFields are the fields of hibiken/asynq, in their order.
var redisFields = []struct {
	opt   RedisConnOpt
	names []string
}{
	{RedisClientOpt{}, []string{"Network", "Addr", "Username", "Password", "DB", "DialTimeout", "ReadTimeout",
		"WriteTimeout", "PoolSize", "TLSConfig"}},
	{RedisFailoverClientOpt{}, []string{"MasterName", "SentinelAddrs", "SentinelUsername", "SentinelPassword",
		"Username", "Password", "DB", "DialTimeout", "ReadTimeout", "WriteTimeout", "PoolSize", "TLSConfig"}},
	{RedisClusterClientOpt{}, []string{"Addrs", "MaxRedirects", "Username", "Password", "DialTimeout", "ReadTimeout",
		"WriteTimeout", "TLSConfig"}},
}

func TestRedisOptFieldOrder(t *testing.T) {
	t.Parallel()
	for _, tc := range redisFields {
		typ := reflect.TypeOf(tc.opt)
		for i, want := range tc.names {
			if got := typ.Field(i).Name; got != want {
				t.Errorf("field %d of %s is %s, want %s", i, typ, got, want)
			}
		}
	}
}

// fillRedisOpt sets every field of *opt to a different value, except Params.
func fillRedisOpt(t *testing.T, opt any) {
	t.Helper()
	v := reflect.ValueOf(opt).Elem()
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Name, v.Field(i)
		switch value := field.Addr().Interface().(type) {
		case *string:
			if name != "Params" {
				*value = "value of " + name
			}
		case *[]string:
			*value = []string{"value of " + name}
		case *int:
			*value = 2 + i
		case *time.Duration:
			*value = time.Duration(1+i) * time.Second
		case **tls.Config:
			*value = &tls.Config{ServerName: name}
		default:
			t.Fatalf("field %s has type %s, which this test does not support", name, field.Type())
		}
	}
}

// checkRedisFields compares each field of opt with the field of the same name in the options of
// go-redis.
func checkRedisFields(t *testing.T, opt, options any) {
	t.Helper()
	from, to := reflect.ValueOf(opt), reflect.ValueOf(options).Elem()
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		if name == "Params" {
			continue
		}
		want, got := from.Field(i), to.FieldByName(name)
		switch {
		case !got.IsValid():
			t.Errorf("%s has no field %s", to.Type(), name)
		case want.IsZero():
			t.Errorf("the test left %s empty", name)
		case !reflect.DeepEqual(want.Interface(), got.Interface()):
			t.Errorf("%s is %v in go-redis, want %v", name, got, want)
		}
	}
}

func TestEveryFieldReachesGoRedis(t *testing.T) {
	t.Parallel()
	var server RedisClientOpt
	fillRedisOpt(t, &server)
	checkRedisFields(t, server, server.options())
	var failover RedisFailoverClientOpt
	fillRedisOpt(t, &failover)
	checkRedisFields(t, failover, failover.options())
	var cluster RedisClusterClientOpt
	fillRedisOpt(t, &cluster)
	checkRedisFields(t, cluster, cluster.options())
}

// A server with few slots needs few connections to a Cluster, unless the user configures the pool.
func TestConnectionsOfServers(t *testing.T) {
	t.Parallel()
	cluster := RedisClusterClientOpt{Addrs: []string{"h:1"}}
	configured := cluster.Configure(func(o *redis.ClusterOptions) { o.PoolSize = 7 })
	params := RedisClusterClientOpt{Addrs: []string{"h:1"}, Params: "pool_size=6"}
	standard := cluster.MakeRedisClient().(*redis.ClusterClient).Options().PoolSize
	for i, c := range []struct {
		opt         RedisConnOpt
		slots, want int
	}{
		{cluster, 10, fewConns},
		{&cluster, 10, fewConns},
		{WithNamespace(WithClock(cluster, time.Now), "n"), 10, fewConns},
		{cluster, manySlots, standard},
		{params, 10, 6},
		{configured, 10, 7},
	} {
		srv := NewServer(c.opt, Config{Concurrency: c.slots})
		if got := srv.conn.client.(*redis.ClusterClient).Options().PoolSize; got != c.want {
			t.Errorf("%d: the pool has %d connections, want %d", i, got, c.want)
		}
		srv.Shutdown()
	}
}

func TestParamsReachGoRedis(t *testing.T) {
	t.Parallel()
	const params = "min_retry_backoff=7ms&pool_size=-3&client_name=params&read_timeout=9s"
	server := RedisClientOpt{Addr: "h:1", ReadTimeout: 2, Params: params}.options()
	failover := RedisFailoverClientOpt{SentinelAddrs: []string{"h:1"}, ReadTimeout: 2, Params: params}.options()
	cluster := RedisClusterClientOpt{Addrs: []string{"h:1"}, ReadTimeout: 2, Params: params}.options()
	for _, got := range []string{
		fmt.Sprintln(server.Addr, server.MinRetryBackoff, server.PoolSize, server.ClientName, server.ReadTimeout),
		fmt.Sprintln(failover.SentinelAddrs[0], failover.MinRetryBackoff, failover.PoolSize, failover.ClientName, failover.ReadTimeout),
		fmt.Sprintln(cluster.Addrs[0], cluster.MinRetryBackoff, cluster.PoolSize, cluster.ClientName, cluster.ReadTimeout),
	} {
		if want := "h:1 7ms 0 params 2ns\n"; got != want {
			t.Errorf("options %q, want %q", got, want)
		}
	}
	for _, opt := range []RedisConnOpt{
		RedisClientOpt{Params: "x=1"}, RedisFailoverClientOpt{Params: "x=1"}, RedisClusterClientOpt{Params: "x=1"},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, "asynq: Params of the connection option") {
					t.Errorf("MakeRedisClient of %+v panicked with %s", opt, got)
				}
			}()
			opt.MakeRedisClient()
		}()
	}
}

func TestRedisClientOptIsComparable(t *testing.T) {
	t.Parallel()
	opt, err := ParseRedisURI("redis://localhost?pool_fifo=true")
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseRedisURI("redis://localhost?pool_fifo=true")
	if err != nil {
		t.Fatal(err)
	}
	if opt.(RedisClientOpt) == (RedisClientOpt{}) || opt != again {
		t.Errorf("wrong result when comparing %+v and %+v", opt, again)
	}
}

// mustMakeRedisClient returns the client of opt, which is closed when the test ends.
func mustMakeRedisClient(t *testing.T, opt RedisConnOpt) redis.UniversalClient {
	t.Helper()
	client, err := newRedisClient(opt)
	if err != nil {
		t.Fatalf("newRedisClient(%T): %v", opt, err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestZeroFieldsKeepDefaultsOfGoRedis(t *testing.T) {
	t.Parallel()
	bare := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = bare.Close() })
	want := bare.Options()
	got := mustMakeRedisClient(t, RedisClientOpt{}).(*redis.Client).Options()
	if got.PoolSize != want.PoolSize || got.MaxRetries != want.MaxRetries || got.ReadTimeout != want.ReadTimeout ||
		got.PoolTimeout != want.PoolTimeout || got.Addr != want.Addr || got.ConnMaxIdleTime != want.ConnMaxIdleTime {
		t.Errorf("options %+v, want %+v", got, want)
	}
	cluster := mustMakeRedisClient(t, RedisClusterClientOpt{Addrs: []string{"localhost:1"}}).(*redis.ClusterClient)
	if cluster.Options().PoolSize == 0 || cluster.Options().MaxRedirects == 0 {
		t.Errorf("cluster options %+v, want the defaults of go-redis", cluster.Options())
	}
	if _, ok := mustMakeRedisClient(t, RedisFailoverClientOpt{MasterName: "m"}).(*redis.Client); !ok {
		t.Error("the client of RedisFailoverClientOpt is not a *redis.Client")
	}
}

func TestConfigureRunsLast(t *testing.T) {
	t.Parallel()
	opt := RedisClientOpt{DB: 1}
	client := mustMakeRedisClient(t, opt.Configure(func(o *redis.Options) { o.DB = 2; o.IdentitySuffix = "mine" }))
	if o := client.(*redis.Client).Options(); o.DB != 2 || o.IdentitySuffix != "mine" {
		t.Errorf("DB %d, IdentitySuffix %q, want the values that Configure set", o.DB, o.IdentitySuffix)
	}
	cluster := mustMakeRedisClient(t, RedisClusterClientOpt{Addrs: []string{"localhost:1"}}.Configure(func(o *redis.ClusterOptions) {
		o.Addrs = append(o.Addrs, "localhost:2")
	}))
	if o := cluster.(*redis.ClusterClient).Options(); len(o.Addrs) != 2 {
		t.Errorf("cluster addresses %q", o.Addrs)
	}
}

func TestRedisClientOptConnects(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	server.RequireUserAuth("worker", "s3cret")
	var dialed []string
	client := mustMakeRedisClient(t, RedisClientOpt{
		Addr:     server.Addr(),
		Username: "worker",
		Password: "s3cret",
		DB:       3,
	}.Configure(func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialed = append(dialed, addr)
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	}))
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatalf("SET: %v", err)
	}
	if got, err := server.DB(3).Get("k"); err != nil || got != "v" {
		t.Errorf("database 3 has %q, error %v", got, err)
	}
	if !slices.Equal(dialed, []string{server.Addr()}) {
		t.Errorf("the dialer was called for %q, want once for %s", dialed, server.Addr())
	}
}

// connOptFunc is a RedisConnOpt of the user.
type connOptFunc func() interface{}

func (fn connOptFunc) MakeRedisClient() interface{} { return fn() }

func TestNewRedisClientRejectsInvalidClients(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		opt  RedisConnOpt
		want string
	}{
		{"nil", nil, "asynq: RedisConnOpt is nil: pass a RedisClientOpt"},
		{"nil pointer", (*RedisClientOpt)(nil), "asynq: RedisConnOpt is nil: pass a RedisClientOpt"},
		{"nil result", connOptFunc(func() interface{} { return nil }), "asynq.connOptFunc returned nil"},
		{"nil client", connOptFunc(func() interface{} { return (*redis.Client)(nil) }), "asynq.connOptFunc returned nil"},
		{"foreign", connOptFunc(func() interface{} { return 3 }), "asynq: unsupported RedisConnOpt type asynq.connOptFunc"},
	}
	for _, tc := range tests {
		client, err := newRedisClient(tc.opt)
		if err == nil || !strings.HasPrefix(err.Error(), "asynq: ") || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one that contains %q", tc.name, err, tc.want)
		}
		if client != nil {
			t.Errorf("%s: returned a client and an error", tc.name)
		}
	}
}

func TestNewRedisClientAcceptsUserClient(t *testing.T) {
	t.Parallel()
	own := redis.NewClient(&redis.Options{})
	client := mustMakeRedisClient(t, connOptFunc(func() interface{} { return own }))
	if client != redis.UniversalClient(own) {
		t.Error("newRedisClient does not return the client of MakeRedisClient")
	}
	if opt := (&RedisClientOpt{DB: 4}); mustMakeRedisClient(t, opt).(*redis.Client).Options().DB != 4 {
		t.Error("rejected a pointer to an option")
	}
}

// Enqueue calls are retried until a failover completes, if the connection supports failover and the
// program does not configure MaxRetries.
func TestEnqueueRetryBudget(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		opt  RedisConnOpt
		want bool
	}{
		{"server", RedisClientOpt{}, false},
		{"shared", SharedRedisClient(redis.NewClusterClient(&redis.ClusterOptions{})), false},
		{"failover", RedisFailoverClientOpt{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}, true},
		{"failover, MaxRetries", &RedisFailoverClientOpt{SentinelAddrs: []string{"127.0.0.1:1"}, Params: "max_retries=3"}, false},
		{"cluster", RedisClusterClientOpt{}, true},
		{"cluster, pointer", &RedisClusterClientOpt{}, true},
		{"cluster, namespace", WithNamespace(RedisClusterClientOpt{}, "x"), true},
		{"cluster, configured", RedisClusterClientOpt{}.Configure(func(*redis.ClusterOptions) {}), true},
		{"failover, configured, MaxRetries", RedisFailoverClientOpt{Params: "max_retries=3"}.Configure(func(*redis.FailoverOptions) {}), false},
		{"cluster, no redirects", RedisClusterClientOpt{MaxRedirects: -1}, false},
		{"cluster, URI", mustURI(t, "redis-cluster://127.0.0.1:1"), true},
		{"cluster, URI, no redirects", mustURI(t, "redis-cluster://127.0.0.1:1?max_redirects=-1"), false},
	} {
		c := NewClient(tc.opt)
		if got := c.broker.RetryBudget; (got > 0) != tc.want || got > 20*time.Second {
			t.Errorf("%s: %v", tc.name, got)
		}
		if err := c.conn.client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// mustURI parses a URI.
func mustURI(t *testing.T, uri string) RedisConnOpt {
	t.Helper()
	opt, err := ParseRedisURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	return opt
}

func TestParseRedisURI(t *testing.T) {
	t.Parallel()
	tests := []struct {
		uri  string
		want RedisConnOpt
	}{
		{"redis://localhost", RedisClientOpt{Addr: "localhost:6379"}},
		{"redis://localhost:6380", RedisClientOpt{Addr: "localhost:6380"}},
		{"redis://localhost:", RedisClientOpt{Addr: "localhost:6379"}},
		{"REDIS://Redis.Example.com/", RedisClientOpt{Addr: "Redis.Example.com:6379"}},
		{"redis://10.0.0.1:6379/3", RedisClientOpt{Addr: "10.0.0.1:6379", DB: 3}},
		{"redis://h?db=3", RedisClientOpt{Addr: "h:6379", DB: 3}},
		{"redis://[::1]", RedisClientOpt{Addr: "[::1]:6379"}},
		{"redis://[2001:db8::7]:7000/1", RedisClientOpt{Addr: "[2001:db8::7]:7000", DB: 1}},
		{"redis://[fe80::1%25eth0]:7000", RedisClientOpt{Addr: "[fe80::1%eth0]:7000"}},
		{"redis://:secret@h", RedisClientOpt{Addr: "h:6379", Password: "secret"}},
		{"redis://user:secret@h:1/2", RedisClientOpt{Addr: "h:1", Username: "user", Password: "secret", DB: 2}},
		{"redis://user@h", RedisClientOpt{Addr: "h:6379", Username: "user"}},
		{"redis://us%3Aer:p%40ss%2Fw%25%3F@h", RedisClientOpt{Addr: "h:6379", Username: "us:er", Password: "p@ss/w%?"}},
		{"redis://u:a:b+c@h", RedisClientOpt{Addr: "h:6379", Username: "u", Password: "a:b+c"}},
		{"redis://u:a@b@h", RedisClientOpt{Addr: "h:6379", Username: "u", Password: "a@b"}},
		{"redis://h?dial_timeout=2&read_timeout=300ms&write_timeout=-1&pool_size=7&client_name=a.b&max_retries=5&",
			RedisClientOpt{Addr: "h:6379", Params: "client_name=a.b&dial_timeout=2&max_retries=5&pool_size=7&read_timeout=300ms&write_timeout=-1"}},
		{"rediss://h:1/2", RedisClientOpt{Addr: "h:1", DB: 2, TLSConfig: &tls.Config{ServerName: "h"}}},
		{"rediss://[::1]", RedisClientOpt{Addr: "[::1]:6379", TLSConfig: &tls.Config{ServerName: "::1"}}},
		{"rediss://h?insecure_skip_verify=true",
			RedisClientOpt{Addr: "h:6379", TLSConfig: &tls.Config{ServerName: "h", InsecureSkipVerify: true}}},
		{"rediss://h?insecure_skip_verify=false", RedisClientOpt{Addr: "h:6379", TLSConfig: &tls.Config{ServerName: "h"}}},

		{"redis-socket:///run/redis.sock", RedisClientOpt{Network: "unix", Addr: "/run/redis.sock"}},
		{"redis-socket://u:p@/run/redis.sock?db=2&pool_size=3",
			RedisClientOpt{Network: "unix", Addr: "/run/redis.sock", Username: "u", Password: "p", DB: 2, Params: "pool_size=3"}},
		{"redis-socket:///run/a%40b%20c", RedisClientOpt{Network: "unix", Addr: "/run/a@b c"}},

		{"redis-sentinel://h1?master=m", RedisFailoverClientOpt{MasterName: "m", SentinelAddrs: []string{"h1:26379"}}},
		{"redis-sentinel://h1:1,h2,[::1]:3/4?master=m",
			RedisFailoverClientOpt{MasterName: "m", SentinelAddrs: []string{"h1:1", "h2:26379", "[::1]:3"}, DB: 4}},
		{"redis-sentinel://u:pw@h1?master=m&db=5", RedisFailoverClientOpt{MasterName: "m", SentinelAddrs: []string{"h1:26379"},
			SentinelUsername: "u", SentinelPassword: "pw", DB: 5}},
		{"redis-sentinel://u:pw@h1?master=m&sentinel_username=su&sentinel_password=s%26p", RedisFailoverClientOpt{MasterName: "m",
			SentinelAddrs: []string{"h1:26379"}, Username: "u", Password: "pw", SentinelUsername: "su", SentinelPassword: "s&p"}},
		{"redis-sentinel://u:pw@h1?master=m&sentinel_password=", RedisFailoverClientOpt{MasterName: "m",
			SentinelAddrs: []string{"h1:26379"}, Username: "u", Password: "pw"}},
		{"rediss-sentinel://h1?master=m&max_retries=2&dial_timeout=1m", RedisFailoverClientOpt{MasterName: "m",
			SentinelAddrs: []string{"h1:26379"}, Params: "dial_timeout=1m&max_retries=2", TLSConfig: &tls.Config{}}},

		{"redis://", RedisClientOpt{Addr: "localhost:6379"}},
		{"redis://:6380", RedisClientOpt{Addr: "localhost:6380"}},
		{"redis://u:p@/2", RedisClientOpt{Addr: "localhost:6379", Username: "u", Password: "p", DB: 2}},
		{"rediss://", RedisClientOpt{Addr: "localhost:6379", TLSConfig: &tls.Config{ServerName: "localhost"}}},
		{"redis://h//2/", RedisClientOpt{Addr: "h:6379", DB: 2}},
		{"redis://h/1?db=2&db=3", RedisClientOpt{Addr: "h:6379", DB: 3}},
		{"redis://h/1?db=&pool_size=&read_timeout=&max_retries=", RedisClientOpt{Addr: "h:6379", DB: 1, Params: "max_retries=&pool_size=&read_timeout="}},
		{"redis://h?family=0&ssl_cert_reqs=none&family=", RedisClientOpt{Addr: "h:6379"}},
		{"rediss://h?ssl_cert_reqs=CERT_NONE", RedisClientOpt{Addr: "h:6379", TLSConfig: &tls.Config{ServerName: "h"}}},
		{"rediss://h?skip_verify=1", RedisClientOpt{Addr: "h:6379", TLSConfig: &tls.Config{ServerName: "h", InsecureSkipVerify: true}}},
		{"redis://h?pool_fifo=true&min_retry_backoff=1", RedisClientOpt{Addr: "h:6379", Params: "min_retry_backoff=1&pool_fifo=true"}},
		{"redis://h?idle_timeout=1m&max_conn_age=0&protocol=2", RedisClientOpt{Addr: "h:6379", Params: "idle_timeout=1m&max_conn_age=0&protocol=2"}},
		{"unix://u:p@/run/redis.sock?db=1", RedisClientOpt{Network: "unix", Addr: "/run/redis.sock", Username: "u", Password: "p", DB: 1}},

		{"redis-cluster://h1", RedisClusterClientOpt{Addrs: []string{"h1:6379"}}},
		{"redis-cluster://u:p@h1:1,h2:2/0?max_redirects=9&client_name=x&pool_size=4", RedisClusterClientOpt{
			Addrs: []string{"h1:1", "h2:2"}, Username: "u", Password: "p", Params: "client_name=x&max_redirects=9&pool_size=4"}},
		{"rediss-cluster://h1,h2?insecure_skip_verify=1&max_redirects=-1", RedisClusterClientOpt{
			Addrs: []string{"h1:6379", "h2:6379"}, Params: "max_redirects=-1", TLSConfig: &tls.Config{InsecureSkipVerify: true}}},
	}
	for _, tc := range tests {
		got, err := ParseRedisURI(tc.uri)
		if err != nil {
			t.Errorf("ParseRedisURI(%q): %v", tc.uri, err)
			continue
		}
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("ParseRedisURI(%q) =\n%+v, want\n%+v", tc.uri, got, tc.want)
		}
	}
}

func TestParseRedisURIErrors(t *testing.T) {
	t.Parallel()
	tests := []struct{ uri, want string }{
		{"", "no scheme: it must begin with redis://"},
		{"localhost:6379", "no scheme"},
		{"user:hunter2@localhost:6379", "no scheme"},
		{"http://h", `unknown scheme "http": use one of redis-cluster://, redis-sentinel://, redis-socket://, redis://, rediss-`},
		{"user:hunter2@h://x", "unknown scheme: use one of"},
		{"://h", "unknown scheme: use one of"},
		{"redis://h1,h2", "more than one host: use redis-sentinel:// or redis-cluster://"},
		{"redis://h:x", "host 1: must be host or host:port, with an IPv6 address in brackets"},
		{"redis://h:0", "and a port from 1 to 65535"},
		{"redis://h:65536", "and a port from 1 to 65535"},
		{"redis://h:+1", "must be host or host:port"},
		{"redis://h:1:2", "host 1: must be host or host:port"},
		{"redis://::1", "host 1: must be host or host:port"},
		{"redis://[::1", "host 1: must be host or host:port"},
		{"redis://[::1]6379", "host 1: must be host or host:port"},
		{"redis://[localhost]:1", "host 1: must be host or host:port"},
		{"redis://[127.0.0.1]:1", "host 1: must be host or host:port"},
		{"redis://[fe80::1%25a b]", "host 1: must be host or host:port"},
		{"redis://ho st", "host 1: must be host or host:port"},
		{"redis://h%41", "host 1: must be host or host:port"},
		{"redis://h\n", "host 1: must be host or host:port"},
		{"redis://h\xff", "host 1: must be host or host:port"},
		{"redis://h/x", "the path may only be the number of a database, as in redis://host/2"},
		{"redis://h/-1", "the path may only be"},
		{"redis://h/+1", "the path may only be"},
		{"redis://h/1/2", "the path may only be"},
		{"redis://h/99999999999", "the path may only be"},
		{"redis://h?db=-1", "query parameter db must be"},
		{"redis://h#1", "a fragment: write # as %23"},
		{"redis://u:p%zzhunter2@h", "bad percent-encoding in the user name or password: write % as %25"},
		{"redis://u:hunter2/x@h", "an @ after the host: write / ? # @ in a user name or password as %2F %3F %23 %40"},
		{"redis://u:hunter2?x@h", "an @ after the host"},
		{"redis://u:hunter2#x@h", "an @ after the host"},
		{"redis://h?pool_sice=3", `unknown query parameter "pool_sice" for redis: see ParseRedisURI and redis.ParseURL`},
		{"redis://h?Strange!=3", "unknown query parameter for redis"},
		{"redis://h?%zz=3", "bad percent-encoding in the query"},
		{"redis://h?db=%", "bad percent-encoding in the query"},
		{"redis://h?master=m", "query parameter master is not allowed for redis"},
		{"redis://h?max_redirects=1", `unknown query parameter "max_redirects" for redis`},
		{"redis://h?insecure_skip_verify=true", "query parameter insecure_skip_verify needs TLS: use a rediss scheme"},
		{"rediss://h?insecure_skip_verify=perhaps", "query parameter insecure_skip_verify must be true or false"},
		{"redis://h?pool_size=many", "query parameter pool_size is invalid"},
		{"redis://h?pool_fifo=hunter2", "query parameter pool_fifo is invalid: see redis.ParseURL of go-redis"},
		{"redis://h?write_timeout=soon", "query parameter write_timeout is invalid"},
		{"redis-socket://", "no socket path: write it as in redis-socket:///path/to.sock"},
		{"redis-socket:///", "no socket path"},
		{"redis-socket:///run/", "no socket path"},
		{"redis-socket:///a%00b", "no socket path"},
		{"redis-socket://run/redis.sock", "a host before the path of the socket: write three slashes"},
		{"redis-socket:///run/%", "bad percent-encoding in the path"},
		{"redis-sentinel://h1", "no master: add ?master=name"},
		{"redis-sentinel://h1?master=", "no master"},
		{"redis-sentinel://?master=m", "no host"},
		{"redis-sentinel://h1,,h2?master=m", "host 2: must be host"},
		{"redis-sentinel://h1,h2:x?master=m", "host 2: must be host or host:port"},
		{"redis-sentinel://h1?master=m&sentinel_password=a&hunter2", "unknown query parameter after sentinel_password: write &"},
		{"redis-cluster://h1/1", "a path: a cluster has only database 0"},
		{"redis-cluster://h1?db=0", "query parameter db is not allowed for redis-cluster"},
		{"redis-cluster://h1?max_redirects=x", "query parameter max_redirects is invalid"},
	}
	for _, tc := range tests {
		got, err := ParseRedisURI(tc.uri)
		if err == nil {
			t.Errorf("ParseRedisURI(%q) = %+v, want an error", tc.uri, got)
			continue
		}
		if got != nil {
			t.Errorf("ParseRedisURI(%q) returns %+v with its error", tc.uri, got)
		}
		if !strings.HasPrefix(err.Error(), "asynq: invalid Redis URI: ") || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("ParseRedisURI(%q): error %q, want one with %q", tc.uri, err, tc.want)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("ParseRedisURI(%q): error %q has the password", tc.uri, err)
		}
	}
}

// FuzzParseRedisURI parses URIs of any form. Some have a password with a secret word, escaped or
// not, which no error may contain.
func FuzzParseRedisURI(f *testing.F) {
	const word = "swordfish" // looks like the name of a scheme or parameter
	f.Add("redis", "user", "a", "b", "localhost:6379/1")
	f.Add("rediss", "", "p/", "?x=", "[::1]:6379?read_timeout=3&insecure_skip_verify=true")
	f.Add("redis-socket", "u", "#", "%", "/run/redis.sock?db=1")
	f.Add("redis-sentinel", "u", "&", ";", "h1:1,h2?master=m&sentinel_password=x")
	f.Add("rediss-sentinel", "u", ":", "@", "h1,[fe80::1%25eth0]:3/4?master=m")
	f.Add("redis-cluster", "u", "://", "\n", "h1,h2:2?max_redirects=3")
	f.Add("rediss-cluster", "", "", "", "h1?pool_size=-1&unknown=1")
	f.Add("http", "", "", "", "")
	f.Fuzz(func(t *testing.T, scheme, user, before, after, rest string) {
		password := before + word + after
		for _, uri := range []string{
			scheme,
			scheme + "://" + rest,
			scheme + "://" + user + ":" + password + "@" + rest,
			scheme + "://" + user + ":" + url.QueryEscape(password) + "@" + rest,
			"redis-sentinel://h?master=m&sentinel_password=" + password,
		} {
			opt, err := ParseRedisURI(uri)
			if err != nil {
				if opt != nil {
					t.Errorf("ParseRedisURI(%q) returned an option and an error", uri)
				}
				if !strings.HasPrefix(err.Error(), "asynq: ") {
					t.Errorf("ParseRedisURI(%q): error %q does not begin with asynq:", uri, err)
				}
				if strings.Contains(err.Error(), word) {
					t.Errorf("ParseRedisURI(%q): error %q has the password", uri, err)
				}
				continue
			}
			checkRedisAddrs(t, uri, opt)
		}
	})
}

// checkRedisAddrs requires that opt has valid addresses.
func checkRedisAddrs(t *testing.T, uri string, opt RedisConnOpt) {
	t.Helper()
	var addrs []string
	switch opt := opt.(type) {
	case RedisClientOpt:
		if opt.Network == "unix" {
			if !path.IsAbs(opt.Addr) {
				t.Errorf("ParseRedisURI(%q) has the socket %q", uri, opt.Addr)
			}
			return
		}
		addrs = []string{opt.Addr}
	case RedisFailoverClientOpt:
		if opt.MasterName == "" {
			t.Errorf("ParseRedisURI(%q) has no master", uri)
		}
		addrs = opt.SentinelAddrs
	case RedisClusterClientOpt:
		addrs = opt.Addrs
	}
	if len(addrs) == 0 {
		t.Errorf("ParseRedisURI(%q) has no address", uri)
	}
	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err != nil || host == "" || port == "" {
			t.Errorf("ParseRedisURI(%q) has the address %q: %v", uri, addr, err)
		}
	}
}

// goRedisParams are all parameters of redis.ParseURL, with values that differ from the defaults.
// ParseRedisURI must reject a parameter if the release of go-redis does.
var goRedisParams = []string{
	"db=3", "protocol=2", "client_name=worker", "max_retries=7", "max_retries=-1", "min_retry_backoff=20ms", "max_retry_backoff=2",
	"dial_timeout=3", "dial_timeout=1.5s", "read_timeout=4", "read_timeout=-1", "read_timeout=0", "write_timeout=250ms", "write_timeout=0",
	"pool_fifo=true", "pool_fifo=0", "pool_size=9", "pool_size=0", "pool_timeout=6", "pool_timeout=0", "min_idle_conns=0",
	"max_idle_conns=4", "max_active_conns=12", "max_concurrent_dials=3", "pipeline_pool_size=-1", "pipeline_read_buffer_size=4096",
	"pipeline_write_buffer_size=4096", "conn_max_idle_time=7m", "conn_max_idle_time=0", "idle_timeout=8m", "conn_max_lifetime=1h",
	"max_conn_age=2h", "conn_max_lifetime=1h&conn_max_lifetime_jitter=5m", "conn_max_lifetime_jitter=5m", "max_conn_age=1h&conn_max_lifetime_jitter=5m",
	"pool_size=1&pool_size=2", "db=1&db=2", "pool_size=", "db=", "dial_timeout=", "client_name=", "pool_fifo=",
	"no_such_parameter=1", "read_only=true", "pool_fifo=maybe", "max_idle_conns=many", "min_retry_backoff=soon",
}

// TestParseRedisURILikeGoRedis compares the options of the client with those that go-redis parses
// from the same URI.
func TestParseRedisURILikeGoRedis(t *testing.T) {
	t.Parallel()
	uris := []string{
		"redis://", "redis://:6380", "redis:///2", "redis:///2/", "redis://h//2", "redis://?db=1", "redis://h/1?db=2", "redis://u:p@",
		"redis://u:p@h:1/2", "redis://[::1]:7000", "rediss://", "rediss://:6380", "rediss://h?skip_verify=true", "rediss://h?skip_verify=0",
		"rediss://h?skip_verify=", "redis://h?skip_verify=true", "unix:///run/redis.sock", "unix://u:p@/run/redis.sock?db=2",
		"unix://", "redis://h/x",
	}
	for _, param := range goRedisParams {
		uris = append(uris, "redis://h:1?"+param, "unix:///run/redis.sock?"+param)
	}
	for _, uri := range uris {
		theirs, refused := redis.ParseURL(uri)
		opt, err := ParseRedisURI(uri)
		if (err != nil) != (refused != nil) {
			t.Errorf("ParseRedisURI(%q): error %v, go-redis: %v", uri, err, refused)
		}
		if err != nil || refused != nil {
			continue
		}
		redisopt.DisableMaintNotifications(theirs) // otherwise NewClient resolves the host
		got, want := optionsOf(opt.MakeRedisClient()), optionsOf(redis.NewClient(theirs))
		for i := range got.NumField() {
			name, ours, its := got.Type().Field(i).Name, got.Field(i), want.Field(i)
			switch {
			case !ours.CanInterface(), strings.Contains(name, "MaintNotifications"), ours.Kind() == reflect.Func, ours.Kind() == reflect.Interface:
				continue
			case name == "TLSConfig":
				if ours.IsNil() != its.IsNil() || !ours.IsNil() &&
					(ours.Elem().FieldByName("ServerName").String() != its.Elem().FieldByName("ServerName").String() ||
						ours.Elem().FieldByName("InsecureSkipVerify").Bool() != its.Elem().FieldByName("InsecureSkipVerify").Bool()) {
					t.Errorf("ParseRedisURI(%q): TLSConfig is %v, want %v", uri, ours, its)
				}
			case !reflect.DeepEqual(ours.Interface(), its.Interface()):
				t.Errorf("ParseRedisURI(%q): %s is %v, want %v", uri, name, ours, its)
			}
		}
	}
}

// optionsOf closes a *redis.Client and returns its options.
func optionsOf(client any) reflect.Value {
	c := client.(*redis.Client)
	defer c.Close()
	return reflect.ValueOf(c.Options()).Elem()
}

// TestParseRedisURIForSentinelsAndClusters sets go-redis parameters for which there is no field.
func TestParseRedisURIForSentinelsAndClusters(t *testing.T) {
	t.Parallel()
	opt, err := ParseRedisURI("redis-cluster://h:1?min_retry_backoff=20ms&pool_fifo=true&conn_max_idle_time=1m&family=6")
	if err != nil {
		t.Fatal(err)
	}
	cluster := opt.MakeRedisClient().(*redis.ClusterClient)
	defer cluster.Close()
	if o := cluster.Options(); o.MinRetryBackoff.String() != "20ms" || !o.PoolFIFO || o.ConnMaxIdleTime.String() != "1m0s" ||
		!reflect.DeepEqual(o.Addrs, []string{"h:1"}) {
		t.Errorf("cluster options %+v", o)
	}
	opt, err = ParseRedisURI("redis-sentinel://h:1?master=m&max_retry_backoff=2s&max_idle_conns=3&protocol=2&ssl_cert_reqs=none")
	if err != nil {
		t.Fatal(err)
	}
	var got redis.FailoverOptions
	client := opt.(RedisFailoverClientOpt).Configure(func(o *redis.FailoverOptions) { got = *o }).MakeRedisClient()
	defer client.(*redis.Client).Close()
	if got.MaxRetryBackoff.String() != "2s" || got.MaxIdleConns != 3 || got.Protocol != 2 || got.MasterName != "m" ||
		!reflect.DeepEqual(got.SentinelAddrs, []string{"h:1"}) {
		t.Errorf("failover options %+v", &got)
	}
	for _, uri := range []string{
		"redis-cluster://h?read_only=true", "redis-cluster://h?route_randomly=true", "redis-sentinel://h?master=m&replica_only=true",
		"redis-sentinel://h?master=m&password=hunter2", "redis-cluster://h?addr=i:1",
	} {
		if opt, err := ParseRedisURI(uri); err == nil || !strings.Contains(err.Error(), "unknown query parameter") {
			t.Errorf("ParseRedisURI(%q) = %+v, error %v", uri, opt, err)
		}
	}
}
