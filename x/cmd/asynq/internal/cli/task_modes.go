package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
)

var policies = map[string]asynq.DuplicatePolicy{
	"reject": asynq.Reject, "keep": asynq.Keep, "replace": asynq.Replace, "supersede": asynq.Supersede,
}

// batchModes are the fields of a line of a batch that depend on other tasks, and its expiry. They
// take precedence over the flags.
type batchModes struct {
	IdempotencyKey *string `json:"idempotency_key"`
	IdempotencyTTL *length `json:"idempotency_ttl"`
	UniqueKey      *string `json:"unique_key"`
	OnDuplicate    *string `json:"on_duplicate"`
	Debounce       *struct {
		Key     string `json:"key"`
		Quiet   length `json:"quiet"`
		MaxWait length `json:"max_wait"`
	} `json:"debounce"`
	Throttle *struct {
		Key    string `json:"key"`
		Window length `json:"window"`
	} `json:"throttle"`
	ExpiresIn *length `json:"expires_in"`
}

// defaultIdempotencyTTL is how long an idempotency key of a line is kept by default, as in the
// queue service.
const defaultIdempotencyTTL = 24 * time.Hour

// modes returns the options of the fields. unique is the TTL of the lock; nil if there is none. The
// client validates keys and durations.
func (m *batchModes) modes(unique *length) (opts []asynq.Option, err error) {
	keyed := 0
	for _, set := range []bool{unique != nil, m.Debounce != nil, m.Throttle != nil} {
		if set {
			keyed++
		}
	}
	switch {
	case keyed > 1:
		return nil, errors.New(`"unique", "debounce" and "throttle" are mutually exclusive`)
	case m.UniqueKey != nil && unique == nil:
		return nil, errors.New(`"unique_key" requires "unique"`)
	case m.IdempotencyTTL != nil && m.IdempotencyKey == nil:
		return nil, errors.New(`"idempotency_ttl" requires "idempotency_key"`)
	}
	if m.IdempotencyKey != nil {
		ttl := defaultIdempotencyTTL
		if m.IdempotencyTTL != nil {
			ttl = time.Duration(*m.IdempotencyTTL)
		}
		opts = append(opts, asynq.IdempotencyKey(*m.IdempotencyKey, ttl))
	}
	if m.UniqueKey != nil {
		opts = append(opts, asynq.UniqueKey(*m.UniqueKey, time.Duration(*unique)))
	}
	if m.OnDuplicate != nil {
		policy, ok := policies[*m.OnDuplicate]
		if !ok {
			return nil, fmt.Errorf(`"on_duplicate" is %q: use "reject", "keep", "replace" or "supersede"`, *m.OnDuplicate)
		}
		opts = append(opts, asynq.OnDuplicate(policy))
	}
	if d := m.Debounce; d != nil {
		opts = append(opts, asynq.Debounce(d.Key, time.Duration(d.Quiet), time.Duration(d.MaxWait)))
	}
	if t := m.Throttle; t != nil {
		opts = append(opts, asynq.Throttle(t.Key, time.Duration(t.Window)))
	}
	if m.ExpiresIn != nil {
		opts = append(opts, asynq.ExpiresIn(time.Duration(*m.ExpiresIn)))
	}
	return opts, nil
}

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
		policy, ok := policies[strings.ToLower(name)]
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
