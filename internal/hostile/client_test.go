package hostile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// invalidTasks are tasks and options that Enqueue rejects, with a part of the error text.
var invalidTasks = map[string]struct {
	task *asynq.Task
	opts []asynq.Option
	text string
}{
	"nil":                    {nil, nil, "task must not be nil"},
	"zero":                   {&asynq.Task{}, nil, "task type must not be empty"},
	"blank type":             {asynq.NewTask(" \n", nil), nil, "task type must not be empty"},
	"type not UTF-8":         {asynq.NewTask(notUTF8, nil), nil, "type is not valid UTF-8"},
	"queue not UTF-8":        {asynq.NewTask("t", nil), []asynq.Option{asynq.Queue(notUTF8)}, "queue is not valid UTF-8"},
	"ID not UTF-8":           {asynq.NewTask("t", nil), []asynq.Option{asynq.TaskID(notUTF8)}, "id is not valid UTF-8"},
	"group not UTF-8":        {asynq.NewTask("t", nil), []asynq.Option{asynq.Group(notUTF8)}, "group_key is not valid UTF-8"},
	"header not UTF-8":       {asynq.NewTask("t", nil), []asynq.Option{asynq.Header("k", notUTF8)}, "headers is not valid UTF-8"},
	"header key not UTF-8":   {asynq.NewTaskWithHeaders("t", nil, map[string]string{notUTF8: ""}), nil, "headers is not valid UTF-8"},
	"closing brace":          {asynq.NewTask("t", nil), []asynq.Option{asynq.Queue("}x")}, `"}x" must not begin with a closing brace`},
	"blank queue":            {asynq.NewTask("t", nil), []asynq.Option{asynq.Queue("\t")}, "queue name must not be empty"},
	"blank ID":               {asynq.NewTask("t", nil), []asynq.Option{asynq.TaskID("")}, "task ID must not be empty"},
	"blank group":            {asynq.NewTask("t", nil), []asynq.Option{asynq.Group(" ")}, "group name must not be empty"},
	"no TTL":                 {asynq.NewTask("t", nil), []asynq.Option{asynq.Unique(0)}, "TTL must be positive"},
	"negative TTL":           {asynq.NewTask("t", nil), []asynq.Option{asynq.Unique(mostNegative)}, "TTL must be positive"},
	"negative timeout":       {asynq.NewTask("t", nil), []asynq.Option{asynq.Timeout(-1)}, "must not be negative"},
	"negative retention":     {asynq.NewTask("t", nil), []asynq.Option{asynq.Retention(mostNegative)}, "must not be negative"},
	"blank key":              {asynq.NewTask("t", nil), []asynq.Option{asynq.IdempotencyKey("\t", time.Hour)}, "not blank"},
	"key not UTF-8":          {asynq.NewTask("t", nil), []asynq.Option{asynq.IdempotencyKey(notUTF8, time.Hour)}, "must be UTF-8"},
	"negative TTL of a key":  {asynq.NewTask("t", nil), []asynq.Option{asynq.IdempotencyKey("k", mostNegative)}, "its duration positive"},
	"blank unique key":       {asynq.NewTask("t", nil), []asynq.Option{asynq.UniqueKey(" ", time.Hour)}, "not blank"},
	"no TTL of a unique key": {asynq.NewTask("t", nil), []asynq.Option{asynq.UniqueKey("k", 0)}, "its duration positive"},
	"unknown policy":         {asynq.NewTask("t", nil), []asynq.Option{asynq.OnDuplicate(4)}, "unknown policy"},
	"negative policy":        {asynq.NewTask("t", nil), []asynq.Option{asynq.OnDuplicate(-1)}, "unknown policy"},
	"policy without a lock":  {asynq.NewTask("t", nil), []asynq.Option{asynq.OnDuplicate(asynq.Replace)}, "needs Unique or UniqueKey"},
	"debounce key not UTF-8": {asynq.NewTask("t", nil), []asynq.Option{asynq.Debounce(notUTF8, 1, 1)}, "must be UTF-8"},
	"no quiet time":          {asynq.NewTask("t", nil), []asynq.Option{asynq.Debounce("k", mostNegative, 1)}, "its duration positive"},
	"negative maximum wait":  {asynq.NewTask("t", nil), []asynq.Option{asynq.Debounce("k", 1, mostNegative)}, "not negative"},
	"blank throttle key":     {asynq.NewTask("t", nil), []asynq.Option{asynq.Throttle("", 1)}, "not blank"},
	"no window":              {asynq.NewTask("t", nil), []asynq.Option{asynq.Throttle("k", 0)}, "its duration positive"},
	"expired already":        {asynq.NewTask("t", nil), []asynq.Option{asynq.ExpiresIn(mostNegative)}, "must be positive"},
	"unknown option":         {asynq.NewTask("t", nil), []asynq.Option{oddOption{kind: 99}}, "unknown type 99"},
	"invalid option of task": {asynq.NewTask("t", nil, oddOption{asynq.QueueOpt, 1}), nil, "its Value is of type int, want string"},
}

var hostileClient = map[string]func(h *hostile){
	"NewClient": func(h *hostile) {
		h.wantPanic("RedisConnOpt is nil", func() { asynq.NewClient(nil) })
		h.wantPanic("RedisConnOpt is nil", func() { asynq.NewClient((*asynq.RedisClientOpt)(nil)) })
		h.wantPanic("RedisConnOpt is nil", func() { asynq.NewClient(asynq.WithNamespace(nil, "x")) })
		h.wantPanic("must return a redis.UniversalClient", func() { asynq.NewClient(oddConn{}) })
	},
	"NewClientFromRedisClient": func(h *hostile) {
		h.wantPanic("returned nil", func() { asynq.NewClientFromRedisClient(nil) })
		h.wantPanic("returned nil", func() { asynq.NewClientFromRedisClient((*redis.Client)(nil)) })
	},
	"Client.Close": func(h *hostile) {
		h.wantErr(h.Client.Close(), nil, "shared Redis connection")
		c := asynq.NewClient(h.Opt())
		h.noErr(c.Close())
		_, err := c.Enqueue(asynq.NewTask("t", nil))
		h.check(errors.Is(err, redis.ErrClosed), "error after Close: %v", err)
		h.check(c.Ping() != nil && c.Close() != nil, "Ping of a closed client succeeded")
	},
	"Client.Signal": func(h *hostile) {
		ctx := context.Background()
		for _, queue := range append(blankNames, "}x") {
			h.wantErr(h.Client.Signal(ctx, queue, "pending", "s", 1), nil, "queue name")
		}
		for _, name := range blankNames {
			h.wantErr(h.Client.Signal(ctx, "default", "pending", name, 1), nil, "name must not be empty")
		}
		for name, text := range map[string]string{notUTF8: "UTF-8", hugeName: "too long"} {
			h.wantErr(h.Client.Signal(ctx, "default", "pending", name, 1), nil, text)
		}
		h.wantErr(h.Client.Signal(ctx, "default", "", "s", 1), nil, "task ID must not be empty")
		h.wantErr(h.Client.Signal(noContext, "default", "pending", "s", 1), nil, "ctx must not be nil")
		h.wantErr(h.Client.Signal(ctx, "default", "pending", "s", func() {}), nil, "unsupported type")
		h.wantErr(h.Client.Signal(ctx, "default", "pending", "s", hugeName), nil, "1048578 bytes")
		for _, queue := range append(unusualNames, "default", notUTF8) {
			for _, id := range append(unusualNames, notUTF8) {
				h.wantErr(h.Client.Signal(ctx, queue, id, "s", 1), asynq.ErrTaskNotFound)
			}
		}
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		h.wantErr(h.Client.Signal(canceled, "none", "none", "s", 1), context.Canceled, "may or may not be sent")
		for _, name := range unusualNames {
			if len(name) > 200 {
				continue
			}
			h.noErr(h.Client.Signal(ctx, "default", "later", name, name))
			h.noErr(h.Client.Signal(ctx, "default", "later", name, nil))
			field := h.Env.Queue.Task("later")
			got := h.RDB.HGet(ctx, field, "sig:"+name).Val()
			want, _ := json.Marshal(name)
			h.check(got == string(want), "signal %q has the value %q", name, got)
			h.noErr(h.RDB.HDel(ctx, field, "sig:"+name).Err())
		}
	},
	"Client.Ping": func(h *hostile) { h.noErr(h.Client.Ping()) },
	"Client.Enqueue": func(h *hostile) {
		for name, invalid := range invalidTasks {
			_, err := h.Client.Enqueue(invalid.task, invalid.opts...)
			h.wantErr(err, nil, invalid.text)
			if len(invalid.opts) > 0 { // the same options passed to NewTask
				_, err = h.Client.Enqueue(asynq.NewTask("t", nil, invalid.opts...))
				h.check(err != nil, "%s: accepted as an option of the task", name)
			}
		}
		_, err := h.Client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("pending"))
		h.wantErr(err, asynq.ErrTaskIDConflict)
		_, err = h.Client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("grouped"), asynq.Group("other"))
		h.wantErr(err, asynq.ErrTaskIDConflict)
		_, err = h.Client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("later"), asynq.ProcessIn(longest))
		h.wantErr(err, asynq.ErrTaskIDConflict)
		large := make([]byte, 8<<20)
		if info := h.wantAccepted(asynq.NewTask("large", large)); len(info.Payload) != len(large) {
			h.T.Errorf("the payload has %d bytes left", len(info.Payload))
		}
	},
	"Client.EnqueueContext": func(h *hostile) {
		_, err := h.Client.EnqueueContext(noContext, asynq.NewTask("t", nil))
		h.wantErr(err, nil, "ctx must not be nil")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err = h.Client.EnqueueContext(ctx, asynq.NewTask("t", nil))
		h.wantErr(err, context.Canceled, "was not enqueued")
	},
	"Client.BatchEnqueueContext": func(h *hostile) {
		ctx := context.Background()
		h.check(len(h.Client.BatchEnqueueContext(ctx, nil)) == 0, "results without tasks")
		for _, r := range h.Client.BatchEnqueueContext(noContext, []*asynq.Task{nil, asynq.NewTask("t", nil)}) {
			h.wantErr(r.Err, nil, "ctx must not be nil")
		}
		var tasks []*asynq.Task
		var text []string
		for _, invalid := range invalidTasks {
			if len(invalid.opts) == 0 {
				tasks, text = append(tasks, invalid.task), append(text, invalid.text)
			}
		}
		for i, r := range h.Client.BatchEnqueueContext(ctx, tasks) {
			h.wantErr(r.Err, nil, text[i])
			h.check(r.TaskInfo == nil, "a rejected task has a TaskInfo")
		}
		for _, r := range h.Client.BatchEnqueueContext(ctx, []*asynq.Task{asynq.NewTask("t", nil)}, nil, asynq.Queue("")) {
			h.wantErr(r.Err, nil)
		}
	},
}

var hostileOption = map[string]func(h *hostile){
	"MaxRetry": func(h *hostile) {
		h.check(h.wantAccepted(asynq.NewTask("t", nil), asynq.MaxRetry(math.MinInt)).MaxRetry == 0, "a negative MaxRetry is not 0")
		h.check(h.wantAccepted(asynq.NewTask("t", nil), asynq.MaxRetry(math.MaxInt)).MaxRetry == math.MaxInt32, "MaxRetry is not limited to 2³¹−1")
	},
	"Queue": func(h *hostile) {
		for _, name := range append(blankNames, notUTF8, "}", "}}") {
			_, err := h.Client.Enqueue(asynq.NewTask("t", nil), asynq.Queue(name))
			h.wantErr(err, nil, "queue")
		}
		for _, name := range append(unusualNames, longName) {
			h.check(h.wantAccepted(asynq.NewTask("t", nil), asynq.Queue(name)).Queue == name, "the queue is %.100q", name)
		}
	},
	"TaskID": func(h *hostile) {
		for _, id := range append(blankNames, notUTF8) {
			_, err := h.Client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID(id))
			h.wantErr(err, nil)
		}
		for _, id := range append(unusualNames, hugeName) {
			h.check(h.wantAccepted(asynq.NewTask("t", nil), asynq.TaskID(id)).ID == id, "the ID is %.100q", id)
		}
	},
	"Group": func(h *hostile) {
		for _, name := range append(blankNames, notUTF8) {
			_, err := h.Client.Enqueue(asynq.NewTask("t", nil), asynq.Group(name))
			h.wantErr(err, nil)
		}
		for _, name := range append(unusualNames, hugeName) {
			h.check(h.wantAccepted(asynq.NewTask("t", nil), asynq.Queue("groups"), asynq.Group(name)).Group == name, "the group is %.100q", name)
		}
	},
	"Header": func(h *hostile) {
		for _, name := range append(unusualNames, blankNames...) {
			info := h.wantAccepted(asynq.NewTask("t", nil), asynq.Header(name, name))
			h.check(info.Headers[name] == name, "the header is %q", name)
		}
	},
	"Timeout": func(h *hostile) {
		h.check(h.wantAccepted(asynq.NewTask("t", nil), asynq.Timeout(longest)).Timeout == longest.Truncate(time.Second), "the timeout overflows")
		h.check(h.wantAccepted(asynq.NewTask("t", nil), asynq.Timeout(1)).Timeout == time.Second, "a short timeout does not round up")
	},
	"Retention": func(h *hostile) {
		h.check(h.wantAccepted(asynq.NewTask("t", nil), asynq.Retention(longest)).Retention == longest.Truncate(time.Second), "the retention overflows")
	},
	"Deadline": func(h *hostile) {
		for _, at := range []time.Time{yearZero, endOfTime, time.Unix(-1, 0)} {
			got := h.wantAccepted(asynq.NewTask("t", nil), asynq.Deadline(at)).Deadline
			h.check(got.Sub(at).Abs() <= time.Second, "the deadline is %v", got)
		}
		info := h.wantAccepted(asynq.NewTask("t", nil), asynq.Deadline(time.Time{}))
		h.check(info.Deadline.IsZero() && info.Timeout == 30*time.Minute, "the zero time is a deadline")
	},
	"ProcessAt": func(h *hostile) {
		for _, at := range []time.Time{yearZero, {}, time.Unix(-1<<62, 0)} {
			h.check(h.wantAccepted(asynq.NewTask("t", nil), asynq.ProcessAt(at)).State == asynq.TaskStatePending, "a task with ProcessAt(%v) is not pending", at)
		}
		for _, at := range []time.Time{endOfTime, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10_000_000, 1, 1, 0, 0, 0, 0, time.UTC)} {
			info, err := h.newClient().Enqueue(asynq.NewTask("t", nil), asynq.ProcessAt(at), asynq.Queue("far"), asynq.Unique(longest))
			h.noErr(err)
			found, err := h.inspect.GetTaskInfo("far", info.ID)
			h.noErr(err)
			listed, err := h.inspect.ListScheduledTasks("far")
			h.noErr(err)
			for _, next := range []time.Time{info.NextProcessAt, found.NextProcessAt, listed[0].NextProcessAt} {
				// Redis stores the time as a double, which is less exact in the far future.
				h.check(math.Abs(float64(next.Unix())-float64(at.Unix())) <= 1e10, "NextProcessAt with ProcessAt(%v) is %v", at, next)
			}
			h.check(found.State == asynq.TaskStateScheduled, "the task with ProcessAt(%v) is not scheduled", at)
			h.noErr(h.inspect.DeleteQueue("far", true))
		}
	},
	"ProcessIn": func(h *hostile) {
		h.check(h.wantAccepted(asynq.NewTask("t", nil), asynq.ProcessIn(mostNegative)).State == asynq.TaskStatePending, "a task with a negative ProcessIn is not pending")
		h.check(h.wantAccepted(asynq.NewTask("t", nil), asynq.ProcessIn(longest)).State == asynq.TaskStateScheduled, "a task with ProcessIn of 292 years is not scheduled")
	},
	"Unique": func(h *hostile) {
		for _, typename := range append(unusualNames, hugeName) {
			h.wantAccepted(asynq.NewTask(typename, []byte(notUTF8)), asynq.Unique(longest))
			h.wantAccepted(asynq.NewTask(typename, nil), asynq.Unique(1))
		}
	},
	"IdempotencyKey": func(h *hostile) {
		for i, key := range append(unusualNames, hugeName) {
			task := asynq.NewTask("t", nil, asynq.Queue("keys"), asynq.IdempotencyKey(key, []time.Duration{longest, 1}[i%2]))
			first, err := h.newClient().Enqueue(task)
			h.noErr(err)
			again, err := h.newClient().Enqueue(task)
			h.noErr(err)
			h.check(err == nil && again.ID == first.ID && again.IsRepeated, "the key %.100q names the task %+v", key, again)
			h.noErr(h.inspect.DeleteQueue("keys", true))
		}
	},
	"UniqueKey":   hostileModes(asynq.UniqueKey, asynq.OnDuplicate(asynq.Keep)),
	"OnDuplicate": hostileModes(asynq.UniqueKey, asynq.OnDuplicate(asynq.Supersede)),
	"Debounce":    hostileModes(func(key string, d time.Duration) asynq.Option { return asynq.Debounce(key, d, d) }, nil),
	"Throttle":    hostileModes(asynq.Throttle, asynq.OnDuplicate(asynq.Replace)),
	"DuplicatePolicy.String": func(h *hostile) {
		for p, want := range map[asynq.DuplicatePolicy]string{-1: "-1", asynq.Supersede: "Supersede", math.MaxInt64: "9223372036854775807"} {
			h.check(p.String() == want, "%d prints %q", int(p), p)
		}
	},
	"ExpiresIn": func(h *hostile) {
		h.check(h.wantAccepted(asynq.NewTask("t", nil), asynq.ExpiresIn(longest)).ExpiresAt.After(time.Now().Add(longest-time.Hour)), "the expiry overflows")
		before := time.Now()
		h.check(h.wantAccepted(asynq.NewTask("t", nil), asynq.ExpiresIn(1)).ExpiresAt.After(before), "a short expiry does not round up")
	},
	"PartitionKey": func(h *hostile) {
		for _, key := range []string{"", " ", notUTF8, "a\x00b", "a\nb", strings.Repeat("k", 257), hugeName} {
			_, err := h.Client.Enqueue(asynq.NewTask("t", nil), asynq.PartitionKey(key))
			h.wantErr(err, nil, "partition key")
		}
		for _, key := range []string{"%3B", ";", "a;partition=b", "=", "%", "é", "asynq-ext", strings.Repeat("%", 256)} {
			info := h.wantAccepted(asynq.NewTask("t", nil), asynq.PartitionKey(key))
			h.check(info.PartitionKey == key, "partition key %q became %q", key, info.PartitionKey)
			h.check(len(info.Headers) == 0, "partition key %q became the headers %v", key, info.Headers)
		}
	},
}

// hostileWaits waits for tasks that do not end, do not exist, or cannot be enqueued.
var hostileWaits = map[string]func(h *hostile){
	"Client.EnqueueAndWait": func(h *hostile) {
		_, err := h.Client.EnqueueAndWait(noContext, asynq.NewTask("t", nil))
		h.wantErr(err, nil, "context")
		for name, invalid := range invalidTasks {
			_, err := h.Client.EnqueueAndWait(context.Background(), invalid.task, invalid.opts...)
			h.wantErr(err, nil, invalid.text)
			h.check(err != nil, "%s is accepted", name)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_, err = h.Client.EnqueueAndWait(ended, asynq.NewTask("t", nil), asynq.CancelOnReturn())
		h.wantErr(err, context.Canceled)
	},
	"Client.Wait": func(h *hostile) {
		_, err := h.Client.Wait(noContext, "default", "x")
		h.wantErr(err, nil, "context")
		_, err = h.Client.Wait(context.Background(), "}x", "x")
		h.wantErr(err, nil, "closing brace")
		for _, name := range append(append([]string{"missing", notUTF8}, blankNames...), unusualNames...) {
			_, err := h.Client.Wait(context.Background(), "default", name)
			h.wantErr(err, asynq.ErrTaskNotFound)
			_, err = h.Client.Wait(context.Background(), "missing queue", name)
			h.wantErr(err, asynq.ErrTaskNotFound)
		}
	},
	"Awaitable": func(h *hostile) {
		info := h.wantAccepted(asynq.NewTask("t", nil), asynq.Awaitable(), nil, asynq.Awaitable())
		h.check(len(info.Headers) == 0, "Awaitable became the headers %v", info.Headers)
	},
	"CancelOnReturn": func(h *hostile) {
		_, err := h.Client.Enqueue(asynq.NewTask("t", nil, asynq.CancelOnReturn()))
		h.wantErr(err, nil, "CancelOnReturn is for EnqueueAndWait")
	},
	"TaskFailedError.Error": func(h *hostile) {
		for _, err := range []*asynq.TaskFailedError{nil, {}, {Info: &asynq.TaskInfo{LastErr: notUTF8}}} {
			h.check(err.Error() != "", "a TaskFailedError has no text")
		}
	},
}

// hostileModes returns a call of an option with odd keys and durations. The second of two calls
// stands for the task of the first, or, after the first task of a throttle, of the second.
func hostileModes(option func(key string, d time.Duration) asynq.Option, policy asynq.Option) func(h *hostile) {
	return func(h *hostile) {
		for i, key := range append(unusualNames, hugeName) {
			task := asynq.NewTask("t", nil, asynq.Queue("keys"), option(key, []time.Duration{longest, time.Hour}[i%2]), policy)
			var infos [3]*asynq.TaskInfo
			for n := range infos {
				var err error
				infos[n], err = h.newClient().Enqueue(task)
				h.noErr(err)
			}
			h.check(infos[1] != nil && infos[2] != nil && infos[1].ID == infos[2].ID && infos[2].IsRepeated && !infos[0].IsRepeated,
				"the key %.100q names the tasks %+v, %+v", key, infos[1], infos[2])
			h.noErr(h.inspect.DeleteQueue("keys", true))
		}
	}
}

// oddOption is an Option of the user.
type oddOption struct {
	kind  asynq.OptionType
	value any
}

func (o oddOption) String() string         { return fmt.Sprintf("foreign(%v)", o.value) }
func (o oddOption) Type() asynq.OptionType { return o.kind }
func (o oddOption) Value() interface{}     { return o.value }
