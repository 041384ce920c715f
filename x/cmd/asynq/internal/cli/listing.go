package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/filter"
)

// addOutput gives a command -o and --no-headers.
func addOutput(cmd *cobra.Command) {
	cmd.Flags().StringP("output", "o", "table", "format: table, wide, json, ndjson, yaml, or template=TEXT (a Go template of the JSON names)")
	cmd.Flags().Bool("no-headers", false, "leave the headings of a table out")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(out.Kinds, cobra.ShellCompDirectiveNoFileComp))
}

// addListing gives a command the flags of a listing.
func addListing(cmd *cobra.Command) {
	addOutput(cmd)
	addWatch(cmd)
	addFilter(cmd)
}

// addFilter gives a command --filter, for rows.
func addFilter(cmd *cobra.Command) {
	cmd.Flags().String("filter", "", "show only what this admits, for example 'pending>0 queue:mail:*' (JSON names; see docs/FILTER.md)")
}

// addWatch gives a command --watch.
func addWatch(cmd *cobra.Command) {
	cmd.Flags().Duration("watch", 0, "show it again and again, at this distance, until interrupted")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2s"
}

// filter is the text of --filter.
func (a *app) filter(cmd *cobra.Command) string {
	text, _ := cmd.Flags().GetString("filter")
	return text
}

// badFilter shows where the filter is wrong.
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
	o.Color = a.OutIsTerminal && noColor == "" && dumb != "dumb"
	return o, nil
}

// list shows rows that --filter admits, again and again with --watch.
func list[T any](a *app, cmd *cobra.Command, columns []out.Column[T], load func(context.Context) iter.Seq2[T, error]) error {
	f, err := filter.ParseRows(a.filter(cmd))
	if err != nil {
		return badFilter(err)
	}
	return listAll(a, cmd, columns, func(ctx context.Context) iter.Seq2[T, error] { return out.Filtered(f, load(ctx)) })
}

// listAll is list for commands that do their own filtering.
func listAll[T any](a *app, cmd *cobra.Command, columns []out.Column[T], load func(context.Context) iter.Seq2[T, error]) error {
	o, err := a.output(cmd)
	if err != nil {
		return err
	}
	return a.watched(cmd, o, func(w io.Writer) error { return out.List(w, o, columns, load(cmd.Context())) })
}

// show shows one thing; table writes it for people.
func (a *app) show(cmd *cobra.Command, v any, table func(io.Writer, out.Options) error) error {
	o, err := a.output(cmd)
	if err != nil {
		return err
	}
	return out.One(a.Out, o, v, func(w io.Writer) error { return table(w, o) })
}

// watched draws once, or with --watch until the command is interrupted, which then is no error.
func (a *app) watched(cmd *cobra.Command, o out.Options, draw func(io.Writer) error) error {
	every := time.Duration(0)
	if cmd.Flags().Lookup("watch") != nil {
		every, _ = cmd.Flags().GetDuration("watch")
	}
	if !cmd.Flags().Changed("watch") {
		return draw(a.Out)
	}
	if every < minWatch {
		return usage("--watch: the distance must be at least %v", minWatch)
	}
	return a.redraw(cmd.Context(), every, o, draw)
}

// minWatch keeps a slip of the finger from becoming a load for Redis.
const minWatch = 100 * time.Millisecond

// redraw draws until ctx ends. On a terminal tables are drawn over each other, at once so that they do not flicker. Trouble that comes
// up on the way is told of below the picture, and may pass; only what fails at the very first is the end.
func (a *app) redraw(ctx context.Context, every time.Duration, o out.Options, draw func(io.Writer) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for first := true; ; first = false {
		picture, trouble, err := a.draw(draw)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && first && len(picture) == 0 {
			_, _ = a.Err.Write(trouble)
			return err
		}
		if err != nil && !errors.Is(err, errSaid) {
			trouble = fmt.Appendf(trouble, "asynq: %s\n", message(err))
		}
		if a.OutIsTerminal && o.IsTable() {
			picture = overlay(picture, a.height()-bytes.Count(trouble, []byte("\n")))
		}
		if _, err := a.Out.Write(picture); err != nil {
			return err
		}
		_, _ = a.Err.Write(trouble)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// draw catches what is drawn, and what is said meanwhile.
func (a *app) draw(draw func(io.Writer) error) (picture, trouble []byte, err error) {
	said := a.Err
	defer func() { a.Err = said }()
	var p, t bytes.Buffer
	a.Err = &t
	err = draw(&p)
	return p.Bytes(), t.Bytes(), err
}

// overlay has a picture drawn from the top left on, each line cleared to its end as it is overwritten, and all below cleared. It is
// cut to a height, if that is known, so that the terminal does not scroll.
func overlay(picture []byte, height int) []byte {
	lines := bytes.SplitAfter(picture, []byte("\n"))
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

// height of the terminal in lines, 0 if it is not known.
func (a *app) height() int {
	if a.Height == nil {
		return 0
	}
	return a.Height()
}

// rowsOf yields the rows of each of some things, in their order. One that fails is told of on standard error, does not hide the others,
// and makes the end an error. It calls get from several goroutines.
func rowsOf[T any](a *app, names []string, get func(string) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		next, stop := ahead(names, get)
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

// aheadOf is how many calls to Redis are made at a time, so that many queues do not take many round trips one after the other.
const aheadOf = 8

// ahead calls get for each name, a few at a time, and has next return the results in the order of the names. After stop, which waits for
// the calls that were begun, no more are made.
func ahead[T any](names []string, get func(string) (T, error)) (next func() (T, error), stop func()) {
	type result struct {
		value T
		err   error
	}
	results, end := make(chan chan result, aheadOf), make(chan struct{})
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

// listOf lists the rows of each of some things, as list and rowsOf do.
func listOf[T any](a *app, cmd *cobra.Command, columns []out.Column[T], names []string, get func(*asynq.Inspector, string) ([]T, error)) error {
	i, err := a.inspector(cmd)
	if err != nil {
		return err
	}
	return list(a, cmd, columns, func(context.Context) iter.Seq2[T, error] {
		return rowsOf(a, names, func(name string) ([]T, error) { return get(i, name) })
	})
}

// listEach lists a row of each item that one call of the Inspector returns.
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
