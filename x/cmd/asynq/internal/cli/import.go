package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
)

func newImport(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import [FILE]",
		Short: "Import tasks from an export",
		Long: `Import tasks from an export, each in its original state and with all its data. Without FILE, the
command reads standard input.

To continue an interrupted import, repeat the command. For 30 days Redis stores which tasks of an export
were imported into a queue, so no task is imported twice, even if it has already run and was deleted.
--again imports such tasks once more.

The command skips a task if its ID is taken, or if another task holds its uniqueness lock; the exit code
is then 1. With --replace, an imported task replaces the task with the same ID. --active sets the state
of tasks that were active when they were exported.`,
		Example: "  asynq import mail.ndjson\n  zcat mail.ndjson.gz | asynq import --queue mail-copy --active skip",
		Args:    argsFrom(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m := &importer{a: a, p: a.progress("imported")}
			m.queue, _ = cmd.Flags().GetString("queue")
			m.opts.Replace, _ = cmd.Flags().GetBool("replace")
			m.again, _ = cmd.Flags().GetBool("again")
			m.active, _ = cmd.Flags().GetString("active")
			m.dry = a.dryRun(cmd)
			switch m.active {
			case "pending", "archived", "skip":
			default:
				return usage("--active must be pending, archived or skip")
			}
			name := "-"
			if len(args) == 1 {
				name = args[0]
			}
			yes, _ := cmd.Flags().GetBool("yes")
			if m.opts.Replace && name == "-" && !yes && !m.dry {
				return usage("--replace with tasks from standard input needs --yes: there is no terminal to confirm on")
			}
			in, done, err := a.open(name)
			if err != nil {
				return err
			}
			defer done()
			if m.i, err = a.inspector(cmd); err != nil {
				return err
			}
			switch {
			case m.dry:
			case m.opts.Replace:
				if do, err := a.confirm(cmd, "replace tasks that have the same IDs as imported tasks"); !do {
					return err
				}
			default:
				if do, err := a.confirmContext(cmd, "import tasks"); !do {
					return err
				}
			}
			err = m.read(cmd.Context(), in)
			m.p.end()
			return m.report(err)
		},
	}
	cmd.Flags().StringP("queue", "q", "", "queue to import into (default the queue of the export)")
	cmd.Flags().Bool("replace", false, "replace existing tasks that have the same IDs")
	cmd.Flags().Bool("again", false, "import tasks again that an earlier import of this file created")
	cmd.Flags().String("active", "pending", "state of tasks that were active: pending (to run again) or archived, or skip to omit them")
	addBulk(cmd)
	_ = cmd.RegisterFlagCompletionFunc("queue", a.queueNames)
	_ = cmd.RegisterFlagCompletionFunc("active",
		cobra.FixedCompletions([]string{"pending", "archived", "skip"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// Limits of the records that are imported in one call.
const (
	importRecords = 250
	importBytesAt = 4 << 20
)

// maxRejections is the maximum number of rejected lines that are printed per reason.
const maxRejections = 20

// rejection is a reason why a line was not imported.
type rejection int

const (
	badLine rejection = iota
	idTaken
	lockTaken
	rejections // number of reasons
)

func rejectionOf(err error) rejection {
	switch {
	case errors.Is(err, asynq.ErrTaskIDConflict):
		return idTaken
	case errors.Is(err, asynq.ErrDuplicateTask):
		return lockTaken
	}
	return badLine
}

func (c rejection) String() string {
	switch c {
	case idTaken:
		return "task ID conflicts (see --replace)"
	case lockTaken:
		return "uniqueness lock conflicts"
	default:
		return "invalid lines"
	}
}

// importer reads an export and creates its tasks.
type importer struct {
	a      *app
	i      *asynq.Inspector
	p      *progress
	queue  string
	opts   asynq.ImportOptions
	active string
	again  bool
	dry    bool

	head    *exportHead
	end     *exportEnd
	lines   []int // of the records
	records []*asynq.TaskRecord
	bytes   int

	tasks, imported, duplicates, skipped, rejected int
	kinds                                          [rejections]int // of the rejected lines
}

func (m *importer) read(ctx context.Context, in io.Reader) error {
	for line, err := range linesOf(ctx, in) {
		if err != nil {
			return errors.Join(m.flush(ctx), err)
		}
		if m.end != nil {
			return fmt.Errorf("line %d: unexpected data after the end of the export", line.number)
		}
		var l exportLine
		if err := decodeStrictly(line.text, &l); err != nil {
			if m.head == nil {
				return fmt.Errorf("line %d: not an asynq export: %w", line.number, err)
			}
			m.tasks++
			m.reject(line.number, err)
			continue
		}
		switch {
		case m.head == nil:
			if err := m.begin(ctx, l.Export); err != nil {
				return err
			}
		case l.End != nil:
			m.end = l.End
		case l.Export != nil:
			return fmt.Errorf("line %d: the file contains a second export: import one export at a time", line.number)
		default:
			m.add(line, &l.exportTask)
		}
		if len(m.records) == importRecords || m.bytes >= importBytesAt {
			if err := m.flush(ctx); err != nil {
				return err
			}
		}
	}
	return m.flush(ctx)
}

func (m *importer) begin(ctx context.Context, head *exportHead) error {
	switch {
	case head == nil || head.ID == "":
		return errors.New(`not an asynq export: the first line must have the field "asynq_export"`)
	case head.Version > exportVersion:
		return fmt.Errorf("unsupported export version %d: this asynq supports versions up to %d, use a newer release", head.Version, exportVersion)
	}
	m.head = head
	m.opts.IdempotencyKey = head.ID
	if m.again {
		m.opts.IdempotencyKey += "-" + rand.Text()
	}
	if m.queue == "" {
		m.queue = head.Queue
	}
	if !head.Paused || m.dry {
		return nil
	}
	q, err := m.i.WithContext(ctx).WithMemorySamples(0).GetQueueInfo(m.queue)
	if errors.Is(err, asynq.ErrQueueNotFound) { // a new queue starts paused if the exported one was: its tasks must not run until it is resumed
		if err := m.i.PauseQueue(m.queue); err != nil {
			m.a.printErrf("asynq: %s", message(err)) // an interrupted import may have paused it
		}
		m.a.printErrf("queue %q is paused because it was paused when exported", m.queue)
		return nil
	}
	if err == nil && !q.Paused {
		m.a.printErrf("queue %q was paused when exported, but is not paused here", m.queue)
	}
	return err
}

func (m *importer) add(line textLine, t *exportTask) {
	m.tasks++
	r, err := t.record()
	if err != nil {
		m.reject(line.number, err)
		return
	}
	if r.State == asynq.TaskStateActive {
		switch m.active {
		case "skip":
			m.skipped++
			return
		case "archived":
			r.State, r.At = asynq.TaskStateArchived, time.Now()
		default:
			r.State = asynq.TaskStatePending
		}
	}
	m.lines = append(m.lines, line.number)
	m.records = append(m.records, r)
	m.bytes += len(line.text)
}

// reject counts a line that was not imported, and prints the first ones per reason.
func (m *importer) reject(line int, err error) {
	kind := rejectionOf(err)
	m.rejected++
	m.kinds[kind]++
	if m.kinds[kind] <= maxRejections {
		m.p.end()
		m.a.printErrf("asynq: line %d: %s", line, message(err))
	}
}

// printOmitted prints how many rejected lines reject did not print.
func (m *importer) printOmitted() {
	for kind, n := range m.kinds {
		if more := n - maxRejections; more > 0 {
			m.a.printErrf("asynq: … and %s more: %s", grouped(more), rejection(kind))
		}
	}
}

// grouped formats a number with its digits in groups of three.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func (m *importer) flush(ctx context.Context) error {
	defer func() { m.lines, m.records, m.bytes = m.lines[:0], m.records[:0:0], 0 }()
	if len(m.records) == 0 || m.dry {
		m.imported += len(m.records)
		return nil
	}
	errs, err := m.i.ImportTasks(ctx, m.queue, m.opts, m.records)
	for n, lineErr := range errs {
		switch {
		case lineErr == nil:
			m.imported++
		case errors.Is(lineErr, asynq.ErrTaskImported):
			m.duplicates++
		case err == nil:
			m.reject(m.lines[n], lineErr)
		}
	}
	m.p.at(m.tasks, 0, "")
	if err != nil {
		return fmt.Errorf("%w: repeat the command to continue", err)
	}
	return nil
}

// report prints the result, and returns an error if the import is incomplete.
func (m *importer) report(err error) error {
	m.printOmitted()
	if m.head == nil {
		if err == nil {
			err = errors.New("not an asynq export: the input is empty")
		}
		return exitError{err, ExitFailed}
	}
	did := "imported"
	if m.dry {
		did = "would import up to"
	}
	text := fmt.Sprintf("%s %s into queue %q", did, counted(m.imported), m.queue)
	if m.duplicates > 0 {
		text += fmt.Sprintf("; %s skipped because already imported (see --again)", counted(m.duplicates))
	}
	if m.skipped > 0 {
		text += fmt.Sprintf("; %s skipped because active", counted(m.skipped))
	}
	m.a.printErrf("%s", text)
	switch {
	case err != nil:
		return err
	case m.end == nil:
		return errors.New("the file is truncated: its last line is missing, and tasks may be missing")
	case int(m.end.Tasks) != m.tasks:
		return fmt.Errorf("the file should contain %s, but contains %d", counted(int(m.end.Tasks)), m.tasks)
	case m.rejected > 0:
		return fmt.Errorf("%s not imported: see the errors above", counted(m.rejected))
	}
	return nil
}
