package poll

import (
	"fmt"
	"strings"

	"github.com/asynq-go/asynq/x/web/internal/show"
)

// unreachable returns why the snapshot failed.
func unreachable(err error) string {
	text := show.RedisError(err)
	if !strings.HasPrefix(text, "Redis ") {
		text = "Redis is unreachable: " + text
	}
	return text
}

// redis diagnoses Redis node by node: a full shard stops its queues.
func (j *diagnosis) redis() {
	if j.s.Err != nil {
		j.add(Trouble, "redis-unreachable", redisLink, unreachable(j.s.Err),
			"Showing the last known state. Check that Redis is running and that this process can connect to it.")
		return
	}
	if j.s.Problems.Redis != nil {
		return
	}
	several := len(j.s.Redis.Nodes) > 1
	for _, n := range j.s.Redis.Nodes {
		name := "Redis"
		if several {
			name = "Redis node " + n.Addr
		}
		if n.Err != nil {
			j.add(Trouble, "redis-node", redisLink, fmt.Sprintf("%s is unreachable: %s", name, show.Cause(n.Err)),
				"Queues in its slots make no progress until it recovers or a replica is promoted.")
			continue
		}
		j.node(name, n.Redis)
	}
	if evicted := j.s.Redis.EvictedKeys - j.m.evicted; j.m.evictions && evicted > 0 {
		j.add(Trouble, "redis-evicted", redisLink, fmt.Sprintf("Redis has evicted %s since monitoring started", count(int(evicted), "key", "keys")),
			"Tasks may be lost. Run asynq doctor to find the damage, and set maxmemory-policy to noeviction.")
	}
}

func (j *diagnosis) node(name string, r Redis) {
	if r.MaxMemory > 0 {
		part := float64(r.Memory) / float64(r.MaxMemory)
		text := fmt.Sprintf("%s uses %s of %s (%.0f %%)", name, size(r.Memory), size(r.MaxMemory), 100*part)
		switch {
		case part >= memoryTrouble:
			j.add(Trouble, "redis-memory", redisLink, text, "When it is full, enqueueing fails. Raise maxmemory, or delete archived and completed tasks.")
		case part >= memoryWarning:
			j.add(Warning, "redis-memory", redisLink, text, "Raise maxmemory, or delete archived and completed tasks.")
		}
	}
	const policyHint = "Set maxmemory-policy to noeviction: a full Redis then rejects new tasks and loses none."
	switch evicts := evicting(r.MaxMemoryPolicy); {
	case evicts == 0:
	case r.MaxMemory == 0:
		j.add(Notice, "redis-policy", redisLink,
			fmt.Sprintf("%s has the eviction policy %s: it would evict keys if maxmemory were set", name, r.MaxMemoryPolicy), policyHint)
	case evicts == 1:
		j.add(Warning, "redis-policy", redisLink,
			fmt.Sprintf("%s has the eviction policy %s: when it is full, it evicts uniqueness locks and server records", name, r.MaxMemoryPolicy), policyHint)
	default:
		j.add(Trouble, "redis-policy", redisLink,
			fmt.Sprintf("%s has the eviction policy %s: when it is full, it evicts tasks", name, r.MaxMemoryPolicy), policyHint)
	}
	if r.SaveFailed {
		j.add(Warning, "redis-save", redisLink, fmt.Sprintf("%s failed its last write to disk", name),
			"It may reject writes, and tasks may be lost when it stops. Check its log and its disk.")
	}
	if r.FragmentationPct >= fragmentationNotice && r.Memory >= fragmentationLeast {
		j.add(Notice, "redis-fragmentation", redisLink,
			fmt.Sprintf("%s occupies %.0f %% more memory of the system than the %s that it uses", name, r.FragmentationPct, size(r.Memory)),
			"The memory is fragmented, or is left from a peak. Enable activedefrag or restart Redis to release it.")
	}
}

// size formats a size in binary units.
func size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1023.95 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}
