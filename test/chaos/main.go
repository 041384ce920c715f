// Command chaos runs workers and producers on Redis servers, injects faults derived from a seed,
// and checks the recorded history: no task may be lost, or run twice without a reason. See
// docs/RELIABILITY.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/asynq-go/asynq/test/chaos/fault"
	"github.com/asynq-go/asynq/test/chaos/node"
	"github.com/asynq-go/asynq/test/chaos/site"
	"github.com/asynq-go/asynq/test/chaos/skew"
)

var errViolations = errors.New("violations found")

func main() {
	node.Main()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out, log io.Writer) error {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(log)
	var o options
	sites := flags.String("site", "standalone,sentinel,cluster", "sites to run on")
	libraries := flags.String("library", node.Ours, "libraries to test: "+node.Ours+", "+node.Theirs)
	flags.IntVar(&o.Tasks, "tasks", 200_000, "tasks in each run")
	flags.DurationVar(&o.Length, "length", 4*time.Minute, "how long tasks are enqueued and faults injected in each run")
	flags.DurationVar(&o.Every, "every", 4*time.Second, "interval between faults of processes; faults of Redis are half as frequent")
	flags.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of the faults; default: the time")
	flags.DurationVar(&o.Lease, "lease", 5*time.Second, "lease duration; always 30 s in the reference")
	fsync := flags.String("fsync", "", "appendfsync of Redis: always or everysec; default: always for standalone, otherwise everysec")
	flags.IntVar(&o.MinReplicas, "min-replicas", 0, "min-replicas-to-write of Redis")
	only := flags.String("only", "", "faults to inject, instead of all that the site supports")
	except := flags.String("except", "", "faults to exclude")
	flags.BoolVar(&o.Poison, "poison", true, "let some tasks panic, hang, call runtime.Goexit or end their process")
	skewed := flags.Bool("skew", true, "skew the clock of one worker, which needs the sources")
	dir := flags.String("dir", "", "directory of histories and logs; default: a new one, removed if there are no violations")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || o.Tasks < 1 || o.Length <= 0 || o.Every <= 0 || o.Lease < time.Second {
		return fmt.Errorf("unexpected argument %q, or a value is too small: see -help", flags.Arg(0))
	}
	var err error
	if o.Only, err = kindsOf(*only); err != nil {
		return err
	}
	if o.Except, err = kindsOf(*except); err != nil {
		return err
	}
	if o.Program, err = ownProgram(); err != nil {
		return err
	}
	kept := *dir
	if kept == "" {
		if kept, err = os.MkdirTemp("", "asynq-chaos-"); err != nil {
			return err
		}
	}
	if *skewed {
		if err := os.MkdirAll(kept, 0o700); err != nil {
			return err
		}
		if o.Skewed, err = skew.Build(ctx, kept, "github.com/asynq-go/asynq/test/chaos"); err != nil {
			return err
		}
	}
	fmt.Fprintf(log, "seed %d, histories in %s\n", o.Seed, kept)
	var bad []string
	for _, where := range strings.Split(*sites, ",") {
		for _, library := range strings.Split(*libraries, ",") {
			o := o
			o.Site, o.Library, o.Fsync = where, library, fsyncOf(*fsync, where)
			if library == node.Theirs {
				o.Lease = theirLease
			}
			o.Dir = filepath.Join(kept, where+"-"+library)
			if err := os.MkdirAll(o.Dir, 0o700); err != nil {
				return err
			}
			result, err := run(ctx, &o, log)
			if err != nil {
				return fmt.Errorf("%s on %s (seed %d, history in %s): %w", library, where, o.Seed, o.Dir, err)
			}
			fmt.Fprintln(out, result)
			if !result.report.OK() {
				bad = append(bad, library+" on "+where)
			}
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%w: %s (seed %d, histories in %s)", errViolations, strings.Join(bad, ", "), o.Seed, kept)
	}
	if *dir == "" {
		return os.RemoveAll(kept)
	}
	return nil
}

func fsyncOf(given, where string) site.Fsync {
	switch {
	case given != "":
		return site.Fsync(given)
	case where == node.Standalone:
		return site.Always
	default:
		return site.EverySecond
	}
}

// kindsOf parses a list of faults, such as "worker kill,reshard".
func kindsOf(list string) ([]fault.Kind, error) {
	if list == "" {
		return nil, nil
	}
	known := fault.Kinds("")
	var kinds []fault.Kind
	for _, name := range strings.Split(list, ",") {
		if !slices.Contains(known, fault.Kind(name)) {
			return nil, fmt.Errorf("unknown fault %q: use %q", name, known)
		}
		kinds = append(kinds, fault.Kind(name))
	}
	return kinds, nil
}
