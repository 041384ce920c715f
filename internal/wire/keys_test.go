package wire_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/wire"
)

// evening is the 31st in its zone, but the 1st in UTC.
var evening = time.Date(2024, 12, 31, 20, 0, 0, 0, time.FixedZone("", -5*3600))

func TestNamespaceKeys(t *testing.T) {
	process := wire.Process{Host: "web-1", PID: 42, ID: "1b4e"}
	keys := func(n wire.Namespace) map[string]string {
		return map[string]string{
			"Queues":           n.Queues(),
			"Servers":          n.Servers(),
			"Workers":          n.Workers(),
			"Schedulers":       n.Schedulers(),
			"Cancel":           n.Cancel(),
			"Wake":             n.Wake(),
			"Server":           n.Server(process),
			"ServerWorkers":    n.ServerWorkers(process),
			"Scheduler":        n.Scheduler(process),
			"SchedulerHistory": n.SchedulerHistory("e7"),
			"SchedulerGroup":   n.SchedulerGroup("main"),
			"HealthMutes":      n.HealthMutes(),
			"SchedulerPauses":  n.SchedulerPauses(),
			"Queue":            n.Queue("low").TaskPrefix(),
			"Flow":             n.Flow("order:42"),
			"FlowPlan":         n.FlowPlan("order:42"),
			"Flows":            n.Flows(),
			"FlowsToCheck":     n.FlowsToCheck(),
		}
	}
	want := map[string]string{
		"Queues":           "asynq:queues",
		"Servers":          "asynq:servers",
		"Workers":          "asynq:workers",
		"Schedulers":       "asynq:schedulers",
		"Cancel":           "asynq:cancel",
		"Wake":             "asynq:wake",
		"Server":           "asynq:servers:{web-1:42:1b4e}",
		"ServerWorkers":    "asynq:workers:{web-1:42:1b4e}",
		"Scheduler":        "asynq:schedulers:{web-1:42:1b4e}",
		"SchedulerHistory": "asynq:scheduler_history:e7",
		"SchedulerGroup":   "asynq:scheduler_groups:{main}",
		"HealthMutes":      "asynq:health_mutes",
		"SchedulerPauses":  "asynq:scheduler_pauses",
		"Queue":            "asynq:{low}:t:",
		"Flow":             "asynq:flow:{order:42}",
		"FlowPlan":         "asynq:flow:{order:42}:plan",
		"Flows":            "asynq:flows",
		"FlowsToCheck":     "asynq:flows_to_check",
	}
	checkKeys(t, reflect.TypeFor[wire.Namespace](), keys, want)
}

func TestQueueKeys(t *testing.T) {
	want := map[string]string{
		"Prefix":            "asynq:{low}:",
		"Pending":           "asynq:{low}:pending",
		"Active":            "asynq:{low}:active",
		"Lease":             "asynq:{low}:lease",
		"Scheduled":         "asynq:{low}:scheduled",
		"Retry":             "asynq:{low}:retry",
		"Archived":          "asynq:{low}:archived",
		"Completed":         "asynq:{low}:completed",
		"Paused":            "asynq:{low}:paused",
		"Groups":            "asynq:{low}:groups",
		"GroupPrefix":       "asynq:{low}:g:",
		"Group":             "asynq:{low}:g:users",
		"AggregationSets":   "asynq:{low}:aggregation_sets",
		"AggregationSet":    "asynq:{low}:g:users:9c1d",
		"Processed":         "asynq:{low}:processed",
		"Failed":            "asynq:{low}:failed",
		"ProcessedOn":       "asynq:{low}:processed:2025-01-01",
		"FailedOn":          "asynq:{low}:failed:2025-01-01",
		"TaskPrefix":        "asynq:{low}:t:",
		"Task":              "asynq:{low}:t:4b0f",
		"Unique":            "asynq:{low}:unique:email:5f4dcc3b5aa765d61d8327deb882cf99",
		"Marker":            "asynq:{low}:marker",
		"Unblock":           "asynq:{low}:unblock:web-1:42:1b4e",
		"IdempotencyRecord": "asynq:{low}:answer:b2c4-1-0",
		"IdempotencyKey":    "asynq:{low}:once:order-7",
		"UniquePrefix":      "asynq:{low}:unique:",
		"UniqueKey":         "asynq:{low}:unique:doc-7:key",
		"ThrottleLock":      "asynq:{low}:unique:doc-7:throttle",
		"Throttle":          "asynq:{low}:throttle:doc-7",
		"Import":            "asynq:{low}:import:7f3a",
		"GroupsDue":         "asynq:{low}:groups_due",
		"GroupsSwept":       "asynq:{low}:groups_swept",
		"ConsumedSets":      "asynq:{low}:spent_sets",
		"Tick":              "asynq:{low}:tick:e7",
		"HeldTasks":         "asynq:{low}:partitions:held",
		"ReadyPartitions":   "asynq:{low}:partitions:ready",
		"BlockedPartitions": "asynq:{low}:partitions:blocked",
		"RunningTasks":      "asynq:{low}:partitions:running",
		"PartitionRates":    "asynq:{low}:partitions:rates",
		"PartitionClock":    "asynq:{low}:partitions:clock",
		"PartitionSettings": "asynq:{low}:partitions:settings",
		"FlowPrefix":        "asynq:{low}:flows:",
		"FlowPart":          "asynq:{low}:flows:part:r1:pack:order:42",
		"FlowOpen":          "asynq:{low}:flows:open:r1:pack:order:42",
		"FlowFailed":        "asynq:{low}:flows:failed:r1:pack:order:42",
		"FlowsDue":          "asynq:{low}:flows:due",
		"Replies":           "asynq:{low}:replies:7f3a",
		"ArchiveLimits":     "asynq:{low}:archive_limits",
		"StatsMinutes":      "asynq:{low}:stats:m:2025-01-01T01",
		"StatsHours":        "asynq:{low}:stats:h:2025-01-01",
		"ErrorMinutes":      "asynq:{low}:errors:m:2025-01-01T01",
		"ErrorHours":        "asynq:{low}:errors:h:2025-01-01",
	}
	keys := func(n wire.Namespace) map[string]string { return queueKeys(n.Queue("low")) }
	checkKeys(t, reflect.TypeFor[wire.Queue](), keys, want)
	if name := wire.DefaultNamespace.Queue("low").Name; name != "low" {
		t.Errorf("the queue's name is %q", name)
	}
}

var packPart = wire.FlowPart{Run: "r1", Node: "pack", Flow: "order:42"}

// queueKeys returns the results of all methods of q, by their names.
func queueKeys(q wire.Queue) map[string]string {
	return map[string]string{
		"FlowPrefix":        q.FlowPrefix(),
		"FlowPart":          q.FlowPart(packPart),
		"FlowOpen":          q.FlowOpen(packPart),
		"FlowFailed":        q.FlowFailed(packPart),
		"FlowsDue":          q.FlowsDue(),
		"Replies":           q.Replies("7f3a"),
		"ArchiveLimits":     q.ArchiveLimits(),
		"HeldTasks":         q.HeldTasks(),
		"ReadyPartitions":   q.ReadyPartitions(),
		"BlockedPartitions": q.BlockedPartitions(),
		"RunningTasks":      q.RunningTasks(),
		"PartitionRates":    q.PartitionRates(),
		"PartitionClock":    q.PartitionClock(),
		"PartitionSettings": q.PartitionSettings(),
		"Pending":           q.Pending(),
		"Active":            q.Active(),
		"Lease":             q.Lease(),
		"Scheduled":         q.Scheduled(),
		"Retry":             q.Retry(),
		"Archived":          q.Archived(),
		"Completed":         q.Completed(),
		"Paused":            q.Paused(),
		"Groups":            q.Groups(),
		"GroupPrefix":       q.GroupPrefix(),
		"Group":             q.Group("users"),
		"AggregationSets":   q.AggregationSets(),
		"AggregationSet":    q.AggregationSet("users", "9c1d"),
		"Processed":         q.Processed(),
		"Failed":            q.Failed(),
		"ProcessedOn":       q.ProcessedOn(evening),
		"StatsMinutes":      q.StatsMinutes(evening),
		"StatsHours":        q.StatsHours(evening),
		"ErrorMinutes":      q.ErrorMinutes(evening),
		"ErrorHours":        q.ErrorHours(evening),
		"FailedOn":          q.FailedOn(evening),
		"TaskPrefix":        q.TaskPrefix(),
		"Prefix":            q.Prefix(),
		"Task":              q.Task("4b0f"),
		"Unique":            q.Unique("email", []byte("password")),
		"Marker":            q.Marker(),
		"Unblock":           q.Unblock("web-1:42:1b4e"),
		"IdempotencyRecord": q.IdempotencyRecord("b2c4-1-0"),
		"IdempotencyKey":    q.IdempotencyKey("order-7"),
		"UniqueKey":         q.UniqueKey("doc-7"),
		"ThrottleLock":      q.ThrottleLock("doc-7"),
		"Throttle":          q.Throttle("doc-7"),
		"UniquePrefix":      q.UniquePrefix(),
		"Import":            q.Import("7f3a"),
		"GroupsDue":         q.GroupsDue(),
		"GroupsSwept":       q.GroupsSwept(),
		"ConsumedSets":      q.ConsumedSets(),
		"Tick":              q.Tick("e7"),
	}
}

// checkKeys checks the keys in the default namespace and in another one, and that every method of
// the type is covered. Each method returns a key.
func checkKeys(t *testing.T, of reflect.Type, keys func(wire.Namespace) map[string]string, want map[string]string) {
	t.Helper()
	var methods []string
	for m := range of.Methods() {
		methods = append(methods, m.Name)
	}
	if tested := slices.Sorted(maps.Keys(want)); !slices.Equal(tested, methods) {
		t.Errorf("methods %q\ntested  %q", methods, tested)
	}
	byDefault, byOther := keys(wire.DefaultNamespace), keys("shop:v2")
	for method, key := range want {
		if got := byDefault[method]; got != key {
			t.Errorf("%s is %q, want %q", method, got, key)
		}
		other := "shop:v2" + strings.TrimPrefix(key, "asynq")
		if got := byOther[method]; got != other {
			t.Errorf("%s is %q, want %q", method, got, other)
		}
	}
}

func TestUnique(t *testing.T) {
	q := wire.DefaultNamespace.Queue("default")
	tests := []struct {
		name    string
		payload []byte
		want    string
	}{
		{"nil", nil, "asynq:{default}:unique:email:send:"},
		{"empty", []byte{}, "asynq:{default}:unique:email:send:d41d8cd98f00b204e9800998ecf8427e"},
		{"some", []byte("abc"), "asynq:{default}:unique:email:send:900150983cd24fb0d6963f7d28e17f72"},
	}
	for _, tt := range tests {
		if got := q.Unique("email:send", tt.payload); got != tt.want {
			t.Errorf("%s payload: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestSchedulerCreations(t *testing.T) {
	list := wire.DefaultNamespace.Scheduler(wire.Process{Host: "web-1", PID: 42, ID: "1b4e"})
	if got := wire.SchedulerCreations(list); got != "asynq:schedulers:{web-1:42:1b4e}:creations" || slot(got) != slot(list) {
		t.Errorf("got %q", got)
	}
}

func TestProcessString(t *testing.T) {
	if got := (wire.Process{Host: "web-1", PID: 42, ID: "1b4e"}).String(); got != "web-1:42:1b4e" {
		t.Errorf("got %q", got)
	}
}

// Scripts may only access keys of one slot.
func TestQueueIsInOneSlot(t *testing.T) {
	check := func(t interface{ Errorf(string, ...any) }, n wire.Namespace, name string) {
		slots := make(map[uint16][]string)
		for _, key := range queueKeys(n.Queue(name)) {
			slots[slot(key)] = append(slots[slot(key)], key)
		}
		if len(slots) != 1 {
			t.Errorf("queue %q has keys in %d slots: %v", name, len(slots), slots)
		}
	}
	for _, name := range []string{
		"default", "low", " ", "a:b", "a b", "{", "{a", "{}", "{a}", "a}", "a}b", "a{b}c", "a\nb", "a\x00b", "очередь", "\xff",
	} {
		check(t, wire.DefaultNamespace, name)
		check(t, "shop:v2", name)
	}
	// A name that begins with } makes the hash tag empty, so that the whole key is hashed.
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Filter(func(s string) bool { return s != "" && s[0] != '}' }).Draw(t, "name")
		check(t, wire.DefaultNamespace, name)
	})
}

func TestQueuesSpreadOverSlots(t *testing.T) {
	low, high := wire.DefaultNamespace.Queue("low").Pending(), wire.DefaultNamespace.Queue("high").Pending()
	if slot(low) == slot(high) {
		t.Errorf("%q and %q are both in slot %d", low, high, slot(low))
	}
}

// The check value of the Redis Cluster specification, and slots returned by CLUSTER KEYSLOT.
func TestSlot(t *testing.T) {
	if got := crc16("123456789"); got != 0x31c3 {
		t.Errorf("crc16 is %#x, want 0x31c3", got)
	}
	for key, want := range map[string]uint16{
		"foo": 12182, "bar": 5061, "x{foo}y": 12182, "{foo}{bar}": 12182,
		"foo{}{bar}": crc16("foo{}{bar}") % 16384, "foo{bar": crc16("foo{bar") % 16384, "{{bar}}": crc16("{bar") % 16384,
	} {
		if got := slot(key); got != want {
			t.Errorf("%q is in slot %d, want %d", key, got, want)
		}
	}
}

// slot returns the Cluster slot of a key: that of the text between its first { and the next },
// unless that is empty.
func slot(key string) uint16 {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			key = tag
		}
	}
	return crc16(key) % 16384
}

// crc16 is CRC-16/XMODEM, bit by bit.
func crc16(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

func TestGroupOf(t *testing.T) {
	q := wire.DefaultNamespace.Queue("low")
	for _, group := range []string{"users", "", "a:b", "}:{", "g:"} {
		if got, ok := wire.GroupOf(q, q.AggregationSet(group, "9c1d")); got != group || !ok {
			t.Errorf("GroupOf of a set of %q returns %q, %t", group, got, ok)
		}
	}
	for _, key := range []string{"", q.Group("users"), q.Groups(), wire.DefaultNamespace.Queue("high").AggregationSet("users", "9c1d")} {
		if got, ok := wire.GroupOf(q, key); ok {
			t.Errorf("GroupOf accepts %s as a set of group %q", key, got)
		}
	}
}

func TestParseProcess(t *testing.T) {
	const n = wire.DefaultNamespace
	for _, p := range []wire.Process{
		{Host: "web-1", PID: 42, ID: "1b4e"}, {Host: "fe80::a", PID: 7, ID: "id"}, {Host: "web-1", PID: 42, ID: "1b4e:worker:8"}, {Host: "", PID: 0, ID: ""},
	} {
		if got, ok := wire.ParseProcess(n.Servers(), n.Server(p)); !ok || got != p {
			t.Errorf("%v is parsed as %v, %v", p, got, ok)
		}
	}
	for _, key := range []string{"", "asynq:servers:{}", "asynq:servers:{a:b:c}", "asynq:servers:{a:1}", "asynq:servers:{a:1:c", "asynq:schedulers:{a:1:c}"} {
		if p, ok := wire.ParseProcess(n.Servers(), key); ok {
			t.Errorf("%q is parsed as %v", key, p)
		}
	}
}
