package main

import (
	"bytes"
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

//go:embed lua/retain.lua
var retainLua string

// maxBatch is the maximum number of tasks per script call.
const maxBatch = 500

// bareScripts is the floor of any library with this wire format: scripts that produce the same keys
// without checks, called for many tasks at once, on one connection, one call after the other.
type bareScripts struct{}

func (bareScripts) connect(addr string, _ bool) redis.UniversalClient {
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

// batch enqueues all tasks to the default queue. A message has the length of a real one, but is not
// protobuf.
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

// serve runs the round trips of a server with the given concurrency: each settles what the previous
// one fetched. Tasks are handled one after the other.
func (bareScripts) serve(conn redis.UniversalClient, cfg serverConfig) error {
	ctx := context.Background()
	t := &roundTripLoop{conn: conn, cfg: cfg}
	for _, script := range []struct {
		source string
		sha    *string
	}{{fetchLua, &t.fetch}, {settleLua, &t.settle}, {retainLua, &t.retain}} {
		sha, err := conn.ScriptLoad(ctx, script.source).Result()
		if err != nil {
			return err
		}
		*script.sha = sha
	}
	go t.run(ctx)
	return nil
}

// roundTripLoop is the loop of the server of the floor.
type roundTripLoop struct {
	conn                  redis.UniversalClient
	cfg                   serverConfig
	fetch, settle, retain string // SHA-1 of the scripts
}

// bareTask is a fetched task.
type bareTask struct {
	id, message string
	result      bytes.Buffer
}

func (t *roundTripLoop) run(ctx context.Context) {
	var tasks []*bareTask
	for {
		reply, err := t.roundTrip(ctx, tasks)
		if err != nil {
			panic(err)
		}
		tasks = tasks[:0]
		for i := 0; i < len(reply); i += 2 {
			task := &bareTask{id: reply[i], message: reply[i+1]}
			tasks = append(tasks, task)
			if t.cfg.handle(attempt{payload: []byte(task.message), result: &task.result}) != nil {
				panic("the floor knows no failed tasks")
			}
		}
		if len(tasks) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// roundTrip completes tasks and fetches others, and returns an ID and a message for each of these.
func (t *roundTripLoop) roundTrip(ctx context.Context, done []*bareTask) ([]string, error) {
	pipe := t.conn.Pipeline()
	key := func(name string) string { return queueKey(defaultQueue, name) }
	if len(done) > 0 {
		keys := []string{key("active"), key("lease"), key("processed"), key("processed:" + time.Now().UTC().Format(time.DateOnly))}
		script, args := t.settle, []any(nil)
		retain := done[0].result.Len() > 0 // the tasks of a workload are alike
		if retain {
			script, keys, args = t.retain, append(keys, key("completed")), []any{time.Now().Add(time.Hour).Unix()}
		}
		for _, task := range done {
			keys = append(keys, key("t:"+task.id))
			args = append(args, task.id)
			if retain {
				args = append(args, task.message, task.result.Bytes())
			}
		}
		pipe.EvalSha(ctx, script, keys, args...)
	}
	keys := []string{key("pending"), key("active"), key("lease")}
	fetched := pipe.EvalSha(ctx, t.fetch, keys, key("t:"), min(t.cfg.concurrency, maxBatch))
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	return fetched.StringSlice()
}
