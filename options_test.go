package asynq

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/wire"
)

var testKeys = wire.DefaultNamespace.Queue

func TestOptionsAsGoSource(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		opt    Option
		kind   OptionType
		value  any
		source string
	}{
		{MaxRetry(-3), MaxRetryOpt, 0, "MaxRetry(0)"},
		{Queue("low"), QueueOpt, "low", `Queue("low")`},
		{TaskID("a b"), TaskIDOpt, "a b", `TaskID("a b")`},
		{Timeout(90 * time.Second), TimeoutOpt, 90 * time.Second, "Timeout(1m30s)"},
		{Deadline(at), DeadlineOpt, at, "Deadline(Sat Nov 21 08:00:00 UTC 2026)"},
		{Unique(time.Hour), UniqueOpt, time.Hour, "Unique(1h0m0s)"},
		{ProcessAt(at), ProcessAtOpt, at, "ProcessAt(Sat Nov 21 08:00:00 UTC 2026)"},
		{ProcessIn(time.Minute), ProcessInOpt, time.Minute, "ProcessIn(1m0s)"},
		{Retention(time.Hour), RetentionOpt, time.Hour, "Retention(1h0m0s)"},
		{Group("g"), GroupOpt, "g", `Group("g")`},
		{Header("k", "v"), HeaderOpt, [2]string{"k", "v"}, `Header("k", "v")`},
		{IdempotencyKey("k", time.Minute), IdempotencyKeyOpt, [2]string{"k", "1m0s"}, `IdempotencyKey("k", 1m0s)`},
		{UniqueKey("k", time.Minute), UniqueKeyOpt, [2]string{"k", "1m0s"}, `UniqueKey("k", 1m0s)`},
		{OnDuplicate(Supersede), OnDuplicateOpt, Supersede, "OnDuplicate(Supersede)"},
		{Debounce("k", time.Second, time.Minute), DebounceOpt, [3]string{"k", "1s", "1m0s"}, `Debounce("k", 1s, 1m0s)`},
		{Throttle("k", time.Minute), ThrottleOpt, [2]string{"k", "1m0s"}, `Throttle("k", 1m0s)`},
		{ExpiresIn(time.Minute), ExpiresInOpt, time.Minute, "ExpiresIn(1m0s)"},
		{PartitionKey("customer-42"), PartitionKeyOpt, "customer-42", `PartitionKey("customer-42")`},
		{Awaitable(), AwaitableOpt, true, "Awaitable()"},
		{CancelOnReturn(), CancelOnReturnOpt, true, "CancelOnReturn()"},
	} {
		if test.opt.Type() != test.kind || !reflect.DeepEqual(test.opt.Value(), test.value) || test.opt.String() != test.source {
			t.Errorf("got %v, %v, %s; want %v, %v, %s", test.opt.Type(), test.opt.Value(), test.opt, test.kind, test.value, test.source)
		}
	}
}

func TestCreationDefaults(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c, err := newCreation(NewTask("email", []byte("x")), nil, testKeys, now)
	if err != nil {
		t.Fatal(err)
	}
	m := c.msg
	if len(m.ID) != 36 || m.Queue != "default" || m.MaxRetry != 25 || m.Timeout != 1800 || m.Deadline != 0 || m.UniqueKey != "" {
		t.Errorf("defaults %+v", m)
	}
	if info := c.info(); info.State != TaskStatePending || c.order.ProcessAt != 0 {
		t.Errorf("a task without a time has state %v at %d", info.State, c.order.ProcessAt)
	}
	decoded, err := wire.DecodeTaskMessage(c.order.Message)
	if err != nil || decoded.ID != m.ID || string(decoded.Payload) != "x" {
		t.Errorf("encoded message %+v, error %v", decoded, err)
	}
}

func TestCallOptionsOverrideTaskOptions(t *testing.T) {
	t.Parallel()
	opts := make([]Option, 0, 8) // with spare capacity
	opts = append(opts, Queue("low"), MaxRetry(1), Header("a", "task"), Header("b", "task"))
	task := NewTaskWithHeaders("email", nil, map[string]string{"a": "headers", "c": "headers"}, opts...)
	call := make([]Option, 0, 8)
	call = append(call, Queue("high"), Header("a", "call"))
	c, err := newCreation(task, call, testKeys, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "call", "b": "task", "c": "headers"}
	if c.msg.Queue != "high" || c.msg.MaxRetry != 1 || !reflect.DeepEqual(c.msg.Headers, want) {
		t.Errorf("got queue %q, retries %d, headers %v", c.msg.Queue, c.msg.MaxRetry, c.msg.Headers)
	}
	if opts[:8][4] != nil || call[:8][2] != nil {
		t.Error("wrote to a slice of the caller")
	}
	if got := task.Headers(); got["a"] != "headers" {
		t.Errorf("the headers of the task changed: %v", got)
	}
}

func TestShortDurationsRoundUp(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 1)
	c, err := newCreation(NewTask("x", nil), []Option{
		Timeout(time.Millisecond), Retention(time.Millisecond), Unique(time.Millisecond), ProcessIn(time.Millisecond),
		Deadline(time.Unix(5000, 1)),
	}, testKeys, now)
	if err != nil {
		t.Fatal(err)
	}
	if c.msg.Timeout != 1 || c.msg.Retention != 1 || c.msg.Deadline != 5001 || c.order.ProcessAt != 1001 || c.order.LockTTL != 2 {
		t.Errorf("got %+v and %+v", c.msg, c.order)
	}
}

func TestHugeDurations(t *testing.T) {
	t.Parallel()
	const forever = time.Duration(math.MaxInt64)
	c, err := newCreation(NewTask("x", nil), []Option{Unique(forever), ProcessIn(forever), Timeout(forever), MaxRetry(math.MaxInt64)}, testKeys, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if longest := int64(forever / time.Second); c.order.LockTTL <= longest || c.msg.Timeout != longest {
		t.Errorf("lock TTL %d s, timeout %d s, want %d s plus the delay", c.order.LockTTL, c.msg.Timeout, longest)
	}
	if c.order.LockTTL <= 0 || c.order.ProcessAt <= 0 || c.msg.Timeout <= 0 || c.msg.MaxRetry != math.MaxInt32 {
		t.Errorf("got %+v and %+v", c.msg, c.order)
	}
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		task *Task
		opts []Option
		says string
	}{
		{"nil task", nil, nil, "task must not be nil"},
		{"no type", NewTask(" \n", nil), nil, "type must not be empty"},
		{"type not UTF-8", NewTask("\xff", nil), nil, "UTF-8"},
		{"header not UTF-8", NewTask("x", nil), []Option{Header("k", "\xff")}, "UTF-8"},
		{"reserved header", NewTask("x", nil), []Option{Header("asynq-ext", "")}, "reserved"},
		{"reserved header of the task", NewTaskWithHeaders("x", nil, map[string]string{"asynq-ext": "k=v"}), nil, "reserved"},
		{"no queue", NewTask("x", nil), []Option{Queue("  ")}, "queue name must not be empty"},
		{"queue that breaks the hash tag", NewTask("x", nil), []Option{Queue("}x")}, "closing brace"},
		{"empty ID", NewTask("x", nil), []Option{TaskID("")}, "task ID must not be empty"},
		{"empty group", NewTask("x", nil), []Option{Group("")}, "group name must not be empty"},
		{"unique without a TTL", NewTask("x", nil), []Option{Unique(0)}, "must be positive"},
		{"negative timeout", NewTask("x", nil), []Option{Timeout(-1)}, "must not be negative"},
		{"blank idempotency key", NewTask("x", nil), []Option{IdempotencyKey(" ", time.Hour)}, "not blank"},
		{"idempotency key not UTF-8", NewTask("x", nil), []Option{IdempotencyKey("\xff", time.Hour)}, "UTF-8"},
		{"idempotency key without a TTL", NewTask("x", nil), []Option{IdempotencyKey("k", 0)}, "positive"},
		{"debounce with text as a duration", NewTask("x", nil), []Option{userOption{DebounceOpt, [3]string{"k", "1s", "long"}}}, "maxWait"},
		{"debounce and time", NewTask("x", nil), []Option{Debounce("k", 1, 0), ProcessIn(time.Hour)}, "omit ProcessAt and ProcessIn"},
		{"debounce that keeps", NewTask("x", nil), []Option{Debounce("k", 1, 0), OnDuplicate(Keep)}, "use Replace or Supersede"},
		{"throttle and time", NewTask("x", nil), []Option{Throttle("k", 1), ProcessAt(time.Now().Add(time.Hour))}, "omit ProcessAt and ProcessIn"},
		{"throttle that rejects", NewTask("x", nil), []Option{OnDuplicate(Reject), Throttle("k", 1)}, "use Keep or Replace"},
		{"throttle and idempotency key", NewTask("x", nil), []Option{IdempotencyKey("k", 1), Throttle("k", 1)}, "IdempotencyKey excludes"},
		{"policy and idempotency key", NewTask("x", nil), []Option{IdempotencyKey("k", 1), Unique(1), OnDuplicate(Keep)}, "IdempotencyKey excludes"},
		{"due after it expires", NewTask("x", nil), []Option{ProcessIn(time.Hour), ExpiresIn(time.Hour)}, "due after it expires"},
		{"a blank partition key", NewTask("x", nil), []Option{PartitionKey(" ")}, "must not be blank"},
		{"a long partition key", NewTask("x", nil), []Option{PartitionKey(strings.Repeat("k", 257))}, "more than 256"},
		{"a partition key with a control character", NewTask("x", nil), []Option{PartitionKey("a\x00b")}, "without control characters"},
		{"a partition key that is not UTF-8", NewTask("x", nil), []Option{PartitionKey("\xff")}, "must be UTF-8"},
		{"debounced until it expires", NewTask("x", nil), []Option{Debounce("k", time.Minute, 0), ExpiresIn(time.Minute)}, "due after it expires"},
		{"reserved header", NewTask("x", nil), []Option{Header("asynq-ext", "")}, "reserved"},
		{"idempotency key with text as a TTL", NewTask("x", nil), []Option{userOption{IdempotencyKeyOpt, [2]string{"k", "soon"}}}, "positive"},
		{"negative retention", NewTask("x", nil), []Option{Retention(-1)}, "must not be negative"},
	} {
		_, err := newCreation(test.task, test.opts, testKeys, time.Now())
		if err == nil || !strings.HasPrefix(err.Error(), "asynq: ") || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v, want one that contains %q", test.name, err, test.says)
		}
	}
}

func TestDefaultRetryDelay(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 0, 1, 5, 25, 300, 310, 1000, math.MaxInt} {
		at := min(max(n, 0), 300) // the largest that fits a time.Duration
		low := time.Duration(at*at*at*at+15) * time.Second
		high := low + time.Duration(29*(at+1))*time.Second
		for range 100 {
			if d := DefaultRetryDelayFunc(n, nil, nil); d < low || d > high {
				t.Fatalf("delay after %d failures: %v, want %v to %v", n, d, low, high)
			}
		}
	}
}

// FuzzNewCreation creates tasks from any parts. Either the error has the prefix of this package, or
// the message contains these parts.
func FuzzNewCreation(f *testing.F) {
	f.Add("type", []byte("payload"), "default", "id", "group", "key", "value", 3, int64(time.Minute), int64(1_800_000_000))
	f.Add("", []byte(nil), "}", "", "", "", "", -1, int64(-1), int64(-1<<62))
	f.Add("\xff", []byte{}, "a}b", "\x00", "{", "\n", "\xff", 1<<40, int64(1<<63-1), int64(1<<63-62_135_596_801))
	keys := func(queue string) wire.Queue { return wire.DefaultNamespace.Queue(queue) }
	f.Fuzz(func(t *testing.T, typename string, payload []byte, queue, id, group, key, value string, n int, d, unix int64) {
		at := time.Unix(unix, 1)
		opts := []Option{
			Queue(queue), TaskID(id), Header(key, value), MaxRetry(n), Timeout(time.Duration(d)), Retention(time.Duration(d)),
			Unique(time.Duration(d)), Deadline(at), ProcessAt(at),
		}
		if group != "" {
			opts = append(opts, Group(group))
		}
		now := time.Unix(1_700_000_000, 0)
		made, err := newCreation(NewTask(typename, payload), opts, keys, now)
		if err != nil {
			if made != nil || !strings.HasPrefix(err.Error(), "asynq: ") {
				t.Errorf("got %+v, error %q", made, err)
			}
			return
		}
		msg, err := wire.DecodeTaskMessage(made.order.Message)
		if err != nil {
			t.Fatal(err)
		}
		if msg.Type != typename || !bytes.Equal(msg.Payload, payload) || msg.Queue != queue || msg.ID != id || msg.Group != group ||
			msg.Headers[key] != value || made.order.Queue != queue || made.order.ID != id {
			t.Errorf("message %+v", msg)
		}
		info := made.info()
		if info.Timeout < 0 || info.Retention < 0 || info.MaxRetry < 0 || made.order.LockTTL <= 0 || made.order.ProcessAt < 0 {
			t.Errorf("overflow: %+v, %+v", info, made.order)
		}
		if at.After(now) != (made.order.ProcessAt > 0) || made.order.ProcessAt > 0 && made.order.ProcessAt < unix {
			t.Errorf("with %v the task is due at %d", at, made.order.ProcessAt)
		}
		if !strings.HasPrefix(made.order.Lock, keys(queue).Prefix()) || !utf8.ValidString(made.order.Lock) {
			t.Errorf("lock %q", made.order.Lock)
		}
		for _, opt := range opts {
			if again, ok := parseOption(exactOption(opt)); ok && exactOption(again) != exactOption(opt) {
				t.Errorf("%v is parsed as %v", opt, again)
			}
		}
	})
}

func TestParseOption(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 8, 0, 0, 123, time.FixedZone("", 3600))
	for _, opt := range []Option{
		MaxRetry(3), Queue(`a"b\` + "\xff\n"), TaskID("a, b"), Timeout(90 * time.Millisecond), Timeout(math.MaxInt64), Deadline(at),
		Unique(time.Hour), ProcessAt(at), ProcessIn(-time.Minute), Retention(0), Group(")("), Header(`k", "`, `v")`), Header("", ""),
		IdempotencyKey(`k", "`, time.Hour), UniqueKey(", ", time.Hour), OnDuplicate(Replace), Debounce(`",")`, 1, 0), Throttle("(", 1), ExpiresIn(1), PartitionKey(`k", "`),
	} {
		for _, text := range []string{exactOption(opt), opt.String()} {
			got, ok := parseOption(text)
			if !ok {
				if opt.Type() != DeadlineOpt && opt.Type() != ProcessAtOpt {
					t.Errorf("cannot parse %s", text)
				}
				continue // a zone without a name
			}
			if want, ok := opt.Value().(time.Time); ok {
				if !got.Value().(time.Time).Equal(want) {
					t.Errorf("%s is parsed as %s", text, got)
				}
			} else if got.Type() != opt.Type() || !reflect.DeepEqual(got.Value(), opt.Value()) {
				t.Errorf("%s is parsed as %s", text, got)
			}
		}
	}
}

func TestParseOptionTime(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	if got, err := parseOptionTime(want.Format(time.UnixDate)); err != nil || !got.Equal(want) {
		t.Errorf("got %v, error %v", got, err)
	}
	if got, err := parseOptionTime("Sat Nov 21 08:00:00 XYZ 2026"); err == nil {
		t.Errorf("an unknown zone is parsed as %v", got)
	}
}

func TestParseOptionsSkipsInvalid(t *testing.T) {
	t.Parallel()
	opts := parseOptions([]string{
		"", "Queue", "Queue(", "Queue)", "Queue()", `Queue("low"`, `Queue(low)`, "MaxRetry(many)", "Timeout(30)", "Deadline(soon)",
		`Header("k")`, `Header("k" "v")`, `Header(k, v)`, "Priority(3)", `Queue("low")`, "Timeout(30s)", `Header("k","v")`,
	})
	var texts []string
	for _, opt := range opts {
		texts = append(texts, opt.String())
	}
	if want := []string{`Queue("low")`, "Timeout(30s)", `Header("k", "v")`}; !slices.Equal(texts, want) {
		t.Errorf("got %q, want %q", texts, want)
	}
}

func TestCanonicalOptions(t *testing.T) {
	t.Parallel()
	same := [][]Option{
		{Queue("a"), MaxRetry(1), Header("x", "1"), Header("y", "2"), ProcessIn(time.Hour)},
		{Header("y", "2"), Queue("b"), ProcessAt(time.Now()), ProcessIn(time.Hour), MaxRetry(1), Queue("a"), Header("x", "0"), Header("x", "1")},
	}
	if a, b := canonicalOptions(same[0]), canonicalOptions(same[1]); !slices.Equal(a, b) {
		t.Errorf("texts %q and %q differ", a, b)
	}
	if a, b := canonicalOptions([]Option{Queue("a"), Queue("b")}), canonicalOptions([]Option{Queue("b"), Queue("a")}); slices.Equal(a, b) {
		t.Errorf("two queues have the same text %q", a)
	}
}

func FuzzParseOption(f *testing.F) {
	for _, text := range []string{`Queue("low")`, "MaxRetry(3)", "Timeout(1m30s)", "Deadline(Sat Nov 21 08:00:00 UTC 2026)", `Header("k", "v")`, "(", "Queue(`x`)"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		opt, ok := parseOption(text)
		if !ok {
			return
		}
		again, ok := parseOption(exactOption(opt))
		if t2, isTime := opt.Value().(time.Time); isTime {
			if ok && !again.Value().(time.Time).Equal(t2) {
				t.Errorf("%q is parsed as %v, whose text is parsed as %v", text, opt, again)
			}
			return
		}
		if !ok || again.String() != opt.String() {
			t.Errorf("%q is parsed as %v, whose text is parsed as %v", text, opt, again)
		}
	})
}

// eachOption returns a new option of each type.
func eachOption() []Option {
	at := time.Date(2026, 11, 21, 8, 0, 0, 1, time.UTC)
	return []Option{
		MaxRetry(3), Queue("low"), TaskID("a b"), Timeout(time.Minute), Deadline(at),
		Unique(time.Hour), ProcessAt(at), ProcessIn(time.Minute), Retention(time.Hour),
		Group("g"), Header("k", "v"), IdempotencyKey("k", time.Hour), UniqueKey("k", time.Hour), OnDuplicate(Reject),
		Debounce("d", time.Hour, 0), Throttle("t", time.Hour), ExpiresIn(time.Hour), PartitionKey("p"),
	}
}

func TestOptionsAreValues(t *testing.T) {
	t.Parallel()
	set := make(map[Option]bool)
	for i, opt := range eachOption() {
		again := eachOption()[i]
		if opt != again || !reflect.DeepEqual(opt, again) {
			t.Errorf("two options %v are not equal", opt)
		}
		set[opt], set[again] = true, true
		if diff := cmp.Diff(opt, again); diff != "" {
			t.Errorf("%v: %s", opt, diff)
		}
		other := slices.Delete(eachOption(), i, i+1)
		if slices.Contains(other, opt) {
			t.Errorf("%v is equal to an option of another type", opt)
		}
		if text := fmt.Sprintf("%v", opt); text != opt.String() {
			t.Errorf("%%v prints %s, want %s", text, opt)
		}
	}
	if len(set) != len(eachOption()) {
		t.Errorf("the map has %d options, want %d", len(set), len(eachOption()))
	}
	if Queue("a") == Queue("b") || Queue("a") == Group("a") || Timeout(1) == Retention(1) {
		t.Error("different options are equal")
	}
	for _, test := range []struct {
		opt  Option
		text string
	}{
		{Queue("low"), `"low"`}, {MaxRetry(3), "3"}, {Timeout(time.Second), "1000000000"},
	} {
		if text := fmt.Sprintf("%#v", test.opt); text != test.text {
			t.Errorf("%%#v of %v prints %s, want %s", test.opt, text, test.text)
		}
	}
}

func TestTasksWithOptionsAreEqual(t *testing.T) {
	t.Parallel()
	newTask := func() *Task {
		return NewTaskWithHeaders("t", []byte("p"), map[string]string{"k": "v"}, eachOption()...)
	}
	if !reflect.DeepEqual(newTask(), newTask()) { //nolint:govet // The errors that it could reach are those of attempts.
		t.Error("two identical tasks are not equal")
	}
	newEntry := func(spec string) *SchedulerEntry {
		return &SchedulerEntry{ID: "1", Spec: spec, Task: newTask(), Opts: eachOption()}
	}
	unexported := cmp.AllowUnexported(Task{})
	if diff := cmp.Diff(newEntry("@daily"), newEntry("@daily"), unexported); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(newEntry("@daily"), newEntry("@hourly"), unexported); !strings.Contains(diff, "@hourly") {
		t.Errorf("the diff of two entries is %q", diff)
	}
}

// userOption is an Option of the user.
type userOption struct {
	kind  OptionType
	value any
}

func (o userOption) String() string     { return fmt.Sprintf("foreign(%v)", o.value) }
func (o userOption) Type() OptionType   { return o.kind }
func (o userOption) Value() interface{} { return o.value }

func TestNilOptionsAreSkipped(t *testing.T) {
	t.Parallel()
	redis := RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	client := NewClient(redis)
	defer client.Close()
	inspector := NewInspector(redis)
	defer inspector.Close()
	none := (*userOption)(nil)

	check := func(name string, info *TaskInfo, err error) {
		t.Helper()
		if err != nil || info.Queue != "low" || info.MaxRetry != 2 {
			t.Errorf("%s: got %+v, error %v", name, info, err)
		}
	}
	task := NewTask("t", nil, nil, Queue("low"), none)
	info, err := client.Enqueue(task, nil, MaxRetry(2), none)
	check("Enqueue", info, err)
	if opts := task.Options(); len(opts) != 1 || opts[0] != Queue("low") {
		t.Errorf("task options %v", opts)
	}
	info, err = client.EnqueueContext(context.Background(),
		NewTaskWithHeaders("t", nil, nil, nil, Queue("low")), nil, MaxRetry(2))
	check("EnqueueContext", info, err)
	results := client.BatchEnqueueContext(context.Background(), []*Task{task}, nil, MaxRetry(2), none)
	check("BatchEnqueueContext", results[0].TaskInfo, results[0].Err)

	hooked := make(chan []Option, 1)
	scheduler := NewScheduler(redis, &SchedulerOpts{
		PreEnqueueFunc: func(_ *Task, opts []Option) {
			select {
			case hooked <- opts:
			default:
			}
		},
	})
	defer scheduler.Shutdown()
	_, err = scheduler.Register("@every 1s", task, nil, userOption{MaxRetryOpt, 2}, none)
	if err != nil {
		t.Fatal(err)
	}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	if opts := <-hooked; !reflect.DeepEqual(opts, []Option{MaxRetry(2)}) {
		t.Errorf("PreEnqueueFunc got the options %#v", opts)
	}
}

func TestForeignOptions(t *testing.T) {
	t.Parallel()
	redis := RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	client := NewClient(redis)
	defer client.Close()
	for i, own := range eachOption() {
		foreign := userOption{own.Type(), own.Value()}
		switch own.Type() {
		case TaskIDOpt:
			own, foreign.value = TaskID("own"), "foreign"
		case IdempotencyKeyOpt:
			own = IdempotencyKey("own", time.Hour)
		case UniqueKeyOpt:
			own = UniqueKey("own", time.Hour)
		case DebounceOpt:
			own = Debounce("own d", time.Hour, 0)
		case ThrottleOpt:
			own = Throttle("own", time.Hour)
		}
		var infos [2]*TaskInfo
		for n, opt := range []Option{own, foreign} {
			var err error
			if infos[n], err = client.Enqueue(NewTask(fmt.Sprint(i, n), nil), opt); err != nil {
				t.Fatalf("%v: %v", opt, err)
			}
			infos[n].ExpiresAt = infos[n].ExpiresAt.Truncate(time.Hour)
			infos[n].Type, infos[n].NextProcessAt = "", infos[n].NextProcessAt.Truncate(time.Hour)
			if own.Type() != TaskIDOpt || infos[n].ID != [2]string{"own", "foreign"}[n] {
				infos[n].ID = strings.Repeat("x", len(infos[n].ID))
			} else {
				infos[n].ID = ""
			}
		}
		if diff := cmp.Diff(infos[0], infos[1]); diff != "" {
			t.Errorf("%v is not applied like %v: %s", foreign, own, diff)
		}
	}
	for _, test := range []struct {
		opt  Option
		says string
	}{
		{userOption{MaxRetryOpt, "3"}, "asynq: option foreign(3): its Value is of type string, want int"},
		{userOption{HeaderOpt, nil}, "asynq: option foreign(<nil>): its Value is of type <nil>, want [2]string"},
		{userOption{99, 1}, "asynq: option foreign(1): unknown type 99"},
		{userOption{UniqueOpt, time.Duration(0)}, "must be positive"},
	} {
		if _, err := client.Enqueue(NewTask("t", nil), test.opt); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v: error %v, want one that contains %q", test.opt, err, test.says)
		}
	}
}

func TestEmptyHeadersStayEmpty(t *testing.T) {
	t.Parallel()
	redis := RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	client := NewClient(redis)
	defer client.Close()
	inspector := NewInspector(redis)
	defer inspector.Close()
	for _, test := range []struct{ made, stored map[string]string }{
		{nil, nil}, {map[string]string{}, nil}, {map[string]string{"k": ""}, map[string]string{"k": ""}},
	} {
		task := NewTaskWithHeaders("t", nil, test.made)
		info, err := client.Enqueue(task)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := inspector.GetTaskInfo("default", info.ID)
		if err != nil {
			t.Fatal(err)
		}
		got := []map[string]string{task.Headers(), info.Headers, stored.Headers}
		if want := []map[string]string{test.made, test.made, test.stored}; !reflect.DeepEqual(got, want) {
			t.Errorf("headers of Task, Enqueue and GetTaskInfo: %#v, want %#v", got, want)
		}
	}
}
