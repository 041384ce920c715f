package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/enqueue.lua
var enqueueLua string

//go:embed lua/fetch.lua
var fetchLua string

//go:embed lua/settle.lua
var settleLua string

// maxBatch is how many tasks a script takes at most.
const maxBatch = 500

// bareScripts is the floor under any library on this wire format: scripts that make the same keys and check nothing, called
// for many tasks at once, on one connection, one after the other.
type bareScripts struct{}

func (bareScripts) bare() bool { return true }

func (bareScripts) connect(addr string) redis.UniversalClient {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})
}

func (bareScripts) producer(conn redis.UniversalClient) producer {
	return bareProducer{conn, redis.NewScript(enqueueLua)}
}

type bareProducer struct {
	conn   redis.UniversalClient
	script *redis.Script
}

func (p bareProducer) enqueue(ctx context.Context, j *job) error { return p.batch(ctx, []*job{j}) }

// batch puts all tasks into the default queue. A message is as long as a library's is, and no protobuf: nobody reads it.
func (p bareProducer) batch(ctx context.Context, jobs []*job) error {
	for len(jobs) > 0 {
		part := jobs[:min(len(jobs), maxBatch)]
		jobs = jobs[len(part):]
		args := make([]any, 0, 1+2*len(part))
		args = append(args, queueKey(defaultQueue, "t:"))
		for _, j := range part {
			id := rand.Text() + "0123456789"
			args = append(args, id, append([]byte(id+taskType+defaultQueue+"0123456789"), j.payload...))
		}
		if err := p.script.Run(ctx, p.conn, []string{queueKey(defaultQueue, "pending")}, args...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// serve runs the turns of a server of the given concurrency: each settles what the one before fetched. Tasks are handled
// one after the other.
func (bareScripts) serve(conn redis.UniversalClient, cfg serverConfig) error {
	ctx := context.Background()
	t := &turns{conn: conn, cfg: cfg}
	for _, script := range []struct {
		source string
		sha    *string
	}{{fetchLua, &t.fetch}, {settleLua, &t.settle}} {
		sha, err := conn.ScriptLoad(ctx, script.source).Result()
		if err != nil {
			return err
		}
		*script.sha = sha
	}
	go t.run(ctx)
	return nil
}

// turns is the loop of the floor's server.
type turns struct {
	conn          redis.UniversalClient
	cfg           serverConfig
	fetch, settle string // SHA-1 of the scripts
}

func (t *turns) run(ctx context.Context) {
	var ids []string
	for {
		reply, err := t.turn(ctx, ids)
		if err != nil {
			panic(err)
		}
		ids = ids[:0]
		for i := 0; i < len(reply); i += 2 {
			ids = append(ids, reply[i])
			if t.cfg.handle(attempt{payload: []byte(reply[i+1])}) != nil {
				panic("the floor knows no failed tasks")
			}
		}
		if len(ids) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// turn settles and fetches in one round trip, and returns an ID and a message for each task that was fetched.
func (t *turns) turn(ctx context.Context, ids []string) ([]string, error) {
	pipe := t.conn.Pipeline()
	key := func(name string) string { return queueKey(defaultQueue, name) }
	if len(ids) > 0 {
		keys := []string{key("active"), key("lease"), key("processed"), key("processed:" + time.Now().UTC().Format(time.DateOnly))}
		args := make([]any, len(ids))
		for i, id := range ids {
			keys = append(keys, key("t:"+id))
			args[i] = id
		}
		pipe.EvalSha(ctx, t.settle, keys, args...)
	}
	keys := []string{key("pending"), key("active"), key("lease")}
	fetched := pipe.EvalSha(ctx, t.fetch, keys, key("t:"), min(t.cfg.concurrency, maxBatch))
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	return fetched.StringSlice()
}
