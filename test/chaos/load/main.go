// Command load runs the library under load: many pending and active tasks, queues, servers and
// bytes. Each scenario has its own redis-server, verifies that no task is lost or run twice, and
// reports its costs.
//
//	go run ./test/chaos/load                                all scenarios, some minutes and 3 GB of memory
//	go run ./test/chaos/load -scale 0.05 -only pending,grow
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runScenarios(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// runScenarios runs the selected scenarios and writes a table of all figures to out.
func runScenarios(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(progress)
	o := options{progress: progress}
	flags.Float64Var(&o.scale, "scale", 1, "all numbers, as a multiple of the full ones")
	flags.DurationVar(&o.soak, "soak", 5*time.Minute, "for how long to soak")
	only := flags.String("only", "", "play only these `scenarios`, separated by commas: "+names())
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || o.scale <= 0 || o.soak <= 0 {
		return errors.New("-scale and -soak must be positive, and there are no other arguments")
	}
	var wanted []string
	if *only != "" {
		wanted = strings.Split(*only, ",")
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == name }) {
			return fmt.Errorf("there is no scenario %q; there are %s", name, names())
		}
	}
	var figures []figure
	var failed []error
	for _, s := range scenarios {
		if ctx.Err() != nil || len(wanted) > 0 && !slices.Contains(wanted, s.name) {
			continue
		}
		found, err := perform(ctx, s, o)
		figures = append(figures, found...)
		if err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(errors.Join(failed...), writeTable(out, figures), context.Cause(ctx))
}

func names() string {
	var all []string
	for _, s := range scenarios {
		all = append(all, s.name)
	}
	return strings.Join(all, ", ")
}
