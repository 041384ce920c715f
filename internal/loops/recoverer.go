package loops

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// RecoverBroker is what a recoverer needs of rdb.Broker.
type RecoverBroker interface {
	Expired(ctx context.Context, queue string, skip, n int) (tasks []rdb.Expired, looked int, next time.Duration, err error)
	Recover(ctx context.Context, queue string, items []*rdb.Recovery)
}

// Recoverer takes tasks back from workers that let their lease end: they crashed, or lost Redis for too long. The task goes to the
// front of pending at once: its lease was delay enough.
type Recoverer struct {
	Broker   RecoverBroker
	Queues   []string // of one lane
	Interval time.Duration
	Log      *slog.Logger

	// Expired is what the attempt failed with.
	Expired error
	// Counts says whether the attempt counts as failed. It may lead to user code, which must not panic here.
	Counts func(err error) bool
	// Recovered is told of each task that this server took back. It may lead to user code, which must not panic here.
	Recovered func(queue string, msg *wire.TaskMessage)
}

const expiredPage = 100

// Tick recovers all tasks whose lease has ended, and sleeps until the next lease can end, but no longer than Interval.
func (r *Recoverer) Tick(ctx context.Context) (time.Duration, error) {
	rest := r.Interval
	var failed []error
	for _, queue := range r.Queues {
		next, err := r.recover(ctx, queue)
		if err != nil {
			failed = append(failed, err)
		} else if next >= 0 {
			// A lease ends with its last second.
			rest = min(rest, next+time.Second)
		}
	}
	return rest, errors.Join(failed...)
}

func (r *Recoverer) recover(ctx context.Context, queue string) (time.Duration, error) {
	skip := 0
	for {
		expired, looked, next, err := r.Broker.Expired(ctx, queue, skip, expiredPage)
		if err != nil {
			return 0, err
		}
		left, err := r.takeBack(ctx, queue, expired)
		if err != nil {
			return 0, err
		}
		skip += looked - len(expired) + left
		if full := looked == expiredPage || looked > 0 && next == 0; !full || ctx.Err() != nil {
			return next, nil
		}
	}
}

// takeBack recovers tasks, and returns how many of them are in lease still.
func (r *Recoverer) takeBack(ctx context.Context, queue string, expired []rdb.Expired) (left int, err error) {
	items := make([]*rdb.Recovery, 0, len(expired))
	messages := make(map[*rdb.Recovery]*wire.TaskMessage, len(expired))
	// The one whose lease ended first is to run first, and the front of pending is where the last one goes.
	for _, e := range slices.Backward(expired) {
		item := &rdb.Recovery{ID: e.ID, Token: e.Token}
		if e.Message != nil {
			messages[item] = r.judge(queue, e, item)
		}
		items = append(items, item)
	}
	r.Broker.Recover(ctx, queue, items)
	for _, item := range items {
		msg := messages[item]
		switch {
		case item.Err != nil:
			err = item.Err
			left++
		case item.Code == rdb.CodeLost:
			left++
		case item.Code == rdb.CodeGone:
			r.Log.Error("struck out a lease that no active task has", "queue", queue, "task", item.ID)
		case msg != nil:
			r.Log.Warn("recovered a task whose lease had ended", "queue", queue, "task", msg.ID, "type", msg.Type,
				"retried", msg.Retried, "archived", item.Archive)
			r.Recovered(queue, msg)
		}
	}
	return left, err
}

// judge decides what becomes of a task, and returns its message, nil if that cannot be read.
func (r *Recoverer) judge(queue string, e rdb.Expired, item *rdb.Recovery) *wire.TaskMessage {
	msg, err := wire.DecodeTaskMessage(e.Message)
	if err == nil && msg.ID != e.ID {
		err = errors.New("the message is that of another task")
	}
	if err != nil {
		r.Log.Error("a task whose lease had ended cannot be read and goes to the archive", "queue", queue, "task", e.ID, "error", err)
		item.Archive, item.Failed = true, true
		return nil
	}
	if !r.Counts(r.Expired) {
		return msg
	}
	item.Failed = true
	if msg.Retried >= msg.MaxRetry {
		item.Archive = true
	} else {
		msg.Retried++
	}
	msg.LastErr, msg.LastFailedAt = r.Expired.Error(), time.Now().Unix()
	if item.Message, err = msg.Encode(); err != nil {
		item.Message = nil // the message as it is will do
	}
	return msg
}
