package incidents_test

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/asynq-go/asynq/test/chromium"
)

// chrome is the browser of all tests; nil if it is missing.
var chrome context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // incidents mostly wait
		panic(err)
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "incidents-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		buildPrograms(dir)
		var stop func()
		chrome, stop = chromium.Start()
		defer stop()
		return m.Run()
	}())
}
