// Command bench measures this library beside the one that it is compatible with, beside bare scripts, and beside BullMQ where
// node is installed, all in one run on one Redis that it starts itself. See docs/BENCHMARKS.md.
//
//	go run ./x/bench            everything, about a quarter of an hour
//	go run ./x/bench -quick     everything small, about a minute: for the harness, not for its figures
//	go run ./x/bench -run '^process/concurrency'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	if order, ok := os.LookupEnv(laneEnv); ok {
		if err := runLane(order, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	cancel()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	match               *regexp.Regexp
	rounds              int
	scale               float64
	quick, guard        bool
	bullmq              bool
	soak                time.Duration
	json, markdown, svg string // files to write, "" = none
	command             string // that gives these options
}

// quickScale is the scale of a quick run.
const quickScale = 0.02

func parse(args []string) (*options, error) {
	o := new(options)
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	pattern := flags.String("run", "", "measure only workloads whose name matches this `regexp`")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each side runs each workload; medians are reported")
	flags.Float64Var(&o.scale, "scale", 1, "the number of tasks, and how long idle servers are watched, as a multiple of the usual")
	flags.BoolVar(&o.quick, "quick", false, "one small round of everything; its figures mean little")
	flags.BoolVar(&o.guard, "guard", false, "only make sure that no large loss of speed has happened, in a few seconds")
	flags.BoolVar(&o.bullmq, "bullmq", true, "measure BullMQ too, where node and npm are installed")
	flags.DurationVar(&o.soak, "soak", 0, "also run each library for this `time`, and look for leaks")
	flags.StringVar(&o.json, "json", "", "write all figures to this `file` (a whole run: docs/benchmarks.json)")
	flags.StringVar(&o.markdown, "markdown", "", "put the tables into this `file`, between its markers (a whole run: docs/BENCHMARKS.md)")
	flags.StringVar(&o.svg, "svg", "", "draw the growth into this `file` (a whole run: docs/growth.svg)")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("what is %q?", flags.Arg(0))
	}
	if o.rounds < 1 || o.scale <= 0 {
		return nil, errors.New("-rounds and -scale must be positive")
	}
	var err error
	if o.match, err = regexp.Compile(*pattern); err != nil {
		return nil, err
	}
	if o.quick {
		o.scale *= quickScale
		o.rounds = 1
	}
	if !o.quick && *pattern == "" {
		// Only a whole run replaces the published figures unasked.
		o.json = orElse(o.json, "docs/benchmarks.json")
		o.markdown = orElse(o.markdown, "docs/BENCHMARKS.md")
		o.svg = orElse(o.svg, "docs/growth.svg")
	}
	o.command = commandLine(args)
	return o, nil
}

// plain is an argument that a shell leaves as it is.
var plain = regexp.MustCompile(`^[\w./=-]+$`)

// commandLine is what to type for this run.
func commandLine(args []string) string {
	if len(args) == 0 {
		return "make bench"
	}
	line := "go run ./x/bench"
	for _, arg := range args {
		if !plain.MatchString(arg) {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		line += " " + arg
	}
	return line
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	server, err := startRedis()
	if err != nil {
		return err
	}
	defer server.stop()
	b := &bench{options: o, server: server, log: os.Stderr}
	if o.guard {
		return b.guardSpeed(ctx, os.Stdout)
	}
	if o.bullmq {
		b.bullmq, err = prepareBullMQ(ctx)
		if err != nil {
			fmt.Fprintln(os.Stderr, "BullMQ is left out:", err)
		}
		defer b.bullmq.remove()
	}
	r, err := b.all(ctx)
	if err != nil {
		return err
	}
	if err := r.print(os.Stdout); err != nil {
		return err
	}
	if err := r.write(o); err != nil {
		return err
	}
	return r.failed()
}
