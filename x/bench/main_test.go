package main

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain runs a lane where this binary is started as one.
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
		if err := flag.Set("test.parallel", "8"); err != nil { // most tests wait most of the time
			panic(err)
		}
	}
	os.Exit(m.Run())
}
