package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newTaskEnqueue(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "enqueue",
		Aliases: []string{"add"},
		Short:   "Enqueue a task, or many tasks with --batch",
		Long: `Enqueue a task, and print its ID to standard output.

With --batch, the command reads tasks from a file, or from standard input (-): one JSON object per line
with the fields type, payload (any JSON; a string is used as the raw payload), payload_base64, headers,
queue, id, max_retry, timeout, deadline, unique, process_at, process_in, retention, group,
idempotency_key, idempotency_ttl, unique_key, on_duplicate, debounce (key, quiet, max_wait), throttle
(key, window) and expires_in. The flags set the defaults of missing fields. The command prints a result
per line; if a line fails, the exit code is 1.

With --dry-run, the command validates the lines without enqueueing them. It does not check for
conflicts of task IDs or uniqueness locks.`,
		Example: `  asynq task enqueue -t email:welcome -l '{"user_id":42}' -q mail -H trace=abc
  asynq task enqueue -t image:resize -l @picture.bin --unique 1h
  asynq task enqueue --batch tasks.ndjson -o ndjson`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := enqueueOptions(cmd)
			if err != nil {
				return err
			}
			typename, _ := cmd.Flags().GetString("type-name")
			value, _ := cmd.Flags().GetString("payload")
			if cmd.Flags().Changed("batch") {
				if cmd.Flags().Changed("payload") || cmd.Flags().Changed("id") {
					return usage("--payload and --id cannot be used with --batch: set them in each line")
				}
				return a.enqueueBatch(cmd, typename, opts)
			}
			if a.dryRun(cmd) {
				return usage("--dry-run requires --batch")
			}
			if typename == "" {
				return usage("missing task type: use --type-name")
			}
			payload, err := a.readPayload(value)
			if err != nil {
				return err
			}
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			info, err := c.EnqueueContext(cmd.Context(), asynq.NewTask(typename, payload), opts...)
			if err != nil {
				return err
			}
			row := newTaskRow(info)
			return a.show(cmd, row, func(w io.Writer, _ out.Options) error {
				switch {
				case !info.IsRepeated:
					a.printErrf("enqueued to queue %q, %s", row.Queue, row.State)
				case row.State == "":
					a.printErrf("no new task in queue %q: an earlier call created one, which is gone", row.Queue)
				default:
					a.printErrf("no new task in queue %q: an earlier call created one, %s", row.Queue, row.State)
				}
				_, err := fmt.Fprintln(w, out.Name(row.ID))
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringP("type-name", "t", "", "type of the task")
	f.StringP("payload", "l", "", "payload: text, @FILE, or - for standard input")
	f.String("batch", "", "read tasks from this file, one JSON object per line, or - for standard input")
	f.Bool("dry-run", false, "only validate the lines of --batch")
	f.StringP("queue", "q", "default", "queue of the task")
	f.String("id", "", "ID of the task (default random)")
	f.Int("retry", 25, "maximum number of retries")
	f.Duration("timeout", 0, "timeout of an attempt (default 30m)")
	f.String("deadline", "", "time by which every attempt must end, in a format of --process-at")
	f.Duration("unique", 0, "reject the task if a task with the same type and payload was enqueued within this time")
	f.String("key", "", "key for --unique, in place of the type and payload, for --debounce or --throttle")
	f.String("on-duplicate", "", "if another task holds the lock of --unique: reject (default), keep, replace or supersede it")
	f.Duration("debounce", 0, "delay the task until no other task with the same --key is enqueued for this time")
	f.Duration("max-wait", 0, "longest delay of --debounce (default unlimited)")
	f.Duration("throttle", 0, "enqueue at most one task with the same --key within this time")
	f.Duration("expires-in", 0, "delete the task if no attempt starts within this time")
	f.Duration("retention", 0, "how long to keep the task after it succeeds")
	f.StringP("group", "g", "", "group to aggregate the task in")
	f.String("partition-key", "", "partition of the task, such as its customer (see docs/PARTITIONS.md)")
	f.StringArrayP("header", "H", nil, "header as name=value; repeatable")
	addProcessAt(cmd)
	addOutput(cmd)
	_ = cmd.RegisterFlagCompletionFunc("queue", a.queueNames)
	_ = cmd.RegisterFlagCompletionFunc("type-name", a.typeNames)
	return cmd
}

// enqueueOptions returns the task options that the flags set.
func enqueueOptions(cmd *cobra.Command) ([]asynq.Option, error) {
	f := cmd.Flags()
	var opts []asynq.Option
	queue, _ := f.GetString("queue")
	opts = append(opts, asynq.Queue(queue))
	if f.Changed("id") {
		id, _ := f.GetString("id")
		opts = append(opts, asynq.TaskID(id))
	}
	if f.Changed("retry") {
		n, _ := f.GetInt("retry")
		if n < 0 {
			return nil, usage("--retry must not be negative")
		}
		opts = append(opts, asynq.MaxRetry(n))
	}
	modes, err := modeOptions(cmd)
	if err != nil {
		return nil, err
	}
	opts = append(opts, modes...)
	for name, option := range map[string]func(time.Duration) asynq.Option{
		"timeout": asynq.Timeout, "retention": asynq.Retention,
	} {
		if f.Changed(name) {
			d, _ := f.GetDuration(name)
			if d < 0 {
				return nil, usage("--%s must be positive", name)
			}
			opts = append(opts, option(d))
		}
	}
	if f.Changed("deadline") {
		text, _ := f.GetString("deadline")
		at, err := parseTime(text)
		if err != nil {
			return nil, usage("--deadline: %w", err)
		}
		opts = append(opts, asynq.Deadline(at))
	}
	at, ok, err := processAt(cmd)
	if err != nil {
		return nil, err
	}
	if ok {
		opts = append(opts, asynq.ProcessAt(at))
	}
	if f.Changed("group") {
		group, _ := f.GetString("group")
		opts = append(opts, asynq.Group(group))
	}
	if f.Changed("partition-key") {
		key, _ := f.GetString("partition-key")
		opts = append(opts, asynq.PartitionKey(key))
	}
	headers, _ := f.GetStringArray("header")
	for _, h := range headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return nil, usage("--header %q: use the form name=value", h)
		}
		opts = append(opts, asynq.Header(name, value))
	}
	return opts, nil
}
