package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/filter"
)

// addOutput adds -o and --no-headers to a command.
func addOutput(cmd *cobra.Command) {
	cmd.Flags().StringP("output", "o", "table", "format: table, wide, json, ndjson, yaml, csv, or template=TEXT (a Go template with JSON field names)")
	cmd.Flags().Bool("no-headers", false, "omit the headings of tables")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(out.Kinds, cobra.ShellCompDirectiveNoFileComp))
}

// addListing adds the flags of a listing to a command.
func addListing(cmd *cobra.Command) {
	addOutput(cmd)
	addWatch(cmd)
	addFilter(cmd)
	cmd.Flags().String("sort", "", "sort by these JSON field names, for example 'pending' or '-retry,queue' (a hyphen means descending)")
	_ = cmd.RegisterFlagCompletionFunc("sort", sortFields)
}

// addFilter adds --filter for rows to a command.
func addFilter(cmd *cobra.Command) {
	cmd.Flags().String("filter", "", "show only rows that match, for example 'pending>0 queue:mail:*' (JSON field names; see docs/FILTER.md)")
	_ = cmd.RegisterFlagCompletionFunc("filter", rowFilters)
}

// addWatch adds --watch to a command.
func addWatch(cmd *cobra.Command) {
	cmd.Flags().Duration("watch", 0, "refresh at this interval until interrupted")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2s"
}

// filter returns the text of --filter.
func (a *app) filter(cmd *cobra.Command) string {
	text, _ := cmd.Flags().GetString("filter")
	return text
}

// badFilter points at the error in a filter.
func badFilter(err error) error {
	var wrong *filter.SyntaxError
	if errors.As(err, &wrong) {
		return usage("--%w\n  %s", err, indent(wrong.Pointer(), "  "))
	}
	return err
}

// output reads the flags that addOutput added.
func (a *app) output(cmd *cobra.Command) (out.Options, error) {
	var o out.Options
	format, err := cmd.Flags().GetString("output")
	if err != nil {
		return o, err
	}
	if err := o.Parse(format); err != nil {
		return o, usage("--output: %w", err)
	}
	o.NoHeaders, _ = cmd.Flags().GetBool("no-headers")
	noColor, _ := a.Env("NO_COLOR")
	dumb, _ := a.Env("TERM")
	o.Terminal = a.OutIsTerminal
	o.Color = a.OutIsTerminal && noColor == "" && dumb != "dumb"
	if a.OutIsTerminal && a.Width != nil {
		o.Width = a.Width()
	}
	o.Dropped = func(heads []string) {
		a.printErrf("the terminal is too narrow for %s: use -o json, or a pipe, to see all columns", strings.Join(heads, ", "))
	}
	return o, nil
}

// list shows the rows that match --filter in the order of --sort, repeatedly with --watch. On a
// terminal, the number of rows follows. An empty table is explained.
func list[T any](a *app, cmd *cobra.Command, columns []out.Column[T], load func(context.Context) iter.Seq2[T, error]) error {
	f, err := filter.ParseRows(a.filter(cmd))
	if err != nil {
		return badFilter(err)
	}
	by, _ := cmd.Flags().GetString("sort")
	all := 0
	matching := func(ctx context.Context) iter.Seq2[T, error] {
		all = 0
		return out.Sorted(by, out.Filtered(f, counting(&all, load(ctx))))
	}
	return listThen(a, cmd, columns, matching, func(n int) { a.printCount(cmd, n, all, !f.Empty()) })
}

// counting counts the rows that it yields.
func counting[T any](n *int, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for row, err := range rows {
			if err == nil {
				*n++
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// nouns are the rows of listings whose number is shown, by command.
var nouns = map[string]string{
	"queue ls": "queue", "group ls": "group", "partition ls": "partition", "server ls": "server", "cron ls": "periodic task", "limit ls": "limit", "lock ls": "lock",
}

// printCount prints the number of rows in a table. With a filter, there are all without it.
func (a *app) printCount(cmd *cobra.Command, n, all int, filtered bool) {
	noun := nouns[strings.TrimPrefix(cmd.CommandPath(), "asynq ")]
	switch {
	case noun == "":
	case all == 0:
		a.printErrf("no %ss%s", noun, a.where())
	case n == 0:
		a.printErrf("no match: --filter selects none of %s%s", plural(all, noun), a.where())
	case !a.OutIsTerminal:
	case filtered:
		a.printErrf("%s of %s", out.Number(n), plural(all, noun))
	default:
		a.printErrf("%s", plural(n, noun))
	}
}

// listAll is list for commands with their own filtering.
func listAll[T any](a *app, cmd *cobra.Command, columns []out.Column[T], load func(context.Context) iter.Seq2[T, error]) error {
	return listThen(a, cmd, columns, load, func(int) {})
}

// listThen is listAll. After each table without an error it calls then with the number of rows.
func listThen[T any](
	a *app, cmd *cobra.Command, columns []out.Column[T], load func(context.Context) iter.Seq2[T, error], then func(rows int),
) error {
	o, err := a.output(cmd)
	if err != nil {
		return err
	}
	return a.watched(cmd, o, func(w io.Writer) error {
		n := 0
		err := out.List(w, o, columns, counting(&n, load(cmd.Context())))
		if err == nil && o.IsTable() {
			then(n)
		}
		return err
	})
}

// listBlocks lists rows whose text is a block of lines for each row, with an empty line between.
func listBlocks[T any](a *app, cmd *cobra.Command, load func() iter.Seq2[T, error], block func(io.Writer, out.Options, T) error) error {
	o, err := a.output(cmd)
	if err != nil {
		return err
	}
	return a.watched(cmd, o, func(w io.Writer) error {
		if !o.IsTable() {
			return out.List(w, o, nil, load())
		}
		first := true
		for row, err := range load() {
			if err != nil {
				return err
			}
			if !first {
				fmt.Fprintln(w)
			}
			first = false
			if err := block(w, o, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// show shows one item. The function table writes it as text.
func (a *app) show(cmd *cobra.Command, v any, table func(io.Writer, out.Options) error) error {
	o, err := a.output(cmd)
	if err != nil {
		return err
	}
	return out.One(a.Out, o, v, func(w io.Writer) error { return table(w, o) })
}

// watched draws once, or with --watch until the command is interrupted, which is not an error then.
func (a *app) watched(cmd *cobra.Command, o out.Options, draw func(io.Writer) error) error {
	every := time.Duration(0)
	if cmd.Flags().Lookup("watch") != nil {
		every, _ = cmd.Flags().GetDuration("watch")
	}
	if !cmd.Flags().Changed("watch") {
		return draw(a.Out)
	}
	if every < minWatch {
		return usage("--watch must be at least %v", minWatch)
	}
	return a.redraw(cmd.Context(), every, o, draw)
}

// minWatch is the shortest refresh interval. It protects Redis from mistyped intervals.
const minWatch = 100 * time.Millisecond

// redraw draws repeatedly until ctx ends. On a terminal each table overwrites the previous one in a
// single write, which avoids flicker. It shows errors below the table and continues; only an error
// of the first draw ends it.
func (a *app) redraw(ctx context.Context, every time.Duration, o out.Options, draw func(io.Writer) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for first := true; ; first = false {
		frame, messages, err := a.draw(draw)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && first && len(frame) == 0 {
			_, _ = a.Err.Write(messages)
			return err
		}
		if err != nil && !errors.Is(err, errPrinted) {
			messages = fmt.Appendf(messages, "asynq: %s\n", out.Escape(message(err)))
		}
		if a.OutIsTerminal && o.IsTable() {
			frame = overlay(frame, a.height()-bytes.Count(messages, []byte("\n")))
		}
		if _, err := a.Out.Write(frame); err != nil {
			return err
		}
		_, _ = a.Err.Write(messages)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// draw captures the output of a draw function, and the messages that it prints.
func (a *app) draw(draw func(io.Writer) error) (frame, messages []byte, err error) {
	stderr := a.Err
	defer func() { a.Err = stderr }()
	var p, t bytes.Buffer
	a.Err = &t
	err = draw(&p)
	return p.Bytes(), t.Bytes(), err
}

// overlay adds the control sequences that draw a frame over the previous one: from the top left,
// clearing the rest of each line and everything below. It truncates the frame to the height of the
// terminal, if known, to prevent scrolling.
func overlay(frame []byte, height int) []byte {
	lines := bytes.SplitAfter(frame, []byte("\n"))
	if height > 1 && len(lines) > height {
		lines = lines[:height-1]
	}
	b := []byte("\x1b[H")
	for _, line := range lines {
		text, ended := bytes.CutSuffix(line, []byte("\n"))
		b = append(b, text...)
		if ended {
			b = append(b, "\x1b[K\n"...)
		}
	}
	return append(b, "\x1b[J"...)
}

// height returns the height of the terminal in lines; 0 if unknown.
func (a *app) height() int {
	if a.Height == nil {
		return 0
	}
	return a.Height()
}

// rowsOf yields the rows of each name, in order. It prints errors on standard error, continues, and
// then ends with an error. It calls get from several goroutines.
func rowsOf[T any](a *app, names []string, get func(string) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		next, stop := prefetch(names, get)
		defer stop()
		stopped := false
		err := a.eachArg(names, func(string) error {
			if stopped {
				return nil
			}
			rows, err := next()
			for _, row := range rows {
				if stopped = !yield(row, nil); stopped {
					return nil
				}
			}
			return err
		})
		if err != nil && !stopped {
			var none T
			yield(none, err)
		}
	}
}

// maxConcurrent is the maximum number of concurrent calls to Redis, which hides the latency of one
// call per queue.
const maxConcurrent = 8

// prefetch calls get for each name, up to maxConcurrent at a time. The function next returns the
// results in the order of the names. The function stop prevents further calls and waits for those
// in flight.
func prefetch[T any](names []string, get func(string) (T, error)) (next func() (T, error), stop func()) {
	type result struct {
		value T
		err   error
	}
	results, end := make(chan chan result, maxConcurrent), make(chan struct{})
	var calls sync.WaitGroup
	calls.Go(func() {
		for _, name := range names {
			r := make(chan result, 1)
			select {
			case results <- r:
			case <-end:
				return
			}
			calls.Go(func() {
				v, err := get(name)
				r <- result{v, err}
			})
		}
	})
	next = func() (T, error) {
		r := <-<-results
		return r.value, r.err
	}
	return next, sync.OnceFunc(func() { close(end); calls.Wait() })
}

// listOf lists the rows of each name: it combines list and rowsOf.
func listOf[T any](a *app, cmd *cobra.Command, columns []out.Column[T], names []string, get func(*asynq.Inspector, string) ([]T, error)) error {
	i, err := a.inspector(cmd)
	if err != nil {
		return err
	}
	return list(a, cmd, columns, func(context.Context) iter.Seq2[T, error] {
		return rowsOf(a, names, func(name string) ([]T, error) { return get(i, name) })
	})
}

// listEach lists one row per item that a call of the Inspector returns.
func listEach[I, T any](a *app, cmd *cobra.Command, columns []out.Column[T], get func(*asynq.Inspector) ([]I, error), row func(I) T) error {
	i, err := a.inspector(cmd)
	if err != nil {
		return err
	}
	return list(a, cmd, columns, func(context.Context) iter.Seq2[T, error] {
		return func(yield func(T, error) bool) {
			items, err := get(i)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(row(item), nil) {
					return
				}
			}
		}
	})
}

// all yields the items of a slice.
func all[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

func one[T any](item T) iter.Seq2[T, error] { return all([]T{item}) }
