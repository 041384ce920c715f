// Command release makes releases of the modules, and checks that users can install them.
//
//	go run ./test/release check                    install from the working tree as users do
//	go run ./test/release stage DIR                prepare that in DIR, for other checks
//	go run ./test/release tidy [-diff]             go mod tidy in all modules
//	go run ./test/release tag [-dry-run] v0.9.0    commit and tag a release
//	go run ./test/release deploy                   validate the files of deploy/ and build the image
//	go run ./test/release sbom VERSION PROGRAM FILE
//	                                               write a software bill of materials
//	go run ./test/release tool NAME                build a tool of the checks, and print its path
//
// The modules require each other without replace directives. In the working tree, go.work connects
// them. Outside of it, a module needs released versions of the others, so the checks copy the
// working tree, write one version into all modules, and serve them to the go command as files in
// the layout of a module proxy.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// checkVersion is the version of the modules in checks.
const checkVersion = "v0.9.0-check"

const usage = `usage: release check
       release stage DIR
       release tidy [-diff]
       release tag [-dry-run] VERSION
       release deploy
       release sbom VERSION PROGRAM FILE
       release tool NAME`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command\n%s", usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	diff := flags.Bool("diff", false, "tidy: print the differences instead of writing them")
	dryRun := flags.Bool("dry-run", false, "tag: show the release without making it")
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("%w\n%s", err, usage)
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	switch command, n := args[0], flags.NArg(); {
	case command == "check" && n == 0:
		return check(ctx, root, out)
	case command == "stage" && n == 1:
		return stageIn(ctx, root, flags.Arg(0))
	case command == "tidy" && n == 0:
		return tidy(ctx, root, *diff, out)
	case command == "tag" && n == 1:
		return tag(ctx, root, flags.Arg(0), time.Now(), *dryRun, out)
	case command == "deploy" && n == 0:
		return deploy(ctx, root, out)
	case command == "sbom" && n == 3:
		return sbom(flags.Arg(0), flags.Arg(1), flags.Arg(2))
	case command == "tool" && n == 1:
		program, err := installTool(ctx, flags.Arg(0), os.Stderr)
		if err == nil {
			fmt.Fprintln(out, program)
		}
		return err
	}
	return fmt.Errorf("wrong arguments\n%s", usage)
}
