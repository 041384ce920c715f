package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// batchLine is a line of a batch: a task.
type batchLine struct {
	Type          string            `json:"type"`
	Payload       json.RawMessage   `json:"payload"`
	PayloadBase64 []byte            `json:"payload_base64"`
	Headers       map[string]string `json:"headers"`
	Queue         *string           `json:"queue"`
	ID            *string           `json:"id"`
	MaxRetry      *int              `json:"max_retry"`
	Timeout       *length           `json:"timeout"`
	Deadline      *when             `json:"deadline"`
	Unique        *length           `json:"unique"`
	ProcessAt     *when             `json:"process_at"`
	ProcessIn     *length           `json:"process_in"`
	Retention     *length           `json:"retention"`
	Group         *string           `json:"group"`
	PartitionKey  *string           `json:"partition_key"`
	batchModes
}

// length is a duration: "1h30m", or a number of seconds.
type length time.Duration

// UnmarshalJSON accepts both forms.
func (l *length) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as \"1h30m\", or a number of seconds", text)
		}
		*l = length(d)
		return nil
	}
	seconds, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.Abs(seconds) > math.MaxInt64/float64(2*time.Second) {
		return fmt.Errorf("%s is not a duration such as \"1h30m\", or a number of seconds", b)
	}
	*l = length(seconds * float64(time.Second))
	return nil
}

// when is a time in a format of parseTime, or a number of Unix seconds.
type when time.Time

// UnmarshalJSON accepts both forms.
func (w *when) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		text = string(b)
	}
	t, err := parseTime(text)
	*w = when(t)
	return err
}

// task returns the task of a line.
func (l *batchLine) task(typename string, flags []asynq.Option) (*asynq.Task, error) {
	if l.Type != "" {
		typename = l.Type
	}
	if typename == "" {
		return nil, errors.New(`missing "type": set it, or use --type-name`)
	}
	payload := []byte(l.Payload)
	var text string
	switch {
	case l.Payload != nil && l.PayloadBase64 != nil:
		return nil, errors.New(`"payload" and "payload_base64" are mutually exclusive`)
	case l.PayloadBase64 != nil:
		payload = l.PayloadBase64
	case string(payload) == "null":
		payload = nil
	case json.Unmarshal(payload, &text) == nil:
		payload = []byte(text)
	}
	if l.ProcessAt != nil && l.ProcessIn != nil {
		return nil, errors.New(`"process_at" and "process_in" are mutually exclusive`)
	}
	if l.MaxRetry != nil && *l.MaxRetry < 0 {
		return nil, errors.New(`"max_retry" must not be negative`)
	}
	opts := append([]asynq.Option(nil), flags...)
	if l.Queue != nil {
		opts = append(opts, asynq.Queue(*l.Queue))
	}
	if l.ID != nil {
		opts = append(opts, asynq.TaskID(*l.ID))
	}
	if l.MaxRetry != nil {
		opts = append(opts, asynq.MaxRetry(*l.MaxRetry))
	}
	if l.Group != nil {
		opts = append(opts, asynq.Group(*l.Group))
	}
	if l.PartitionKey != nil {
		opts = append(opts, asynq.PartitionKey(*l.PartitionKey))
	}
	for _, o := range []struct {
		name   string
		d      *length
		least  time.Duration
		option func(time.Duration) asynq.Option
	}{
		{"timeout", l.Timeout, 0, asynq.Timeout}, {"unique", l.Unique, 1, asynq.Unique}, {"retention", l.Retention, 0, asynq.Retention},
		{"process_in", l.ProcessIn, math.MinInt64, asynq.ProcessIn},
	} {
		switch {
		case o.d == nil:
		case time.Duration(*o.d) >= o.least:
			opts = append(opts, o.option(time.Duration(*o.d)))
		case o.least > 0:
			return nil, fmt.Errorf("%q must be positive", o.name)
		default:
			return nil, fmt.Errorf("%q must not be negative", o.name)
		}
	}
	if l.Deadline != nil {
		opts = append(opts, asynq.Deadline(time.Time(*l.Deadline)))
	}
	if l.ProcessAt != nil {
		opts = append(opts, asynq.ProcessAt(time.Time(*l.ProcessAt)))
	}
	modes, err := l.modes(l.Unique)
	if err != nil {
		return nil, err
	}
	opts = append(opts, modes...)
	for name, value := range l.Headers {
		opts = append(opts, asynq.Header(name, value))
	}
	return asynq.NewTask(typename, payload, opts...), nil
}

// batchRow is the result of a line.
type batchRow struct {
	Line  int    `json:"line"`
	ID    string `json:"id"`
	Queue string `json:"queue"`
	State string `json:"state"`
	Error string `json:"error"`

	Repeated bool `json:"repeated"` // an earlier call has created the task
}

var batchColumns = []out.Column[*batchRow]{
	{Head: "LINE", Right: true, Cell: func(r *batchRow) string { return strconv.Itoa(r.Line) }},
	{Head: "ID", Cell: func(r *batchRow) string { return r.ID }},
	{Head: "QUEUE", Cell: func(r *batchRow) string { return r.Queue }},
	{Head: "STATE", Cell: func(r *batchRow) string { return r.State }},
	{Head: "ERROR", Cell: func(r *batchRow) string { return r.Error }, Style: func(*batchRow) out.Style { return out.Bad }},
}

// Limits of the lines that are enqueued in one call.
const (
	batchLines = 500
	batchBytes = 4 << 20
)

// enqueueBatch enqueues the tasks of a file, and prints a result per line.
func (a *app) enqueueBatch(cmd *cobra.Command, typename string, opts []asynq.Option) error {
	name, _ := cmd.Flags().GetString("batch")
	in, done, err := a.open(name)
	if err != nil {
		return err
	}
	defer done()
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	return listAll(a, cmd, batchColumns, func(ctx context.Context) iter.Seq2[*batchRow, error] {
		return func(yield func(*batchRow, error) bool) {
			b := &batch{client: c, dry: a.dryRun(cmd), yield: yield, p: a.progress("enqueued")}
			if b.dry {
				b.p.verb = "checked"
			}
			defer b.p.end()
			err := b.read(ctx, in, typename, opts)
			switch {
			case err != nil:
			case b.dry && b.failed > 0:
				err = fmt.Errorf("%d of %d lines are invalid: see their results", b.failed, b.lines)
			case b.dry:
				a.printErrf("would enqueue %s", counted(b.lines))
			case b.failed > 0:
				err = fmt.Errorf("%d of %d lines were not enqueued: see their results", b.failed, b.lines)
			}
			if err != nil && !b.stopped {
				yield(nil, err)
			}
		}
	})
}

// open opens a file. The name - means standard input.
func (a *app) open(name string) (in io.Reader, done func(), err error) {
	if name == "-" || name == "" {
		return a.In, func() {}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil
}

// batch collects tasks and enqueues them in one call.
type batch struct {
	client *asynq.Client
	dry    bool // only validate
	yield  func(*batchRow, error) bool
	p      *progress

	rows  []*batchRow   // of the lines since the previous flush
	tasks []*asynq.Task // of the valid lines among them
	bytes int

	lines, failed int
	stopped       bool
}

func (b *batch) read(ctx context.Context, in io.Reader, typename string, opts []asynq.Option) error {
	for line, err := range linesOf(ctx, in) {
		if err != nil {
			return errors.Join(b.flush(ctx), err)
		}
		b.lines++
		row := &batchRow{Line: line.number}
		b.rows = append(b.rows, row)
		var l batchLine
		err := decodeStrictly(line.text, &l)
		var task *asynq.Task
		if err == nil {
			task, err = l.task(typename, opts)
		}
		if err != nil {
			row.Error = err.Error()
		} else {
			b.tasks = append(b.tasks, task)
			b.bytes += len(line.text)
		}
		if len(b.rows) == batchLines || b.bytes >= batchBytes {
			if err := b.flush(ctx); err != nil || b.stopped {
				return err
			}
		}
	}
	return b.flush(ctx)
}

func (b *batch) flush(ctx context.Context) error {
	results := b.send(ctx)
	next := 0
	for _, row := range b.rows {
		if row.Error == "" {
			switch r := results[next]; {
			case b.dry && errors.Is(r.Err, context.Canceled):
				row.State = "checked"
			case r.Err != nil:
				row.Error = message(r.Err)
			default:
				task := newTaskRow(r.TaskInfo)
				row.ID, row.Queue, row.State, row.Repeated = task.ID, task.Queue, task.State, r.TaskInfo.IsRepeated
			}
			next++
		}
		if row.Error != "" {
			b.failed++
		}
		if b.stopped = b.stopped || !b.yield(row, nil); b.stopped {
			break
		}
	}
	b.rows, b.tasks, b.bytes = b.rows[:0:0], b.tasks[:0:0], 0
	b.p.at(b.lines, 0, "")
	return ctx.Err()
}

// send enqueues the tasks. In a dry run the context is already canceled, so nothing is sent: valid
// tasks fail with context.Canceled, and invalid tasks with their validation error.
func (b *batch) send(ctx context.Context) []asynq.BatchEnqueueResult {
	if b.dry {
		ended, end := context.WithCancel(ctx)
		end()
		ctx = ended
	}
	return b.client.BatchEnqueueContext(ctx, b.tasks)
}

// decodeStrictly decodes exactly one JSON object, and rejects unknown fields.
func decodeStrictly(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		at := d.InputOffset()
		var syntax *json.SyntaxError
		var kind *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			at = syntax.Offset
		case errors.As(err, &kind):
			return fmt.Errorf("at byte %d: %q has the wrong type %s", kind.Offset, kind.Field, kind.Value)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return errors.New("the line ends in the middle of a JSON object")
		}
		return fmt.Errorf("at byte %d: %s", at, strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON object on a line")
	}
	return nil
}
