package asynq

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// QueueInfoResult is what QueueInfos tells of one queue: either Info or Err is set.
type QueueInfoResult struct {
	// Queue is the queue's name.
	Queue string

	// Info is the state of the queue.
	Info *QueueInfo

	// Err says why there is none. It is ErrQueueNotFound (errors.Is) if there is no such queue.
	Err error

	// Took is how long after the call began this was known.
	Took time.Duration
}

// QueueInfos tells the state of these queues, or of all if none is named, as GetQueueInfo does, but many in one round trip. The results
// are in the order of the names; all queues are sorted. One queue's error leaves the others alone.
//
// It returns when ctx ends: queues whose answer has not come by then have the error of ctx. The error is set if it is not even known
// which queues there are.
func (i *Inspector) QueueInfos(ctx context.Context, queues ...string) ([]QueueInfoResult, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	began := time.Now()
	names, err := until(ctx, func() ([]string, error) { return i.broker.Queues(ctx) })
	if err != nil {
		return nil, brokerError(err)
	}
	slices.Sort(names)
	if len(queues) == 0 {
		queues = names
	}
	results := make(map[string]QueueInfoResult, len(queues))
	var asked []string
	for _, queue := range queues {
		_, again := results[queue]
		_, found := slices.BinarySearch(names, queue)
		switch {
		case again:
		case found:
			results[queue] = QueueInfoResult{Queue: queue}
			asked = append(asked, queue)
		default:
			results[queue] = QueueInfoResult{Queue: queue, Err: fmt.Errorf("asynq: %w: %q", ErrQueueNotFound, queue), Took: time.Since(began)}
		}
	}
	i.askAll(ctx, began, asked, results)
	all := make([]QueueInfoResult, len(queues))
	for n, queue := range queues {
		all[n] = results[queue]
	}
	return all, nil
}

// askAll puts the state of the queues into the results: one lane after the other would let a dead shard hide those behind it.
func (i *Inspector) askAll(ctx context.Context, began time.Time, queues []string, results map[string]QueueInfoResult) {
	lanes := i.broker.Lanes(queues)
	answers := make(chan []QueueInfoResult, len(lanes)) // room for all: nobody may be there any more to take them
	for _, lane := range lanes {
		go func() { answers <- i.ask(ctx, began, lane) }()
	}
	for range lanes {
		select {
		case answer := <-answers:
			for _, r := range answer {
				results[r.Queue] = r
			}
		case <-ctx.Done():
			for queue, r := range results {
				if r.Info == nil && r.Err == nil {
					r.Err, r.Took = fmt.Errorf("asynq: Redis has not answered for queue %q: %w", queue, ctx.Err()), time.Since(began)
					results[queue] = r
				}
			}
			return
		}
	}
}

// ask asks for the queues of a lane.
func (i *Inspector) ask(ctx context.Context, began time.Time, lane []string) []QueueInfoResult {
	results := make([]QueueInfoResult, len(lane))
	for n, found := range i.broker.StatsOf(ctx, lane) {
		results[n] = i.queueResult(ctx, lane[n], found)
		results[n].Took = time.Since(began)
	}
	return results
}

func (i *Inspector) queueResult(ctx context.Context, queue string, found rdb.StatsResult) QueueInfoResult {
	if found.Err != nil {
		return QueueInfoResult{Queue: queue, Err: brokerError(found.Err)}
	}
	info := newQueueInfo(queue, found.Stats)
	if err := i.addMemory(ctx, info, found.Stats); err != nil {
		return QueueInfoResult{Queue: queue, Err: err}
	}
	return QueueInfoResult{Queue: queue, Info: info}
}
