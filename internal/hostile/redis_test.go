package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// oddConn returns a value that is not a Redis client.
type oddConn struct{}

func (oddConn) MakeRedisClient() interface{} { return "a string" }

// nowhere is a dialer that always fails.
func nowhere(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nowhere") }

// hostileParams returns Params with the number n. Connections are not opened in advance.
func hostileParams(n int) string {
	return fmt.Sprintf("client_name=a+b&max_retries=-1&protocol=%[1]d&min_idle_conns=%[2]d&max_active_conns=%[1]d&"+
		"pool_timeout=%[1]dns&conn_max_idle_time=%[1]dns&conn_max_lifetime=%[1]dns", n, min(n, 0))
}

var hostileRedis = map[string]func(h *hostile){
	"RedisClientOpt.MakeRedisClient": func(h *hostile) {
		for _, n := range []int{math.MinInt, -1, 0, math.MaxInt} {
			d := time.Duration(n)
			h.closeUnconnected(asynq.RedisClientOpt{
				Network: "no such", Addr: notUTF8, Username: notUTF8, Password: "\r\n", DB: n, PoolSize: n, DialTimeout: d, ReadTimeout: d, WriteTimeout: d,
				Params: hostileParams(n),
			}.Configure(func(o *redis.Options) { o.Dialer = nowhere }))
		}
	},
	"RedisFailoverClientOpt.MakeRedisClient": func(h *hostile) {
		for _, n := range []int{math.MinInt, -1, 0, math.MaxInt} {
			d := time.Duration(n)
			h.closeUnconnected(asynq.RedisFailoverClientOpt{
				MasterName: "", SentinelAddrs: []string{"", notUTF8}, DB: n, PoolSize: n, DialTimeout: d, ReadTimeout: d, WriteTimeout: d,
				Params: hostileParams(n),
			}.Configure(func(o *redis.FailoverOptions) { o.Dialer = nowhere }))
		}
		h.closeUnconnected(asynq.RedisFailoverClientOpt{}.Configure(func(o *redis.FailoverOptions) { o.Dialer = nowhere }))
	},
	"RedisClusterClientOpt.MakeRedisClient": func(h *hostile) {
		for _, n := range []int{math.MinInt, -1, 0, math.MaxInt} {
			d := time.Duration(n)
			h.closeUnconnected(asynq.RedisClusterClientOpt{
				Addrs: []string{"", notUTF8}, MaxRedirects: -1, DialTimeout: d, ReadTimeout: d, WriteTimeout: d,
				Params: hostileParams(n) + fmt.Sprintf("&pool_size=%d", n),
			}.Configure(func(o *redis.ClusterOptions) { o.Dialer = nowhere }))
		}
		h.closeUnconnected(asynq.RedisClusterClientOpt{MaxRedirects: -1}.Configure(func(o *redis.ClusterOptions) { o.Dialer = nowhere }))
	},
	"RedisClientOpt.Configure": func(h *hostile) {
		opt := asynq.RedisClientOpt{Addr: notUTF8}
		h.check(opt.Configure(nil) == opt, "options without a change differ")
	},
	"RedisFailoverClientOpt.Configure": func(h *hostile) {
		_, same := asynq.RedisFailoverClientOpt{}.Configure(nil).(asynq.RedisFailoverClientOpt)
		h.check(same, "options without a change differ")
	},
	"RedisClusterClientOpt.Configure": func(h *hostile) {
		_, same := asynq.RedisClusterClientOpt{}.Configure(nil).(asynq.RedisClusterClientOpt)
		h.check(same, "options without a change differ")
	},
	"ParseRedisURI": func(h *hostile) {
		for _, uri := range append(append(unusualNames, blankNames...), notUTF8, hugeName, "redis://h:99999", "redis://h/-1", "redis://h\n:1") {
			opt, err := asynq.ParseRedisURI(uri)
			h.wantErr(err, nil, "invalid Redis URI")
			h.check(opt == nil, "an invalid URI returns options")
		}
	},
	"SharedRedisClient": func(h *hostile) {
		h.wantPanic("returned nil", func() { asynq.NewClient(asynq.SharedRedisClient(nil)) })
		// Nested namespaces do not change who owns the connection.
		c := asynq.NewClient(asynq.WithNamespace(asynq.WithNamespace(asynq.SharedRedisClient(h.RDB), "inner"), "outer"))
		h.wantErr(c.Close(), nil, "shared Redis connection")
		h.noErr(h.Client.Ping())
	},
	"ConnectRedis": func(h *hostile) {
		for _, opt := range []asynq.RedisConnOpt{nil, asynq.SharedRedisClient(nil), asynq.WithNamespace(nil, "x"), asynq.WithNamespace(h.Opt(), "{")} {
			conn, err := asynq.ConnectRedis(opt)
			h.check(conn == nil && err != nil, "connected with %v: %v and error %v", opt, conn, err)
		}
		conn, err := asynq.ConnectRedis(asynq.WithNamespace(asynq.SharedRedisClient(h.RDB), "mine"))
		h.noErr(err)
		h.check(conn.Client == h.RDB && conn.Namespace == "mine" && !conn.Owned, "the shared client is %+v", conn)
		conn, err = asynq.ConnectRedis(h.Opt())
		h.noErr(err)
		h.check(conn.Namespace == "asynq" && conn.Owned, "the client is %+v", conn)
		h.noErr(conn.Close())
	},
	"RedisConn.Close": func(h *hostile) {
		conn, err := asynq.ConnectRedis(asynq.SharedRedisClient(h.RDB))
		h.noErr(err)
		h.noErr(conn.Close())
		h.noErr(h.Client.Ping()) // the shared client is still open
	},
	"RedisConn.Shared": func(h *hostile) {
		h.wantPanic("returned nil", func() { asynq.NewClient((&asynq.RedisConn{Namespace: "n"}).Shared()) })
		h.wantPanic("namespace", func() { asynq.NewClient((&asynq.RedisConn{Client: h.RDB}).Shared()) })
	},
	"WithClock": func(h *hostile) {
		h.check(asynq.WithClock(nil, nil).MakeRedisClient() == nil, "nil options return a client")
		h.wantPanic("RedisConnOpt is nil", func() { asynq.NewClient(asynq.WithClock(nil, nil)) })
		_, err := h.NewClient(asynq.WithClock(h.Opt(), nil)).Enqueue(asynq.NewTask("t", nil), asynq.TaskID("pending"))
		h.wantErr(err, asynq.ErrTaskIDConflict)
	},
	"WithMillisecondTimes": func(h *hostile) {
		h.check(asynq.WithMillisecondTimes(nil).MakeRedisClient() == nil, "nil options return a client")
		h.wantPanic("RedisConnOpt is nil", func() { asynq.NewClient(asynq.WithMillisecondTimes(nil)) })
		c := h.NewClient(asynq.WithMillisecondTimes(asynq.WithMillisecondTimes(h.Opt())))
		for _, at := range []time.Time{{}, time.Unix(0, 1), time.Unix(math.MaxInt64, 999_999_999), time.Unix(math.MinInt64, 1)} {
			_, err := c.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("pending"), asynq.ProcessAt(at))
			h.wantErr(err, asynq.ErrTaskIDConflict)
		}
	},
	"WithNamespace": func(h *hostile) {
		for _, name := range append(blankNames, "{", "}", "a{b", notUTF8) {
			h.wantPanic("namespace", func() { asynq.NewClient(asynq.WithNamespace(h.Opt(), name)) })
		}
		h.check(asynq.WithNamespace(nil, "x").MakeRedisClient() == nil, "nil options return a client")
		for _, name := range []string{"line\nbreak", "nul\x00", "*?[a]\\", "a:b", "asynq:", longName} {
			outer := asynq.WithNamespace(asynq.WithNamespace(h.Opt(), "{never}"), name)
			c, i := h.NewClient(outer), asynq.NewInspector(outer)
			_, err := c.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("t"), asynq.Unique(time.Hour))
			h.noErr(err)
			queues, err := i.Queues()
			h.check(err == nil && len(queues) == 1, "queues of namespace %.50q: %q, error %v", name, queues, err)
			h.noErr(i.DeleteQueue("default", true))
			h.noErr(i.Close())
		}
	},
}

// closeUnconnected creates and closes the client of options whose Redis does not exist.
func (h *hostile) closeUnconnected(opt asynq.RedisConnOpt) {
	h.T.Helper()
	client, ok := opt.MakeRedisClient().(redis.UniversalClient)
	if !ok {
		h.T.Fatalf("%T returns no client", opt)
	}
	h.noErr(client.Close())
}
