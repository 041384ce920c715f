package cli

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
)

func newServerQuiet(a *app) *cobra.Command {
	return newServerCommand(a, &cobra.Command{
		Use:   "quiet SERVER_ID...",
		Short: "Make servers stop fetching tasks",
		Long:  "Make servers stop fetching tasks. Running tasks continue. A server must be restarted to fetch again.",
	}, "quiet", "is quiet: it fetches no more tasks", (*asynq.Inspector).QuietServer)
}

func newServerStop(a *app) *cobra.Command {
	return newServerCommand(a, &cobra.Command{
		Use:   "stop SERVER_ID...",
		Short: "Shut servers down",
		Long:  "Shut servers down, as SIGTERM does. Running tasks have the shutdown timeout of the server to end.",
	}, "stop", "is shutting down", (*asynq.Inspector).StopServer)
}

// newServerCommand completes a command that asks for confirmation and then changes each server.
func newServerCommand(a *app, cmd *cobra.Command, verb, done string, send func(*asynq.Inspector, context.Context, string) error) *cobra.Command {
	cmd.Args = argsFrom(1, -1)
	cmd.ValidArgsFunction = a.serverIDs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		i, err := a.inspector(cmd)
		if err != nil {
			return err
		}
		return a.eachArg(args, func(id string) error {
			return a.commandServer(cmd, i, id, verb, done, func() error { return send(i, cmd.Context(), id) })
		})
	}
	addBulk(cmd)
	return cmd
}

// commandServer sends a command to a server after confirmation. what describes it in the
// infinitive, done what follows the name of the server afterwards.
func (a *app) commandServer(cmd *cobra.Command, i *asynq.Inspector, id, what, done string, send func() error) error {
	name, err := serverName(i, id)
	if err != nil {
		return err
	}
	if ok, err := a.confirm(cmd, "%s server %s", what, name); !ok || err != nil {
		return err
	}
	if err := send(); err != nil {
		return err
	}
	a.printErrf("server %s %s", name, done)
	return nil
}

// serverName returns how questions and results name a server.
func serverName(i *asynq.Inspector, id string) (string, error) {
	servers, err := i.Servers()
	if err != nil {
		return "", err
	}
	n := slices.IndexFunc(servers, func(s *asynq.ServerInfo) bool { return s.ID == id })
	if n < 0 {
		return "", notFound("server %q not found: see asynq server ls -o wide", id)
	}
	return strconv.Quote(id) + " (" + strconv.Quote(servers[n].Host) + ", process " + strconv.Itoa(servers[n].PID) + ")", nil
}

func newServerPause(a *app) *cobra.Command {
	return newServerQueue(a, "pause", "Stop one server from fetching tasks of queues", "paused", (*asynq.Inspector).PauseServerQueue)
}

func newServerResume(a *app) *cobra.Command {
	return newServerQueue(a, "resume", "Let one server fetch tasks of queues again", "resumed", (*asynq.Inspector).ResumeServerQueue)
}

func newServerQueue(a *app, verb, short, done string, send func(*asynq.Inspector, context.Context, string, string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   verb + "-queue SERVER_ID QUEUE...",
		Short: short,
		Long:  short + ". Other servers are not affected; the state ends with the server.",
		Args:  argsFrom(2, -1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return a.serverIDs(cmd, args, begun)
			}
			return a.queueNames(cmd, args[1:], begun)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			return a.eachArg(args[1:], func(queue string) error {
				return a.commandServer(cmd, i, args[0], verb+" queue "+strconv.Quote(queue)+" on", "has "+done+" queue "+strconv.Quote(queue),
					func() error { return send(i, cmd.Context(), args[0], queue) })
			})
		},
	}
	addBulk(cmd)
	return cmd
}

func newServerConcurrency(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "set-concurrency SERVER_ID N",
		Short:             "Change how many tasks a server runs at once",
		Long:              "Change how many tasks a server runs at once, until it ends. Running tasks continue.",
		Args:              argsFrom(2, 2),
		ValidArgsFunction: a.serverIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 1 {
				return usage("the concurrency must be a number of at least 1, not %q", args[1])
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			return a.commandServer(cmd, i, args[0], "set the concurrency to "+args[1]+" on", "runs up to "+plural(n, "task")+" at once",
				func() error { return i.SetServerConcurrency(cmd.Context(), args[0], n) })
		},
	}
	addBulk(cmd)
	return cmd
}

// serverIDs completes arguments with the IDs of servers that accept commands.
func (a *app) serverIDs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeFromRedis(cmd, begun, func(i *asynq.Inspector) ([]string, error) {
		servers, err := i.Servers()
		var ids []string
		for _, s := range servers {
			if s.RemoteControl && !slices.Contains(args, s.ID) {
				ids = append(ids, s.ID)
			}
		}
		return ids, err
	})
}
