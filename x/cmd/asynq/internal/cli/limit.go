package cli

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/filter"
	limits "github.com/asynq-go/asynq/x/rate"
)

func newLimit(a *app) *cobra.Command {
	return group("limit", "Inspect rate limits and semaphores", newLimitLs(a))
}

// limitRow is the state of a limit in machine-readable output.
type limitRow struct {
	Kind     string     `json:"kind"` // rate or semaphore
	Scope    string     `json:"scope"`
	Key      string     `json:"key"` // of a rate limit
	Tokens   int        `json:"tokens"`
	LastUsed *time.Time `json:"last_used"` // of a rate limit
	NextTurn *time.Time `json:"next_turn"` // null if no rejected caller waits
	Until    *time.Time `json:"until"`     // rate: when it is full again; semaphore: the last deadline
}

var limitColumns = []out.Column[*limitRow]{
	{Head: "KIND", Cell: func(l *limitRow) string { return l.Kind }},
	{Head: "SCOPE", Shrink: 12, Cell: func(l *limitRow) string { return l.Scope }},
	{Head: "KEY", Shrink: 12, Cell: func(l *limitRow) string { return l.Key }},
	{Head: "TOKENS", Cell: func(l *limitRow) string {
		if l.Kind == "semaphore" {
			return strconv.Itoa(l.Tokens) + " in use"
		}
		return strconv.Itoa(l.Tokens) + " left"
	}},
	{Head: "LAST USED", Rank: 2, Cell: func(l *limitRow) string { return momentText(l.LastUsed) }},
	{Head: "NEXT TURN", Cell: func(l *limitRow) string { return dueText(l.NextTurn) }, Style: func(*limitRow) out.Style { return out.Warn }},
	{Head: "UNTIL", Rank: 1, Cell: func(l *limitRow) string { return dueText(l.Until) }},
}

func momentText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return out.Time(*t)
}

func dueText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return dueIn(*t)
}

func newLimitLs(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the rate limits and semaphores of package x/rate that are in use",
		Long: `List the rate limits and semaphores of package x/rate that are in use: the tokens that a rate limit had
left when it was last used, when its last rejected caller may return (NEXT TURN), and when it is full
again (UNTIL); the tokens of a semaphore that tasks hold, and the last deadline of these tasks (UNTIL).
A rate limit that is full is not in use. Redis stores neither the limits nor the tasks of a rate limit.

The command scans all keys of the database, in short calls. If --max-scan ends the scan early, the exit
code is 1.`,
		Example: "  asynq limit ls --sort tokens --filter kind:rate",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			most, _ := cmd.Flags().GetInt("max-scan")
			if most < 0 {
				return usage("--max-scan must not be negative")
			}
			opt, err := a.connOpt(cmd)
			if err != nil {
				return err
			}
			return list(a, cmd, limitColumns, func(ctx context.Context) iter.Seq2[*limitRow, error] {
				return func(yield func(*limitRow, error) bool) {
					for s, err := range limits.List(ctx, opt, most) {
						if err != nil {
							yield(nil, scanLimit(err))
							return
						}
						if !yield(newLimitRow(s), nil) {
							return
						}
					}
				}
			})
		},
	}
	cmd.Flags().Int("max-scan", 0, "scan at most this many keys of each node (default no limit)")
	addListing(cmd)
	return cmd
}

func newLimitRow(s *limits.State) *limitRow {
	row := &limitRow{
		Kind: "rate", Scope: s.Scope, Key: s.Key, Tokens: s.Tokens,
		LastUsed: moment(s.LastUsed), NextTurn: moment(s.NextTurn), Until: moment(s.Until),
	}
	if s.Semaphore {
		row.Kind = "semaphore"
	}
	return row
}

func newLock(a *app) *cobra.Command {
	return group("lock", "Inspect uniqueness locks", newLockLs(a))
}

// lockRow is a uniqueness lock in machine-readable output.
type lockRow struct {
	Queue   string    `json:"queue"`
	Key     string    `json:"key"`
	TaskID  string    `json:"task_id"` // of the holder
	Type    string    `json:"type"`
	State   string    `json:"state"`
	Expires time.Time `json:"expires_at"`
	Seconds float64   `json:"ttl_seconds"`
}

var lockColumns = []out.Column[*lockRow]{
	{Head: "QUEUE", Shrink: 12, Cell: func(l *lockRow) string { return l.Queue }},
	{Head: "HOLDER", Cell: func(l *lockRow) string { return l.TaskID }},
	{Head: "TYPE", Shrink: 12, Cell: func(l *lockRow) string { return l.Type }},
	{Head: "STATE", Rank: 1, Cell: func(l *lockRow) string { return l.State }},
	{Head: "EXPIRES", Cell: func(l *lockRow) string { return dueIn(l.Expires) }},
	{Head: "KEY", Shrink: 12, Rank: 2, Cell: func(l *lockRow) string { return l.Key }},
}

func newLockLs(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the uniqueness locks with their holders",
		Long: `List the uniqueness locks (Unique, UniqueKey, Debounce) that tasks hold, with the task and the time
until the lock expires. A task releases its lock when it succeeds or is deleted.

The command scans the tasks of the queues, in short calls. If --max-scan ends the scan early, the exit
code is 1. A lock without a task is a problem that asynq doctor finds.`,
		Example: "  asynq lock ls -q mail --sort -ttl_seconds",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			scan, err := a.lockScan(cmd)
			if err != nil {
				return err
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			return list(a, cmd, lockColumns, func(ctx context.Context) iter.Seq2[*lockRow, error] { return a.locks(ctx, i, scan) })
		},
	}
	cmd.Flags().StringSliceP("queue", "q", nil, "queues of the tasks (default all)")
	cmd.Flags().StringSliceP("state", "s", nil, "states of the tasks (default all)")
	cmd.Flags().Int("max-scan", 0, "scan at most this many tasks (default no limit)")
	addListing(cmd)
	return cmd
}

// lockScan reads the flags of lock ls.
func (a *app) lockScan(cmd *cobra.Command) (s filter.Scan, err error) {
	s.Queues = queuesOf(cmd)
	names, _ := cmd.Flags().GetStringSlice("state")
	for _, name := range names {
		state, ok := filter.ParseState(name)
		if !ok {
			return s, usage("--state: unknown state %q", name)
		}
		s.States = append(s.States, state)
	}
	if len(s.States) == 0 {
		s.States = filter.AllStates
	}
	if s.MaxScan, _ = cmd.Flags().GetInt("max-scan"); s.MaxScan < 0 {
		return s, usage("--max-scan must not be negative")
	}
	return s, nil
}

// locks yields the locks of tasks, queue by queue and state by state.
func (a *app) locks(ctx context.Context, i *asynq.Inspector, s filter.Scan) iter.Seq2[*lockRow, error] {
	return func(yield func(*lockRow, error) bool) {
		queues := s.Queues
		if len(queues) == 0 {
			var err error
			if queues, err = i.Queues(); err != nil {
				yield(nil, err)
				return
			}
		}
		p := a.progress("scanned")
		defer p.end()
		scanned := 0
		for _, queue := range queues {
			for _, state := range s.States {
				if s.MaxScan > 0 && scanned >= s.MaxScan {
					yield(nil, scanLimit(asynq.ErrScanLimit))
					return
				}
				here := 0
				search := asynq.TaskFilter{MaxScan: max(s.MaxScan-scanned, 0), Scanned: func(n int) {
					here = n
					p.at(scanned+n, 0, "")
				}}
				for r, err := range i.ExportTasks(ctx, queue, state, search) {
					if err != nil {
						yield(nil, inQueue(queue, scanLimit(err)))
						return
					}
					if !r.LockedUntil.IsZero() && !yield(newLockRow(r), nil) {
						return
					}
				}
				scanned += here
			}
		}
	}
}

func newLockRow(r *asynq.TaskRecord) *lockRow {
	return &lockRow{
		Queue: r.Queue, Key: r.UniqueKey, TaskID: r.ID, Type: r.Type, State: r.State.String(), Expires: r.LockedUntil.UTC(),
		Seconds: max(time.Until(r.LockedUntil), 0).Round(time.Millisecond).Seconds(),
	}
}
