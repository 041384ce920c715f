package loops

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// RecoverBroker is the part of rdb.Broker that a Recoverer uses.
type RecoverBroker interface {
	FilledBroker
	Expired(ctx context.Context, queue string, skip, n int) (tasks []rdb.Expired, scanned int, next time.Duration, err error)
	Recover(ctx context.Context, items []*rdb.Settlement) (name string)
	RecoverAgain(ctx context.Context, name string, items []*rdb.Settlement)
}

// Recoverer recovers tasks whose lease has expired, because their worker crashed or lost its
// connection for too long. A recovered task goes to the front of pending without a delay: the lease
// was delay enough.
type Recoverer struct {
	Broker   RecoverBroker
	Queues   []string // of one lane
	Interval time.Duration
	Log      *slog.Logger

	// Expired is the error of the attempt.
	Expired error
	// IsFailure reports whether the attempt counts as failed. It may lead to user code, but must
	// not panic.
	IsFailure func(err error) bool
	// AttemptLog is the number of failed attempts to keep in the log of a task. If 0, the log is
	// not changed.
	AttemptLog int
	// Recovered is called for each task that this server recovered. It may lead to user code, but
	// must not panic.
	Recovered func(queue string, msg *wire.TaskMessage)
	// Archived is called for each task that this server archived, with a message that has only the
	// ID and the queue if its own cannot be decoded. It may be nil, may block, and must not panic.
	Archived func(ctx context.Context, queue string, msg *wire.TaskMessage, err error)

	unknown []unknownRecovery // whose replies are lost, while there is an Archived
}

// unknownRecovery is a call that archived tasks, unless Redis did not receive it.
type unknownRecovery struct {
	name  string // of the recovery
	items []*rdb.Settlement
	of    map[*rdb.Settlement]decision
}

// decision is why a recovery archives a task or returns it.
type decision struct {
	msg        *wire.TaskMessage
	unreadable bool
	err        error
}

const expiredPage = 100

// Tick recovers all tasks whose lease has expired. It returns the time until the next lease can
// expire, but no more than Interval.
func (r *Recoverer) Tick(ctx context.Context) (time.Duration, error) {
	if err := r.repeat(ctx); err != nil {
		return 0, err
	}
	queues, err := r.Broker.Filled(ctx, r.Queues, wire.Queue.Lease)
	if err != nil {
		return 0, err
	}
	delay := r.Interval
	var failed []error
	for _, queue := range queues {
		next, err := r.recover(ctx, queue)
		if err != nil {
			failed = append(failed, err)
		} else if next >= 0 {
			// a lease includes its last second
			delay = min(delay, next+time.Second)
		}
	}
	return delay, errors.Join(failed...)
}

func (r *Recoverer) recover(ctx context.Context, queue string) (time.Duration, error) {
	skip := 0
	for {
		expired, scanned, next, err := r.Broker.Expired(ctx, queue, skip, expiredPage)
		if err != nil {
			return 0, err
		}
		left, err := r.recoverPage(ctx, queue, expired)
		if err != nil {
			return 0, err
		}
		skip += scanned - len(expired) + left
		if full := scanned == expiredPage || scanned > 0 && next == 0; !full || ctx.Err() != nil {
			return next, nil
		}
	}
}

// recoverPage recovers tasks, and returns how many of them still have a lease.
func (r *Recoverer) recoverPage(ctx context.Context, queue string, expired []rdb.Expired) (left int, err error) {
	items := make([]*rdb.Settlement, 0, len(expired))
	decisions := make(map[*rdb.Settlement]decision, len(expired))
	// Backward, because each goes to the front of pending: the task whose lease expired first must
	// run first.
	for _, e := range slices.Backward(expired) {
		item := &rdb.Settlement{Queue: queue, ID: e.ID, Token: e.Token, Outcome: rdb.Requeue}
		if e.Message != nil {
			decisions[item] = r.decide(queue, e, item)
		}
		items = append(items, item)
	}
	name := r.Broker.Recover(ctx, items)
	var unknown []*rdb.Settlement
	for _, item := range items {
		d, readable := decisions[item]
		readable = readable && !d.unreadable
		switch {
		case item.Err != nil:
			err = item.Err
			left++
			if item.Outcome == rdb.Archive && r.Archived != nil && !script.Refused(item.Err) {
				unknown = append(unknown, item)
			}
			continue
		case item.Code == script.CodeLost:
			left++
		case item.Code == script.CodeGone:
			r.Log.Error("removed a lease without an active task", "queue", queue, "task", item.ID)
		case readable:
			r.Log.Warn("recovered a task with an expired lease", "queue", queue, "task", d.msg.ID, "type", d.msg.Type,
				"retried", d.msg.Retried, "archived", item.Outcome == rdb.Archive)
			r.Recovered(queue, d.msg)
		}
		r.reportArchived(ctx, item, d)
	}
	if len(unknown) > 0 {
		r.unknown = append(r.unknown, unknownRecovery{name, unknown, decisions})
	}
	return left, err
}

// reportArchived calls Archived if Redis has archived the task of an item.
func (r *Recoverer) reportArchived(ctx context.Context, item *rdb.Settlement, d decision) {
	if item.Outcome == rdb.Archive && item.Code.Err() == nil && r.Archived != nil {
		r.Archived(ctx, item.Queue, d.msg, d.err)
	}
}

// repeat repeats the calls without a reply that archive tasks: Redis may have executed them, and
// then their tasks would never be reported.
func (r *Recoverer) repeat(ctx context.Context) error {
	for len(r.unknown) > 0 {
		u := r.unknown[0]
		r.Broker.RecoverAgain(ctx, u.name, u.items)
		for _, item := range u.items {
			if item.Err != nil && !script.Refused(item.Err) {
				return item.Err
			}
		}
		r.unknown = r.unknown[1:]
		for _, item := range u.items {
			if item.Err == nil {
				r.reportArchived(ctx, item, u.of[item])
			}
		}
	}
	return nil
}

// decide decides the outcome of a task.
func (r *Recoverer) decide(queue string, e rdb.Expired, item *rdb.Settlement) decision {
	msg, err := wire.DecodeTaskMessage(e.Message)
	if err == nil && msg.ID != e.ID {
		err = errors.New("the message belongs to another task")
	}
	if err != nil {
		r.Log.Error("archived an unreadable task with an expired lease", "queue", queue, "task", e.ID, "error", err)
		item.Outcome = rdb.Archive
		return decision{msg: &wire.TaskMessage{ID: e.ID, Queue: queue}, unreadable: true, err: err}
	}
	item.Lock, item.Member = msg.UniqueKey, rdb.MemberOf(msg)
	if !r.IsFailure(r.Expired) {
		return decision{msg: msg}
	}
	item.Failed = true
	number := msg.Retried + msg.Archived()
	if msg.Retried >= msg.MaxRetry {
		item.Outcome = rdb.Archive
	} else {
		msg.Retried++
	}
	now := time.Now()
	msg.LastErr, msg.LastFailedAt = r.Expired.Error(), now.Unix()
	if r.AttemptLog > 0 {
		lost := wire.Attempt{Number: number, Ended: now.UnixMilli(), Kind: wire.AttemptLeaseExpired, Err: msg.LastErr}
		item.Extra = &rdb.Extra{Attempt: lost.Encode(), Number: number, LogSize: r.AttemptLog}
		if item.Outcome == rdb.Archive {
			msg.CountArchived()
		}
	}
	if item.Message, err = msg.Encode(); err != nil {
		item.Message = nil // keep the message as it is
	}
	return decision{msg: msg, err: r.Expired}
}
