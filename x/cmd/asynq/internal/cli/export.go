package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/filter"
)

func newExport(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export QUEUE [FILE]",
		Short: "Export the tasks of a queue to a file",
		Long: `Export the tasks of a queue to a file, or to standard output: tasks in every state, one JSON object per
line, with payload, headers, retries, errors, times, results, groups and uniqueness locks. asynq
import recreates the tasks. Daily statistics are not exported.

Servers may keep running: each task is exported once, in a consistent state. For a consistent
snapshot of the whole queue, use --pause and wait until no task is active.`,
		Example:           "  asynq export mail mail.ndjson --pause\n  asynq export mail --filter 'state:archived' | gzip > archive.ndjson.gz",
		Args:              argsFrom(1, 2),
		ValidArgsFunction: a.queueNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			scan, err := a.scope(cmd)
			if err != nil {
				return err
			}
			name := "-"
			if len(args) == 2 {
				name = args[1]
			}
			force, _ := cmd.Flags().GetBool("force")
			pause, _ := cmd.Flags().GetBool("pause")
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			q, err := i.WithMemorySamples(0).GetQueueInfo(args[0])
			if err != nil {
				return err
			}
			if pause && !q.Paused {
				if err := i.PauseQueue(args[0]); err != nil {
					return err
				}
				defer a.resume(cmd, i, args[0])
			} else if !q.Paused {
				a.printErrf("queue %q is not paused: the export may contain tasks that run in the meantime (see --pause)", args[0])
			}
			e := &exporter{a: a, i: i, queue: q, scan: scan, seen: make(map[[16]byte]struct{}), p: a.progress("exported")}
			err = writeFile(a, name, force, func(w io.Writer) error { return e.export(cmd.Context(), w) })
			e.p.end()
			if err != nil {
				return err
			}
			a.printErrf("exported %s from queue %q", counted(int(e.n)), args[0])
			return nil
		},
	}
	cmd.Flags().StringSliceP("state", "s", nil, "only tasks in these states")
	cmd.Flags().StringP("group", "g", "", "only aggregating tasks of this group")
	cmd.Flags().String("filter", "", "only tasks that match (see docs/FILTER.md)")
	cmd.Flags().Bool("pause", false, "pause the queue during the export")
	cmd.Flags().Bool("force", false, "overwrite an existing file")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(filter.States(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// resume resumes the queue after an export, even after an interrupted one.
func (a *app) resume(cmd *cobra.Command, i *asynq.Inspector, queue string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), 5*time.Second)
	defer cancel()
	if err := i.WithContext(ctx).UnpauseQueue(queue); err != nil {
		a.printErrf("asynq: queue %q is still paused: %s; resume it with asynq queue resume", queue, message(err))
	}
}

// writeFile creates a file with the content that write produces. The file appears under its name
// only once it is complete. The name - stands for standard output.
func writeFile(a *app, name string, force bool, write func(io.Writer) error) error {
	if name == "-" {
		return buffered(a.Out, write)
	}
	if _, err := os.Lstat(name); err == nil && !force {
		return usage("%s exists: use another name, or --force", name)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // a no-op after the rename
	err = buffered(f, write)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func buffered(w io.Writer, write func(io.Writer) error) error {
	b := bufio.NewWriterSize(w, 64<<10)
	err := write(b)
	if flushErr := b.Flush(); err == nil {
		err = flushErr
	}
	return err
}

// exporter exports a queue. It keeps 16 bytes per task, to export each task once even if it changes
// its state during the export.
type exporter struct {
	a     *app
	i     *asynq.Inspector
	queue *asynq.QueueInfo
	scan  filter.Scan
	seen  map[[16]byte]struct{}
	p     *progress
	n     int64
}

// exportOrder is the order of the states. Tasks of a paused queue move only from earlier to later
// states, so none is missed. Active tasks come before pending ones, which preserves the order of
// tasks on import.
var exportOrder = []asynq.TaskState{
	asynq.TaskStateActive, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateAggregating, asynq.TaskStatePending,
	asynq.TaskStateArchived, asynq.TaskStateCompleted,
}

// maxPasses is the maximum number of passes over all states. Further passes find tasks that changed
// their state during the previous one.
const maxPasses = 3

func (e *exporter) export(ctx context.Context, w io.Writer) error {
	head := exportHead{
		Version: exportVersion, ID: rand.Text(), Queue: e.queue.Queue, Paused: e.queue.Paused, ExportedAt: time.Now().UTC(),
	}
	if err := writeLine(w, exportMark{Export: &head}); err != nil {
		return err
	}
	states := e.scan.States
	if len(states) == 0 {
		states = exportOrder
	}
	for range maxPasses {
		before := e.n
		for _, state := range states {
			if err := e.state(ctx, w, state); err != nil {
				return err
			}
		}
		if e.n == before || e.queue.Paused {
			break
		}
	}
	return writeLine(w, exportMark{End: &exportEnd{Tasks: e.n}})
}

func writeLine(w io.Writer, line any) error {
	return out.WriteJSON(w, line, "")
}

// state writes the tasks of one state. Pending tasks are in the order in which they will run, and
// are imported in that order.
func (e *exporter) state(ctx context.Context, w io.Writer, state asynq.TaskState) error {
	if !e.scan.Filter.MayMatch(e.queue.Queue, state) {
		return nil
	}
	return e.tasks(ctx, state, func(t *exportTask) error { return e.write(w, t) })
}

func (e *exporter) write(w io.Writer, t *exportTask) error {
	e.n++
	t.N = e.n
	all := e.queue.Size
	e.p.at(int(e.n), max(all, int(e.n)), "")
	return writeLine(w, t)
}

// tasks calls do for each task of a state that is not exported yet.
func (e *exporter) tasks(ctx context.Context, state asynq.TaskState, do func(*exportTask) error) error {
	f := e.scan.Filter.TaskFilter()
	f.Group = ""
	if state == asynq.TaskStateAggregating {
		f.Group = e.scan.Group
	}
	for r, err := range e.i.ExportTasks(ctx, e.queue.Queue, state, f) {
		if err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(r.ID))
		id := [16]byte(sum[:16])
		if _, ok := e.seen[id]; ok {
			continue
		}
		e.seen[id] = struct{}{}
		if r.State == 0 {
			e.a.printErrf("asynq: task %q skipped: it has no valid state; run asynq doctor --repair", r.ID)
			continue
		}
		if err := do(newExportTask(r, 0)); err != nil {
			return err
		}
	}
	return nil
}
