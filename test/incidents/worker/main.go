// Command worker is a server, or a scheduler, that behaves as in an incident: what a handler does
// depends on the payload of its task. It runs until SIGTERM or SIGKILL.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// lease is short, so that the tasks of a crashed server run again soon.
const lease = 2 * time.Second

func main() {
	addr := flag.String("redis", "", "address of Redis")
	queues := flag.String("queues", "default", "names of the queues, separated by commas")
	slots := flag.Int("concurrency", 4, "number of slots")
	schedule := flag.Bool("schedule", false, "run a scheduler instead of a server")
	flag.Parse()
	run := runServer
	if *schedule {
		run = runScheduler
	}
	if err := run(asynq.RedisClientOpt{Addr: *addr}, strings.Split(*queues, ","), *slots); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runServer(redis asynq.RedisClientOpt, queues []string, slots int) error {
	weights := make(map[string]int)
	for _, queue := range queues {
		weights[queue] = 1
	}
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency: slots, Queues: weights, LeaseDuration: lease, LogLevel: asynq.ErrorLevel, ShutdownTimeout: time.Second,
		RetryDelayFunc: func(failed int, _ error, _ *asynq.Task) time.Duration {
			if failed == 0 {
				return 100 * time.Millisecond
			}
			return time.Hour
		},
	})
	return server.Run(asynq.HandlerFunc(handle))
}

// handle does what the payload names: succeed after a time, fail, panic, or kill the process.
func handle(ctx context.Context, t *asynq.Task) error {
	do, argument, _ := strings.Cut(string(t.Payload()), " ")
	switch do {
	case "take":
		d, err := time.ParseDuration(argument)
		if err != nil {
			return err
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case "fail":
		return errors.New(argument)
	case "panic":
		panic(argument)
	case "crash": // as if it were out of memory
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		return self.Kill()
	}
	return nil
}

func runScheduler(redis asynq.RedisClientOpt, _ []string, _ int) error {
	scheduler := asynq.NewScheduler(redis, &asynq.SchedulerOpts{LogLevel: asynq.ErrorLevel})
	if _, err := scheduler.Register("@every 1h", asynq.NewTask("report:build", nil)); err != nil {
		return err
	}
	return scheduler.Run()
}
