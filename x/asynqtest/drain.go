package asynqtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// Drain runs all due tasks, and the tasks that their handlers enqueue, until no task is due. It
// returns the outcome of each attempt, in the order in which they ran.
//
// A real server does the work, so contexts, results, retries, unique locks and the archive are as
// in production. But tasks run one at a time, and handler is called on the goroutine that called
// Drain: a handler may call t.Fatal, and a debugger may stop it for any time, because its lease
// does not expire. Its Timeout and Deadline do, by the host's clock. A panic fails the attempt, as
// in production, and the test log has its stack. If a handler ends the test, its task returns to
// the queue.
//
// Due are:
//
//   - Pending tasks of all queues that are not paused, including queues created by a handler.
//   - Scheduled tasks whose time is not after Now.
//   - Retries of failed tasks: at once, after all other pending tasks, regardless of
//     RetryDelayFunc, until the task is archived. With LeaveRetries, they wait for their time as in
//     production. In both cases, RetryAfter and Snooze are honored: such tasks wait for Advance.
//   - Held tasks, if Configure sets Partitions for their queue: those that no limit of their
//     partition holds. A rate allows further tasks after Advance.
//   - Tasks of flows whose nodes may start.
//   - Groups, only with Aggregate.
//
// MaxAttempts stops tasks that enqueue or fail endlessly: Drain then ends the test. It also does so
// if a due task does not start within 10 s. Only one Drain may run at a time. Other servers on the
// Broker process some of the tasks.
func (b *Broker) Drain(t testing.TB, handler asynq.Handler, opts ...DrainOption) []Outcome {
	t.Helper()
	if handler == nil {
		t.Fatal("asynqtest: Drain needs a handler")
	}
	if !b.draining.TryLock() {
		t.Fatal("asynqtest: Drain is already running: a handler must not call it")
	}
	defer b.draining.Unlock()
	d := newDrain(b, t, handler)
	for _, opt := range opts {
		opt(d)
	}
	d.run()
	return d.outcomes
}

// A DrainOption configures Drain.
type DrainOption func(*drain)

// LeaveRetries schedules retries with RetryDelayFunc, which is DefaultRetryDelayFunc unless
// Configure sets another. Failed tasks stay in the state retry until the clock is moved.
func LeaveRetries() DrainOption {
	return func(d *drain) { d.leaveRetries = true }
}

// Aggregate makes Drain aggregate groups, and run the resulting tasks. The aggregator is called on
// Drain's goroutine. When no other task is due, all groups are aggregated, regardless of their age:
// each time, the clock is moved by 2 s, or by a second more than the GroupGracePeriod that
// Configure sets.
func Aggregate(a asynq.GroupAggregator) DrainOption {
	return func(d *drain) { d.aggregator = a }
}

// MaxAttempts sets the number of attempts after which Drain ends the test. The default is 1,000.
func MaxAttempts(n int) DrainOption {
	return func(d *drain) { d.most = n }
}

// Configure changes the configuration of the server, for example to use the program's ErrorHandler,
// IsFailure or BaseContext, or its whole configuration. If Queues is set, only these queues are
// drained. If GroupAggregator is set, it is used as with Aggregate. Some settings cannot be
// changed: Concurrency is 1, leases and StuckGracePeriod are unlimited, check intervals are short,
// and retries have no delay without LeaveRetries.
func Configure(change func(*asynq.Config)) DrainOption {
	return func(d *drain) { change(&d.cfg) }
}

// An Outcome is the outcome of one attempt.
type Outcome struct {
	// ID, Type, Queue and Payload are those of the task.
	ID      string
	Type    string
	Queue   string
	Payload []byte

	// Attempt is 1 for the first attempt. It does not include attempts that do not count as failed,
	// such as those ended by Snooze.
	Attempt int

	// Err is the error that the handler returned, or a *asynq.PanicError.
	Err error

	// State is the state of the task after the attempt: TaskStateCompleted, TaskStateRetry or
	// TaskStateArchived. It is 0 if the task was deleted, for example after a success without a
	// Retention, or by RevokeTask.
	State asynq.TaskState

	// Result is what the handler wrote to the task's ResultWriter, even if the task was deleted.
	Result []byte

	// Info describes the task after the attempt. It is nil if the task was deleted.
	Info *asynq.TaskInfo
}

// String describes the outcome in one line.
func (o Outcome) String() string {
	state := "done"
	if o.State != 0 {
		state = o.State.String()
	}
	line := fmt.Sprintf("%s %s in queue %q, attempt %d: %s", o.Type, o.ID, o.Queue, o.Attempt, state)
	if o.Err != nil {
		line += fmt.Sprintf(" (%v)", o.Err)
	}
	return line
}

const (
	defaultMaxAttempts = 1000
	forever            = 365 * 24 * time.Hour // longer than any stop in a debugger
	defaultStall       = 10 * time.Second
	checkInterval      = 10 * time.Millisecond
)

// drain is one call of Drain.
type drain struct {
	b          *Broker
	t          testing.TB
	handler    asynq.Handler
	aggregator asynq.GroupAggregator
	cfg        asynq.Config
	most       int
	stall      time.Duration // the longest time without progress
	outcomes   []Outcome
	stage      *stage
	held       *call // a task that arrived before the outcome of the last one was seen

	leaveRetries bool
}

func newDrain(b *Broker, t testing.TB, handler asynq.Handler) *drain {
	d := &drain{b: b, t: t, handler: handler, most: defaultMaxAttempts, stall: defaultStall, stage: newStage()}
	d.cfg.LogLevel = asynq.WarnLevel
	return d
}

// configure applies the settings that the caller must not change.
func (d *drain) configure() {
	d.cfg.Concurrency = 1
	d.cfg.LeaseDuration = forever
	d.cfg.StuckGracePeriod = forever
	d.cfg.TaskCheckInterval = checkInterval // a handler may move the clock, which the server does not know
	d.cfg.DelayedTaskCheckInterval = checkInterval
	if !d.leaveRetries {
		d.cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
	}
	if d.cfg.Logger == nil {
		d.cfg.Logger = &testLogger{t: d.t, over: d.stage.over}
	}
	if d.aggregator == nil {
		d.aggregator = d.cfg.GroupAggregator
	}
	if d.aggregator != nil {
		d.cfg.GroupAggregator = asynq.GroupAggregatorFunc(d.aggregate)
		if d.cfg.GroupGracePeriod == 0 {
			d.cfg.GroupGracePeriod = time.Second
		}
	}
}

func (d *drain) run() {
	d.t.Helper()
	d.configure()
	defer d.stage.close() // after the server has stopped, also if the handler ends the test
	for {
		queues := d.queues()
		switch {
		case d.anything(queues, d.due):
			d.serve(queues, d.due)
		case d.aggregator != nil && d.anything(queues, grouped):
			waiting := d.groups(queues)
			d.b.Advance(d.cfg.GroupGracePeriod + time.Second)
			d.serve(queues, func(q *asynq.QueueInfo) bool { return d.due(q) || waiting.left(d) })
		default:
			if d.advanceFlows(); !d.anything(d.queues(), d.due) {
				return
			}
		}
	}
}

// serve runs a server on the queues until they have no due tasks.
func (d *drain) serve(queues []string, left func(*asynq.QueueInfo) bool) {
	d.t.Helper()
	cfg := d.cfg
	cfg.Queues = make(map[string]int, len(queues))
	for _, q := range queues {
		cfg.Queues[q] = max(d.cfg.Queues[q], 1)
	}
	srv := asynq.NewServer(d.b.RedisConnOpt(), cfg)
	patience, hurry := context.WithCancel(context.Background())
	stop := sync.OnceValue(func() <-chan struct{} {
		stopped := make(chan struct{})
		go func() {
			_ = srv.ShutdownContext(patience) // it may log that it requeued a task
			close(stopped)
		}()
		return stopped
	})
	ended := false
	defer func() {
		if !ended { // a handler ends the test and is not waited for
			d.stage.leave()
		}
		hurry()
		<-stop()
	}()
	if err := srv.Start(asynq.HandlerFunc(d.stage.perform)); err != nil {
		d.t.Fatalf("asynqtest: start server: %v", err)
	}
	d.work(queues, left)
	// The server may have taken tasks in the meantime, for example those of a node that a flow has
	// just started. Its shutdown waits for them.
	for stopped := stop(); ; {
		select {
		case c := <-d.stage.calls:
			d.attend(c)
		case <-stopped:
			ended = true
			return
		}
		for d.held != nil {
			d.attend(d.next(0))
		}
	}
}

// work executes the server's calls until nothing is left.
func (d *drain) work(queues []string, left func(*asynq.QueueInfo) bool) {
	d.t.Helper()
	const shortest, longest = 200 * time.Microsecond, 5 * time.Millisecond
	rest, progress, quiet := shortest, time.Now(), 0
	for {
		if c := d.next(rest); c != nil {
			d.attend(c)
			rest, progress, quiet = shortest, time.Now(), 0
			continue
		}
		rest = min(2*rest, longest)
		if d.anything(queues, left) {
			quiet = 0
			if time.Since(progress) > d.stall {
				d.t.Fatalf("asynqtest: no progress for %v, although tasks are due:%s", d.stall, d.inventory(queues))
			}
			continue
		}
		// One check may miss a task that moves between collections, because it reads them one after
		// the other. The second check finds it.
		if quiet++; quiet == 2 {
			return
		}
	}
}

// next returns the next call from the server, or nil if there is none for a while.
func (d *drain) next(rest time.Duration) *call {
	if c := d.held; c != nil {
		d.held = nil
		return c
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case c := <-d.stage.calls:
		return c
	case <-timer.C:
		return nil
	}
}

// attend executes a call of the server.
func (d *drain) attend(c *call) {
	d.t.Helper()
	if c.task == nil {
		c.answer(c.run)
		return
	}
	if len(d.outcomes) >= d.most {
		d.t.Fatalf("asynqtest: limit of %d attempts reached: does a task enqueue itself, or fail endlessly? "+
			"MaxAttempts raises the limit. The last attempts:%s", d.most, d.last())
	}
	o := Outcome{Type: c.task.Type(), Payload: c.task.Payload(), Attempt: 1}
	o.ID, _ = asynq.GetTaskID(c.ctx)
	o.Queue, _ = asynq.GetQueueName(c.ctx)
	if retried, ok := asynq.GetRetryCount(c.ctx); ok {
		o.Attempt += retried
	}
	o.Err = d.attempt(c)
	if err := c.task.ResultWriter().Flush(); err != nil {
		d.t.Fatalf("asynqtest: store the result of task %s: %v", o.ID, err)
	}
	if info := d.find(&o); info != nil {
		o.Result = info.Result
	}
	c.answer(nil)
	d.settled(&o)
	d.outcomes = append(d.outcomes, o)
}

// attempt calls the handler. It passes a panic on to the server.
func (d *drain) attempt(c *call) error {
	if panicked := contain(func() { c.err = d.handler.ProcessTask(c.ctx, c.task) }); panicked != nil {
		d.t.Logf("asynqtest: the handler of %s panicked: %v\n%s", c.task.Type(), panicked.Value, panicked.Stack)
		c.panicked = panicked
		return panicked
	}
	return c.err
}

// settled waits until the outcome is in Redis, and records it. If the server sends the next task
// before, it is kept for later.
func (d *drain) settled(o *Outcome) {
	d.t.Helper()
	for deadline := time.Now().Add(d.stall); ; {
		info := d.find(o)
		if info != nil && info.State == asynq.TaskStateActive && d.held == nil {
			if c := d.next(100 * time.Microsecond); c != nil && c.task == nil {
				d.attend(c)
			} else {
				d.held = c
			}
			if time.Now().After(deadline) {
				d.t.Fatalf("asynqtest: the outcome of task %s did not reach Redis within %v", o.ID, d.stall)
			}
			continue
		}
		if info == nil {
			return
		}
		o.Info, o.State = info, info.State
		if info.State == asynq.TaskStatePending || info.State == asynq.TaskStateActive || info.IsHeld {
			o.State = asynq.TaskStateRetry // and may already have its next attempt
		}
		return
	}
}

func (d *drain) find(o *Outcome) *asynq.TaskInfo {
	d.t.Helper()
	info, err := d.b.find(o.Queue, o.ID)
	if err != nil {
		d.t.Fatalf("asynqtest: read task %s: %v", o.ID, err)
	}
	return info
}

// aggregate calls the user's aggregator on Drain's goroutine.
func (d *drain) aggregate(group string, tasks []*asynq.Task) (merged *asynq.Task) {
	d.stage.call(func() { merged = d.aggregator.Aggregate(group, tasks) })
	return merged
}

// last formats the last outcomes.
func (d *drain) last() string {
	var text strings.Builder
	for _, o := range d.outcomes[max(0, len(d.outcomes)-mostShown):] {
		fmt.Fprintf(&text, "\n  %v", o)
	}
	return text.String()
}
