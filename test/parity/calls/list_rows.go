package main

import (
	"fmt"
	"strings"

	"github.com/hibiken/asynq"
)

type listMethod struct {
	name string
	call func(i *asynq.Inspector, queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error)
}

var listMethods = []listMethod{
	{"ListActiveTasks", (*asynq.Inspector).ListActiveTasks},
	{"ListPendingTasks", (*asynq.Inspector).ListPendingTasks},
	{"ListScheduledTasks", (*asynq.Inspector).ListScheduledTasks},
	{"ListRetryTasks", (*asynq.Inspector).ListRetryTasks},
	{"ListArchivedTasks", (*asynq.Inspector).ListArchivedTasks},
	{"ListCompletedTasks", (*asynq.Inspector).ListCompletedTasks},
	{"ListAggregatingTasks", func(i *asynq.Inspector, queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
		return i.ListAggregatingTasks(queue, "g", opts...)
	}},
}

type listOptions struct {
	text string
	opts []asynq.ListOption
}

func pages() (all []listOptions) {
	for _, size := range []int{-1, 0, 1, 2, 30, 33, 34, 1000} {
		all = append(all, listOptions{fmt.Sprintf("PageSize(%d)", size), []asynq.ListOption{asynq.PageSize(size)}})
	}
	for _, page := range []int{-1, 0, 1, 2, 3} {
		all = append(all, listOptions{fmt.Sprintf("Page(%d)", page), []asynq.ListOption{asynq.Page(page)}})
		for _, size := range []int{-1, 0, 10, 20} {
			all = append(all, listOptions{fmt.Sprintf("Page(%d), PageSize(%d)", page, size),
				[]asynq.ListOption{asynq.Page(page), asynq.PageSize(size)}})
		}
	}
	return append(all,
		listOptions{"no options", nil},
		listOptions{"nil", []asynq.ListOption{nil}},
		listOptions{"a string", []asynq.ListOption{"no option"}},
		listOptions{"PageSize(2), PageSize(3)", []asynq.ListOption{asynq.PageSize(2), asynq.PageSize(3)}},
		listOptions{"Page(2), Page(1)", []asynq.ListOption{asynq.Page(2), asynq.Page(1)}},
		listOptions{"PageSize(10), Page(2)", []asynq.ListOption{asynq.PageSize(10), asynq.Page(2)}},
		listOptions{"Page(1<<62), PageSize(1<<62)", []asynq.ListOption{asynq.Page(1 << 62), asynq.PageSize(1 << 62)}},
	)
}

func addListRows() {
	for _, m := range listMethods {
		for _, o := range pages() {
			add("Inspector."+m.name+`("many", `+o.text+")", func(s *site) {
				s.noDump = true
				s.seedMany()
				all, err := m.call(s.inspector(), "many", o.opts...)
				s.err(err)
				s.see("is nil", all == nil)
				ids := make([]string, len(all))
				for i, info := range all {
					ids[i] = info.ID
				}
				s.see("IDs", strings.Join(ids, " "))
			})
		}
		for _, o := range []listOptions{{"PageSize(2)", []asynq.ListOption{asynq.PageSize(2)}}, {"PageSize(2), Page(9)", []asynq.ListOption{asynq.PageSize(2), asynq.Page(9)}}} {
			for _, queue := range []string{"default", "empty", "unknown"} {
				add(fmt.Sprintf("Inspector.%s(%q, %s)", m.name, queue, o.text), func(s *site) {
					s.noDump = true
					s.seed()
					s.result(m.call(s.inspector(), queue, o.opts...))
				})
			}
		}
	}
}
