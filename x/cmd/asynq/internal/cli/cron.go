package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newCron(a *app) *cobra.Command {
	return group("cron", "Inspect, run and pause periodic tasks", newCronLs(a), newCronHistory(a), newCronRun(a),
		newCronSwitch(a, "pause", "Pause periodic tasks: their ticks are skipped", "paused", true, (*asynq.Inspector).PauseSchedulerEntry),
		newCronSwitch(a, "resume", "Resume paused periodic tasks", "resumed", false, (*asynq.Inspector).ResumeSchedulerEntry),
	)
}

// cronRow is a scheduler entry in machine-readable output.
type cronRow struct {
	ID            string     `json:"id"`
	Spec          string     `json:"spec"`
	Type          string     `json:"task_type"`
	Payload       string     `json:"task_payload"`
	PayloadBase64 string     `json:"task_payload_base64"`
	Options       []string   `json:"options"`
	Next          *time.Time `json:"next_enqueue_at"`
	Prev          *time.Time `json:"prev_enqueue_at"`
	Paused        bool       `json:"paused"`

	entry *asynq.SchedulerEntry
}

func newCronRow(e *asynq.SchedulerEntry) *cronRow {
	r := &cronRow{ID: e.ID, Spec: e.Spec, Type: e.Task.Type(), Options: []string{}, Next: moment(e.Next), Prev: moment(e.Prev), Paused: e.Paused, entry: e}
	r.Payload, r.PayloadBase64 = textOrBase64(e.Task.Payload())
	for _, o := range e.Opts {
		r.Options = append(r.Options, o.String())
	}
	return r
}

var cronColumns = []out.Column[*cronRow]{
	{Head: "ENTRY ID", Cell: func(r *cronRow) string { return r.ID }},
	{Head: "SPEC", Cell: func(r *cronRow) string { return r.Spec }},
	{Head: "TYPE", Cell: func(r *cronRow) string { return r.Type }},
	{Head: "PAYLOAD", Cell: func(r *cronRow) string { return clipped(brief(r.entry.Task.Payload())) }},
	{Head: "OPTIONS", Cell: func(r *cronRow) string { return strings.Join(r.Options, ", ") }},
	{Head: "NEXT", Cell: func(r *cronRow) string {
		if r.Paused {
			return "paused"
		}
		return due(r.entry.Next)
	}},
	{Head: "PREV", Cell: func(r *cronRow) string { return out.Time(r.entry.Prev) }},
}

func newCronLs(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the periodic tasks of all running schedulers",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listEach(a, cmd, cronColumns, (*asynq.Inspector).SchedulerEntries, newCronRow)
		},
	}
	addListing(cmd)
	return cmd
}

// cronEvent records that a periodic task was enqueued.
type cronEvent struct {
	EntryID    string    `json:"entry_id"`
	TaskID     string    `json:"task_id"`
	EnqueuedAt time.Time `json:"enqueued_at"`
}

var cronEventColumns = []out.Column[*cronEvent]{
	{Head: "ENTRY ID", Cell: func(e *cronEvent) string { return e.EntryID }, Wide: true},
	{Head: "TASK ID", Cell: func(e *cronEvent) string { return e.TaskID }},
	{Head: "ENQUEUED AT", Cell: func(e *cronEvent) string { return out.Time(e.EnqueuedAt) }},
}

func newCronHistory(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "history ENTRY_ID...",
		Short:             "List when periodic tasks were enqueued, latest first",
		Args:              argsFrom(1, -1),
		ValidArgsFunction: a.cronIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			page, size, err := paging(cmd)
			if err != nil {
				return err
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			return list(a, cmd, cronEventColumns, func(context.Context) iter.Seq2[*cronEvent, error] {
				return a.cronEvents(i, args, page, size)
			})
		},
	}
	addListing(cmd)
	cmd.Flags().Int("page", 1, "page number, starting at 1")
	cmd.Flags().Int("size", 30, "events per page")
	cmd.Flags().Bool("all", false, "list all stored events (up to 1,000 per entry) instead of one page")
	return cmd
}

func (a *app) cronEvents(i *asynq.Inspector, ids []string, page, size int) iter.Seq2[*cronEvent, error] {
	return func(yield func(*cronEvent, error) bool) {
		if size == 0 {
			size = 1000
		}
		stopped := false
		err := a.eachArg(ids, func(id string) error {
			if stopped {
				return nil
			}
			events, err := i.ListSchedulerEnqueueEvents(id, asynq.Page(page), asynq.PageSize(size))
			if err != nil {
				return err
			}
			if len(events) == 0 && page == 1 {
				if err := checkEntryExists(i, id); err != nil {
					return err
				}
			}
			for _, e := range events {
				if stopped = !yield(&cronEvent{id, e.TaskID, e.EnqueuedAt.UTC()}, nil); stopped {
					return nil
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

func checkEntryExists(i *asynq.Inspector, id string) error {
	entries, err := i.SchedulerEntries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.ID == id {
			return nil
		}
	}
	return notFound("no running scheduler has entry %q, and it has no history", id)
}

func newCronRun(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "run ENTRY_ID...",
		Short:             "Enqueue periodic tasks now, outside their schedule",
		Long:              "Enqueue periodic tasks now, outside their schedule, and print the task IDs to standard output.",
		Args:              argsFrom(1, -1),
		ValidArgsFunction: a.cronIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			if a.dryRun(cmd) {
				return a.eachArg(args, func(id string) error { return a.previewRun(i, id) })
			}
			return a.eachArg(args, func(id string) error {
				t, err := i.RunSchedulerEntry(cmd.Context(), id)
				if t != nil {
					a.printErrf("entry %q: enqueued to queue %q", id, t.Queue)
					if _, err := fmt.Fprintln(a.Out, out.Name(t.ID)); err != nil {
						return err
					}
				}
				return err
			})
		},
	}
	cmd.Flags().Bool("dry-run", false, "only print what would be enqueued")
	return cmd
}

// newCronSwitch returns a command that pauses or resumes entries. An entry that is already in the
// desired state is not an error.
func newCronSwitch(
	a *app, verb, short, done string, confirms bool, set func(*asynq.Inspector, context.Context, string) error,
) *cobra.Command {
	cmd := &cobra.Command{
		Use:               verb + " ENTRY_ID...",
		Short:             short,
		Args:              argsFrom(1, -1),
		ValidArgsFunction: a.cronIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			return a.eachArg(args, func(id string) error {
				if confirms {
					if ok, err := a.confirm(cmd, "pause entry %q", id); !ok || err != nil {
						return err
					}
				}
				if err := set(i, cmd.Context(), id); err != nil {
					return err
				}
				a.printErrf("entry %q %s", id, done)
				return nil
			})
		},
	}
	if confirms {
		addBulk(cmd)
	}
	return cmd
}

// previewRun prints what running an entry would enqueue.
func (a *app) previewRun(i *asynq.Inspector, id string) error {
	entries, err := i.SchedulerEntries()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(entries, func(e *asynq.SchedulerEntry) bool { return e.ID == id })
	if at < 0 {
		return fmt.Errorf("%w: %q", asynq.ErrSchedulerEntryNotFound, id)
	}
	row := newCronRow(entries[at])
	text := fmt.Sprintf("would enqueue a task of type %q with a payload of %s", row.Type, out.Bytes(int64(len(row.entry.Task.Payload()))))
	if len(row.Options) > 0 {
		text += ", " + strings.Join(row.Options, ", ")
	}
	a.printErrf("entry %q: %s", id, text)
	return nil
}

// cronIDs completes arguments with the IDs of entries.
func (a *app) cronIDs(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeFromRedis(cmd, begun, func(i *asynq.Inspector) ([]string, error) {
		entries, err := i.SchedulerEntries()
		var ids []string
		for _, e := range entries {
			ids = append(ids, e.ID)
		}
		return ids, err
	})
}
