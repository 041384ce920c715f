package asynq

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/lifecycle"
	"github.com/asynq-go/asynq/internal/wire"
)

// UnhandledType is a type of waiting tasks that no running server of their queue handles.
type UnhandledType struct {
	Queue string // name of the queue
	Type  string // type of the tasks
	Tasks int    // number of such tasks among those that were sampled
}

// unhandledSample is the number of tasks of a state that UnhandledTypes reads.
const unhandledSample = 100

// UnhandledTypes returns the types of tasks that wait in the queues, or in all queues with a server
// if none is named, although no running server of the queue handles them (see ServerInfo.Handles).
// It samples the first 100 tasks of a queue that are pending, in retry, and scheduled and due. The
// result is sorted by queue, and then by the number of tasks, highest first.
//
// Queues are omitted if they have no running server, if it is not known what one of them handles,
// or if they do not exist.
func (i *Inspector) UnhandledTypes(ctx context.Context, queues ...string) ([]UnhandledType, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	servers, err := i.WithContext(ctx).Servers()
	if err != nil {
		return nil, err
	}
	handled := handledTypes(servers)
	var all []UnhandledType
	for queue, patterns := range handled {
		if patterns == nil || len(queues) > 0 && !slices.Contains(queues, queue) {
			continue
		}
		found, err := i.unhandledTypes(ctx, queue, patterns)
		if err != nil && !errors.Is(err, ErrQueueNotFound) {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b UnhandledType) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Type, b.Type))
	})
	return all, nil
}

// handledTypes returns the patterns of all active servers of each queue, nil if one of them does
// not publish its own.
func handledTypes(servers []*ServerInfo) map[string][]string {
	handled := make(map[string][]string)
	for _, s := range servers {
		if s.Status != lifecycle.Active.String() {
			continue
		}
		for queue := range s.Queues {
			known, seen := handled[queue]
			if s.Patterns == nil || seen && known == nil {
				handled[queue] = nil
			} else {
				handled[queue] = append(append(make([]string, 0, len(known)+len(s.Patterns)), known...), s.Patterns...)
			}
		}
	}
	return handled
}

// unhandledTypes returns the types of tasks of a queue that no pattern matches.
func (i *Inspector) unhandledTypes(ctx context.Context, queue string, patterns []string) ([]UnhandledType, error) {
	counts := make(map[string]int)
	for _, state := range []wire.State{wire.StatePending, wire.StateRetry, wire.StateScheduled} {
		tasks, err := i.inspector.ListTasks(ctx, queue, state, "", 0, unhandledSample, false)
		if err != nil {
			return nil, brokerError(err)
		}
		now := time.Now()
		for _, found := range tasks {
			t := listedTask(found)
			due := state != wire.StateScheduled || !t.NextProcessAt.After(now)
			if due && t.Type != "" && !wire.MatchesPattern(patterns, t.Type) { // without a type, it is unreadable
				counts[t.Type]++
			}
		}
	}
	types := make([]UnhandledType, 0, len(counts))
	for typename, n := range counts {
		types = append(types, UnhandledType{Queue: queue, Type: typename, Tasks: n})
	}
	return types, nil
}
