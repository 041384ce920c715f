package asynqtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// Drain runs all tasks that are due, and what their handlers enqueue meanwhile, until nothing is due any more. It returns what became
// of each attempt, in the order in which they ran.
//
// A real server does it, so that contexts, results, retries, uniqueness and the archive are as in production; but one task at a time, and
// handler is called in the goroutine that called Drain. So a handler may use t.Fatal, and a debugger may stop it for as long as it likes:
// its lease does not end. Its Timeout and Deadline do, by the host's clock. A panic fails the attempt, as in production; the log of
// the test has its stack. Where a handler ends the test, its task goes back to the queue.
//
// What is due:
//
//   - Pending tasks, of all queues that are not paused, and of those that come into being meanwhile.
//   - Scheduled tasks whose time is not after Now.
//   - The next attempt of a task that failed: at once, after everything else that is pending, whatever RetryDelayFunc says, until
//     it is archived. With LeaveRetries it waits for its time as in production. In both cases RetryAfter and Snooze are obeyed: what
//     they put off waits for Advance.
//   - Groups, with Aggregate only.
//
// Tasks that enqueue or fail without an end are stopped by MaxAttempts. Drain ends the test then, and where a task that is due does
// not get its turn for 10 s. Only one Drain may run at a time; other servers on the Broker, if any, take their share of the tasks.
func (b *Broker) Drain(t testing.TB, handler asynq.Handler, opts ...DrainOption) []Outcome {
	t.Helper()
	if handler == nil {
		t.Fatal("asynqtest: Drain needs a handler")
	}
	if !b.draining.TryLock() {
		t.Fatal("asynqtest: there is another Drain at work: a handler must not call it")
	}
	defer b.draining.Unlock()
	d := newDrain(b, t, handler)
	for _, opt := range opts {
		opt(d)
	}
	d.run()
	return d.outcomes
}

// A DrainOption changes what Drain does.
type DrainOption func(*drain)

// LeaveRetries leaves tasks that failed to their RetryDelayFunc, DefaultRetryDelayFunc unless Configure sets another: they wait in
// the state retry, and are due once the clock has been moved.
func LeaveRetries() DrainOption {
	return func(d *drain) { d.leaveRetries = true }
}

// Aggregate lets Drain aggregate groups, and run the tasks that come of it. The aggregator is called in Drain's goroutine. Whenever all
// else is done, all groups are aggregated, however young: for this the clock moves on by 2 s each time, or by a second more than
// the GroupGracePeriod that Configure sets.
func Aggregate(a asynq.GroupAggregator) DrainOption {
	return func(d *drain) { d.aggregator = a }
}

// MaxAttempts sets how many attempts a Drain may take before it ends the test. Default: 1,000.
func MaxAttempts(n int) DrainOption {
	return func(d *drain) { d.most = n }
}

// Configure changes the configuration of the server, for example to give it the program's own ErrorHandler, IsFailure or BaseContext, or
// all that the program has. If Queues is set, only these are drained; if GroupAggregator is set, it is as with Aggregate. Concurrency
// stays 1, leases and StuckGracePeriod stay without an end, the intervals of checks stay short, and without LeaveRetries there is no
// delay before retries.
func Configure(change func(*asynq.Config)) DrainOption {
	return func(d *drain) { change(&d.cfg) }
}

// An Outcome is what became of one attempt.
type Outcome struct {
	// ID, Type, Queue and Payload of the task.
	ID      string
	Type    string
	Queue   string
	Payload []byte

	// Attempt is 1 for the first. Attempts that did not count as failed, as after Snooze, are not counted.
	Attempt int

	// Err is what the handler returned, or a *asynq.PanicError.
	Err error

	// State is that of the task after the attempt: TaskStateCompleted, TaskStateRetry or TaskStateArchived; 0 if the task is gone, as
	// after a success without a Retention, or RevokeTask.
	State asynq.TaskState

	// Result is what the handler wrote to the task's ResultWriter, also where the task is gone.
	Result []byte

	// Info is all that is known of the task after the attempt; nil if it is gone.
	Info *asynq.TaskInfo
}

// String describes the outcome on one line.
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
	forever            = 365 * 24 * time.Hour // longer than any debugger's pause
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
	stall      time.Duration // how long nothing may happen
	outcomes   []Outcome
	stage      *stage
	held       *call // of a task, arrived before the outcome of the last one was seen

	leaveRetries bool
}

func newDrain(b *Broker, t testing.TB, handler asynq.Handler) *drain {
	d := &drain{b: b, t: t, handler: handler, most: defaultMaxAttempts, stall: defaultStall, stage: newStage()}
	d.cfg.LogLevel = asynq.WarnLevel
	return d
}

// configure sets what no one else may.
func (d *drain) configure() {
	d.cfg.Concurrency = 1
	d.cfg.LeaseDuration = forever
	d.cfg.StuckGracePeriod = forever
	d.cfg.TaskCheckInterval = checkInterval // a handler may move the clock, of which the server is told nothing
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
	defer d.stage.close() // after the server's end, also where the handler ends the test
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
			return
		}
	}
}

// serve runs a server on the queues until none of them has anything left.
func (d *drain) serve(queues []string, left func(*asynq.QueueInfo) bool) {
	d.t.Helper()
	cfg := d.cfg
	cfg.Queues = make(map[string]int, len(queues))
	for _, q := range queues {
		cfg.Queues[q] = max(d.cfg.Queues[q], 1)
	}
	srv := asynq.NewServer(d.b.RedisConnOpt(), cfg)
	ended := false
	defer func() {
		patience, cancel := context.WithCancel(context.Background())
		defer cancel()
		if !ended { // the test ends in a handler, which is not waited for
			d.stage.leave()
			cancel()
		}
		_ = srv.ShutdownContext(patience) // it may tell of a task that it gave back
	}()
	if err := srv.Start(asynq.HandlerFunc(d.stage.perform)); err != nil {
		d.t.Fatalf("asynqtest: starting the server: %v", err)
	}
	d.work(queues, left)
	ended = true
}

// work runs what the server brings until nothing is left.
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
				d.t.Fatalf("asynqtest: nothing has run for %v, although something is due:%s", d.stall, d.inventory(queues))
			}
			continue
		}
		// A task that is being moved may be missed by one look, as the places are looked at one after the other: it has come to
		// rest by the second.
		if quiet++; quiet == 2 {
			return
		}
	}
}

// next returns the next call from the server; nil if there is none for a while.
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

// attend does what the server calls for.
func (d *drain) attend(c *call) {
	d.t.Helper()
	if c.task == nil {
		c.answer(c.run)
		return
	}
	if len(d.outcomes) >= d.most {
		d.t.Fatalf("asynqtest: %d attempts, and there is more to do: does a task enqueue itself, or fail without an end? "+
			"MaxAttempts allows more. The last ones:%s", d.most, d.last())
	}
	o := Outcome{Type: c.task.Type(), Payload: c.task.Payload(), Attempt: 1}
	o.ID, _ = asynq.GetTaskID(c.ctx)
	o.Queue, _ = asynq.GetQueueName(c.ctx)
	if retried, ok := asynq.GetRetryCount(c.ctx); ok {
		o.Attempt += retried
	}
	o.Err = d.attempt(c)
	if info := d.find(&o); info != nil {
		o.Result = info.Result
	}
	c.answer(nil)
	d.settled(&o)
	d.outcomes = append(d.outcomes, o)
}

// attempt calls the handler. What it panics with is kept for the server.
func (d *drain) attempt(c *call) error {
	if panicked := contain(func() { c.err = d.handler.ProcessTask(c.ctx, c.task) }); panicked != nil {
		d.t.Logf("asynqtest: the handler of %s panicked: %v\n%s", c.task.Type(), panicked.Value, panicked.Stack)
		c.panicked = panicked
		return panicked
	}
	return c.err
}

// settled waits until the outcome is in Redis, and notes it. The server brings the next task not before that; it is put by until then.
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
		if info.State == asynq.TaskStatePending || info.State == asynq.TaskStateActive {
			o.State = asynq.TaskStateRetry // and on its way already to the next attempt
		}
		return
	}
}

func (d *drain) find(o *Outcome) *asynq.TaskInfo {
	d.t.Helper()
	info, err := d.b.find(o.Queue, o.ID)
	if err != nil {
		d.t.Fatalf("asynqtest: looking at task %s: %v", o.ID, err)
	}
	return info
}

// aggregate calls the user's aggregator in Drain's goroutine.
func (d *drain) aggregate(group string, tasks []*asynq.Task) (merged *asynq.Task) {
	d.stage.call(func() { merged = d.aggregator.Aggregate(group, tasks) })
	return merged
}

// last shows the last outcomes.
func (d *drain) last() string {
	var text strings.Builder
	for _, o := range d.outcomes[max(0, len(d.outcomes)-mostShown):] {
		fmt.Fprintf(&text, "\n  %v", o)
	}
	return text.String()
}
