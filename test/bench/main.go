// Command bench compares this library with the one that it is compatible with, with minimal
// scripts, and with BullMQ if node is installed, in one run on one Redis that it starts. See
// docs/BENCHMARKS.md.
//
//	go run ./test/bench            all workloads, about 15 minutes
//	go run ./test/bench -quick     small workloads, about a minute, to test the harness
//	go run ./test/bench -run '^process/concurrency'
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
	profile             string // directory for CPU profiles; none if empty
	json, markdown, svg string // files to write; none if empty
	ratios              string // likewise
	command             string // command line with these options
}

// quickScale is the scale of a quick run.
const quickScale = 0.02

func parse(args []string) (*options, error) {
	o := new(options)
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	pattern := flags.String("run", "", "measure only workloads whose name matches this `regexp`")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each side runs each workload; medians are reported")
	flags.Float64Var(&o.scale, "scale", 1, "multiplier of the number of tasks and of the duration of idle workloads")
	flags.BoolVar(&o.quick, "quick", false, "run each workload once with few tasks; the figures are not meaningful")
	flags.BoolVar(&o.guard, "guard", false, "only check for large performance regressions, in a few seconds")
	flags.BoolVar(&o.bullmq, "bullmq", true, "also measure BullMQ if node and npm are installed")
	flags.DurationVar(&o.soak, "soak", 0, "also run each library for this `duration` and detect leaks")
	flags.StringVar(&o.profile, "profile", "", "write a CPU profile of each side and round to this `directory`")
	flags.StringVar(&o.json, "json", "", "write all figures to this `file` (default of a complete run: docs/benchmarks.json)")
	flags.StringVar(&o.markdown, "markdown", "", "insert the tables into this `file`, between its markers (default of a complete run: docs/BENCHMARKS.md)")
	flags.StringVar(&o.svg, "svg", "", "draw the growth chart to this `file` (default of a complete run: docs/growth.svg)")
	flags.StringVar(&o.ratios, "ratios", "", "draw the chart of ratios to this `file` (default of a complete run: docs/ratios.svg)")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
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
		// Only a complete run updates the published figures by default.
		o.json = orElse(o.json, "docs/benchmarks.json")
		o.markdown = orElse(o.markdown, "docs/BENCHMARKS.md")
		o.svg = orElse(o.svg, "docs/growth.svg")
		o.ratios = orElse(o.ratios, "docs/ratios.svg")
	}
	o.command = commandLine(args)
	return o, nil
}

// plain matches an argument that needs no quotes in a shell.
var plain = regexp.MustCompile(`^[\w./=-]+$`)

// commandLine returns the command line of the run.
func commandLine(args []string) string {
	if len(args) == 0 {
		return "make bench"
	}
	line := "go run ./test/bench"
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
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return err
		}
	}
	server, err := startRedis(false)
	if err != nil {
		return err
	}
	defer server.stop()
	b := &bench{options: o, server: server, log: os.Stderr}
	defer b.close()
	if o.guard {
		return b.guardSpeed(ctx, os.Stdout)
	}
	if o.bullmq {
		b.bullmq, err = prepareBullMQ(ctx)
		if err != nil {
			fmt.Fprintln(os.Stderr, "BullMQ is skipped:", err)
		}
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
