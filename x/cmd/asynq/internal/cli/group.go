package cli

import (
	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newGroup(a *app) *cobra.Command {
	return group("group", "Inspect groups of aggregating tasks", newGroupLs(a))
}

// groupRow is a group in machine-readable output.
type groupRow struct {
	Queue string `json:"queue"`
	Group string `json:"group"`
	Size  int    `json:"size"`
}

var groupColumns = []out.Column[*groupRow]{
	{Head: "QUEUE", Cell: func(g *groupRow) string { return g.Queue }},
	{Head: "GROUP", Cell: func(g *groupRow) string { return g.Group }},
	count("SIZE", out.Plain, func(g *groupRow) int { return g.Size }),
}

func newGroupLs(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List groups",
		Example: "  asynq group ls --queue reports",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			queues := queuesOf(cmd)
			if len(queues) == 0 {
				i, err := a.inspector(cmd)
				if err != nil {
					return err
				}
				if queues, err = i.Queues(); err != nil {
					return err
				}
			}
			return listOf(a, cmd, groupColumns, queues, func(i *asynq.Inspector, queue string) ([]*groupRow, error) {
				groups, err := i.Groups(queue)
				if err == nil && len(groups) == 0 {
					_, err = i.WithMemorySamples(0).GetQueueInfo(queue) // an unknown queue is an error
				}
				if err != nil {
					return nil, inQueue(queue, err)
				}
				rows := make([]*groupRow, len(groups))
				for n, g := range groups {
					rows[n] = &groupRow{Queue: queue, Group: g.Group, Size: g.Size}
				}
				return rows, nil
			})
		},
	}
	cmd.Flags().StringSliceP("queue", "q", nil, "queues to list (default all)")
	addListing(cmd)
	return cmd
}
