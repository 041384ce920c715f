package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
)

func addTaskRows() {
	headers := map[string]map[string]string{"nil": nil, "{}": {}, "{k: v}": {"k": "v"}, `{"": ""}`: {"": ""}, "{two}": {"a": "1", "b": "2"}}
	payloads := map[string][]byte{"nil": nil, "empty": {}, "text": []byte("text"), "binary": {0, 255, 10}}
	for _, p := range sortedKeys(payloads) {
		for _, h := range sortedKeys(headers) {
			add("NewTaskWithHeaders(type, "+p+", "+h+")", func(s *site) {
				task := asynq.NewTaskWithHeaders("type", payloads[p], headers[h])
				s.see("Payload", task.Payload())
				s.see("Headers", task.Headers())
				s.see("ResultWriter is nil", task.ResultWriter() == nil)
				s.result(s.client().Enqueue(task, asynq.Unique(time.Hour), asynq.TaskID("id")))
			})
		}
		add("NewTask(type, "+p+")", func(s *site) {
			task := asynq.NewTask("type", payloads[p])
			s.see("Type", task.Type())
			s.see("Payload", task.Payload())
			s.see("Headers", task.Headers())
			s.result(s.client().Enqueue(task, asynq.Unique(time.Hour), asynq.TaskID("id")))
		})
	}
	for _, name := range []string{"", " ", "\t", "type", " type ", "a:b", "ä", "a\nb", "*"} {
		add(fmt.Sprintf("Enqueue(NewTask(%q))", name), func(s *site) {
			s.result(s.client().Enqueue(asynq.NewTask(name, nil)))
		})
	}
	add("headers changed after NewTaskWithHeaders", func(s *site) {
		h := map[string]string{"k": "v"}
		task := asynq.NewTaskWithHeaders("type", nil, h)
		h["k"] = "changed"
		s.see("Headers", task.Headers())
		task.Headers()["k"] = "changed, too"
		s.see("Headers", task.Headers())
		s.result(s.client().Enqueue(task))
	})
	add("payload changed after NewTask", func(s *site) {
		p := []byte("abc")
		task := asynq.NewTask("type", p)
		p[0] = 'x'
		s.see("Payload", task.Payload())
		s.result(s.client().Enqueue(task))
	})
	add("payload of TaskInfo changed", func(s *site) {
		task := asynq.NewTask("type", []byte("abc"))
		info, err := s.client().Enqueue(task)
		s.err(err)
		info.Payload[0] = 'x'
		s.see("Payload", task.Payload())
	})
	add("(*Task)(nil)", func(s *site) {
		var task *asynq.Task
		s.guard("Type ", func() { s.see("Type", task.Type()) })
		s.guard("Payload ", func() { s.see("Payload", task.Payload()) })
		s.guard("Headers ", func() { s.see("Headers", task.Headers()) })
		s.guard("ResultWriter ", func() { s.see("ResultWriter is nil", task.ResultWriter() == nil) })
	})
	add("zero Task", func(s *site) {
		var task asynq.Task
		s.see("Type", task.Type())
		s.see("Payload", task.Payload())
		s.see("Headers", task.Headers())
		s.result(s.client().Enqueue(&task))
	})
	add("NewTask(…).ResultWriter()", func(s *site) {
		w := asynq.NewTask("t", nil).ResultWriter()
		s.guard("TaskID ", func() { s.see("TaskID", w.TaskID()) })
		s.guard("Write ", func() { s.result(w.Write([]byte("x"))) })
	})
}

func addEnqueueRows() {
	task := func() *asynq.Task { return asynq.NewTask("type", []byte("payload")) }
	add("Enqueue(nil)", func(s *site) { s.result(s.client().Enqueue(nil)) })
	add("EnqueueContext(canceled)", func(s *site) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.result(s.client().EnqueueContext(ctx, task()))
	})
	add("EnqueueContext(past deadline)", func(s *site) {
		ctx, cancel := context.WithTimeout(context.Background(), -1)
		defer cancel()
		s.result(s.client().EnqueueContext(ctx, task()))
	})
	add("EnqueueContext(nil, task)", func(s *site) {
		var none context.Context
		s.result(s.client().EnqueueContext(none, task()))
	})
	add("EnqueueContext(canceled, ProcessIn)", func(s *site) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.result(s.client().EnqueueContext(ctx, task(), asynq.ProcessIn(time.Hour)))
	})
	add("Enqueue after Close", func(s *site) {
		c := s.client()
		s.at("close")
		s.err(c.Close())
		s.at("enqueue")
		s.result(c.Enqueue(task()))
	})
	add("Enqueue, Close, Enqueue", func(s *site) {
		c := s.client()
		s.at("first")
		s.result(c.Enqueue(task()))
		s.at("close")
		s.err(c.Close())
		s.at("second")
		s.result(c.Enqueue(task()))
	})
	add("Client.Close twice", func(s *site) {
		c := s.client()
		s.at("first")
		s.err(c.Close())
		s.at("second")
		s.err(c.Close())
	})
	add("Client.Ping", func(s *site) { s.err(s.client().Ping()) })
	add("Client.Ping after Close", func(s *site) {
		c := s.client()
		s.err(c.Close())
		s.at("ping")
		s.err(c.Ping())
	})
	add("Client.Ping, Redis down", func(s *site) {
		c := asynq.NewClient(asynq.RedisClientOpt{Addr: unreachable})
		defer c.Close()
		s.err(c.Ping())
	})
	add("Enqueue, Redis down", func(s *site) {
		c := asynq.NewClient(asynq.RedisClientOpt{Addr: unreachable})
		defer c.Close()
		s.result(c.Enqueue(task()))
	})
	for name, o := range map[string]asynq.Option{"Unique": asynq.Unique(time.Hour), "ProcessIn": asynq.ProcessIn(time.Hour), "Group": asynq.Group("g")} {
		add("Enqueue(…, "+name+"), Redis down", func(s *site) {
			c := asynq.NewClient(asynq.RedisClientOpt{Addr: unreachable})
			defer c.Close()
			s.result(c.Enqueue(task(), o))
		})
	}
	add("Enqueue into a Redis with a wrong type", func(s *site) {
		s.redis.Set(context.Background(), queueKey("default", "pending"), "no list", 0)
		_, err := s.client().Enqueue(task())
		s.see("fails", err != nil)
	})
	add("NewClientFromRedisClient: Close", func(s *site) {
		c := asynq.NewClientFromRedisClient(s.redis)
		s.result(c.Enqueue(task()))
		s.at("close")
		s.err(c.Close())
		s.at("ping")
		s.err(c.Ping())
	})
	add("NewClientFromRedisClient(nil)", func(s *site) {
		s.see("client is nil", asynq.NewClientFromRedisClient(nil) == nil)
	})
	add("NewClient(nil)", func(s *site) { s.see("client is nil", asynq.NewClient(nil) == nil) })
	add("NewClient(an option that makes no client)", func(s *site) {
		s.see("client is nil", asynq.NewClient(strange{}) == nil)
	})
	add("Client zero value", func(s *site) {
		var c asynq.Client
		s.result(c.Enqueue(task()))
	})
	add("Enqueue with many options", func(s *site) {
		s.result(s.client().Enqueue(task(), asynq.Queue("low"), asynq.MaxRetry(1), asynq.Timeout(time.Minute), asynq.Unique(time.Hour),
			asynq.ProcessIn(time.Hour), asynq.TaskID("id"), asynq.Retention(time.Hour), asynq.Deadline(s.start.Add(time.Hour))))
	})
	add("Enqueue of the options of the task, overridden", func(s *site) {
		t := asynq.NewTask("type", nil, asynq.Queue("low"), asynq.MaxRetry(1), asynq.Timeout(time.Minute), asynq.Retention(time.Hour))
		s.result(s.client().Enqueue(t, asynq.Queue("high"), asynq.MaxRetry(2), asynq.Timeout(time.Hour), asynq.Retention(time.Minute)))
	})
	add("Enqueue the same task thrice", func(s *site) {
		c, t := s.client(), task()
		for range 3 {
			_, err := c.Enqueue(t)
			s.err(err)
		}
		s.noDump = true
		s.see("pending", s.redis.LLen(context.Background(), queueKey("default", "pending")).Val())
	})
	add("Enqueue a payload of 1 MB", func(s *site) {
		s.noDump = true
		info, err := s.client().Enqueue(asynq.NewTask("type", make([]byte, 1<<20)))
		s.err(err)
		s.see("payload", len(info.Payload))
	})
	for name, d := range map[string]time.Duration{"0.4 s": 400 * time.Millisecond, "0": 0} {
		add("score of ProcessAt(a second and "+name+")", func(s *site) {
			s.noDump = true
			at := s.start.Truncate(time.Second).Add(time.Hour + d)
			_, err := s.client().Enqueue(task(), asynq.ProcessAt(at), asynq.TaskID("id"))
			s.err(err)
			score := s.redis.ZScore(context.Background(), queueKey("default", "scheduled"), "id").Val()
			s.see("seconds", int64(score)-at.Unix())
		})
	}
	for _, name := range []string{"pending", "scheduled", "archived"} {
		add("Enqueue a TaskID that is "+name, func(s *site) {
			s.seed()
			s.result(s.client().Enqueue(task(), asynq.TaskID(name+"1")))
		})
		add("Enqueue(…, Unique) of a task that is "+name, func(s *site) {
			s.seed()
			t := s.newTask("default", name, 1)
			s.result(s.client().Enqueue(asynq.NewTask(t.kind, []byte(t.payload)), asynq.Unique(time.Hour)))
		})
	}
}

// strange is a connection option that returns no usable client.
type strange struct{}

func (strange) MakeRedisClient() any { return "no client" }
