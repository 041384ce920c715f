package main

import (
	"crypto/tls"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

var uris = []string{
	"", " ", "localhost", "localhost:6379", "://", "redis:", "redis:/", "redis://", "redis:///", "redis:///0", "redis:///3", "redis://:6379", "redis://localhost",
	"redis://localhost:6379", "redis://localhost:6379/", "redis://localhost:6379/5", "redis://localhost/5", "redis://localhost:6379/x",
	"redis://localhost:6379/-1", "redis://localhost:6379/5/6", "redis://localhost:6379/05", "redis://localhost:6379//5", "redis://localhost:port", "redis://localhost:99999",
	"redis://:password@localhost:6379", "redis://user:password@localhost:6379/2", "redis://user@localhost", "redis://user:@localhost",
	"redis://:p%40ss@localhost", "redis://user:pass:word@localhost", "redis://[::1]:6379/1", "redis://[::1]", "REDIS://localhost", "redis://localhost#x",
	"rediss://localhost", "rediss://localhost:6380/1", "rediss://:password@host.example:6380", "rediss://:6380", "rediss://",
	"unix:///tmp/redis.sock", "unix://tmp/redis.sock", "unix://", "unix:///", "redis-socket:///tmp/redis.sock", "redis-socket:///tmp/redis.sock?db=3",
	"redis-socket:///tmp/redis.sock?db=x", "redis-socket://:password@/tmp/redis.sock", "redis-socket://", "redis-socket://tmp/redis.sock", "redis-socket://user:password@/tmp/redis.sock?db=1",
	"redis-sentinel://localhost:5000?master=m", "redis-sentinel://localhost:5000,localhost:5001?master=m", "redis-sentinel://:password@localhost:5000?master=m",
	"redis-sentinel://localhost:5000", "redis-sentinel://localhost:5000/3?master=m", "redis-sentinel://?master=m", "redis-sentinel://localhost?master=m",
	"redis-sentinel://localhost:5000,?master=m", "redis-sentinel://user:password@localhost:5000?master=m",
	"redis://localhost?db=3", "redis://localhost/2?db=3", "redis://localhost?dial_timeout=5s", "redis://localhost?read_timeout=5", "redis://localhost?pool_size=7",
	"redis://localhost?unknown=1", "redis://localhost?family=4", "rediss://localhost?ssl_cert_reqs=none", "redis://localhost?max_retries=2", "redis://localhost?client_name=x",
	"redis://localhost?protocol=2", "redis://localhost?pool_size=x", "redis://localhost?", "http://localhost", "redis-cluster://localhost:7000", "rediss-sentinel://localhost?master=m",
	"redis://localhost:6379/0?skip_verify=true", "rediss://localhost:6379/0?skip_verify=true", "redis://localhost:6379?addr=other:6379",
	"redis://local host", "redis://localhost:6379/5?", " redis://localhost", "redis://localhost ", "redis://%zz", "redis://localhost\n",
}

func addRedisRows() {
	for _, uri := range uris {
		add(fmt.Sprintf("ParseRedisURI(%q)", uri), func(s *site) {
			s.noDump = true
			opt, err := asynq.ParseRedisURI(uri)
			s.err(err)
			s.see("type", fmt.Sprintf("%T", opt))
			switch opt := opt.(type) {
			case asynq.RedisClientOpt:
				s.see("option", fmt.Sprintf("%s %q user %q password %q db %d timeouts %v %v %v pool %d tls %s", opt.Network, opt.Addr, opt.Username, opt.Password,
					opt.DB, opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout, opt.PoolSize, config2text(opt.TLSConfig)))
			case asynq.RedisFailoverClientOpt:
				s.see("option", fmt.Sprintf("%q %q user %q password %q, sentinels %q %q db %d tls %s", opt.MasterName, opt.SentinelAddrs, opt.Username, opt.Password,
					opt.SentinelUsername, opt.SentinelPassword, opt.DB, config2text(opt.TLSConfig)))
			}
			if err != nil {
				return
			}
			if client, ok := opt.MakeRedisClient().(*redis.Client); ok {
				defer client.Close()
				s.see("client", client2text(client.Options()))
			}
		})
	}
	made := map[string]asynq.RedisConnOpt{
		"RedisClientOpt{}":               asynq.RedisClientOpt{},
		"&RedisClientOpt{}":              &asynq.RedisClientOpt{},
		"RedisClientOpt{…}":              asynq.RedisClientOpt{Network: "unix", Addr: "/x", Username: "u", Password: "p", DB: 3, DialTimeout: time.Second, ReadTimeout: 2 * time.Second, WriteTimeout: 3 * time.Second, PoolSize: 7, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "x"}},
		"RedisClientOpt{-1}":             asynq.RedisClientOpt{DialTimeout: -1, ReadTimeout: -1, WriteTimeout: -1},
		"RedisClientOpt{-2}":             asynq.RedisClientOpt{ReadTimeout: -2, WriteTimeout: -2},
		"RedisClientOpt{DB: -1}":         asynq.RedisClientOpt{DB: -1},
		"RedisClientOpt{PoolSize: -1}":   asynq.RedisClientOpt{PoolSize: -1},
		"RedisClientOpt{Username: u}":    asynq.RedisClientOpt{Username: "u"},
		"RedisFailoverClientOpt{}":       asynq.RedisFailoverClientOpt{},
		"RedisFailoverClientOpt{…}":      asynq.RedisFailoverClientOpt{MasterName: "m", SentinelAddrs: []string{"a:1"}, Username: "u", Password: "p", DB: 3, ReadTimeout: time.Second, PoolSize: 7},
		"RedisClusterClientOpt{}":        asynq.RedisClusterClientOpt{},
		"RedisClusterClientOpt{…}":       asynq.RedisClusterClientOpt{Addrs: []string{"a:1"}, MaxRedirects: 3, Username: "u", Password: "p", ReadTimeout: time.Second},
		"RedisClusterClientOpt{MaxRed…}": asynq.RedisClusterClientOpt{Addrs: []string{"a:1"}, MaxRedirects: -1},
	}
	for _, name := range sortedKeys(made) {
		add(name+".MakeRedisClient", func(s *site) {
			s.noDump = true
			client := made[name].MakeRedisClient()
			s.see("type", fmt.Sprintf("%T", client))
			switch client := client.(type) {
			case *redis.Client:
				defer client.Close()
				s.see("options", client2text(client.Options()))
			case *redis.ClusterClient:
				defer client.Close()
				o := client.Options()
				s.see("options", fmt.Sprintf("%q redirects %d user %q password %q timeouts %v %v %v pool %d tls %s", o.Addrs, o.MaxRedirects, o.Username, o.Password, o.DialTimeout,
					o.ReadTimeout, o.WriteTimeout, o.PoolSize, config2text(o.TLSConfig)))
			}
		})
	}
	add("RedisClientOpt as a value", func(s *site) {
		s.noDump = true
		s.guard("== ", func() {
			var a, b asynq.RedisConnOpt = asynq.RedisClientOpt{Addr: "x"}, asynq.RedisClientOpt{Addr: "x"}
			s.see("==", a == b)
		})
		s.see("comparable", reflect.TypeFor[asynq.RedisClientOpt]().Comparable())
		s.see("DeepEqual", reflect.DeepEqual(asynq.RedisClientOpt{Addr: "x"}, asynq.RedisClientOpt{Addr: "x"}))
	})
}

func config2text(c *tls.Config) string {
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("server %q insecure %t from %x", c.ServerName, c.InsecureSkipVerify, c.MinVersion)
}

func client2text(o *redis.Options) string {
	return fmt.Sprintf("%s %q user %q password %q db %d timeouts %v %v %v pool %d retries %d protocol %d name %q tls %s", o.Network,
		strings.TrimSpace(o.Addr), o.Username, o.Password, o.DB, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolSize, o.MaxRetries, o.Protocol, o.ClientName, config2text(o.TLSConfig))
}
