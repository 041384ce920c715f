package asynq

import (
	"crypto/tls"
	"net"
	"net/url"
	"path"
	"reflect"
	"strings"
	"testing"
	"time"
)

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
			RedisClientOpt{Addr: "h:6379", DialTimeout: 2 * time.Second, ReadTimeout: 300 * time.Millisecond, WriteTimeout: -1,
				PoolSize: 7, ClientName: "a.b", MaxRetries: 5}},
		{"redis://h?max_retries=0", RedisClientOpt{Addr: "h:6379", MaxRetries: -1}},
		{"redis://h/?read_timeout=-1", RedisClientOpt{Addr: "h:6379", ReadTimeout: -1}},
		{"rediss://h:1/2", RedisClientOpt{Addr: "h:1", DB: 2, TLSConfig: &tls.Config{ServerName: "h"}}},
		{"rediss://[::1]", RedisClientOpt{Addr: "[::1]:6379", TLSConfig: &tls.Config{ServerName: "::1"}}},
		{"rediss://h?insecure_skip_verify=true",
			RedisClientOpt{Addr: "h:6379", TLSConfig: &tls.Config{ServerName: "h", InsecureSkipVerify: true}}},
		{"rediss://h?insecure_skip_verify=false", RedisClientOpt{Addr: "h:6379", TLSConfig: &tls.Config{ServerName: "h"}}},

		{"redis-socket:///run/redis.sock", RedisClientOpt{Network: "unix", Addr: "/run/redis.sock"}},
		{"redis-socket://u:p@/run/redis.sock?db=2&pool_size=3",
			RedisClientOpt{Network: "unix", Addr: "/run/redis.sock", Username: "u", Password: "p", DB: 2, PoolSize: 3}},
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
			SentinelAddrs: []string{"h1:26379"}, MaxRetries: 2, DialTimeout: time.Minute, TLSConfig: &tls.Config{}}},

		{"redis-cluster://h1", RedisClusterClientOpt{Addrs: []string{"h1:6379"}}},
		{"redis-cluster://u:p@h1:1,h2:2/0?max_redirects=9&client_name=x&pool_size=4", RedisClusterClientOpt{
			Addrs: []string{"h1:1", "h2:2"}, Username: "u", Password: "p", MaxRedirects: 9, ClientName: "x", PoolSize: 4}},
		{"rediss-cluster://h1,h2?insecure_skip_verify=1&max_redirects=0", RedisClusterClientOpt{
			Addrs: []string{"h1:6379", "h2:6379"}, MaxRedirects: -1, TLSConfig: &tls.Config{InsecureSkipVerify: true}}},
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
		{"redis://", "no host: write it after the slashes, as in redis://localhost"},
		{"redis:///2", "no host"},
		{"redis://u:hunter2@", "no host"},
		{"redis://:6379", "host 1: missing"},
		{"redis://?db=1", "no host"},
		{"redis://h1,h2", "more than one host: use redis-sentinel:// or redis-cluster://"},
		{"redis://h:x", "host 1: the port must be a number from 1 to 65535"},
		{"redis://h:0", "the port must be"},
		{"redis://h:65536", "the port must be"},
		{"redis://h:+1", "the port must be"},
		{"redis://h:1:2", "more than one colon"},
		{"redis://::1", "more than one colon: write an IPv6 address in brackets"},
		{"redis://[::1", "not an IPv6 address in brackets"},
		{"redis://[::1]6379", "not an IPv6 address in brackets"},
		{"redis://[localhost]:1", "not an IPv6 address in brackets"},
		{"redis://[127.0.0.1]:1", "not an IPv6 address in brackets"},
		{"redis://[fe80::1%25a b]", "not an IPv6 address in brackets"},
		{"redis://ho st", "host 1: has a character that no host name has"},
		{"redis://h%41", "has a character that no host name has"},
		{"redis://h\n", "has a character that no host name has"},
		{"redis://h\xff", "has a character that no host name has"},
		{"redis://h/x", "the path may only be the number of a database, as in redis://host/2"},
		{"redis://h/-1", "the path may only be"},
		{"redis://h/+1", "the path may only be"},
		{"redis://h/1/2", "the path may only be"},
		{"redis://h//2", "the path may only be"},
		{"redis://h/2/", "the path may only be"},
		{"redis://h/99999999999", "the path may only be"},
		{"redis://h/1?db=1", "db is given twice"},
		{"redis://h?db=1&db=2", "db is given twice"},
		{"redis://h?db=", "query parameter db must be the number of a database"},
		{"redis://h?db=-1", "query parameter db must be"},
		{"redis://h#1", "a fragment: write # as %23"},
		{"redis://u:p%zzhunter2@h", "bad percent-encoding in the user name or password: write % as %25"},
		{"redis://u:hunter2/x@h", "an @ after the host: write / ? # @ in a user name or password as %2F %3F %23 %40"},
		{"redis://u:hunter2?x@h", "an @ after the host"},
		{"redis://u:hunter2#x@h", "an @ after the host"},
		{"redis://h?pool_sice=3", `unknown query parameter "pool_sice": the ones for redis are client_name, db, dial_timeout, ` +
			`max_retries, pool_size, read_timeout, write_timeout`},
		{"redis://h?Strange!=3", "unknown query parameter: the ones for redis are"},
		{"redis://h?%zz=3", "bad percent-encoding in the query"},
		{"redis://h?db=%", "bad percent-encoding in the query"},
		{"redis://h?master=m", "query parameter master is not for redis"},
		{"redis://h?max_redirects=1", "query parameter max_redirects is not for redis"},
		{"redis://h?insecure_skip_verify=true", "query parameter insecure_skip_verify needs TLS: use a rediss scheme"},
		{"rediss://h?insecure_skip_verify=perhaps", "query parameter insecure_skip_verify must be true or false"},
		{"redis://h?pool_size=0", "query parameter pool_size must be a number of connections, from 1"},
		{"redis://h?pool_size=many", "query parameter pool_size must be"},
		{"redis://h?max_retries=-2", "query parameter max_retries must be a number, with 0 for never"},
		{"redis://h?client_name=a+b", "query parameter client_name may have only printable ASCII characters and no spaces"},
		{"redis://h?dial_timeout=0", "query parameter dial_timeout must be above zero: a duration as in 1.5s or 300ms"},
		{"redis://h?dial_timeout=-1", "query parameter dial_timeout must be above zero"},
		{"redis://h?dial_timeout=99999999999", "query parameter dial_timeout must be"},
		{"redis://h?read_timeout=-2s", "or whole seconds; -1 means no limit"},
		{"redis://h?write_timeout=soon", "query parameter write_timeout must be"},
		{"redis-socket://", "no path of a socket: write it as in redis-socket:///path/to.sock"},
		{"redis-socket:///", "no path of a socket"},
		{"redis-socket:///run/", "no path of a socket"},
		{"redis-socket:///a%00b", "no path of a socket"},
		{"redis-socket://run/redis.sock", "a host before the path of the socket: write three slashes"},
		{"redis-socket:///run/%", "bad percent-encoding in the path"},
		{"redis-sentinel://h1", "no master: add ?master=name"},
		{"redis-sentinel://h1?master=", "no master"},
		{"redis-sentinel://?master=m", "no host"},
		{"redis-sentinel://h1,,h2?master=m", "host 2: missing"},
		{"redis-sentinel://h1,h2:x?master=m", "host 2: the port must be"},
		{"redis-sentinel://h1?master=m&sentinel_password=a&hunter2", "unknown query parameter after sentinel_password: write &"},
		{"redis-cluster://h1/1", "a path: a cluster has only database 0"},
		{"redis-cluster://h1?db=0", "query parameter db is not for redis-cluster"},
		{"redis-cluster://h1?max_redirects=x", "query parameter max_redirects must be"},
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

func TestEveryURIParameterIsTaken(t *testing.T) {
	t.Parallel()
	// One value that no parameter leaves as it is by default, so that a name without a case in set shows.
	for name, use := range uriParamUses {
		var params uriParams
		value := "1"
		if err := params.set(name, value); err != nil {
			t.Errorf("%s=%s: %v", name, value, err)
		}
		if params == (uriParams{}) {
			t.Errorf("%s=%s changes nothing", name, value)
		}
		if use.kinds == 0 {
			t.Errorf("%s is for no URI", name)
		}
	}
}

// FuzzParseRedisURI tries URIs of any form, and ones whose password contains, among anything else, escaped or not, a
// word that must not turn up in an error.
func FuzzParseRedisURI(f *testing.F) {
	const word = "swordfish" // a plain one, which could pass for the name of a scheme or parameter
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
					t.Errorf("ParseRedisURI(%q) returns an option and an error", uri)
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

// checkRedisAddrs fails the test unless opt says where to connect to.
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
