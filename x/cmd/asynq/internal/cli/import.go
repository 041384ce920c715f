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
		Short: "Make the tasks of an export again",
		Long: `Make the tasks of an export again, each in its state, with all that it had. Without a file standard input is read.

An import that was interrupted can be given again: it goes on where it was. Redis knows for 30 days which tasks of an export were made in
a queue, so that none is made a second time, even if the first one has run and is gone. --again makes them once more.

A task whose ID is taken is left out, and so is one whose uniqueness lock another task holds; the exit code is 1 then. With --replace the
former takes the other one's place. Tasks that were active when they were exported are imported as --active says.`,
		Example: "  asynq import mail.ndjson\n  zcat mail.ndjson.gz | asynq import --queue mail-copy --active skip",
		Args:    cobra.MaximumNArgs(1),
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
				return usage("--active: it must be pending, archived or skip")
			}
			name := "-"
			if len(args) == 1 {
				name = args[0]
			}
			yes, _ := cmd.Flags().GetBool("yes")
			if m.opts.Replace && name == "-" && !yes && !m.dry {
				return usage("--replace while tasks are read from standard input: nobody can be asked, so say --yes")
			}
			in, done, err := a.open(name)
			if err != nil {
				return err
			}
			defer done()
			if m.i, err = a.inspector(cmd); err != nil {
				return err
			}
			if m.opts.Replace && !m.dry {
				if do, err := a.confirm(cmd, "replace tasks that have the IDs of imported ones"); !do {
					return err
				}
			}
			err = m.read(cmd.Context(), in)
			m.p.end()
			return m.report(err)
		},
	}
	cmd.Flags().StringP("queue", "q", "", "queue to import into (default that of the export)")
	cmd.Flags().Bool("replace", false, "let imported tasks take the place of those with the same ID")
	cmd.Flags().Bool("again", false, "make tasks once more that an import of this file made before")
	cmd.Flags().String("active", "pending", "what becomes of tasks that were active: pending (they run again), archived, or skip")
	addBulk(cmd)
	_ = cmd.RegisterFlagCompletionFunc("queue", a.queueNames)
	_ = cmd.RegisterFlagCompletionFunc("active",
		cobra.FixedCompletions([]string{"pending", "archived", "skip"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// Records that are imported together: as many, or as many bytes.
const (
	importRecords = 250
	importBytesAt = 4 << 20
)

// maxComplaints is how many lines of a kind are complained of one by one.
const maxComplaints = 20

// complaint is a kind of reason why a line was not imported.
type complaint int

const (
	badLine complaint = iota
	idTaken
	lockTaken
	complaints // how many kinds there are
)

func complaintOf(err error) complaint {
	switch {
	case errors.Is(err, asynq.ErrTaskIDConflict):
		return idTaken
	case errors.Is(err, asynq.ErrDuplicateTask):
		return lockTaken
	}
	return badLine
}

func (c complaint) String() string {
	switch c {
	case idTaken:
		return "their IDs are taken by other tasks: see --replace"
	case lockTaken:
		return "other tasks hold their uniqueness locks"
	default:
		return "the lines are not as they must be"
	}
}

// importer reads an export and makes its tasks.
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

	tasks, made, before, skipped, refused int
	kinds                                 [complaints]int // of the refused
}

func (m *importer) read(ctx context.Context, in io.Reader) error {
	for line, err := range linesOf(ctx, in) {
		if err != nil {
			return errors.Join(m.flush(ctx), err)
		}
		if m.end != nil {
			return fmt.Errorf("line %d: there is more behind the end of the export", line.number)
		}
		var l exportLine
		if err := decodeStrictly(line.text, &l); err != nil {
			if m.head == nil {
				return fmt.Errorf("line %d: this is no export of asynq: %w", line.number, err)
			}
			m.tasks++
			m.refuse(line.number, err)
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
			return fmt.Errorf("line %d: a second export begins here: import one at a time", line.number)
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
		return errors.New(`this is no export of asynq: its first line must have "asynq_export"`)
	case head.Version > exportVersion:
		return fmt.Errorf("this export is of version %d, and this program knows up to %d: use a newer one", head.Version, exportVersion)
	}
	m.head = head
	m.opts.Name = head.ID
	if m.again {
		m.opts.Name += "-" + rand.Text()
	}
	if m.queue == "" {
		m.queue = head.Queue
	}
	if !head.Paused || m.dry {
		return nil
	}
	q, err := m.i.WithContext(ctx).WithMemorySamples(0).GetQueueInfo(m.queue)
	if errors.Is(err, asynq.ErrQueueNotFound) { // a new queue is as the old one was: its tasks must not run before somebody says so
		if err := m.i.PauseQueue(m.queue); err != nil {
			m.a.say("asynq: %s", message(err)) // it was paused by an import that was interrupted
		}
		m.a.say("queue %s is paused, as it was when it was exported", m.queue)
		return nil
	}
	if err == nil && !q.Paused {
		m.a.say("queue %s was paused when it was exported, and is not now", m.queue)
	}
	return err
}

func (m *importer) add(line textLine, t *exportTask) {
	m.tasks++
	r, err := t.record()
	if err != nil {
		m.refuse(line.number, err)
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

// refuse counts a line that was not imported, and complains of the first ones of its kind.
func (m *importer) refuse(line int, err error) {
	kind := complaintOf(err)
	m.refused++
	m.kinds[kind]++
	if m.kinds[kind] <= maxComplaints {
		m.p.end()
		m.a.say("asynq: line %d: %s", line, message(err))
	}
}

// complain counts those that refuse said nothing of.
func (m *importer) complain() {
	for kind, n := range m.kinds {
		if more := n - maxComplaints; more > 0 {
			m.a.say("asynq: … and %s more: %s", grouped(more), complaint(kind))
		}
	}
}

// grouped is a number with its digits in groups of three.
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
		m.made += len(m.records)
		return nil
	}
	errs, err := m.i.ImportTasks(ctx, m.queue, m.opts, m.records)
	for n, lineErr := range errs {
		switch {
		case lineErr == nil:
			m.made++
		case errors.Is(lineErr, asynq.ErrTaskImported):
			m.before++
		case err == nil:
			m.refuse(m.lines[n], lineErr)
		}
	}
	m.p.at(m.tasks, 0, "")
	if err != nil {
		return fmt.Errorf("%w: give the same command again, and it goes on where it was", err)
	}
	return nil
}

// report says what was done, and whether it was all.
func (m *importer) report(err error) error {
	m.complain()
	if m.head == nil {
		if err == nil {
			err = errors.New("this is no export of asynq: it is empty")
		}
		return exitError{err, ExitFailed}
	}
	did := "imported"
	if m.dry {
		did = "would import up to"
	}
	text := fmt.Sprintf("%s %s into queue %s", did, counted(m.made), m.queue)
	if m.before > 0 {
		text += fmt.Sprintf("; %s imported before, and not again (see --again)", counted(m.before))
	}
	if m.skipped > 0 {
		text += fmt.Sprintf("; %s active, and skipped", counted(m.skipped))
	}
	m.a.say("%s", text)
	switch {
	case err != nil:
		return err
	case m.end == nil:
		return errors.New("the file is cut off: its last line is missing, and so are tasks, perhaps")
	case int(m.end.Tasks) != m.tasks:
		return fmt.Errorf("the file should have %s, and has %d", counted(int(m.end.Tasks)), m.tasks)
	case m.refused > 0:
		return fmt.Errorf("%s not imported: see above", counted(m.refused))
	}
	return nil
}
