package cli

import (
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/filter"
)

func newTask(a *app) *cobra.Command {
	return group("task", "Inspect, enqueue and change tasks",
		newTaskLs(a), newTaskInspect(a), newTaskEnqueue(a), newTaskWait(a),
		newTaskCancel(a), newTaskRun(a), newTaskArchive(a), newTaskDelete(a), newTaskReschedule(a), newTaskUpdatePayload(a), newTaskUpdate(a),
		newTaskEdit(a), newTaskMove(a), newTaskCopy(a), newTaskTail(a),
		newTaskAll(a, runAll), newTaskAll(a, archiveAll), newTaskAll(a, deleteAll),
	)
}

// taskRow is a task in machine-readable output.
type taskRow struct {
	ID               string            `json:"id"`
	Queue            string            `json:"queue"`
	Type             string            `json:"type"`
	State            string            `json:"state"`
	Group            string            `json:"group"`
	PartitionKey     string            `json:"partition_key"`
	IsHeld           bool              `json:"is_held"` // scheduled because its partition holds it back
	FlowID           string            `json:"flow_id"`
	FlowNode         string            `json:"flow_node"`
	Payload          string            `json:"payload"`        // empty if it is not text
	PayloadBase64    string            `json:"payload_base64"` // empty if it is text
	Headers          map[string]string `json:"headers"`
	MaxRetry         int               `json:"max_retry"`
	Retried          int               `json:"retried"`
	ErrorMessage     string            `json:"error_message"`
	LastFailedAt     *time.Time        `json:"last_failed_at"`
	NextProcessAt    *time.Time        `json:"next_process_at"`
	TimeoutSeconds   int64             `json:"timeout_seconds"`
	Deadline         *time.Time        `json:"deadline"`
	RetentionSeconds int64             `json:"retention_seconds"`
	CompletedAt      *time.Time        `json:"completed_at"`
	Result           string            `json:"result"`
	ResultBase64     string            `json:"result_base64"`
	IsOrphaned       bool              `json:"is_orphaned"`
	AgeSeconds       *float64          `json:"age_seconds"` // time in the state; null if unknown
	Worker           *taskWorker       `json:"worker"`      // null unless the task is active and its server has reported it

	info *asynq.TaskInfo
}

func newTaskRow(t *asynq.TaskInfo) *taskRow {
	r := &taskRow{
		ID: t.ID, Queue: t.Queue, Type: t.Type, State: t.State.String(), Group: t.Group, PartitionKey: t.PartitionKey, IsHeld: t.IsHeld,
		FlowID: t.FlowID, FlowNode: t.FlowNode, Headers: t.Headers,
		MaxRetry: t.MaxRetry, Retried: t.Retried, ErrorMessage: t.LastErr, LastFailedAt: moment(t.LastFailedAt),
		TimeoutSeconds: int64(t.Timeout / time.Second), Deadline: moment(t.Deadline),
		RetentionSeconds: int64(t.Retention / time.Second), CompletedAt: moment(t.CompletedAt), IsOrphaned: t.IsOrphaned, info: t,
	}
	if t.State == 0 {
		r.State = "" // the task is gone
	}
	if t.State == asynq.TaskStateScheduled && !t.IsHeld || t.State == asynq.TaskStateRetry {
		r.NextProcessAt = moment(t.NextProcessAt) // for a pending task it is only the time of the read
	}
	if r.Headers == nil {
		r.Headers = map[string]string{}
	}
	if t.Age != 0 {
		seconds := t.Age.Round(time.Millisecond).Seconds()
		r.AgeSeconds = &seconds
	}
	r.Payload, r.PayloadBase64 = textOrBase64(t.Payload)
	r.Result, r.ResultBase64 = textOrBase64(t.Result)
	return r
}

// moment returns a time in UTC for machine-readable output, or nil for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func text(head string, cell func(*taskRow) string) out.Column[*taskRow] {
	return out.Column[*taskRow]{Head: head, Cell: cell}
}

// cellWidth is the maximum width of payloads, results and errors in tables, in characters.
const cellWidth = 60

func clipped(s string) string {
	if utf8.RuneCountInString(s) <= cellWidth {
		return s
	}
	return string([]rune(s)[:cellWidth-1]) + "…"
}

// due formats the time left until t.
func due(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	if d := time.Until(t).Round(time.Second); d > 0 {
		return d.String()
	}
	return "now"
}

// dueIn formats the time left until t for a sentence.
func dueIn(t time.Time) string {
	if d := due(t); d != "now" {
		return "in " + d
	}
	return "now"
}

// setWorker sets the server that runs an active task.
func (t *taskRow) setWorker(w *taskWorker) {
	t.Worker = w
	if w != nil {
		seconds := max(time.Since(w.Started), 0).Round(time.Millisecond).Seconds()
		t.AgeSeconds = &seconds
	}
}

// server returns the server that runs an active task.
func (t *taskRow) server() string {
	if t.Worker == nil {
		return "-"
	}
	return fmt.Sprintf("%s:%d", t.Worker.Host, t.Worker.PID)
}

// age returns the time that the task has been in its state.
func (t *taskRow) age() string {
	if t.AgeSeconds == nil {
		return "-"
	}
	return max(time.Duration(*t.AgeSeconds*float64(time.Second)), 0).Round(time.Second).String()
}

// shrinking makes a column of texts give way on narrow terminals.
func shrinking(c out.Column[*taskRow]) out.Column[*taskRow] {
	c.Shrink = 12
	return c
}

// taskColumns returns the columns for tasks of the given states and number of queues.
func taskColumns(states []asynq.TaskState, queues int) []out.Column[*taskRow] {
	columns := []out.Column[*taskRow]{text("ID", func(t *taskRow) string { return t.ID })}
	if queues != 1 {
		columns = append(columns, shrinking(text("QUEUE", func(t *taskRow) string { return t.Queue })))
	}
	if len(states) != 1 {
		columns = append(columns, text("STATE", func(t *taskRow) string {
			if t.IsHeld {
				return "held"
			}
			return t.State
		}))
	}
	columns = append(columns,
		shrinking(text("TYPE", func(t *taskRow) string { return t.Type })),
		ranked(2, shrinking(text("PAYLOAD", func(t *taskRow) string { return clipped(brief(t.info.Payload)) }))),
	)
	next := func(t *taskRow) string {
		if t.IsHeld {
			return "held"
		}
		return due(t.info.NextProcessAt)
	}
	lastErr := ranked(1, shrinking(text("LAST ERROR", func(t *taskRow) string { return clipped(t.ErrorMessage) })))
	failed := ranked(4, text("LAST FAILED", func(t *taskRow) string { return out.Time(t.info.LastFailedAt) }))
	grouped := text("GROUP", func(t *taskRow) string { return t.Group })
	partition := wide(text("PARTITION", func(t *taskRow) string { return t.PartitionKey }))
	age := func(head string) out.Column[*taskRow] {
		return out.Column[*taskRow]{Head: head, Right: true, Cell: (*taskRow).age}
	}
	server := ranked(3, shrinking(text("SERVER", (*taskRow).server)))
	only := asynq.TaskState(0)
	if len(states) == 1 {
		only = states[0]
	}
	switch only {
	case asynq.TaskStateScheduled:
		return append(columns, text("PROCESS IN", next), wide(grouped), partition)
	case asynq.TaskStateRetry:
		return append(columns, text("NEXT RETRY", next), lastErr, failed,
			ranked(5, count("RETRIED", out.Warn, func(t *taskRow) int { return t.Retried })),
			ranked(6, text("MAX RETRY", func(t *taskRow) string { return strconv.Itoa(t.MaxRetry) })))
	case asynq.TaskStateArchived:
		return append(columns, failed, lastErr)
	case asynq.TaskStateCompleted:
		return append(columns,
			ranked(3, text("COMPLETED AT", func(t *taskRow) string { return out.Time(t.info.CompletedAt) })),
			ranked(1, shrinking(text("RESULT", func(t *taskRow) string { return clipped(brief(t.info.Result)) }))))
	case asynq.TaskStateAggregating:
		return append(columns, grouped, age("WAITING"))
	case asynq.TaskStateActive:
		return append(columns, age("RUNNING"), server, wide(text("ORPHANED", func(t *taskRow) string { return strconv.FormatBool(t.IsOrphaned) })))
	case asynq.TaskStatePending:
		return append(columns, age("WAITING"), wide(text("RETRIED", func(t *taskRow) string { return strconv.Itoa(t.Retried) })))
	}
	return append(columns, lastErr, wide(age("AGE")), wide(server), wide(failed), wide(text("PROCESS IN", next)), wide(grouped))
}

// addScope adds the flags that select tasks.
func addScope(a *app, cmd *cobra.Command, filtered bool) {
	cmd.Flags().StringSliceP("queue", "q", nil, "queues of the tasks")
	cmd.Flags().StringSliceP("state", "s", nil, "states of the tasks: active, pending, scheduled, retry, archived, completed, aggregating")
	cmd.Flags().StringP("group", "g", "", "group of aggregating tasks")
	if filtered {
		cmd.Flags().String("filter", "", `only tasks that match, for example 'type:email:* error:"timed out" age>10m' (see docs/FILTER.md)`)
		_ = cmd.RegisterFlagCompletionFunc("filter", a.taskFilters)
		cmd.Flags().Int("max-scan", 0, "scan at most this many tasks (default no limit)")
	}
	_ = cmd.RegisterFlagCompletionFunc("queue", a.queueNames)
	_ = cmd.RegisterFlagCompletionFunc("group", a.groupNames)
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(filter.States(), cobra.ShellCompDirectiveNoFileComp))
}

// scope reads the flags that addScope added. Without --queue or --state, the result has no queues
// or states.
func (a *app) scope(cmd *cobra.Command) (s filter.Scan, err error) {
	s.Queues = queuesOf(cmd)
	names, _ := cmd.Flags().GetStringSlice("state")
	for _, name := range names {
		state, ok := filter.ParseState(name)
		if !ok {
			return s, usage("--state: unknown state %q: use active, pending, scheduled, retry, archived, completed or aggregating", name)
		}
		if !slices.Contains(s.States, state) {
			s.States = append(s.States, state)
		}
	}
	s.Group, _ = cmd.Flags().GetString("group")
	if s.Group != "" {
		for _, state := range s.States {
			if state != asynq.TaskStateAggregating {
				return s, usage("--group applies only to aggregating tasks: omit --state, or use --state aggregating")
			}
		}
		s.States = []asynq.TaskState{asynq.TaskStateAggregating}
	}
	if s.Filter, err = filter.Parse(a.filter(cmd)); err != nil {
		return s, badFilter(err)
	}
	if s.MaxScan, _ = cmd.Flags().GetInt("max-scan"); s.MaxScan < 0 {
		return s, usage("--max-scan must not be negative")
	}
	return s, nil
}
