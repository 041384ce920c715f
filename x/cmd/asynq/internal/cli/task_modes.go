package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
)

// modeOptions returns the options of the flags that depend on other tasks, and the expiry.
func modeOptions(cmd *cobra.Command) (opts []asynq.Option, err error) {
	f := cmd.Flags()
	durations := make(map[string]time.Duration)
	keyed := 0
	for _, name := range []string{"unique", "debounce", "throttle", "max-wait", "expires-in"} {
		if !f.Changed(name) {
			continue
		}
		if durations[name], _ = f.GetDuration(name); durations[name] <= 0 {
			return nil, usage("--%s must be positive", name)
		}
		if name == "unique" || name == "debounce" || name == "throttle" {
			keyed++
		}
	}
	key, _ := f.GetString("key")
	switch {
	case keyed > 1:
		return nil, usage("--unique, --debounce and --throttle are mutually exclusive")
	case f.Changed("key") && keyed == 0:
		return nil, usage("--key requires --unique, --debounce or --throttle")
	case f.Changed("on-duplicate") && keyed == 0:
		return nil, usage("--on-duplicate requires --unique, --debounce or --throttle")
	case f.Changed("max-wait") && !f.Changed("debounce"):
		return nil, usage("--max-wait requires --debounce")
	case (f.Changed("debounce") || f.Changed("throttle")) && !f.Changed("key"):
		return nil, usage("--debounce and --throttle require --key")
	case f.Changed("unique") && f.Changed("key"):
		opts = append(opts, asynq.UniqueKey(key, durations["unique"]))
	case f.Changed("unique"):
		opts = append(opts, asynq.Unique(durations["unique"]))
	case f.Changed("debounce"):
		opts = append(opts, asynq.Debounce(key, durations["debounce"], durations["max-wait"]))
	case f.Changed("throttle"):
		opts = append(opts, asynq.Throttle(key, durations["throttle"]))
	}
	if f.Changed("on-duplicate") {
		name, _ := f.GetString("on-duplicate")
		policy, ok := map[string]asynq.DuplicatePolicy{
			"reject": asynq.Reject, "keep": asynq.Keep, "replace": asynq.Replace, "supersede": asynq.Supersede,
		}[strings.ToLower(name)]
		if !ok {
			return nil, usage("--on-duplicate %q: use reject, keep, replace or supersede", name)
		}
		opts = append(opts, asynq.OnDuplicate(policy))
	}
	if f.Changed("expires-in") {
		opts = append(opts, asynq.ExpiresIn(durations["expires-in"]))
	}
	return opts, nil
}

func newTaskUpdate(a *app) *cobra.Command {
	var payload []byte
	var opts []asynq.Option
	cmd := newTaskChange(a, "update", "Change the payload, limits, time or queue of waiting or archived tasks", "updated",
		func(cmd *cobra.Command, i *asynq.Inspector, queue, id string) error {
			_, err := i.UpdateTask(cmd.Context(), queue, id, payload, opts...)
			return err
		})
	f := cmd.Flags()
	f.StringP("payload", "l", "", "new payload: text, @FILE, or - for standard input")
	f.Int("retry", 0, "maximum number of retries")
	f.Duration("timeout", 0, "timeout of an attempt; 0 means 30m, or none with a deadline")
	f.Duration("retention", 0, "how long to keep the task after it succeeds")
	f.Duration("expires-in", 0, "delete the task if no attempt starts within this time")
	f.String("to-queue", "", "queue to move the task to; not on a Redis Cluster")
	addProcessAt(cmd)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if opts, err = updateOptions(cmd); err != nil {
			return err
		}
		if f.Changed("payload") {
			value, _ := f.GetString("payload")
			if payload, err = a.readPayload(value); err != nil {
				return err
			}
			payload = append([]byte{}, payload...) // nil would leave the payload as it is
		} else if len(opts) == 0 {
			return usage("nothing to change: use --payload, --process-in or another flag")
		}
		return run(cmd, args)
	}
	return cmd
}

// updateOptions returns the options that the flags of task update set.
func updateOptions(cmd *cobra.Command) (opts []asynq.Option, err error) {
	f := cmd.Flags()
	if f.Changed("retry") {
		n, _ := f.GetInt("retry")
		if n < 0 {
			return nil, usage("--retry must not be negative")
		}
		opts = append(opts, asynq.MaxRetry(n))
	}
	for name, option := range map[string]func(time.Duration) asynq.Option{
		"timeout": asynq.Timeout, "retention": asynq.Retention, "expires-in": asynq.ExpiresIn,
	} {
		if f.Changed(name) {
			d, _ := f.GetDuration(name)
			opts = append(opts, option(d))
		}
	}
	if f.Changed("to-queue") {
		queue, _ := f.GetString("to-queue")
		opts = append(opts, asynq.Queue(queue))
	}
	at, ok, err := processAt(cmd)
	if err != nil {
		return nil, err
	}
	if ok {
		opts = append(opts, asynq.ProcessAt(at))
	}
	return opts, nil
}
