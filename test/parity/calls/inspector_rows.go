package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hibiken/asynq"
)

// method is a method of the Inspector, called with a queue and, if needed, a task ID or a group.
type method struct {
	name string
	call func(i *asynq.Inspector, queue, arg string) (any, error)
	list bool
	arg  string // further parameter: "id", "group", "entry", "task" for an ID without a queue, or ""
	none bool   // has no queue parameter
}

// only adapts a method that returns just an error.
func only(f func(i *asynq.Inspector, queue, arg string) error) func(*asynq.Inspector, string, string) (any, error) {
	return func(i *asynq.Inspector, queue, arg string) (any, error) { return "", f(i, queue, arg) }
}

// bulk is the signature of most methods that change many tasks.
func bulk(f func(i *asynq.Inspector, queue string) (int, error)) func(*asynq.Inspector, string, string) (any, error) {
	return func(i *asynq.Inspector, queue, _ string) (any, error) { return f(i, queue) }
}

func bulkOfGroup(f func(i *asynq.Inspector, queue, group string) (int, error)) func(*asynq.Inspector, string, string) (any, error) {
	return func(i *asynq.Inspector, queue, group string) (any, error) { return f(i, queue, group) }
}

func listOf(f func(i *asynq.Inspector, queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error)) func(*asynq.Inspector, string, string) (any, error) {
	return func(i *asynq.Inspector, queue, _ string) (any, error) { return f(i, queue) }
}

var methods = []method{
	{name: "GetTaskInfo", arg: "id", call: func(i *asynq.Inspector, queue, id string) (any, error) { return i.GetTaskInfo(queue, id) }},
	{name: "DeleteTask", arg: "id", call: only(func(i *asynq.Inspector, queue, id string) error { return i.DeleteTask(queue, id) })},
	{name: "ArchiveTask", arg: "id", call: only(func(i *asynq.Inspector, queue, id string) error { return i.ArchiveTask(queue, id) })},
	{name: "RunTask", arg: "id", call: only(func(i *asynq.Inspector, queue, id string) error { return i.RunTask(queue, id) })},
	{name: "UpdateTaskPayload", arg: "id", call: only(func(i *asynq.Inspector, queue, id string) error {
		return i.UpdateTaskPayload(queue, id, []byte("new payload"))
	})},

	{name: "ArchiveAllPendingTasks", call: bulk((*asynq.Inspector).ArchiveAllPendingTasks)},
	{name: "ArchiveAllRetryTasks", call: bulk((*asynq.Inspector).ArchiveAllRetryTasks)},
	{name: "ArchiveAllScheduledTasks", call: bulk((*asynq.Inspector).ArchiveAllScheduledTasks)},
	{name: "ArchiveAllAggregatingTasks", arg: "group", call: bulkOfGroup((*asynq.Inspector).ArchiveAllAggregatingTasks)},
	{name: "DeleteAllPendingTasks", call: bulk((*asynq.Inspector).DeleteAllPendingTasks)},
	{name: "DeleteAllRetryTasks", call: bulk((*asynq.Inspector).DeleteAllRetryTasks)},
	{name: "DeleteAllScheduledTasks", call: bulk((*asynq.Inspector).DeleteAllScheduledTasks)},
	{name: "DeleteAllArchivedTasks", call: bulk((*asynq.Inspector).DeleteAllArchivedTasks)},
	{name: "DeleteAllCompletedTasks", call: bulk((*asynq.Inspector).DeleteAllCompletedTasks)},
	{name: "DeleteAllAggregatingTasks", arg: "group", call: bulkOfGroup((*asynq.Inspector).DeleteAllAggregatingTasks)},
	{name: "RunAllRetryTasks", call: bulk((*asynq.Inspector).RunAllRetryTasks)},
	{name: "RunAllScheduledTasks", call: bulk((*asynq.Inspector).RunAllScheduledTasks)},
	{name: "RunAllArchivedTasks", call: bulk((*asynq.Inspector).RunAllArchivedTasks)},
	{name: "RunAllAggregatingTasks", arg: "group", call: bulkOfGroup((*asynq.Inspector).RunAllAggregatingTasks)},

	{name: "ListActiveTasks", list: true, call: listOf((*asynq.Inspector).ListActiveTasks)},
	{name: "ListPendingTasks", list: true, call: listOf((*asynq.Inspector).ListPendingTasks)},
	{name: "ListScheduledTasks", list: true, call: listOf((*asynq.Inspector).ListScheduledTasks)},
	{name: "ListRetryTasks", list: true, call: listOf((*asynq.Inspector).ListRetryTasks)},
	{name: "ListArchivedTasks", list: true, call: listOf((*asynq.Inspector).ListArchivedTasks)},
	{name: "ListCompletedTasks", list: true, call: listOf((*asynq.Inspector).ListCompletedTasks)},
	{name: "ListAggregatingTasks", list: true, arg: "group", call: func(i *asynq.Inspector, queue, group string) (any, error) {
		return i.ListAggregatingTasks(queue, group)
	}},

	{name: "GetQueueInfo", call: func(i *asynq.Inspector, queue, _ string) (any, error) { return i.GetQueueInfo(queue) }},
	{name: "Groups", call: func(i *asynq.Inspector, queue, _ string) (any, error) { return i.Groups(queue) }},
	{name: "History(3)", call: func(i *asynq.Inspector, queue, _ string) (any, error) { return i.History(queue, 3) }},
	{name: "PauseQueue", call: only(func(i *asynq.Inspector, queue, _ string) error { return i.PauseQueue(queue) })},
	{name: "UnpauseQueue", call: only(func(i *asynq.Inspector, queue, _ string) error { return i.UnpauseQueue(queue) })},
	{name: "DeleteQueue", call: only(func(i *asynq.Inspector, queue, _ string) error { return i.DeleteQueue(queue, false) })},
	{name: "DeleteQueue(force)", call: only(func(i *asynq.Inspector, queue, _ string) error { return i.DeleteQueue(queue, true) })},
	{name: "ClusterKeySlot", call: func(i *asynq.Inspector, queue, _ string) (any, error) { return i.ClusterKeySlot(queue) }},
	{name: "ClusterNodes", call: func(i *asynq.Inspector, queue, _ string) (any, error) { return i.ClusterNodes(queue) }},

	{name: "Queues", none: true, call: func(i *asynq.Inspector, _, _ string) (any, error) {
		all, err := i.Queues()
		slices.Sort(all) // unordered in the reference
		return all, err
	}},
	{name: "Servers", none: true, call: func(i *asynq.Inspector, _, _ string) (any, error) { return i.Servers() }},
	{name: "SchedulerEntries", none: true, call: func(i *asynq.Inspector, _, _ string) (any, error) { return i.SchedulerEntries() }},
	{name: "ListSchedulerEnqueueEvents", none: true, call: func(i *asynq.Inspector, _, id string) (any, error) {
		return i.ListSchedulerEnqueueEvents(id)
	}},
	{name: "CancelProcessing", none: true, call: only(func(i *asynq.Inspector, _, id string) error { return i.CancelProcessing(id) })},
}

// on adds the row of a method called with the data of seed.
func (m method) on(seed func(s *site), queue, arg string) {
	var args string
	if !m.none {
		args = fmt.Sprintf("%q", queue)
	}
	if m.arg != "" || m.none && arg != "" {
		if args != "" {
			args += ", "
		}
		args += fmt.Sprintf("%q", arg)
	}
	add("Inspector."+m.name+"("+args+")", func(s *site) {
		seed(s)
		s.result(m.call(s.inspector(), queue, arg))
	})
}

func addInspectorRows() {
	seed := (*site).seed
	for _, m := range methods {
		switch {
		case m.none:
			for _, arg := range []string{"", "unknown"} {
				if arg == "" || m.name == "ListSchedulerEnqueueEvents" || m.name == "CancelProcessing" {
					m.on(seed, "", arg)
				}
			}
		case m.arg == "id":
			for _, state := range states {
				m.on(seed, "default", state+"1")
			}
			m.on(seed, "default", "active2")
			m.on(seed, "default", "aggregating2")
			m.on(seed, "default", "orphan")
			m.on(seed, "default", "h1") // the only task of its group
			m.on(seed, "default", "unknown")
			m.on(seed, "default", "")
			m.on(seed, "default", " ")
			m.on(seed, "other", "active1")
			for _, queue := range []string{"unknown", "", " ", "}x", "empty"} {
				m.on(seed, queue, "unknown")
			}
			for _, id := range []string{"no hash", "no message", "no hash either", "no archived message", "no state"} {
				m.on((*site).seedBroken, "broken", id)
			}
		default:
			args := []string{""}
			if m.arg == "group" {
				args = []string{"g", "h", "unknown", "", " "}
			}
			for _, arg := range args {
				for _, queue := range []string{"default", "other", "empty", "paused", "unknown", "", " ", "}x"} {
					m.on(seed, queue, arg)
				}
			}
			if m.name != "GetQueueInfo" {
				m.on((*site).seedBroken, "broken", args[0])
			}
		}
		if strings.Contains(m.name, "All") {
			m.on((*site).seedMany, "many", "g")
		}
		add("Inspector."+m.name+" after Close", func(s *site) {
			i := s.inspector()
			s.err(i.Close())
			s.at("call")
			s.result(m.call(i, "default", "x"))
		})
		add("Inspector."+m.name+", Redis down", func(s *site) {
			i := asynq.NewInspector(asynq.RedisClientOpt{Addr: unreachable})
			defer i.Close()
			s.result(m.call(i, "default", "x"))
		})
		add("Inspector."+m.name+", Redis empty", func(s *site) {
			s.result(m.call(s.inspector(), "default", "x"))
		})
	}
	for _, n := range []int{-1, 0, 1, 2, 89, 90, 91, 100} {
		for _, queue := range []string{"default", "unknown"} {
			if queue == "unknown" && n > 1 {
				continue
			}
			add(fmt.Sprintf("Inspector.History(%q, %d)", queue, n), func(s *site) {
				s.seed()
				all, err := s.inspector().History(queue, n)
				s.result(all, err)
				var dates []string
				for _, d := range all {
					dates = append(dates, s.time(d.Date))
				}
				s.see("dates", dates)
			})
		}
	}
	for _, payload := range []string{"nil", "empty"} {
		add("Inspector.UpdateTaskPayload(scheduled1, "+payload+")", func(s *site) {
			s.seed()
			var p []byte
			if payload == "empty" {
				p = []byte{}
			}
			s.err(s.inspector().UpdateTaskPayload("default", "scheduled1", p))
		})
	}
	twice := func(name string, call func(i *asynq.Inspector) error) {
		add("Inspector."+name+" twice", func(s *site) {
			s.seed()
			i := s.inspector()
			s.at("first")
			s.err(call(i))
			s.at("second")
			s.err(call(i))
		})
	}
	twice("PauseQueue", func(i *asynq.Inspector) error { return i.PauseQueue("default") })
	twice("UnpauseQueue", func(i *asynq.Inspector) error { return i.UnpauseQueue("paused") })
	twice("DeleteTask", func(i *asynq.Inspector) error { return i.DeleteTask("default", "pending1") })
	twice("ArchiveTask", func(i *asynq.Inspector) error { return i.ArchiveTask("default", "pending1") })
	twice("RunTask", func(i *asynq.Inspector) error { return i.RunTask("default", "archived1") })
	twice("DeleteQueue", func(i *asynq.Inspector) error { return i.DeleteQueue("default", true) })
	twice("Close", (*asynq.Inspector).Close)
	add("Inspector.DeleteQueue without active tasks, force", func(s *site) {
		s.put(s.newTask("q", "pending", 1), s.newTask("q", "scheduled", 1), s.newTask("q", "retry", 1), s.newTask("q", "archived", 1),
			s.newTask("q", "completed", 1), s.newTask("q", "aggregating", 1))
		s.err(s.inspector().DeleteQueue("q", true))
	})
	add("Inspector.DeleteQueue with only a completed task", func(s *site) {
		s.put(s.newTask("q", "completed", 1))
		s.err(s.inspector().DeleteQueue("q", false))
	})
	add("Inspector.DeleteQueue with only an aggregating task", func(s *site) {
		s.put(s.newTask("q", "aggregating", 1))
		s.err(s.inspector().DeleteQueue("q", false))
	})
	add("Inspector.DeleteQueue of an emptied queue, then Enqueue", func(s *site) {
		s.put(s.newTask("q", "pending", 1))
		i, c := s.inspector(), s.client()
		s.err(i.DeleteTask("q", "pending1"))
		s.at("delete")
		s.err(i.DeleteQueue("q", false))
		s.at("enqueue")
		s.result(c.Enqueue(asynq.NewTask("t", nil), asynq.Queue("q"), asynq.TaskID("x")))
		s.at("queues")
		s.result(i.Queues())
	})
	add("NewInspectorFromRedisClient: Close", func(s *site) {
		i := asynq.NewInspectorFromRedisClient(s.redis)
		s.err(i.Close())
		s.see("Redis", s.redis.Ping(context.Background()).Err())
	})
	add("NewInspectorFromRedisClient(nil)", func(s *site) { s.see("is nil", asynq.NewInspectorFromRedisClient(nil) == nil) })
	add("NewInspector(nil)", func(s *site) { s.see("is nil", asynq.NewInspector(nil) == nil) })
	add("NewInspector(an option that makes no client)", func(s *site) { s.see("is nil", asynq.NewInspector(strange{}) == nil) })
	for _, state := range []string{"scheduled", "retry", "archived"} {
		add("Inspector.RunTask of a task with a group that is "+state, func(s *site) {
			t := s.newTask("q", state, 1)
			t.group = "g"
			s.put(t)
			s.err(s.inspector().RunTask("q", t.id))
		})
	}
	add("Inspector sees a new task", func(s *site) {
		info, err := s.client().Enqueue(asynq.NewTask("t", []byte("p")), asynq.TaskID("x"))
		s.result(info, err)
		s.at("inspector")
		s.result(s.inspector().GetTaskInfo("default", "x"))
	})
	add("Inspector sees a queue that a task was deleted from", func(s *site) {
		_, err := s.client().Enqueue(asynq.NewTask("t", []byte("p")), asynq.TaskID("x"))
		s.err(err)
		i := s.inspector()
		s.at("delete")
		s.err(i.DeleteTask("default", "x"))
		s.at("queue")
		s.result(i.GetQueueInfo("default"))
	})
}
