package poll

import "fmt"

// redis judges Redis itself, node by node: one shard that is full stops its queues.
func (j *judgement) redis() {
	if j.s.Err != nil {
		j.add(Trouble, "redis-unreachable", redisLink, fmt.Sprintf("Redis cannot be reached: %v", j.s.Err),
			"What is shown is from before. See that Redis runs, and that this process can reach it.")
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
			j.add(Trouble, "redis-node", redisLink, fmt.Sprintf("%s cannot be asked: %v", name, n.Err),
				"Queues whose slots it serves stand still until it is back or a replica takes over.")
			continue
		}
		j.node(name, n.Redis)
	}
	if evicted := j.s.Redis.EvictedKeys - j.m.evicted; j.m.evictions && evicted > 0 {
		j.add(Trouble, "redis-evicted", redisLink, fmt.Sprintf("Redis has evicted %s since it is watched", count(int(evicted), "key", "keys")),
			"Tasks may be lost: asynq doctor finds what is left of them. Set maxmemory-policy to noeviction.")
	}
}

func (j *judgement) node(name string, r Redis) {
	if r.MaxMemory > 0 {
		part := float64(r.Memory) / float64(r.MaxMemory)
		text := fmt.Sprintf("%s uses %s of %s (%.0f %%)", name, size(r.Memory), size(r.MaxMemory), 100*part)
		switch {
		case part >= memoryTrouble:
			j.add(Trouble, "redis-memory", redisLink, text, "When it is full, no task can be enqueued. Raise maxmemory, or delete archived and completed tasks.")
		case part >= memoryWarning:
			j.add(Warning, "redis-memory", redisLink, text, "Raise maxmemory, or delete archived and completed tasks.")
		}
	}
	const policyHint = "Set maxmemory-policy to noeviction: then a full Redis refuses new tasks and loses none."
	switch evicts := evicting(r.MaxMemoryPolicy); {
	case evicts == 0:
	case r.MaxMemory == 0:
		j.add(Notice, "redis-policy", redisLink,
			fmt.Sprintf("%s has the policy %s: were there a limit to its memory, it would evict keys", name, r.MaxMemoryPolicy), policyHint)
	case evicts == 1:
		j.add(Warning, "redis-policy", redisLink,
			fmt.Sprintf("%s has the policy %s: when it is full, it evicts locks of unique tasks and what servers tell of themselves", name, r.MaxMemoryPolicy), policyHint)
	default:
		j.add(Trouble, "redis-policy", redisLink,
			fmt.Sprintf("%s has the policy %s: when it is full, it evicts tasks", name, r.MaxMemoryPolicy), policyHint)
	}
	if r.SaveFailed {
		j.add(Warning, "redis-save", redisLink, fmt.Sprintf("%s could not write to its disk the last time it tried", name),
			"It may refuse to be written to, and tasks may be lost when it ends. Look at its log, and at its disk.")
	}
	if r.FragmentationPct >= fragmentationNotice && r.Memory >= fragmentationLeast {
		j.add(Notice, "redis-fragmentation", redisLink,
			fmt.Sprintf("%s has %.0f %% more memory of the system than the %s that it uses", name, r.FragmentationPct, size(r.Memory)),
			"The memory is fragmented, or was needed at a peak: activedefrag or a restart gives it back.")
	}
}

// size writes a size in binary units.
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
