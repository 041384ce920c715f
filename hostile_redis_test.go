package asynq_test

import (
	"context"
	"errors"
	"math"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// oddConn makes something that is no connection.
type oddConn struct{}

func (oddConn) MakeRedisClient() interface{} { return "a string" }

// nowhere is a dialer that gets nowhere at once.
func nowhere(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nowhere") }

var hostileRedis = map[string]func(h *hostile){
	"RedisClientOpt.MakeRedisClient": func(h *hostile) {
		for _, n := range []int{math.MinInt, -1, 0, math.MaxInt} {
			d := time.Duration(n)
			h.unreachable(asynq.RedisClientOpt{
				Network: "no such", Addr: notUTF8, Username: notUTF8, Password: "\r\n", ClientName: "a b", DB: n, PoolSize: n, MaxRetries: -1, MinIdleConns: min(n, 0),
				MaxActiveConns: n, DialTimeout: d, ReadTimeout: d, WriteTimeout: d, PoolTimeout: d, ConnMaxIdleTime: d, ConnMaxLifetime: d,
				Protocol: n, Dialer: nowhere,
			})
		}
	},
	"RedisFailoverClientOpt.MakeRedisClient": func(h *hostile) {
		for _, n := range []int{math.MinInt, -1, 0, math.MaxInt} {
			d := time.Duration(n)
			h.unreachable(asynq.RedisFailoverClientOpt{
				MasterName: "", SentinelAddrs: []string{"", notUTF8}, DB: n, PoolSize: n, MaxRetries: -1, MinIdleConns: min(n, 0), MaxActiveConns: n,
				DialTimeout: d, ReadTimeout: d, WriteTimeout: d, PoolTimeout: d, ConnMaxIdleTime: d, ConnMaxLifetime: d, Protocol: n, Dialer: nowhere,
			})
		}
		h.unreachable(asynq.RedisFailoverClientOpt{Dialer: nowhere})
	},
	"RedisClusterClientOpt.MakeRedisClient": func(h *hostile) {
		for _, n := range []int{math.MinInt, -1, 0, math.MaxInt} {
			d := time.Duration(n)
			h.unreachable(asynq.RedisClusterClientOpt{
				Addrs: []string{"", notUTF8}, MaxRedirects: -1, PoolSize: n, MaxRetries: -1, MinIdleConns: min(n, 0), MaxActiveConns: n,
				DialTimeout: d, ReadTimeout: d, WriteTimeout: d, PoolTimeout: d, ConnMaxIdleTime: d, ConnMaxLifetime: d, Protocol: n, Dialer: nowhere,
			})
		}
		h.unreachable(asynq.RedisClusterClientOpt{MaxRedirects: -1, Dialer: nowhere})
	},
	"ParseRedisURI": func(h *hostile) {
		for _, uri := range append(append(unusualNames, blankNames...), notUTF8, hugeName, "redis://", "redis://h:99999", "redis://h/-1", "redis://h\n:1") {
			opt, err := asynq.ParseRedisURI(uri)
			h.refused(err, nil, "invalid Redis URI")
			h.want(opt == nil, "there is no option")
		}
	},
	"SharedRedisClient": func(h *hostile) {
		h.panics("returned nil", func() { asynq.NewClient(asynq.SharedRedisClient(nil)) })
		// However many namespaces are around it, the connection stays the caller's.
		c := asynq.NewClient(asynq.WithNamespace(asynq.WithNamespace(asynq.SharedRedisClient(h.redis), "inner"), "outer"))
		h.refused(c.Close(), nil, "shared Redis connection")
		h.taken(h.client.Ping())
	},
	"ConnectRedis": func(h *hostile) {
		for _, opt := range []asynq.RedisConnOpt{nil, asynq.SharedRedisClient(nil), asynq.WithNamespace(nil, "x"), asynq.WithNamespace(h.opt(), "{")} {
			client, namespace, owned, err := asynq.ConnectRedis(opt)
			h.want(client == nil && namespace == "" && !owned && err != nil, "of %v comes nothing, but %v and error %v", opt, client, err)
		}
		client, namespace, owned, err := asynq.ConnectRedis(asynq.WithNamespace(asynq.SharedRedisClient(h.redis), "mine"))
		h.want(client == h.redis && namespace == "mine" && !owned && err == nil, "it is the shared client in %q, owned %t, error %v", namespace, owned, err)
		client, namespace, owned, err = asynq.ConnectRedis(h.opt())
		h.taken(err)
		h.want(namespace == "asynq" && owned, "it is a client of our own in %q, owned %t", namespace, owned)
		h.taken(client.Close())
	},
	"WithNamespace": func(h *hostile) {
		for _, name := range append(blankNames, "{", "}", "a{b", notUTF8) {
			h.panics("namespace", func() { asynq.NewClient(asynq.WithNamespace(h.opt(), name)) })
		}
		h.want(asynq.WithNamespace(nil, "x").MakeRedisClient() == nil, "nothing comes of nothing")
		for _, name := range []string{"line\nbreak", "nul\x00", "*?[a]\\", "a:b", "asynq:", longName} {
			outer := asynq.WithNamespace(asynq.WithNamespace(h.opt(), "{never}"), name)
			c, i := h.clientOn(outer), asynq.NewInspector(outer)
			_, err := c.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("t"), asynq.Unique(time.Hour))
			h.taken(err)
			queues, err := i.Queues()
			h.want(err == nil && len(queues) == 1, "the queues of %.50q are %q, error %v", name, queues, err)
			h.taken(i.DeleteQueue("default", true))
			h.taken(i.Close())
		}
	},
}

// unreachable makes the client of options, which lead nowhere.
func (h *hostile) unreachable(opt asynq.RedisConnOpt) {
	h.t.Helper()
	client, ok := opt.MakeRedisClient().(redis.UniversalClient)
	if !ok {
		h.t.Fatalf("%T makes no client", opt)
	}
	h.taken(client.Close())
}
