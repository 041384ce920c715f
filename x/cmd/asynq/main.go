package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends a command that does not stop by itself.
	context.AfterFunc(ctx, stop)
	cli.QuietRedis()
	os.Exit(cli.Run(ctx, os.Args[1:], cli.System()))
}
