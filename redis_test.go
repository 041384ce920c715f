package asynq

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redisFields are the fields that programs written for hibiken/asynq know, in their order there.
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

func TestRedisOptFieldsComeInTheKnownOrder(t *testing.T) {
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

// fillRedisOpt sets every field of the struct that opt points to, but for Configure, to a value of its own.
func fillRedisOpt(t *testing.T, opt any) {
	t.Helper()
	v := reflect.ValueOf(opt).Elem()
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Name, v.Field(i)
		switch value := field.Addr().Interface().(type) {
		case *string:
			*value = "value of " + name
		case *[]string:
			*value = []string{"value of " + name}
		case *int:
			*value = 2 + i
		case *time.Duration:
			*value = time.Duration(1+i) * time.Second
		case **tls.Config:
			*value = &tls.Config{ServerName: name}
		default:
			if field.Kind() != reflect.Func {
				t.Fatalf("field %s has type %s, which this test does not know", name, field.Type())
			}
			if name != "Configure" {
				field.Set(reflect.MakeFunc(field.Type(), nil))
			}
		}
	}
}

// checkRedisFields compares each field of opt with the one of the same name in the options of go-redis.
func checkRedisFields(t *testing.T, opt, options any) {
	t.Helper()
	from, to := reflect.ValueOf(opt), reflect.ValueOf(options).Elem()
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		if name == "Configure" {
			continue
		}
		want, got := from.Field(i), to.FieldByName(name)
		switch {
		case !got.IsValid():
			t.Errorf("%s has no field %s", to.Type(), name)
		case want.IsZero():
			t.Errorf("the test left %s empty", name)
		case want.Kind() == reflect.Func:
			if want.Pointer() != got.Pointer() || got.IsNil() {
				t.Errorf("%s does not reach go-redis", name)
			}
		case !reflect.DeepEqual(want.Interface(), got.Interface()):
			t.Errorf("%s is %v in go-redis, want %v", name, got, want)
		}
	}
}

// errConfigured stops MakeRedisClient in Configure: a client of made-up options would go on to dial.
var errConfigured = errors.New("configured")

// stopInConfigure calls opt.MakeRedisClient, whose Configure panics with errConfigured.
func stopInConfigure(t *testing.T, opt RedisConnOpt) {
	t.Helper()
	defer func() {
		if got := recover(); got != any(errConfigured) {
			t.Errorf("MakeRedisClient of %T does not call Configure: recovered %v", opt, got)
		}
	}()
	opt.MakeRedisClient()
}

func TestEveryFieldReachesGoRedis(t *testing.T) {
	t.Parallel()
	disabled := func(t *testing.T, c *maintnotifications.Config) {
		t.Helper()
		if c == nil || c.Mode != maintnotifications.ModeDisabled {
			t.Errorf("maintenance notifications are %+v, want them disabled", c)
		}
	}
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		var opt RedisClientOpt
		fillRedisOpt(t, &opt)
		opt.Configure = func(o *redis.Options) {
			checkRedisFields(t, opt, o)
			disabled(t, o.MaintNotificationsConfig)
			panic(errConfigured)
		}
		stopInConfigure(t, opt)
	})
	t.Run("failover", func(t *testing.T) {
		t.Parallel()
		var opt RedisFailoverClientOpt
		fillRedisOpt(t, &opt)
		opt.Configure = func(o *redis.FailoverOptions) {
			checkRedisFields(t, opt, o)
			panic(errConfigured)
		}
		stopInConfigure(t, opt)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		var opt RedisClusterClientOpt
		fillRedisOpt(t, &opt)
		opt.Configure = func(o *redis.ClusterOptions) {
			checkRedisFields(t, opt, o)
			disabled(t, o.MaintNotificationsConfig)
			panic(errConfigured)
		}
		stopInConfigure(t, opt)
	})
}

// mustMakeRedisClient returns the client of opt and closes it at the end of the test.
func mustMakeRedisClient(t *testing.T, opt RedisConnOpt) redis.UniversalClient {
	t.Helper()
	client, err := newRedisClient(opt)
	if err != nil {
		t.Fatalf("newRedisClient(%T): %v", opt, err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestZeroFieldsLeaveTheDefaultsOfGoRedis(t *testing.T) {
	t.Parallel()
	bare := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = bare.Close() })
	want := bare.Options()
	got := mustMakeRedisClient(t, RedisClientOpt{}).(*redis.Client).Options()
	if got.PoolSize != want.PoolSize || got.MaxRetries != want.MaxRetries || got.ReadTimeout != want.ReadTimeout ||
		got.PoolTimeout != want.PoolTimeout || got.Addr != want.Addr || got.ConnMaxIdleTime != want.ConnMaxIdleTime {
		t.Errorf("options %+v, want %+v", got, want)
	}
	if got.MaintNotificationsConfig.Mode != maintnotifications.ModeDisabled {
		t.Errorf("maintenance notifications are in mode %q", got.MaintNotificationsConfig.Mode)
	}
	cluster := mustMakeRedisClient(t, RedisClusterClientOpt{Addrs: []string{"localhost:1"}}).(*redis.ClusterClient)
	if cluster.Options().PoolSize == 0 || cluster.Options().MaxRedirects == 0 {
		t.Errorf("options of the cluster %+v, want the defaults of go-redis", cluster.Options())
	}
	if _, ok := mustMakeRedisClient(t, RedisFailoverClientOpt{MasterName: "m"}).(*redis.Client); !ok {
		t.Error("the client of RedisFailoverClientOpt is no *redis.Client")
	}
}

func TestConfigureHasTheLastWord(t *testing.T) {
	t.Parallel()
	client := mustMakeRedisClient(t, RedisClientOpt{
		DB:        1,
		Configure: func(o *redis.Options) { o.DB = 2; o.IdentitySuffix = "mine" },
	})
	if o := client.(*redis.Client).Options(); o.DB != 2 || o.IdentitySuffix != "mine" {
		t.Errorf("DB %d, IdentitySuffix %q, want what Configure set", o.DB, o.IdentitySuffix)
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
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialed = append(dialed, addr)
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatalf("SET: %v", err)
	}
	if got, err := server.DB(3).Get("k"); err != nil || got != "v" {
		t.Errorf("database 3 has %q, error %v", got, err)
	}
	if !slices.Equal(dialed, []string{server.Addr()}) {
		t.Errorf("the dialer was asked for %q, want once for %s", dialed, server.Addr())
	}
}

// connOptFunc is a RedisConnOpt of a user's own.
type connOptFunc func() interface{}

func (fn connOptFunc) MakeRedisClient() interface{} { return fn() }

func TestNewRedisClientRefusesWhatIsNoClient(t *testing.T) {
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
			t.Errorf("%s: error %v, want one with %q", tc.name, err, tc.want)
		}
		if client != nil {
			t.Errorf("%s: a client comes with the error", tc.name)
		}
	}
}

func TestNewRedisClientTakesAClientOfTheUser(t *testing.T) {
	t.Parallel()
	own := redis.NewClient(&redis.Options{})
	client := mustMakeRedisClient(t, connOptFunc(func() interface{} { return own }))
	if client != redis.UniversalClient(own) {
		t.Error("newRedisClient returns another client than MakeRedisClient")
	}
	if opt := (&RedisClientOpt{DB: 4}); mustMakeRedisClient(t, opt).(*redis.Client).Options().DB != 4 {
		t.Error("a pointer to an option is not taken")
	}
}

// Enqueue calls outlast a failover where there can be one, and the program has not said how often to repeat.
func TestEnqueuePatience(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		opt  RedisConnOpt
		want bool
	}{
		{"server", RedisClientOpt{}, false},
		{"shared", SharedRedisClient(redis.NewClusterClient(&redis.ClusterOptions{})), false},
		{"failover", RedisFailoverClientOpt{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}, true},
		{"failover, repeats", &RedisFailoverClientOpt{SentinelAddrs: []string{"127.0.0.1:1"}, MaxRetries: 3}, false},
		{"cluster", RedisClusterClientOpt{}, true},
		{"cluster, pointer", &RedisClusterClientOpt{}, true},
		{"cluster, namespace", WithNamespace(RedisClusterClientOpt{}, "x"), true},
		{"cluster, never", RedisClusterClientOpt{MaxRedirects: -1}, false},
		{"cluster, URI", mustURI(t, "redis-cluster://127.0.0.1:1"), true},
		{"cluster, URI, never", mustURI(t, "redis-cluster://127.0.0.1:1?max_redirects=0"), false},
	} {
		c := NewClient(tc.opt)
		if got := c.broker.Patience; (got > 0) != tc.want || got > 20*time.Second {
			t.Errorf("%s: %v", tc.name, got)
		}
		if err := c.conn.client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func mustURI(t *testing.T, uri string) RedisConnOpt {
	t.Helper()
	opt, err := ParseRedisURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	return opt
}
