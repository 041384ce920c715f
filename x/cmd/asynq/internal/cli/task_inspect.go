package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newTaskInspect(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "inspect ID...",
		Aliases: []string{"get", "show"},
		Short:   "Show the details of tasks",
		Example: `  asynq task inspect -q mail 4f3c…
  asynq task inspect -q mail 4f3c… --raw > payload.bin`,
		RunE: func(cmd *cobra.Command, args []string) error {
			format, _ := cmd.Flags().GetString("payload-format")
			raw, _ := cmd.Flags().GetBool("raw")
			if _, err := pretty(nil, format); err != nil && format != "json" {
				return err
			}
			if ids, _ := cmd.Flags().GetStringSlice("id"); raw && len(ids)+len(args) != 1 {
				return usage("--raw requires exactly one task")
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			workers := sync.OnceValues(func() (map[taskKey]*taskWorker, error) { return workersOf(i) })
			return a.eachTask(cmd, args, func(i *asynq.Inspector, ref asynq.TaskRef) error {
				t, err := i.GetTaskInfo(ref.Queue, ref.ID)
				if err != nil {
					return err
				}
				if raw {
					return a.writeRaw(t.Payload)
				}
				row := &inspectRow{taskRow: newTaskRow(t), Attempts: []attemptRow{}, Progress: newProgressRow(t.Progress), ExpiresAt: moment(t.ExpiresAt)}
				for _, attempt := range t.Attempts {
					row.Attempts = append(row.Attempts, newAttemptRow(attempt))
				}
				steps, err := i.TaskSteps(cmd.Context(), ref.Queue, ref.ID)
				if err != nil {
					return err
				}
				row.setSteps(steps)
				if t.State == asynq.TaskStateActive {
					all, err := workers()
					if err != nil {
						return fmt.Errorf("reading the server of task %q: %w", t.ID, err)
					}
					row.setWorker(all[taskKey{t.Queue, t.ID}])
				}
				return a.show(cmd, row, func(w io.Writer, _ out.Options) error { return row.write(w, format) })
			})
		},
	}
	addTaskID(a, cmd)
	addOutput(cmd)
	cmd.Flags().String("payload-format", "auto", "format of payload and result in tables: auto, json, text, hex or base64")
	cmd.Flags().Bool("raw", false, "print only the unmodified payload; on a terminal, only if it is plain text")
	_ = cmd.RegisterFlagCompletionFunc("payload-format",
		cobra.FixedCompletions([]string{"auto", "json", "text", "hex", "base64"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// writeRaw writes an unmodified payload. It refuses to write control sequences to a terminal.
func (a *app) writeRaw(payload []byte) error {
	if a.OutIsTerminal && !out.IsPlain(payload) {
		return usage("the payload is not plain text and could control the terminal: " +
			"redirect it (--raw > FILE), or use --payload-format hex instead of --raw")
	}
	_, err := a.Out.Write(payload)
	return err
}

// inspectRow is a task with the server that runs it.
type inspectRow struct {
	*taskRow

	Attempts []attemptRow `json:"attempts"` // that failed, oldest first; empty unless servers keep them
	Progress *progressRow `json:"progress"` // null unless its handler has reported some

	ExpiresAt *time.Time `json:"expires_at"` // null if the task does not expire

	Steps   []stepRow   `json:"steps"`
	Signals []signalRow `json:"signals"`
	Awaits  string      `json:"awaits"` // name of a signal; empty if the task waits for none
	steps   *asynq.TaskSteps
}

// taskWorker is the server that runs a task, with its current attempt.
type taskWorker struct {
	ServerID string     `json:"server_id"`
	Host     string     `json:"host"`
	PID      int        `json:"pid"`
	Started  time.Time  `json:"start_time"`
	Deadline *time.Time `json:"deadline"`
}

type taskKey struct{ queue, id string }

// workersOf returns the attempts that servers report. If several servers report a task, the latest
// attempt counts: a crashed server remains listed until its record expires.
func workersOf(i *asynq.Inspector) (map[taskKey]*taskWorker, error) {
	servers, err := i.Servers()
	if err != nil {
		return nil, err
	}
	workers := make(map[taskKey]*taskWorker)
	for _, s := range servers {
		for _, w := range s.ActiveWorkers {
			key := taskKey{w.Queue, w.TaskID}
			if before := workers[key]; before == nil || before.Started.Before(w.Started) {
				workers[key] = &taskWorker{s.ID, s.Host, s.PID, w.Started.UTC(), moment(w.Deadline)}
			}
		}
	}
	return workers, nil
}

// write writes a task as text.
func (r *inspectRow) write(w io.Writer, format string) error {
	t := r.info
	payload, err := pretty(t.Payload, format)
	if err != nil {
		return fmt.Errorf("payload of %q: %w", t.ID, err)
	}
	result, err := pretty(t.Result, format)
	if err != nil && len(t.Result) > 0 {
		return fmt.Errorf("result of %q: %w", t.ID, err)
	}
	var b strings.Builder
	line := func(name, value string) {
		if value != "" && value != "-" {
			fmt.Fprintf(&b, "%-14s %s\n", name+":", out.Clean(value))
		}
	}
	block := func(name string, size int, text string) {
		if size > 0 {
			fmt.Fprintf(&b, "%s (%s):\n  %s\n", name, out.Bytes(int64(size)), indent(text, "  "))
		}
	}
	state := r.State
	if t.IsOrphaned {
		state += ", orphaned: no worker holds its lease"
	}
	if t.IsHeld {
		state = "held by the limits or the share of its partition"
	}
	line("ID", t.ID)
	line("Queue", t.Queue)
	line("Type", t.Type)
	line("State", state)
	switch w := r.Worker; {
	case w != nil:
		line("Server", fmt.Sprintf("%s:%d", w.Host, w.PID))
		line("Started", fmt.Sprintf("%s (%s ago)", out.Time(w.Started), max(time.Since(w.Started), 0).Round(time.Second)))
		if w.Deadline != nil {
			line("Times out", fmt.Sprintf("%s (%s)", out.Time(*w.Deadline), dueIn(*w.Deadline)))
		}
	case t.State == asynq.TaskStateActive && !t.IsOrphaned:
		line("Server", "not reported yet: servers report their active tasks every few seconds")
	}
	if t.State == asynq.TaskStatePending || t.State == asynq.TaskStateAggregating {
		line("Waiting for", r.age())
	}
	line("Progress", progressText(t.Progress))
	line("Awaits signal", r.Awaits)
	line("Group", t.Group)
	line("Partition", t.PartitionKey)
	line("Flow", t.FlowID)
	line("Node", t.FlowNode)
	line("Retried", fmt.Sprintf("%d of %d", t.Retried, t.MaxRetry))
	if r.NextProcessAt != nil {
		line("Next attempt", fmt.Sprintf("%s (%s)", out.Time(t.NextProcessAt), dueIn(t.NextProcessAt)))
	}
	line("Timeout", lasting(t.Timeout))
	line("Deadline", out.Time(t.Deadline))
	line("Expires at", out.Time(t.ExpiresAt))
	line("Retention", lasting(t.Retention))
	line("Completed at", out.Time(t.CompletedAt))
	line("Last failed", out.Time(t.LastFailedAt))
	if len(t.Headers) > 0 {
		b.WriteString("Headers:\n")
		for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
			fmt.Fprintf(&b, "  %s: %s\n", out.Clean(name), out.Clean(t.Headers[name]))
		}
	}
	writeSteps(&b, r.steps, time.Now())
	writeAttempts(&b, t.Attempts)
	block("Last error", len(t.LastErr), out.Escape(t.LastErr))
	block("Payload", len(t.Payload), payload)
	block("Result", len(t.Result), result)
	b.WriteString("\n")
	_, err = io.WriteString(w, b.String())
	return err
}

func lasting(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
