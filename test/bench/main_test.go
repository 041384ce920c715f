package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// TestMain runs a lane if the binary was started for one.
func TestMain(m *testing.M) {
	if order, ok := os.LookupEnv(laneEnv); ok {
		if err := runLane(order, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "8"); err != nil { // most tests mostly wait
			panic(err)
		}
	}
	code := m.Run()
	if programsBuilt != "" {
		_ = os.RemoveAll(programsBuilt) // a temporary directory
	}
	os.Exit(code)
}

// programsBuilt is the directory of testPrograms; empty until the first call.
var programsBuilt string

// testPrograms builds the programs that workloads start, once. They have the race detector if the
// tests have it, because their packages are built in this way for other tests too.
var testPrograms = sync.OnceValues(func() (dir string, err error) {
	programsBuilt, err = buildPrograms(context.Background(), "-race="+strconv.FormatBool(hasRaceDetector()))
	return programsBuilt, err
})

func hasRaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
