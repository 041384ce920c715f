package api

import (
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// modes are the fields of a new task that depend on other tasks, and its expiry.
type modes struct {
	UniqueKey   *string   `json:"unique_key"`
	OnDuplicate *string   `json:"on_duplicate"`
	Debounce    *debounce `json:"debounce"`
	Throttle    *throttle `json:"throttle"`
	ExpiresIn   *Duration `json:"expires_in"`

	PartitionKey *string `json:"partition_key"`
}

type debounce struct {
	Key     *string   `json:"key"`
	Quiet   *Duration `json:"quiet"`
	MaxWait *Duration `json:"max_wait"`
}

type throttle struct {
	Key    *string   `json:"key"`
	Window *Duration `json:"window"`
}

var policies = map[string]asynq.DuplicatePolicy{
	"reject": asynq.Reject, "keep": asynq.Keep, "replace": asynq.Replace, "supersede": asynq.Supersede,
}

// options returns the options of the fields. It reports invalid values with add.
func (m *modes) options(uniqueFor *Duration, add func(field, detail string)) (opts []asynq.Option) {
	key := func(field string, key *string) string {
		if key == nil || strings.TrimSpace(*key) == "" {
			add(field, "must not be blank")
			return ""
		}
		return *key
	}
	duration := func(field string, d *Duration) time.Duration {
		if d == nil || *d == 0 {
			add(field, "must be greater than zero")
			return 0
		}
		return time.Duration(*d)
	}
	if m.UniqueKey != nil {
		name := key("unique_key", m.UniqueKey)
		if uniqueFor == nil {
			add("unique_key", "requires unique_for, the TTL of the lock")
		} else {
			opts = append(opts, asynq.UniqueKey(name, time.Duration(*uniqueFor)))
		}
	}
	if m.OnDuplicate != nil {
		policy, ok := policies[*m.OnDuplicate]
		if !ok {
			add("on_duplicate", "must be reject, keep, replace or supersede")
		}
		opts = append(opts, asynq.OnDuplicate(policy))
	}
	if d := m.Debounce; d != nil {
		longest := time.Duration(0)
		if d.MaxWait != nil {
			longest = time.Duration(*d.MaxWait)
		}
		opts = append(opts, asynq.Debounce(key("debounce/key", d.Key), duration("debounce/quiet", d.Quiet), longest))
	}
	if t := m.Throttle; t != nil {
		opts = append(opts, asynq.Throttle(key("throttle/key", t.Key), duration("throttle/window", t.Window)))
	}
	if m.PartitionKey != nil {
		opt := asynq.PartitionKey(*m.PartitionKey)
		if err := asynq.NewTask("any", nil, opt).Validate(); err != nil {
			add("partition_key", strings.TrimPrefix(err.Error(), "asynq: "))
		}
		opts = append(opts, opt)
	}
	if m.ExpiresIn != nil {
		opts = append(opts, asynq.ExpiresIn(duration("expires_in", m.ExpiresIn)))
	}
	return opts
}
