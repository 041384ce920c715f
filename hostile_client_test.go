package asynq_test

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// foreignOption is an Option that the package did not make.
type foreignOption struct{ asynq.Option }

func (foreignOption) String() string { return "foreign" }

// refusedTasks are tasks, with options, that Enqueue refuses, and a part of what it says.
var refusedTasks = map[string]struct {
	task *asynq.Task
	opts []asynq.Option
	says string
}{
	"nil":                {nil, nil, "task must not be nil"},
	"zero":               {&asynq.Task{}, nil, "task type must not be empty"},
	"blank type":         {asynq.NewTask(" \n", nil), nil, "task type must not be empty"},
	"type not UTF-8":     {asynq.NewTask(notUTF8, nil), nil, "type is not valid UTF-8"},
	"queue not UTF-8":    {asynq.NewTask("t", nil), []asynq.Option{asynq.Queue(notUTF8)}, "queue is not valid UTF-8"},
	"ID not UTF-8":       {asynq.NewTask("t", nil), []asynq.Option{asynq.TaskID(notUTF8)}, "id is not valid UTF-8"},
	"group not UTF-8":    {asynq.NewTask("t", nil), []asynq.Option{asynq.Group(notUTF8)}, "group_key is not valid UTF-8"},
	"header not UTF-8":   {asynq.NewTask("t", nil), []asynq.Option{asynq.Header("k", notUTF8)}, "headers is not valid UTF-8"},
	"header's key":       {asynq.NewTaskWithHeaders("t", nil, map[string]string{notUTF8: ""}), nil, "headers is not valid UTF-8"},
	"closing brace":      {asynq.NewTask("t", nil), []asynq.Option{asynq.Queue("}x")}, `"}x" must not begin with a closing brace`},
	"blank queue":        {asynq.NewTask("t", nil), []asynq.Option{asynq.Queue("\t")}, "queue name must not be empty"},
	"blank ID":           {asynq.NewTask("t", nil), []asynq.Option{asynq.TaskID("")}, "task ID must not be empty"},
	"blank group":        {asynq.NewTask("t", nil), []asynq.Option{asynq.Group(" ")}, "group name must not be empty"},
	"no TTL":             {asynq.NewTask("t", nil), []asynq.Option{asynq.Unique(0)}, "TTL must be positive"},
	"negative TTL":       {asynq.NewTask("t", nil), []asynq.Option{asynq.Unique(mostNegtive)}, "TTL must be positive"},
	"negative timeout":   {asynq.NewTask("t", nil), []asynq.Option{asynq.Timeout(-1)}, "must not be negative"},
	"negative retention": {asynq.NewTask("t", nil), []asynq.Option{asynq.Retention(mostNegtive)}, "must not be negative"},
	"nil option":         {asynq.NewTask("t", nil), []asynq.Option{nil}, "was not made by this package"},
	"task's nil option":  {asynq.NewTask("t", nil, nil), nil, "was not made by this package"},
	"foreign option":     {asynq.NewTask("t", nil), []asynq.Option{foreignOption{}}, "option foreign was not made by this package"},
}

var hostileClient = map[string]func(h *hostile){
	"NewClient": func(h *hostile) {
		h.panics("RedisConnOpt is nil", func() { asynq.NewClient(nil) })
		h.panics("RedisConnOpt is nil", func() { asynq.NewClient((*asynq.RedisClientOpt)(nil)) })
		h.panics("RedisConnOpt is nil", func() { asynq.NewClient(asynq.WithNamespace(nil, "x")) })
		h.panics("must return a redis.UniversalClient", func() { asynq.NewClient(oddConn{}) })
	},
	"NewClientFromRedisClient": func(h *hostile) {
		h.panics("returned nil", func() { asynq.NewClientFromRedisClient(nil) })
		h.panics("returned nil", func() { asynq.NewClientFromRedisClient((*redis.Client)(nil)) })
	},
	"Client.Close": func(h *hostile) {
		h.refused(h.client.Close(), nil, "shared Redis connection")
		c := asynq.NewClient(h.opt())
		h.taken(c.Close())
		_, err := c.Enqueue(asynq.NewTask("t", nil))
		h.want(errors.Is(err, redis.ErrClosed), "the error after Close is %v", err)
		h.want(c.Ping() != nil && c.Close() != nil, "a closed client fails")
	},
	"Client.Ping": func(h *hostile) { h.taken(h.client.Ping()) },
	"Client.Enqueue": func(h *hostile) {
		for name, refused := range refusedTasks {
			_, err := h.client.Enqueue(refused.task, refused.opts...)
			h.refused(err, nil, refused.says)
			if len(refused.opts) > 0 { // the same options, given to NewTask
				_, err = h.client.Enqueue(asynq.NewTask("t", nil, refused.opts...))
				h.want(err != nil, "%s is refused as the task's own, too", name)
			}
		}
		_, err := h.client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("pending"))
		h.refused(err, asynq.ErrTaskIDConflict)
		_, err = h.client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("grouped"), asynq.Group("other"))
		h.refused(err, asynq.ErrTaskIDConflict)
		_, err = h.client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("later"), asynq.ProcessIn(longest))
		h.refused(err, asynq.ErrTaskIDConflict)
		large := make([]byte, 8<<20)
		if info := h.accepted(asynq.NewTask("large", large)); len(info.Payload) != len(large) {
			h.t.Errorf("%d bytes are left of the payload", len(info.Payload))
		}
	},
	"Client.EnqueueContext": func(h *hostile) {
		_, err := h.client.EnqueueContext(noContext, asynq.NewTask("t", nil))
		h.refused(err, nil, "ctx must not be nil")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err = h.client.EnqueueContext(ctx, asynq.NewTask("t", nil))
		h.refused(err, context.Canceled, "was not enqueued")
	},
	"Client.BatchEnqueueContext": func(h *hostile) {
		ctx := context.Background()
		h.want(len(h.client.BatchEnqueueContext(ctx, nil)) == 0, "no tasks have no results")
		for _, r := range h.client.BatchEnqueueContext(noContext, []*asynq.Task{nil, asynq.NewTask("t", nil)}) {
			h.refused(r.Err, nil, "ctx must not be nil")
		}
		var tasks []*asynq.Task
		var says []string
		for _, refused := range refusedTasks {
			if len(refused.opts) == 0 {
				tasks, says = append(tasks, refused.task), append(says, refused.says)
			}
		}
		for i, r := range h.client.BatchEnqueueContext(ctx, tasks) {
			h.refused(r.Err, nil, says[i])
			h.want(r.TaskInfo == nil, "there is nothing to tell of a refused task")
		}
		for _, r := range h.client.BatchEnqueueContext(ctx, []*asynq.Task{asynq.NewTask("t", nil)}, nil, asynq.Queue("")) {
			h.refused(r.Err, nil)
		}
	},
}

var hostileOption = map[string]func(h *hostile){
	"MaxRetry": func(h *hostile) {
		h.want(h.accepted(asynq.NewTask("t", nil), asynq.MaxRetry(math.MinInt)).MaxRetry == 0, "negative retries are none")
		h.want(h.accepted(asynq.NewTask("t", nil), asynq.MaxRetry(math.MaxInt)).MaxRetry == math.MaxInt32, "retries end at 2³¹−1")
	},
	"Queue": func(h *hostile) {
		for _, name := range append(blankNames, notUTF8, "}", "}}") {
			_, err := h.client.Enqueue(asynq.NewTask("t", nil), asynq.Queue(name))
			h.refused(err, nil, "queue")
		}
		for _, name := range append(unusualNames, longName) {
			h.want(h.accepted(asynq.NewTask("t", nil), asynq.Queue(name)).Queue == name, "the queue is %.100q", name)
		}
	},
	"TaskID": func(h *hostile) {
		for _, id := range append(blankNames, notUTF8) {
			_, err := h.client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID(id))
			h.refused(err, nil)
		}
		for _, id := range append(unusualNames, hugeName) {
			h.want(h.accepted(asynq.NewTask("t", nil), asynq.TaskID(id)).ID == id, "the ID is %.100q", id)
		}
	},
	"Group": func(h *hostile) {
		for _, name := range append(blankNames, notUTF8) {
			_, err := h.client.Enqueue(asynq.NewTask("t", nil), asynq.Group(name))
			h.refused(err, nil)
		}
		for _, name := range append(unusualNames, hugeName) {
			h.want(h.accepted(asynq.NewTask("t", nil), asynq.Queue("groups"), asynq.Group(name)).Group == name, "the group is %.100q", name)
		}
	},
	"Header": func(h *hostile) {
		for _, name := range append(unusualNames, blankNames...) {
			info := h.accepted(asynq.NewTask("t", nil), asynq.Header(name, name))
			h.want(info.Headers[name] == name, "the header is %q", name)
		}
	},
	"Timeout": func(h *hostile) {
		h.want(h.accepted(asynq.NewTask("t", nil), asynq.Timeout(longest)).Timeout == longest, "the timeout does not overflow")
		h.want(h.accepted(asynq.NewTask("t", nil), asynq.Timeout(1)).Timeout == time.Second, "a short timeout is not none")
	},
	"Retention": func(h *hostile) {
		h.want(h.accepted(asynq.NewTask("t", nil), asynq.Retention(longest)).Retention == longest, "the retention does not overflow")
	},
	"Deadline": func(h *hostile) {
		for _, at := range []time.Time{yearZero, endOfTime, time.Unix(-1, 0)} {
			got := h.accepted(asynq.NewTask("t", nil), asynq.Deadline(at)).Deadline
			h.want(got.Sub(at).Abs() <= time.Second, "the deadline is %v", got)
		}
		info := h.accepted(asynq.NewTask("t", nil), asynq.Deadline(time.Time{}))
		h.want(info.Deadline.IsZero() && info.Timeout == 30*time.Minute, "the zero time is no deadline")
	},
	"ProcessAt": func(h *hostile) {
		for _, at := range []time.Time{yearZero, {}, time.Unix(-1<<62, 0)} {
			h.want(h.accepted(asynq.NewTask("t", nil), asynq.ProcessAt(at)).State == asynq.TaskStatePending, "%v is over", at)
		}
		for _, at := range []time.Time{endOfTime, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10_000_000, 1, 1, 0, 0, 0, 0, time.UTC)} {
			info, err := h.newClient().Enqueue(asynq.NewTask("t", nil), asynq.ProcessAt(at), asynq.Queue("far"), asynq.Unique(longest))
			h.taken(err)
			found, err := h.inspect.GetTaskInfo("far", info.ID)
			h.taken(err)
			listed, err := h.inspect.ListScheduledTasks("far")
			h.taken(err)
			for _, next := range []time.Time{info.NextProcessAt, found.NextProcessAt, listed[0].NextProcessAt} {
				// Redis keeps the time as a double; far out, a list tells it less exactly.
				h.want(math.Abs(float64(next.Unix())-float64(at.Unix())) <= 1e10, "%v is to be processed at %v", at, next)
			}
			h.want(found.State == asynq.TaskStateScheduled, "the task waits for %v", at)
			h.taken(h.inspect.DeleteQueue("far", true))
		}
	},
	"ProcessIn": func(h *hostile) {
		h.want(h.accepted(asynq.NewTask("t", nil), asynq.ProcessIn(mostNegtive)).State == asynq.TaskStatePending, "the past is over")
		h.want(h.accepted(asynq.NewTask("t", nil), asynq.ProcessIn(longest)).State == asynq.TaskStateScheduled, "292 years are not over")
	},
	"Unique": func(h *hostile) {
		for _, typename := range append(unusualNames, hugeName) {
			h.accepted(asynq.NewTask(typename, []byte(notUTF8)), asynq.Unique(longest))
			h.accepted(asynq.NewTask(typename, nil), asynq.Unique(1))
		}
	},
}
