package health

import (
	"fmt"
	"time"

	"github.com/asynq-go/asynq/x/internal/redisinfo"
)

// redis finds problems of Redis, node by node: a full shard stops its queues.
func (d *diagnosis) redis() {
	if d.in.Problems.Redis != nil {
		return
	}
	evicted := int64(0)
	for _, n := range d.in.Nodes {
		name, subject := "Redis", ""
		if len(d.in.Nodes) > 1 {
			name, subject = "Redis node "+n.Addr, n.Addr
		}
		if n.Err != nil {
			d.add(finding{
				kind: "redis-node", severity: Trouble, subject: n.Addr, link: Link{Page: PageRedis},
				text: fmt.Sprintf("%s is unreachable: %s", name, reason(n.Err)),
				hint: "Queues in its slots make no progress until it recovers or a replica is promoted.",
			})
			continue
		}
		evicted += n.EvictedKeys - d.m.evicted[n.Addr]
		d.node(name, subject, n)
	}
	if evicted > 0 {
		d.add(finding{
			kind: "redis-evicted", severity: Trouble, link: Link{Page: PageRedis},
			text: fmt.Sprintf("Redis has evicted %s since monitoring started", count(int(evicted), "key", "keys")),
			hint: "Tasks may be lost. Run asynq doctor to find the damage, and set maxmemory-policy to noeviction.",
		})
	}
}

func (d *diagnosis) node(name, subject string, n Node) {
	add := func(kind string, severity Severity, text, hint string) {
		f := finding{kind: kind, severity: severity, subject: subject, link: Link{Page: PageRedis}, text: text, hint: hint}
		if kind == "redis-memory" {
			f.series = &Series{Metric: "redis_memory"}
		}
		d.add(f)
	}
	if n.MaxMemory > 0 {
		part := float64(n.Memory) / float64(n.MaxMemory)
		text := fmt.Sprintf("%s uses %s of %s (%.0f %%)", name, size(n.Memory), size(n.MaxMemory), 100*part)
		switch {
		case part >= d.s.MemoryTrouble:
			add("redis-memory", Trouble, text, "When it is full, enqueueing fails. Raise maxmemory, or delete archived and completed tasks.")
		case part >= d.s.MemoryWarning:
			add("redis-memory", Warning, text, "Raise maxmemory, or delete archived and completed tasks.")
		}
	}
	const policyHint = "Set maxmemory-policy to noeviction: a full Redis then rejects new tasks and loses none."
	switch evicts := redisinfo.Evicts(n.MaxMemoryPolicy); {
	case evicts == redisinfo.EvictsNothing:
	case n.MaxMemory == 0:
		add("redis-policy", Notice,
			fmt.Sprintf("%s has the eviction policy %s: it would evict keys if maxmemory were set", name, n.MaxMemoryPolicy), policyHint)
	case evicts == redisinfo.EvictsSome:
		add("redis-policy", Warning,
			fmt.Sprintf("%s has the eviction policy %s: when it is full, it evicts uniqueness locks and server records", name, n.MaxMemoryPolicy), policyHint)
	default:
		add("redis-policy", Trouble,
			fmt.Sprintf("%s has the eviction policy %s: when it is full, it evicts tasks", name, n.MaxMemoryPolicy), policyHint)
	}
	if n.SaveFailed {
		add("redis-save", Warning, name+" failed its last write to disk",
			"It may reject writes, and tasks may be lost when it stops. Check its log and its disk.")
	} else if text, ok := d.unsaved(name, n); ok {
		add("redis-unsaved", Warning, text,
			"All tasks are lost when it stops. Set appendonly to yes, or configure snapshots (save), and add a replica.")
	}
	if n.Fragmentation >= d.s.Fragmentation && n.Memory >= int64(d.s.FragmentationBytes) {
		add("redis-fragmentation", Notice,
			fmt.Sprintf("%s occupies %.0f %% more memory of the system than the %s that it uses", name, 100*n.Fragmentation, size(n.Memory)),
			"The memory is fragmented, or is left from a peak. Enable activedefrag or restart Redis to release it.")
	}
}

// Redis by default makes a snapshot within an hour after one change, and within 5 minutes after 100
// changes. So changes that stay unsaved for longer show that snapshots are off.
const (
	saveAlways  = 65 * time.Minute
	saveChanges = 100
)

// unsaved describes a node that keeps its data in memory only. An embedded Redis is meant to.
func (d *diagnosis) unsaved(name string, n Node) (string, bool) {
	if n.Version == "" || n.AppendOnly || n.Replicas > 0 || n.Unsaved == 0 || n.SavedAt.IsZero() {
		return "", false
	}
	age, least := d.in.At.Sub(n.SavedAt), d.s.UnsavedWarning
	if n.Unsaved < saveChanges {
		least = max(least, saveAlways)
	}
	if age < least {
		return "", false
	}
	text := fmt.Sprintf("%s persists nothing: no snapshot for %s with %s since, no append-only file, no replica",
		name, span(age), count(int(n.Unsaved), "change", "changes"))
	if n.MaxMemory == 0 {
		text += ", and no maxmemory"
	}
	return text, true
}
