package parity

import (
	"regexp"
	"strings"
)

// listed is an intended difference of calls, with its reason. docs/COMPATIBILITY.md contains the
// table.
type listed struct {
	topic  string
	calls  string // description of the calls, in Markdown like the other columns
	theirs string // behavior of the reference
	ours   string // behavior of this library
	why    string

	// keys are patterns of "row | aspect" with the wildcard *. A pattern without " | " matches all
	// aspects of a row.
	keys []string
	// only restricts the disagreements that match; nil means all.
	only func(d disagreement) bool
}

// additions are keys and fields in Redis that only this library writes. The reference ignores them,
// and all keys expire.
var additions = []string{
	"* | redis asynq:{*}:answer:*",
	"* | redis asynq:{*}:marker",
	"* | redis asynq:{*}:groups_due",
	"* | redis asynq:{*}:stats:*",
	"* | redis asynq:{*}:errors:*",
	"* | redis asynq:{*}:t:* settled*",
	"* | redis asynq:{*}:t:* group*",
	"* | redis asynq:{*}:t:* unique_key*",
}

// wordingOnly reports whether only the text of an error differs, which is neither an exported error
// of the reference nor a text that programs match.
func wordingOnly(d disagreement) bool {
	return d.wording && !noQueue.MatchString(d.theirs)
}

var noQueue = regexp.MustCompile(`queue "[^"]*" does not exist`)

const redisClosed = "redis: client is closed"

const (
	enqueuing  = "Enqueuing"
	processing = "Processing"
	lifecycle  = "Servers, schedulers and managers"
	inspecting = "Inspector"
	connecting = "Connections"
	values     = "Values and errors"
)

var differences = []listed{
	{
		topic: enqueuing, calls: "`Timeout`, `Retention` with a fraction of a second; `Deadline`, `ProcessAt` with one",
		theirs: "rounded down; no limit below one second", ours: "rounded up",
		why:  "A short limit must not become no limit, and no task may run early.",
		keys: []string{"Enqueue(*Timeout(*", "Enqueue(*Retention(*", "Enqueue(*Deadline(2400)*", "Enqueue(*ProcessAt(2400.5)*", "score of ProcessAt(a second and 0.4 s)"},
		only: func(d disagreement) bool {
			for _, text := range []string{"(1ns)", "(500ms)", "(1.5s)", "2400", "0.4 s"} {
				if strings.Contains(d.row, text) {
					return true
				}
			}
			return false
		},
	},
	{
		topic: enqueuing, calls: "`Unique` with more than 0 and less than a second",
		theirs: "rejected", ours: "a second",
		why:  "All durations round up.",
		keys: []string{"Enqueue(*Unique(1ns)*", "Enqueue(*Unique(500ms)*"},
	},
	{
		topic: enqueuing, calls: "`ProcessIn` with the longest `Duration`",
		theirs: "rounded down", ours: "rounded up",
		why:  "As above.",
		keys: []string{"Enqueue(*ProcessIn(2562047h*"},
	},
	{
		topic: enqueuing, calls: "`Timeout`, `Retention` below zero",
		theirs: "`Timeout`: no limit; `Retention`: none", ours: "rejected",
		why:  "A negative duration is an undetected mistake.",
		keys: []string{"Enqueue(*Timeout(-1*", "Enqueue(*Retention(-1s)*"},
	},
	{
		topic: enqueuing, calls: "`MaxRetry` above 2³¹−1",
		theirs: "overflows to a negative number", ours: "2³¹−1",
		why:  "The number has 32 bits in Redis.",
		keys: []string{"Enqueue(*MaxRetry(2147483648)*"},
	},
	{
		topic: enqueuing, calls: "`Queue` with a name that begins with `}`",
		theirs: "accepted", ours: "rejected; reading returns not found",
		why:  "The keys of such a queue are in different Cluster slots, where its scripts fail.",
		keys: []string{"Enqueue(*Queue(\"}x\")*", "Inspector.PauseQueue(\"}x\")"},
	},
	{
		topic: enqueuing, calls: "an `Option` of a custom type",
		theirs: "ignored", ours: "applied according to `Type` and `Value`; rejected if they are not valid",
		why:  "A type that wraps an option represents that option.",
		keys: []string{"Enqueue(*an option of another type(*"},
	},
	{
		topic: enqueuing, calls: "`TaskID` of a task that exists, with `Unique`",
		theirs: "rejected, but its lock stays until it expires", ours: "rejected without a lock",
		why:  "A lock without a task blocks clients for no reason.",
		keys: []string{"Enqueue(TaskID, then Unique with the same) | redis asynq:{*}:unique:*"},
	},
	{
		topic: enqueuing, calls: "a key of the queue has the wrong type",
		theirs: "an error; the hash of the task stays", ours: "an error; nothing is written",
		why:  "A failed call changes nothing.",
		keys: []string{"Enqueue into a Redis with a wrong type"},
	},
	{
		topic: processing, calls: "a handler that panics: error text",
		theirs: "`panic error cause by: panic [file:line]: value`", ours: "`panic: value`",
		why:  "The whole stack is in `PanicError.Stack` and in the log.",
		keys: []string{"handler of * returns a panic* | ErrorHandler", "handler of * returns a panic* | redis asynq:{default}:t:1 msg"},
	},
	{
		topic: processing, calls: "a handler that panics with an error: `errors.Is` and `errors.As` in `ErrorHandler`",
		theirs: "not found", ours: "found",
		why:  "An addition; the outcome of the task is the same.",
		keys: []string{"handler of * returns a panic with SkipRetry | is SkipRetry"},
	},
	{
		topic: processing, calls: "a group of tasks with `Unique` is aggregated",
		theirs: "locks stay until they expire", ours: "locks are released",
		why:  "A lock without a task blocks clients for no reason.",
		keys: []string{"a group with members that are unique | redis asynq:{*}:unique:*"},
	},
	{
		topic: processing, calls: "a unique task completes and is retained: field `unique_key` of its hash",
		theirs: "stays", ours: "removed with the lock",
		why:  "The field means that the task holds a lock.",
		keys: []string{"handler of a task with Unique and Retention * | redis asynq:{default}:t:1 unique_key"},
	},
	{
		topic: processing, calls: "`Shutdown` requeues a task: field `pending_since` of its hash",
		theirs: "not set", ours: "set",
		why:  "The latency of a queue is computed from this field.",
		keys: []string{"Shutdown with an active handler | redis asynq:{default}:t:1 pending_since"},
	},
	{
		topic: lifecycle, calls: "`Ping` of a `Server` or `Scheduler` after `Shutdown`",
		theirs: "nil", ours: "`ErrServerClosed`, `ErrSchedulerClosed`",
		why:  "The connection is closed, so a health check must fail.",
		keys: []string{"Server: *", "Scheduler: *"},
		only: func(d disagreement) bool { return steps(d, "Shutdown", "Ping") },
	},
	{
		topic: lifecycle, calls: "`Scheduler.Register` after `Shutdown`",
		theirs: "an entry that is never enqueued", ours: "`ErrSchedulerClosed`",
		why:  "The entry would never be enqueued.",
		keys: []string{"Scheduler: *"},
		only: func(d disagreement) bool { return steps(d, "Shutdown", "Register") },
	},
	{
		topic: lifecycle, calls: "`PeriodicTaskManager.Shutdown` twice, or before `Start`",
		theirs: "panics; before `Start`: the manager starts but never calls its provider again", ours: "no-op; `Start` returns `ErrSchedulerClosed`",
		why:  "A second Shutdown must be safe, and such a manager is unusable.",
		keys: []string{"PeriodicTaskManager: *Shutdown, *"},
		only: func(d disagreement) bool { return !d.wording },
	},
	{
		topic: lifecycle, calls: "`Scheduler.Register` with options, a spec or a task that can never be enqueued",
		theirs: "an entry that fails at each tick, or never ticks", ours: "an error",
		why:  "The caller of Register can handle the error; a failed tick is only logged.",
		keys: []string{"Scheduler.Register(*", "a tick of an entry with Unique(0)", "a tick of an entry with an empty queue name"},
		only: func(d disagreement) bool { return !d.wording },
	},
	{
		topic: lifecycle, calls: "`PeriodicTaskManager` with a config whose options or task can never be enqueued",
		theirs: "an entry that fails at each tick", ours: "logged and skipped",
		why:  "As above.",
		keys: []string{"PeriodicTaskManager whose provider returns an entry with an empty queue*", "PeriodicTaskManager whose provider returns an entry without a type*"},
	},
	{
		topic: lifecycle, calls: "`PeriodicTaskManager` with a nil option in a config",
		theirs: "panics", ours: "ignored",
		why:  "As in `Enqueue`.",
		keys: []string{"PeriodicTaskManager whose provider returns an entry with a nil option"},
	},
	{
		topic: lifecycle, calls: "entries of a `Scheduler` whose task has options, in `Inspector.SchedulerEntries`",
		theirs: "the options of `Register`", ours: "also the options of the task",
		why:  "The list shows the options that the task is enqueued with.",
		keys: []string{"a Scheduler whose entries have options of the task | entries result"},
	},
	{
		topic: lifecycle, calls: "`NewServer` with a negative `GroupGracePeriod`",
		theirs: "panics", ours: "the default",
		why:  "As with all durations in `Config`.",
		keys: []string{"NewServer({GroupGracePeriod: -1})", "Server({GroupGracePeriod: -1}) as Inspector.Servers shows it"},
	},
	{
		topic: lifecycle, calls: "`NewServer`, `NewScheduler` with an unknown `LogLevel`; its `String`; `String` of an unknown `TaskState`",
		theirs: "panic", ours: "uses the number",
		why:  "Logging a value must not panic.",
		keys: []string{"NewServer({LogLevel: *})", "NewScheduler({LogLevel: *})", "LogLevel(*).String", "TaskState(*).String"},
	},
	{
		topic: inspecting, calls: "`RunTask`, `RunAll…Tasks`: field `pending_since` of the hash",
		theirs: "not set", ours: "set",
		why:  "The latency of a queue is computed from this field.",
		keys: []string{"Inspector.Run* | redis * pending_since"},
	},
	{
		topic: inspecting, calls: "`RunTask` of a scheduled, failed or archived task that has a group",
		theirs: "pending: runs alone", ours: "aggregating: returns to its group",
		why:  "It was enqueued to be aggregated.",
		keys: []string{"Inspector.RunTask of a task with a group that is *"},
	},
	{
		topic: inspecting, calls: "`ArchiveTask`, `ArchiveAllPendingTasks`: field `pending_since`",
		theirs: "stays", ours: "removed",
		why:  "Only pending tasks have this field.",
		keys: []string{"Inspector.ArchiveAllPendingTasks(*) | redis * pending_since", "Inspector.ArchiveTask* | redis * pending_since"},
	},
	{
		topic: inspecting, calls: "`DeleteAllPendingTasks`, `DeleteQueue` with force: locks of unique tasks",
		theirs: "stay until they expire", ours: "released with their tasks",
		why:  "A lock without a task blocks clients for no reason.",
		keys: []string{"Inspector.DeleteAllPendingTasks(*) | redis *:unique:*", "Inspector.DeleteQueue(force)(*) | redis *:unique:*"},
	},
	{
		topic: inspecting, calls: "`DeleteQueue` of a queue that has only completed tasks, or only tasks in groups",
		theirs: "deletes the name of the queue; the tasks stay but are unreachable", ours: "`ErrQueueNotEmpty`; with force, the tasks are deleted, too",
		why:  "The tasks would be lost but stay in Redis.",
		keys: []string{"Inspector.DeleteQueue with only *", "Inspector.DeleteQueue without active tasks, force", "Inspector.DeleteQueue*(\"paused\") | redis asynq:{paused}:paused"},
	},
	{
		topic: inspecting, calls: "`IsOrphaned` of `GetTaskInfo`",
		theirs: "always false", ours: "true if the task's lease has expired, as in `ListActiveTasks`",
		why:  "Both calls are consistent.",
		keys: []string{"Inspector.GetTaskInfo(\"default\", \"orphan\") | result"},
	},
	{
		topic: inspecting, calls: "bulk calls, `GetQueueInfo` and `History` of a queue that does not exist",
		theirs: "an error whose text ends in `queue \"x\" does not exist`",
		ours:   "`ErrQueueNotFound` (`errors.Is`) with the text `asynq: NOT_FOUND: queue \"x\" does not exist`",
		why:    "`errors.Is` is an addition. The text contains what programs match.",
		keys:   []string{"Inspector.* | errors.Is", "Inspector.* | error"},
		only: func(d disagreement) bool {
			at := strings.Index(d.theirs, "queue ")
			return d.theirs == "none" && d.ours == " ErrQueueNotFound" ||
				at >= 0 && strings.HasSuffix(d.theirs, " does not exist") && d.ours == "asynq: NOT_FOUND: "+d.theirs[at:]
		},
	},
	{
		topic: inspecting, calls: "`List…Tasks` with `Page(0)`",
		theirs: "the last page", ours: "the first page, as with negative numbers",
		why:  "A program that counts from 0 means the first page.",
		keys: []string{"Inspector.List*Tasks(\"many\", Page(0)*"},
	},
	{
		topic: inspecting, calls: "`List…Tasks` with a `Page` and a `PageSize` whose product overflows",
		theirs: "all tasks", ours: "none",
		why:  "The page does not exist.",
		keys: []string{"Inspector.List*Tasks(\"many\", Page(1<<62), PageSize(1<<62))"},
	},
	{
		topic: inspecting, calls: "`History`: `DailyStats.Date`",
		theirs: "that day at the time of the call", ours: "that day at midnight UTC",
		why:  "Counts are per UTC day, and dates of two calls are comparable.",
		keys: []string{"Inspector.History(\"default\", *) | dates"},
	},
	{
		topic: inspecting, calls: "tasks without a hash or state",
		theirs: "counted, moved or rejected with a script error; creates a hash without a message",
		ours:   "`ErrTaskNotFound`, or skipped",
		why:    "Without a hash, the task does not exist.",
		keys: []string{"Inspector.*(\"broken\"*no state\")", "Inspector.*AllPendingTasks(\"broken\")",
			"Inspector.*AllArchivedTasks(\"broken\")"},
	},
	{
		topic: inspecting, calls: "`DeleteQueue` of a queue with a key of the wrong type",
		theirs: "a script error", ours: "`ErrQueueNotEmpty`; with force, it is deleted",
		why:  "A queue with a broken key can be deleted, too.",
		keys: []string{"Inspector.DeleteQueue*(\"broken\")"},
	},
	{
		topic: inspecting, calls: "`List…Tasks` with an unreadable task message",
		theirs: "without ID and queue", ours: "with both",
		why:  "A program needs both to delete the task.",
		keys: []string{"Inspector.List*Tasks(\"broken\") | result"},
	},
	{
		topic: connecting, calls: "`ParseRedisURI` of `redis-cluster://`, `rediss-sentinel://`, `unix://`, and a slash without a number",
		theirs: "rejected", ours: "accepted",
		why: "The URI alone can configure a cluster, TLS or a socket.",
		keys: []string{"ParseRedisURI(\"redis-cluster:*", "ParseRedisURI(\"rediss-sentinel:*", "ParseRedisURI(\"unix:///tmp/redis.sock\")",
			"ParseRedisURI(\"redis:///\")", "ParseRedisURI(\"redis://localhost:6379/\")"},
	},
	{
		topic: connecting,
		calls: "`ParseRedisURI` with a non-numeric path, a fragment, an unknown parameter or value, a port above 65,535, no master, " +
			"`redis:`, a host before a socket path, `skip_verify` without TLS",
		theirs: "ignored", ours: "rejected",
		why: "The program would connect to another Redis than intended, or none.",
		keys: []string{"ParseRedisURI(\"redis://localhost:6379/5/6\")", "ParseRedisURI(\"redis://localhost:6379/-1\")", "ParseRedisURI(\"redis://localhost#x\")",
			"ParseRedisURI(\"redis://localhost?unknown=1\")", "ParseRedisURI(\"redis://localhost:6379?addr=other:6379\")",
			"ParseRedisURI(\"redis://localhost?pool_size=x\")", "ParseRedisURI(\"redis://localhost:99999\")",
			"ParseRedisURI(\"redis-sentinel://localhost:5000\")", "ParseRedisURI(\"redis-sentinel://?master=m\")", "ParseRedisURI(\"redis:\")",
			"ParseRedisURI(\"redis-socket://tmp/redis.sock\")", "ParseRedisURI(\"redis://localhost:6379/0?skip_verify=true\")"},
		only: func(d disagreement) bool { return !d.wording },
	},
	{
		topic: connecting, calls: "`ParseRedisURI` with a user name",
		theirs: "left out", ours: "used, for the sentinels in `redis-sentinel://`",
		why:  "As in go-redis. Redis 6 introduced users.",
		keys: []string{"ParseRedisURI(\"redis*://user*"},
	},
	{
		topic: connecting, calls: "`ParseRedisURI` with parameters of go-redis, or a database for `redis-sentinel://`",
		theirs: "ignored", ours: "used",
		why:  "As in go-redis.",
		keys: []string{"ParseRedisURI(\"redis://localhost*?*=*", "ParseRedisURI(\"redis-sentinel://localhost:5000/3?master=m\")"},
	},
	{
		topic: connecting, calls: "`ParseRedisURI` without a host or port",
		theirs: "connecting fails, unless both are missing", ours: "`localhost`; 6379, or 26379 for sentinels",
		why:  "As in go-redis.",
		keys: []string{"ParseRedisURI(\"*"},
		only: func(d disagreement) bool { return !d.wording },
	},
	{
		topic: connecting, calls: "`New…FromRedisClient(nil)`",
		theirs: "panics at first use", ours: "panics at once",
		why:  "The stack trace shows the mistake.",
		keys: []string{"New*FromRedisClient(nil)"},
	},
	{
		topic: connecting, calls: "a `PoolSize` below 0",
		theirs: "go-redis panics", ours: "the default",
		why:  "Zero and negative sizes mean the default.",
		keys: []string{"RedisClientOpt{PoolSize: -1}.MakeRedisClient"},
	},
	{
		topic: connecting, calls: "`NewPeriodicTaskManager` with an unsupported `RedisConnOpt`",
		theirs: "panics", ours: "returns an error",
		why:  "The function returns errors.",
		keys: []string{"NewPeriodicTaskManager({a connection of no kind})"},
	},
	{
		topic: values, calls: "nil as `context.Context`, `*Task` or `*ResultWriter`",
		theirs: "panics", ours: "an error or zero values",
		why:  "A mistake in one call must not crash a worker.",
		keys: []string{"EnqueueContext(nil, task)", "(*Task)(nil)", "NewTask(…).ResultWriter()", "NotFound(nil)", "ServeMux.Handler(nil)", "ServeMux.ProcessTask(nil)"},
	},
	{
		topic: values, calls: "`ServeMux.Handle` with `HandlerFunc(nil)` or a nil `*ServeMux`",
		theirs: "accepted; panics when a task is processed", ours: "panics at once",
		why:  "As with `nil`, which both reject.",
		keys: []string{"ServeMux.Handle(\"a\", HandlerFunc(nil))", "ServeMux.Handle(\"a\", (*ServeMux)(nil))"},
	},
	{
		topic: values, calls: "`DefaultRetryDelayFunc` with a negative number",
		theirs: "result of the formula", ours: "as with 0",
		why:  "The number of failures is never negative.",
		keys: []string{"DefaultRetryDelayFunc(-1)"},
	},
	{
		topic: values, calls: "calls on a closed connection: `errors.Is(err, redis.ErrClosed)`",
		theirs: "depends on the method", ours: "true",
		why:  "An addition.",
		keys: []string{"* | *errors.Is", "*Close* | *error"},
		only: func(d disagreement) bool {
			return d.theirs == "none" && d.ours == " redis.ErrClosed" ||
				!d.wording && strings.HasSuffix(d.theirs, redisClosed) && strings.HasSuffix(d.ours, redisClosed)
		},
	},
	{
		topic: values, calls: "texts of errors and panics without an exported error",
		theirs: "some begin with `asynq: `, others with codes such as `FAILED_PRECONDITION` or script names",
		ours:   "begin with `asynq: ` and suggest a remedy",
		why:    "`errors.Is` returns the same for both. Texts that programs compare are the same.",
		keys:   []string{"*"},
		only:   wordingOnly,
	},
}

// steps reports whether a disagreement is in a step that follows another step of a sequence.
func steps(d disagreement, after, step string) bool {
	_, all, _ := strings.Cut(d.row, ": ")
	sequence := strings.Split(all, ", ")
	n := int(d.aspect[0] - '1')
	if n < 0 || n >= len(sequence) || sequence[n] != step {
		return false
	}
	for _, before := range sequence[:n] {
		if before == after {
			return true
		}
	}
	return false
}
