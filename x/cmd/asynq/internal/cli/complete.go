package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/conn"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// completionTimeout is the timeout for names from Redis.
const completionTimeout = 500 * time.Millisecond

// maxCompletions limits the candidates passed to the shell.
const maxCompletions = 1000

// completeFromRedis completes with names from Redis. It ignores errors: a shell cannot show them.
func (a *app) completeFromRedis(cmd *cobra.Command, begun string, names func(*asynq.Inspector) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTimeout)
	defer cancel()
	cmd.SetContext(ctx)
	defer cmd.SetContext(parent)
	i, err := a.inspector(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := names(i.WithContext(ctx))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found = slices.DeleteFunc(found, func(name string) bool {
		return !strings.HasPrefix(name, begun) || strings.ContainsFunc(name, out.Unsafe) // a shell cannot complete them
	})
	return found[:min(len(found), maxCompletions)], cobra.ShellCompDirectiveNoFileComp
}

// queueNames completes arguments with the queues that are not arguments yet.
func (a *app) queueNames(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeFromRedis(cmd, begun, func(i *asynq.Inspector) ([]string, error) {
		names, err := i.Queues()
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), err
	})
}

// groupNames completes with the groups of the queues in --queue.
func (a *app) groupNames(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	queues := queuesOf(cmd)
	if len(queues) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeFromRedis(cmd, begun, func(i *asynq.Inspector) ([]string, error) {
		var names []string
		for _, queue := range queues {
			groups, err := i.Groups(queue)
			if err != nil {
				return names, err
			}
			for _, g := range groups {
				names = append(names, g.Group)
			}
		}
		return names, nil
	})
}

// queuesOf returns the value of --queue, as a list.
func queuesOf(cmd *cobra.Command) []string {
	if names, err := cmd.Flags().GetStringSlice("queue"); err == nil {
		return names
	}
	if names, err := cmd.Flags().GetStringArray("queue"); err == nil {
		return names
	}
	if name, err := cmd.Flags().GetString("queue"); err == nil && name != "" {
		return []string{name}
	}
	return nil
}

// states are the names of the task states.
var states = []string{
	asynq.TaskStateActive.String(), asynq.TaskStatePending.String(), asynq.TaskStateAggregating.String(), asynq.TaskStateScheduled.String(),
	asynq.TaskStateRetry.String(), asynq.TaskStateArchived.String(), asynq.TaskStateCompleted.String(),
}

// completeFlags registers completion for --queue, --state and --group where a command has them.
func (a *app) completeFlags(cmd *cobra.Command) {
	none := cobra.ShellCompDirectiveNoFileComp
	for name, complete := range map[string]cobra.CompletionFunc{
		"queue": a.queueNames, "state": cobra.FixedCompletions(states, none), "group": a.groupNames,
	} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, complete) // it fails if the flag already has one
		}
	}
	for _, c := range cmd.Commands() {
		a.completeFlags(c)
	}
}

func (a *app) contextNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	f, err := conn.LoadFile(cmd.Flags(), a.Env)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.Names(), cobra.ShellCompDirectiveNoFileComp
}
