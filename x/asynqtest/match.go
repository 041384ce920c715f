package asynqtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// Task describes tasks. Fields with their zero value match all tasks.
type Task struct {
	// Type is the type of the task.
	Type string

	// Payload is the payload of the task: a []byte, string or json.RawMessage as it is, any other
	// value as encoded by json.Marshal. If both payloads are JSON, their values are compared: key
	// order, white space, and 1 or 1.0 do not matter.
	Payload any

	// Headers are headers that the task must have. It may have others, too.
	Headers map[string]string

	// Queue is the queue of the task.
	Queue string

	// ID is the ID of the task.
	ID string

	// State is the state of the task.
	State asynq.TaskState

	// Group is the group of the task.
	Group string

	// PartitionKey is the partition key of the task.
	PartitionKey string

	// Held matches only tasks that wait because of their partition. Their State is
	// TaskStateScheduled.
	Held bool

	// ProcessAt is the time for which the task must be scheduled, give or take Within.
	ProcessAt time.Time

	// ProcessIn is the delay from Broker.Now for which the task must be scheduled, give or take
	// Within.
	ProcessIn time.Duration

	// Options are options that the task must look like it was enqueued with, such as
	// asynq.MaxRetry(0). Times may differ by Within. Unique cannot be checked, because it leaves no
	// trace in a task: enqueue the task again and expect asynq.ErrDuplicateTask.
	Options []asynq.Option

	// Within is the tolerance for times. The default is 5 s, because code may call time.Now.
	Within time.Duration
}

const defaultWithin = 5 * time.Second

// String lists the fields that are set.
func (want Task) String() string {
	var fields []string
	add := func(set bool, name, format string, value any) {
		if set {
			fields = append(fields, name+": "+fmt.Sprintf(format, value))
		}
	}
	add(want.Type != "", "Type", "%q", want.Type)
	if want.Payload != nil {
		fields = append(fields, "Payload: "+excerpt(payloadOf(want.Payload)))
	}
	add(len(want.Headers) > 0, "Headers", "%v", want.Headers)
	add(want.Queue != "", "Queue", "%q", want.Queue)
	add(want.ID != "", "ID", "%q", want.ID)
	add(want.State != 0, "State", "%v", want.State)
	add(want.Group != "", "Group", "%q", want.Group)
	add(want.PartitionKey != "", "PartitionKey", "%q", want.PartitionKey)
	add(want.Held, "Held", "%v", want.Held)
	add(!want.ProcessAt.IsZero(), "ProcessAt", "%s", spellTime(want.ProcessAt))
	add(want.ProcessIn != 0, "ProcessIn", "%v", want.ProcessIn)
	for _, o := range want.options() {
		fields = append(fields, o.String())
	}
	return "Task{" + strings.Join(fields, ", ") + "}"
}

// options returns the Options that are not nil. asynq ignores nil options, too.
func (want Task) options() []asynq.Option {
	return asynq.NewTask("", nil, want.Options...).Options()
}

// check returns an error if the description is invalid.
func (want Task) check() error {
	for _, o := range want.options() {
		switch o.Type() {
		case asynq.UniqueOpt, asynq.UniqueKeyOpt:
			return fmt.Errorf("%v leaves no trace in a task: enqueue it again and expect asynq.ErrDuplicateTask", o)
		case asynq.IdempotencyKeyOpt, asynq.OnDuplicateOpt, asynq.DebounceOpt, asynq.ThrottleOpt:
			return fmt.Errorf("%v leaves no trace in a task: enqueue it again and expect the same ID", o)
		}
	}
	return nil
}

// differences returns the differences between a task and the description, at least one line for
// each field.
func (want Task) differences(got *asynq.TaskInfo, now time.Time) (all differences) {
	if want.Type != "" {
		all.compare("Type", want.Type, got.Type)
	}
	if want.Payload != nil {
		all.payload(payloadOf(want.Payload), got.Payload)
	}
	for key, value := range want.Headers {
		all.header(got, key, value)
	}
	if want.Queue != "" {
		all.compare("Queue", want.Queue, got.Queue)
	}
	if want.ID != "" {
		all.compare("ID", want.ID, got.ID)
	}
	if want.State != 0 {
		all.compare("State", want.State, got.State)
	}
	if want.Group != "" {
		all.compare("Group", want.Group, got.Group)
	}
	if want.PartitionKey != "" {
		all.compare("PartitionKey", want.PartitionKey, got.PartitionKey)
	}
	if want.Held {
		all.compare("Held", true, got.IsHeld)
	}
	within := want.Within
	if within <= 0 {
		within = defaultWithin
	}
	if !want.ProcessAt.IsZero() {
		all.due("ProcessAt", want.ProcessAt, got, within)
	}
	if want.ProcessIn != 0 {
		all.due("ProcessIn", now.Add(want.ProcessIn), got, within)
	}
	for _, o := range want.options() {
		all.option(o, got, now, within)
	}
	slices.Sort(all)
	return all
}

// differences is a list of lines with the wanted and the actual values of fields.
type differences []string

func (all *differences) add(field, format string, args ...any) {
	*all = append(*all, fmt.Sprintf("%-10s %s", field+":", fmt.Sprintf(format, args...)))
}

func (all *differences) compare(field string, want, got any) {
	if want != got {
		all.add(field, "want %s, got %s", spell(want), spell(got))
	}
}

func (all *differences) header(got *asynq.TaskInfo, key, value string) {
	if found, ok := got.Headers[key]; !ok {
		all.add("Headers", "want %q: %q, there is no %q", key, value, key)
	} else if found != value {
		all.add("Headers", "want %q: %q, got %q", key, value, found)
	}
}

// due compares the time at which a task is due.
func (all *differences) due(field string, want time.Time, got *asynq.TaskInfo, within time.Duration) {
	if got.IsHeld {
		all.add(field, "want %s, but the task is not scheduled: it is held by its partition", spellTime(want))
		return
	}
	if got.State != asynq.TaskStateScheduled && got.State != asynq.TaskStateRetry {
		all.add(field, "want %s, but the task is not scheduled: it is %v", spellTime(want), got.State)
		return
	}
	all.time(field, want, got.NextProcessAt, within)
}

func (all *differences) time(field string, want, got time.Time, within time.Duration) {
	if off := got.Sub(want); off.Abs() > within {
		all.add(field, "want %s, got %s: %v off", spellTime(want), spellTime(got), off)
	}
}

// option compares a task with an option.
func (all *differences) option(o asynq.Option, got *asynq.TaskInfo, now time.Time, within time.Duration) {
	name, _, _ := strings.Cut(o.String(), "(")
	switch v := o.Value(); o.Type() {
	case asynq.MaxRetryOpt:
		all.compare(name, v, got.MaxRetry)
	case asynq.QueueOpt:
		all.compare(name, v, got.Queue)
	case asynq.TaskIDOpt:
		all.compare(name, v, got.ID)
	case asynq.GroupOpt:
		all.compare(name, v, got.Group)
	case asynq.PartitionKeyOpt:
		all.compare(name, v, got.PartitionKey)
	case asynq.TimeoutOpt:
		all.compare(name, ceilDuration(v.(time.Duration)), got.Timeout)
	case asynq.RetentionOpt:
		all.compare(name, ceilDuration(v.(time.Duration)), got.Retention)
	case asynq.DeadlineOpt:
		all.time(name, v.(time.Time), got.Deadline, within)
	case asynq.ProcessAtOpt:
		all.due(name, v.(time.Time), got, within)
	case asynq.ProcessInOpt:
		all.due(name, now.Add(v.(time.Duration)), got, within)
	case asynq.ExpiresInOpt:
		all.time(name, now.Add(v.(time.Duration)), got.ExpiresAt, within)
	case asynq.HeaderOpt:
		pair := v.([2]string)
		all.header(got, pair[0], pair[1])
	default:
		all.add(name, "%v cannot be compared", o)
	}
}

// ceilDuration rounds up to whole seconds, as in a task's message.
func ceilDuration(d time.Duration) time.Duration {
	if part := d % time.Second; part > 0 {
		return d - part + time.Second
	}
	return d
}

func spell(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case fmt.Stringer:
		return v.String()
	default:
		return fmt.Sprint(v)
	}
}

func spellTime(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return t.Format(time.RFC3339)
}
