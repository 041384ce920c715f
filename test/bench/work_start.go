package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// startPrograms maps the sides to programs in the directory start that import their library.
var startPrograms = map[string]string{sideOurs: "ours", sideReference: "theirs", sideFloor: "empty"}

// startModules maps the sides to the modules of their libraries.
var startModules = map[string]string{sideOurs: modulePath, sideReference: "github.com/hibiken/asynq"}

// launch is a workload that runs a program again and again. Its tasks are the runs, and its latency
// is their duration.
type launch struct {
	// command is the command of asynq to run. If it is empty, the program that imports the library
	// of the side is run, and the initialization of its packages is measured.
	command string
}

func (w launch) run(l *lane) (*figures, error) {
	program, args := filepath.Join(l.Programs, startPrograms[l.Side]), []string(nil)
	if w.command != "" {
		program, args = filepath.Join(l.Programs, "asynq"), []string{w.command, "--uri", l.Addr}
		err := l.seed(100, func(i int) *job { return &job{payload: payload(100, i), queue: "q" + strconv.Itoa(i%10)} })
		if err != nil {
			return nil, err
		}
	}
	var cpu time.Duration
	start := func(stderr io.Writer, env ...string) error {
		cmd := exec.CommandContext(l.ctx, program, args...)
		cmd.Env = append(append(os.Environ(), "HOME="+l.Programs), env...) // without the user's configuration
		cmd.Stderr = stderr
		err := cmd.Run()
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		return err
	}
	var durations []time.Duration
	f, err := l.measure(func() (tally, error) {
		for range l.Tasks {
			begun := time.Now()
			if err := start(os.Stderr); err != nil {
				return tally{}, err
			}
			durations = append(durations, time.Since(begun))
		}
		return tally{tasks: l.Tasks}, nil
	})
	if err != nil {
		return nil, err
	}
	f.OwnCPU, f.Mallocs = cpu.Seconds(), 0 // of the programs
	f.Latency = newLatency(durations)
	if w.command != "" {
		return f, nil
	}
	var millis, bytes []float64
	for range l.Tasks {
		var log strings.Builder
		if err := start(&log, "GODEBUG=inittrace=1"); err != nil {
			return nil, err
		}
		cost := initCost(log.String(), startModules[l.Side])
		millis, bytes = append(millis, cost.Millis), append(bytes, cost.Bytes)
	}
	f.Init = &inits{Millis: median(millis), Bytes: median(bytes)}
	return f, nil
}

// inits is the cost of initializing the packages of a library.
type inits struct {
	Millis float64 `json:"ms"`
	Bytes  float64 `json:"bytes"`
}

// initCost returns the cost of the packages of a module in the log of GODEBUG=inittrace=1.
func initCost(log, module string) (cost inits) {
	for line := range strings.Lines(log) {
		var path string
		var millis, bytes float64
		n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %f bytes", &path, new(float64), &millis, &bytes)
		if n < 4 || path != module && !strings.HasPrefix(path, module+"/") {
			continue
		}
		cost.Millis += millis
		cost.Bytes += bytes
	}
	return cost
}
