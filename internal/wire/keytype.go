package wire

import (
	"slices"
	"strings"
	"time"
)

// KeyType describes the value of a key.
type KeyType struct {
	Type    string // as returned by the TYPE command
	State   State  // of the tasks in it; 0 for other keys
	Expires bool   // must have a TTL
	Integer bool   // must be a number
}

// KeyTypeOf returns the type that a key of a queue must have according to its name. It reports
// false for the keys of tasks and for unknown keys.
func KeyTypeOf(k Queue, key string) (KeyType, bool) {
	for _, state := range States() {
		switch {
		case state == StateAggregating || key != CollectionKey(k, state, ""):
		case state == StatePending || state == StateActive:
			return KeyType{Type: "list", State: state}, true
		default:
			return KeyType{Type: "zset", State: state}, true
		}
	}
	switch key {
	case k.Lease(), k.AggregationSets():
		return KeyType{Type: "zset"}, true
	case k.Groups():
		return KeyType{Type: "set"}, true
	case k.Paused(), k.Processed(), k.Failed():
		return KeyType{Type: "string", Integer: true}, true
	case k.GroupsDue(), k.ConsumedSets(), k.HeldTasks(), k.ReadyPartitions(), k.BlockedPartitions(), k.RunningTasks(),
		k.PartitionRates(), k.FlowsDue():
		return KeyType{Type: "zset", Expires: true}, true
	case k.GroupsSwept(), k.ArchiveLimits():
		return KeyType{Type: "string", Expires: true}, true
	case k.PartitionClock():
		return KeyType{Type: "hash", Expires: true}, true
	case k.PartitionSettings():
		return KeyType{Type: "hash"}, true
	case k.Marker():
		return KeyType{Type: "list", Expires: true}, true
	}
	switch {
	case strings.HasPrefix(key, k.GroupPrefix()):
		return KeyType{Type: "zset"}, true
	case strings.HasPrefix(key, k.prefix+flowParts):
		return KeyType{Type: "hash", Expires: true}, true
	case strings.HasPrefix(key, k.prefix+flowOpen), strings.HasPrefix(key, k.prefix+flowFailed):
		return KeyType{Type: "set", Expires: true}, true
	case strings.HasPrefix(key, k.Unblock("")), strings.HasPrefix(key, k.Replies("")):
		return KeyType{Type: "list", Expires: true}, true
	case strings.HasPrefix(key, k.IdempotencyRecord("")), strings.HasPrefix(key, k.IdempotencyKey("")),
		strings.HasPrefix(key, k.Throttle("")), strings.HasPrefix(key, k.Tick("")), strings.HasPrefix(key, k.Import("")):
		return KeyType{Type: "string", Expires: true}, true
	case strings.HasPrefix(key, k.prefix+"stats:"), strings.HasPrefix(key, k.prefix+"errors:"):
		return KeyType{Type: "hash", Expires: true}, true
	case strings.HasPrefix(key, k.UniquePrefix()):
		return KeyType{Type: "string"}, true
	}
	for _, prefix := range []string{k.Processed() + ":", k.Failed() + ":"} {
		if day, ok := strings.CutPrefix(key, prefix); ok {
			_, err := time.Parse(time.DateOnly, day)
			return KeyType{Type: "string", Expires: true, Integer: true}, err == nil
		}
	}
	return KeyType{}, false
}

// CollectionKey returns the key of the collection of the tasks in a state. If the state is
// StateAggregating, that is the group's. It returns "" for an unknown state.
func CollectionKey(k Queue, state State, group string) string {
	switch {
	case state == StateAggregating:
		return k.Group(group)
	case slices.Contains(States(), state):
		return k.prefix + state.String()
	default:
		return ""
	}
}
