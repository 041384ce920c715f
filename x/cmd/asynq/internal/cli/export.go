package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

func newExport(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export QUEUE [FILE]",
		Short: "Write all that Redis keeps of the tasks of a queue to a file",
		Long: `Write all that Redis keeps of the tasks of a queue to a file, or to standard output: one JSON object a line, in every state, with
payload, headers, retries, errors, times, results, groups and uniqueness locks. asynq import makes the same tasks of it. Statistics
of days gone by are not part of it.

Servers may be at work meanwhile: each task is written as it is at one moment, and once. To have the whole queue as it is at one moment,
use --pause, and wait until no task is active.`,
		Example:           "  asynq export mail mail.ndjson --pause\n  asynq export mail --filter 'state:archived' | gzip > archive.ndjson.gz",
		Args:              cobra.RangeArgs(1, 2),
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
				a.say("queue %s is not paused: what runs while it is exported may be in it, too (see --pause)", args[0])
			}
			e := &exporter{a: a, i: i, queue: q, scan: scan, seen: make(map[[16]byte]struct{}), p: a.progress("exported")}
			err = writeFile(a, name, force, func(w io.Writer) error { return e.export(cmd.Context(), w) })
			e.p.end()
			if err != nil {
				return err
			}
			a.say("exported %s of queue %s", counted(int(e.n)), args[0])
			return nil
		},
	}
	cmd.Flags().StringSliceP("state", "s", nil, "only tasks in these states")
	cmd.Flags().StringP("group", "g", "", "only aggregating tasks of this group")
	cmd.Flags().String("filter", "", "only tasks that this admits (see docs/FILTER.md)")
	cmd.Flags().Bool("pause", false, "pause the queue meanwhile")
	cmd.Flags().Bool("force", false, "overwrite the file")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(filter.States(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// resume ends the pause of an export, even of one that was interrupted.
func (a *app) resume(cmd *cobra.Command, i *asynq.Inspector, queue string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), 5*time.Second)
	defer cancel()
	if err := i.WithContext(ctx).UnpauseQueue(queue); err != nil {
		a.say("asynq: queue %s stays paused, resume it with: asynq queue resume %s (%s)", queue, queue, message(err))
	}
}

// writeFile lets write fill a file, which appears under its name only when it is whole; - is standard output.
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
	defer os.Remove(f.Name()) // in vain where it was renamed
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

// exporter writes a queue. Of each task it keeps 16 bytes, so that one that changes its state meanwhile is written once.
type exporter struct {
	a     *app
	i     *asynq.Inspector
	queue *asynq.QueueInfo
	scan  filter.Scan
	seen  map[[16]byte]struct{}
	p     *progress
	n     int64
}

// exportOrder is the order of the states. Tasks of a paused queue move from earlier ones to later ones only, and so are not missed. To
// be imported in their order, active ones come before pending ones.
var exportOrder = []asynq.TaskState{
	asynq.TaskStateActive, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateAggregating, asynq.TaskStatePending,
	asynq.TaskStateArchived, asynq.TaskStateCompleted,
}

// maxPasses bounds how often all states are gone through for tasks that moved on while others were written.
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
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(line)
}

// state writes the tasks of one state. Lists come the latest first, and are written the other way round: so they are imported in
// their order.
func (e *exporter) state(ctx context.Context, w io.Writer, state asynq.TaskState) error {
	if !e.scan.Filter.MayMatch(e.queue.Queue, state) {
		return nil
	}
	if state != asynq.TaskStatePending && state != asynq.TaskStateActive {
		return e.tasks(ctx, state, func(t *exportTask) error { return e.write(w, t) })
	}
	s, err := newSpool()
	if err != nil {
		return err
	}
	defer s.close()
	if err := e.tasks(ctx, state, s.add); err != nil {
		return err
	}
	return s.backwards(ctx, func(t *exportTask) error { return e.write(w, t) })
}

func (e *exporter) write(w io.Writer, t *exportTask) error {
	e.n++
	t.N = e.n
	all := e.queue.Size + e.queue.Completed
	e.p.at(int(e.n), max(all, int(e.n)), "")
	return writeLine(w, t)
}

// tasks goes through the tasks of one state that were not met before.
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
			e.a.say("asynq: task %q is in no state that there is, and left out: asynq doctor --repair mends it", r.ID)
			continue
		}
		if err := do(newExportTask(r, 0)); err != nil {
			return err
		}
	}
	return nil
}

// spool is a file of tasks that can be read backwards.
type spool struct {
	f    *os.File
	w    *bufio.Writer
	ends []int64
}

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "asynq-export-*")
	if err != nil {
		return nil, err
	}
	return &spool{f: f, w: bufio.NewWriter(f), ends: []int64{0}}, nil
}

func (s *spool) add(t *exportTask) error {
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	s.ends = append(s.ends, s.ends[len(s.ends)-1]+int64(len(b)))
	_, err = s.w.Write(b)
	return err
}

func (s *spool) backwards(ctx context.Context, do func(*exportTask) error) error {
	if err := s.w.Flush(); err != nil {
		return err
	}
	for n := len(s.ends) - 1; n > 0; n-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := make([]byte, s.ends[n]-s.ends[n-1])
		if _, err := s.f.ReadAt(b, s.ends[n-1]); err != nil {
			return fmt.Errorf("reading %s: %w", s.f.Name(), err)
		}
		t := new(exportTask)
		if err := json.NewDecoder(bytes.NewReader(b)).Decode(t); err != nil {
			return err
		}
		if err := do(t); err != nil {
			return err
		}
	}
	return nil
}

func (s *spool) close() {
	_ = s.f.Close()
	_ = os.Remove(s.f.Name())
}
