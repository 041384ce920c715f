package cli

import (
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

	info *asynq.TaskInfo
}

func newTaskRow(t *asynq.TaskInfo) *taskRow {
	r := &taskRow{
		ID: t.ID, Queue: t.Queue, Type: t.Type, State: t.State.String(), Group: t.Group, Headers: t.Headers,
		MaxRetry: t.MaxRetry, Retried: t.Retried, ErrorMessage: t.LastErr, LastFailedAt: moment(t.LastFailedAt),
		TimeoutSeconds: int64(t.Timeout / time.Second), Deadline: moment(t.Deadline),
		RetentionSeconds: int64(t.Retention / time.Second), CompletedAt: moment(t.CompletedAt), IsOrphaned: t.IsOrphaned, info: t,
	}
	if t.State == 0 {
		r.State = "" // the task is gone
	}
	if t.State == asynq.TaskStateScheduled || t.State == asynq.TaskStateRetry {
		r.NextProcessAt = moment(t.NextProcessAt) // for a pending task it is only the time of the read
	}
	if r.Headers == nil {
		r.Headers = map[string]string{}
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

// taskColumns returns the columns for tasks of the given states and number of queues.
func taskColumns(states []asynq.TaskState, queues int) []out.Column[*taskRow] {
	columns := []out.Column[*taskRow]{text("ID", func(t *taskRow) string { return t.ID })}
	if queues != 1 {
		columns = append(columns, text("QUEUE", func(t *taskRow) string { return t.Queue }))
	}
	if len(states) != 1 {
		columns = append(columns, text("STATE", func(t *taskRow) string { return t.State }))
	}
	columns = append(columns,
		text("TYPE", func(t *taskRow) string { return t.Type }),
		text("PAYLOAD", func(t *taskRow) string { return clipped(brief(t.info.Payload)) }),
	)
	next := func(t *taskRow) string { return due(t.info.NextProcessAt) }
	lastErr := text("LAST ERROR", func(t *taskRow) string { return clipped(t.ErrorMessage) })
	failed := text("LAST FAILED", func(t *taskRow) string { return out.Time(t.info.LastFailedAt) })
	grouped := text("GROUP", func(t *taskRow) string { return t.Group })
	only := asynq.TaskState(0)
	if len(states) == 1 {
		only = states[0]
	}
	switch only {
	case asynq.TaskStateScheduled:
		return append(columns, text("PROCESS IN", next), wide(grouped))
	case asynq.TaskStateRetry:
		return append(columns, text("NEXT RETRY", next), lastErr, failed,
			count("RETRIED", out.Warn, func(t *taskRow) int { return t.Retried }),
			text("MAX RETRY", func(t *taskRow) string { return strconv.Itoa(t.MaxRetry) }))
	case asynq.TaskStateArchived:
		return append(columns, failed, lastErr)
	case asynq.TaskStateCompleted:
		return append(columns,
			text("COMPLETED AT", func(t *taskRow) string { return out.Time(t.info.CompletedAt) }),
			text("RESULT", func(t *taskRow) string { return clipped(brief(t.info.Result)) }))
	case asynq.TaskStateAggregating:
		return append(columns, grouped)
	case asynq.TaskStateActive:
		return append(columns, wide(text("ORPHANED", func(t *taskRow) string { return strconv.FormatBool(t.IsOrphaned) })))
	case asynq.TaskStatePending:
		return append(columns, wide(text("RETRIED", func(t *taskRow) string { return strconv.Itoa(t.Retried) })))
	}
	return append(columns, lastErr, wide(failed), wide(text("PROCESS IN", next)), wide(grouped))
}

// addScope adds the flags that select tasks.
func addScope(a *app, cmd *cobra.Command, filtered bool) {
	cmd.Flags().StringSliceP("queue", "q", nil, "queues of the tasks")
	cmd.Flags().StringSliceP("state", "s", nil, "states of the tasks: active, pending, scheduled, retry, archived, completed, aggregating")
	cmd.Flags().StringP("group", "g", "", "group of aggregating tasks")
	if filtered {
		cmd.Flags().String("filter", "", `only tasks that match, for example 'type:email:* error:"timed out" age>10m' (see docs/FILTER.md)`)
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

// addTaskID adds the flags that name tasks. Task IDs may also be arguments.
func addTaskID(a *app, cmd *cobra.Command) {
	cmd.Flags().StringP("queue", "q", "default", "queue of the tasks")
	cmd.Flags().StringSliceP("id", "i", nil, "IDs of the tasks; they may also be arguments")
	_ = cmd.RegisterFlagCompletionFunc("queue", a.queueNames)
}

// taskIDs returns the task IDs of the command line.
func taskIDs(cmd *cobra.Command, args []string) ([]string, error) {
	ids, _ := cmd.Flags().GetStringSlice("id")
	ids = append(slices.Clone(args), ids...)
	if len(ids) == 0 {
		return nil, usage("missing task ID: usage: %s ID...", cmd.CommandPath())
	}
	return ids, nil
}
