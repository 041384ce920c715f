package checker

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// parse parses a history. Each line has a time in milliseconds, a kind, and words: the subject of
// the event, and settings.
func parse(t *testing.T, text string) (events []history.Event) {
	t.Helper()
	limits := make(map[string]int)
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		e := history.Event{At: ms(t, words[0]), Kind: history.Kind(words[1]), Queue: "q"}
		switch e.Kind {
		case history.Born, history.Died:
			e.Process = words[2]
		case history.Fault:
			e.Name = words[2]
		default:
			e.Task = words[2]
		}
		for _, word := range words[3:] {
			key, value, _ := strings.Cut(word, "=")
			switch key {
			case "on":
				e.Process = value
			case "run":
				e.Run = value
			case "retried":
				e.Retried = int(ms(t, value) / 1e6)
			case "retry":
				limits[e.Task] = int(ms(t, value) / 1e6)
			case "plan":
				e.Plan = strings.Split(value, ",")
			case "key":
				e.UniqueKey = value
			case "ttl":
				e.UniqueTTL = time.Duration(ms(t, value))
			case "keep":
				e.Retention = time.Duration(ms(t, value))
			case "group":
				e.Group = value
			case "of":
				e.Members = strings.Split(value, ",")
			case "err":
				e.Err = "planned"
			case "state":
				e.State = value
			case "partition":
				e.Partition = value
			case "limits": // concurrency/interval/burst/ordered
				e.Limits = &history.Limits{}
				for i, part := range strings.Split(value, "/") {
					switch n := ms(t, part); i {
					case 0:
						e.Limits.Concurrency = int(n / 1e6)
					case 1:
						e.Limits.Interval = time.Duration(n)
					case 2:
						e.Limits.Burst = int(n / 1e6)
					case 3:
						e.Limits.Ordered = n > 0
					}
				}
			case "until":
				e.Until = ms(t, value)
			case "loses":
				e.Loses = time.Duration(ms(t, value))
			case "to":
				e.Targets = strings.Split(value, ",")
			default:
				t.Fatalf("%q: what is %q?", line, word)
			}
		}
		e.MaxRetry = limits[e.Task]
		events = append(events, e)
	}
	return events
}

// ms parses milliseconds.
func ms(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n * int64(time.Millisecond)
}

// once is a task with one retry that was accepted at once and started at 10 s.
const once = `
	0     offered  a retry=1
	1     accepted a
	10000 started  a run=1 on=w1
`

// histories lists histories with a fault, in pairs: what it just explains, and what it just does
// not. Leases last 3 s and are extended each second; the slack is 400 ms.
var histories = []struct {
	name string
	kind Kind // "" if it is valid
	text string
}{
	{"killed: the next run comes later", "", once + `
		11000 died w1
		14000 started a run=2 on=w2 retried=1
		14001 finished a run=2 on=w2`},
	{"killed: Retried is the same after a shutdown", "", once + `
		11000 died w1
		11001 started a run=2 on=w2
		14001 finished a run=2 on=w2`},
	{"killed: Retried grows by two", Jump, strings.Replace(once, "retry=1", "retry=3", 1) + `
		11000 died w1
		14000 started a run=2 on=w2 retried=2
		14001 finished a run=2 on=w2`},
	{"killed twice, once before the handler's first act", "", strings.Replace(once, "retry=1", "retry=3", 1) + `
		11000 died w1
		15000 died w2
		18000 started a run=2 on=w3 retried=2
		18001 finished a run=2 on=w3`},
	{"a producer's death explains no attempt", Jump, strings.Replace(strings.Replace(once, "retry=1", "retry=3 on=p", 1), "accepted a", "accepted a on=p", 1) + `
		11000 died w1
		15000 died p
		18000 started a run=2 on=w3 retried=2
		18001 finished a run=2 on=w3`},
	{"given back just before the process ends", "", once + `
		11000 started a run=2 on=w2
		11001 finished a run=2 on=w2
		11390 died w1`},
	{"the process ends long after", Overlap, once + `
		11000 started a run=2 on=w2
		11001 finished a run=2 on=w2
		11410 died w1`},
	{"killed before the outcome was sent", "", once + `
		11000 finished a run=1 on=w1
		11390 died w1
		15000 started a run=2 on=w2 retried=1
		15001 finished a run=2 on=w2`},
	{"killed when the outcome no longer waited for Redis", Duplicate, once + `
		10900 fault network to=w1 until=11150
		11000 finished a run=1 on=w1
		11560 died w1
		15000 started a run=2 on=w2 retried=1
		15001 finished a run=2 on=w2`},
	{"killed after the outcome was sent", Duplicate, once + `
		11000 finished a run=1 on=w1
		11410 died w1
		15000 started a run=2 on=w2 retried=1
		15001 finished a run=2 on=w2`},
	{"killed while the outcome waits for Redis", "", once + `
		10900 fault network to=w1 until=11150
		11000 finished a run=1 on=w1
		11540 died w1
		15000 started a run=2 on=w2 retried=1
		15001 finished a run=2 on=w2`},
	{"a failure that was sent is counted, although the process dies", NotCounted, once + `
		11000 finished a run=1 on=w1 err=1
		11410 died w1
		15000 started a run=2 on=w2
		15001 finished a run=2 on=w2`},
	{"silenced until the lease may have ended", "", once + `
		20000 fault stop to=w1 until=21000
		21600 started a run=2 on=w2 retried=1
		21601 finished a run=2 on=w2
		30000 finished a run=1 on=w1`},
	{"the lease cannot have ended yet", Overlap, once + `
		20000 fault stop to=w1 until=26000
		21590 started a run=2 on=w2 retried=1
		21591 finished a run=2 on=w2
		30000 finished a run=1 on=w1`},
	{"another process is silenced", Overlap, once + `
		20000 fault stop to=w2 until=26000
		25000 started a run=2 on=w3 retried=1
		25001 finished a run=2 on=w3
		30000 finished a run=1 on=w1`},
	{"silenced for so short a time that the lease was extended", Overlap, once + `
		20000 fault stop to=w1 until=20190
		25000 started a run=2 on=w2 retried=1
		25001 finished a run=2 on=w2
		30000 finished a run=1 on=w1`},
	{"silenced twice, with too little time to extend the lease", "", once + `
		20000 fault stop to=w1 until=20100
		21400 fault stop to=w1 until=21500
		25000 started a run=2 on=w2 retried=1
		25001 finished a run=2 on=w2
		30000 finished a run=1 on=w1`},
	{"silenced twice, with time to extend the lease", Overlap, once + `
		20000 fault stop to=w1 until=20100
		21600 fault stop to=w1 until=21700
		25000 started a run=2 on=w2 retried=1
		25001 finished a run=2 on=w2
		30000 finished a run=1 on=w1`},
	{"silenced right after it was fetched: the lease is new", Overlap, once + `
		10100 fault stop to=w1 until=26000
		12500 started a run=2 on=w2 retried=1
		12501 finished a run=2 on=w2
		30000 finished a run=1 on=w1`},
	{"silenced long before", Overlap, once + `
		5000 fault stop to=w1 until=9000
		12500 started a run=2 on=w2 retried=1
		12501 finished a run=2 on=w2
		30000 finished a run=1 on=w1`},
	{"all are silenced", "", once + `
		20000 fault restart to=* until=24000
		24100 started a run=2 on=w2 retried=1
		24101 finished a run=2 on=w2
		30000 finished a run=1 on=w1`},
	{"silenced when it succeeded", "", once + `
		20000 finished a run=1 on=w1
		20100 fault network to=w1 until=26000
		24000 started a run=2 on=w2 retried=1
		24001 finished a run=2 on=w2`},
	{"silenced when its outcome was there", Duplicate, once + `
		20000 finished a run=1 on=w1
		20500 fault network to=w1 until=26000
		24000 started a run=2 on=w2 retried=1
		24001 finished a run=2 on=w2`},
	{"silenced for a while when it succeeded", Duplicate, once + `
		20000 finished a run=1 on=w1
		20100 fault network to=w1 until=20200
		24000 started a run=2 on=w2 retried=1
		24001 finished a run=2 on=w2`},
	{"frozen between the fetch and the handler", "", `
		0     offered  a retry=1
		1     accepted a
		100   fault stop to=w1 until=9000
		5000  started a run=2 on=w2 retried=1
		5001  finished a run=2 on=w2
		9100  started a run=1 on=w1
		9101  finished a run=1 on=w1`},
	{"frozen before the handler, and others go on after it", "", `
		0     offered  a retry=3
		1     accepted a
		100   fault stop to=w1 until=9000
		5000  started a run=2 on=w2 retried=1
		5001  finished a run=2 on=w2 err=1
		9100  started a run=1 on=w1
		9101  finished a run=1 on=w1
		9500  started a run=3 on=w2 retried=2
		9501  finished a run=3 on=w2`},
	{"started late, but its process was not frozen then", Duplicate, `
		0     offered  a retry=1
		1     accepted a
		100   fault stop to=w1 until=8000
		5000  started a run=2 on=w2 retried=1
		5001  finished a run=2 on=w2
		9100  started a run=1 on=w1
		9101  finished a run=1 on=w1`},
	{"a lease is lost in a silence", "", once + `
		20000 fault network to=w1 until=26000
		22000 lost a run=1 on=w1
		26000 finished a run=1 on=w1 err=1
		27000 started a run=2 on=w2 retried=1
		27001 finished a run=2 on=w2`},
	{"a lease is lost in a short silence", LeaseLost, once + `
		20000 fault network to=w1 until=20100
		22000 lost a run=1 on=w1
		26000 finished a run=1 on=w1 err=1
		27000 started a run=2 on=w2 retried=1
		27001 finished a run=2 on=w2`},
	{"accepted within what is lost", "", `
		0    offered  a
		1000 accepted a
		1500 fault failover to=* until=3000 loses=500`},
	{"accepted before what is lost", Lost, `
		0    offered  a
		1000 accepted a
		1501 fault failover to=* until=3000 loses=500`},
	{"accepted after what is lost", Lost, `
		0    fault failover to=* until=999 loses=500
		1000 offered  a
		1001 accepted a`},
	{"a fault that loses nothing", Lost, `
		0    offered  a
		1000 accepted a
		1001 fault restart to=* until=3000`},
	{"set back behind a success", "", once + `
		11000 finished a run=1 on=w1
		12000 fault failover to=* until=12500 loses=1000
		13000 started a run=2 on=w2
		13001 finished a run=2 on=w2`},
	{"not set back far enough for a repeated run", Duplicate, once + `
		11000 finished a run=1 on=w1
		12500 fault failover to=* until=12590 loses=1000
		13000 started a run=2 on=w2
		13001 finished a run=2 on=w2`},
	{"set back behind the fetch of a run that starts late", "", `
		0     offered  a
		1     accepted a
		900   fault stop to=w1 until=2000
		1100  fault failover to=* until=1150 loses=500
		1900  started  a run=2 on=w2
		1910  finished a run=2 on=w2
		2100  started  a run=1 on=w1
		2110  finished a run=1 on=w1`},
	{"set back before the fetch of a run that starts late", Duplicate, `
		0     offered  a
		1     accepted a
		2700  fault stop to=w1 until=3000
		1100  fault failover to=* until=1150 loses=500
		2900  started  a run=2 on=w2
		2910  finished a run=2 on=w2
		3100  started  a run=1 on=w1
		3110  finished a run=1 on=w1`},
	{"set back behind a failure: Retried is lower", "", once + `
		10500 finished a run=1 on=w1 err=1
		11000 started a run=2 on=w2 retried=1
		12000 fault failover to=* until=12500 loses=1800
		13000 started a run=3 on=w2
		13001 finished a run=3 on=w2`},
	{"a unique task after the first one's end", "", `
		0    offered  a key=u ttl=9000
		1    accepted a
		100  started  a run=1 on=w1
		200  finished a run=1 on=w1
		150  offered  b key=u ttl=9000
		201  accepted b
		300  started  b run=2 on=w1
		400  finished b run=2 on=w1`},
	{"a unique task before the first one's end", Unique, `
		0    offered  a key=u ttl=9000
		1    accepted a
		100  started  a run=1 on=w1
		200  finished a run=1 on=w1
		150  offered  b key=u ttl=9000
		199  accepted b
		300  started  b run=2 on=w1
		400  finished b run=2 on=w1`},
	{"a unique task that was offered at the same time", "", `
		0    offered  a key=u ttl=9000
		5    accepted a
		100  started  a run=1 on=w1
		200  finished a run=1 on=w1
		4    offered  b key=u ttl=9000
		199  accepted b
		300  started  b run=2 on=w1
		400  finished b run=2 on=w1`},
	{"a unique task after the lock's time", "", `
		0    offered  a key=u ttl=150
		1    accepted a
		100  started  a run=1 on=w1
		200  finished a run=1 on=w1
		120  offered  b key=u ttl=9000
		151  accepted b
		300  started  b run=2 on=w1
		400  finished b run=2 on=w1`},
	{"a unique task while the first one's run goes on, which has lost its task", "", `
		0     offered  a key=u ttl=90000
		1     accepted a
		10000 started  a run=1 on=w1
		20000 fault stop to=w1 until=26000
		24000 offered  b key=u ttl=90000
		24001 accepted b
		24100 started  b run=2 on=w2
		24200 finished b run=2 on=w2
		26100 finished a run=1 on=w1
		30000 outcome  a state=archived`},
	{"kept until its time", "", `
		0    offered  a keep=500
		1    accepted a
		100  started  a run=1 on=w1
		200  finished a run=1 on=w1
		700  died w1`},
	{"not kept until its time", NotKept, `
		0    offered  a keep=500
		1    accepted a
		100  started  a run=1 on=w1
		200  finished a run=1 on=w1
		699  died w1`},
	{"offered again after an unknown answer", "", `
		0    offered  a
		1    unknown  a
		2    offered  a
		3    refused  a
		100  started  a run=1 on=w1
		200  finished a run=1 on=w1`},
	{"offered again after a refusal, without an answer", "", `
		0    offered  a
		1    refused  a
		2    offered  a
		100  started  a run=1 on=w1
		200  finished a run=1 on=w1`},
	{"the crash of its last attempt archives it", "", `
		0    offered  a plan=crash
		1    accepted a
		100  started  a run=1 on=w1
		200  died w1
		5000 outcome a state=archived`},
	{"a plan of crashes leads nowhere if nothing crashed", ArchivedWrong, `
		0    offered  a plan=crash
		1    accepted a
		100  started  a run=1 on=w1
		5000 outcome a state=archived`},
	{"a member of a group that was archived", "", `
		0    offered  a group=g
		1    accepted a
		100  started  g run=1 on=w1 of=a
		200  finished g run=1 on=w1 err=1
		5000 outcome g state=archived`},
	{"a group that was handed over twice, because Redis was set back", "", `
		0    offered  a group=g
		1    accepted a
		1000 started  g run=1 on=w1 of=a
		1500 fault failover to=* until=1600 loses=1000
		2000 started  h run=2 on=w2 of=a
		2001 finished h run=2 on=w2`},
	{"two tasks of a partition at once", "", `
		0    offered  a partition=k limits=2
		0    offered  b partition=k limits=2
		0    offered  c partition=l limits=2
		1    accepted a
		1    accepted b
		1    accepted c
		100  started  a run=1 on=w1
		100  started  b run=2 on=w2
		100  started  c run=3 on=w1
		900  finished a run=1 on=w1
		900  finished b run=2 on=w2
		900  finished c run=3 on=w1`},
	{"three tasks of a partition at once", Crowded, `
		0    offered  a partition=k limits=2
		0    offered  b partition=k limits=2
		0    offered  c partition=k limits=2
		1    accepted a
		1    accepted b
		1    accepted c
		100  started  a run=1 on=w1
		100  started  b run=2 on=w2
		101  started  c run=3 on=w1
		900  finished a run=1 on=w1
		900  finished b run=2 on=w2
		900  finished c run=3 on=w1`},
	{"a place that a killed process left", "", `
		0    offered  a partition=k limits=1 retry=9
		0    offered  b partition=k limits=1
		1    accepted a
		1    accepted b
		100  started  a run=1 on=w1
		200  died w1
		4000 started  b run=2 on=w2
		4100 finished b run=2 on=w2
		4200 started  a run=3 on=w2 retried=1 retry=9
		4300 finished a run=3 on=w2 retried=1`},
	{"a place that a stopped process lost", "", `
		0    offered  a partition=k limits=1 retry=9
		0    offered  b partition=k limits=1
		1    accepted a
		1    accepted b
		100  started  a run=1 on=w1
		200  fault stop to=w1 until=9000
		4000 started  b run=2 on=w2
		4100 finished b run=2 on=w2
		5000 started  a run=3 on=w2 retried=1 retry=9
		5100 finished a run=3 on=w2 retried=1
		9001 finished a run=1 on=w1`},
	{"a place that was taken before the lease had expired", Crowded, `
		0    offered  a partition=k limits=1 retry=9
		0    offered  b partition=k limits=1
		1    accepted a
		1    accepted b
		100  started  a run=1 on=w1
		200  fault stop to=w1 until=900
		800  started  b run=2 on=w2
		850  finished b run=2 on=w2
		950  finished a run=1 on=w1`},
	{"a place that Redis forgot", "", `
		0    offered  a partition=k limits=1
		0    offered  b partition=k limits=1
		1    accepted a
		1    accepted b
		1400 started  a run=1 on=w1
		1500 fault failover to=* until=1600 loses=500
		1700 started  b run=2 on=w2
		1800 finished b run=2 on=w2
		1900 finished a run=1 on=w1`},
	{"starts that keep to a rate", "", `
		0    offered  a partition=k limits=0/1000/2
		0    offered  b partition=k limits=0/1000/2
		0    offered  c partition=k limits=0/1000/2
		1    accepted a
		1    accepted b
		1    accepted c
		100  started  a run=1 on=w1
		100  started  b run=2 on=w2
		700  started  c run=3 on=w1
		900  finished a run=1 on=w1
		900  finished b run=2 on=w2
		900  finished c run=3 on=w1`},
	{"starts beyond a rate", Hasty, `
		0    offered  a partition=k limits=0/1000/2
		0    offered  b partition=k limits=0/1000/2
		0    offered  c partition=k limits=0/1000/2
		1    accepted a
		1    accepted b
		1    accepted c
		100  started  a run=1 on=w1
		100  started  b run=2 on=w2
		690  started  c run=3 on=w1
		900  finished a run=1 on=w1
		900  finished b run=2 on=w2
		900  finished c run=3 on=w1`},
	{"starts that were permitted before a process was stopped", "", `
		0    offered  a partition=k limits=0/5000/1 retry=9
		0    offered  b partition=k limits=0/5000/1
		1    accepted a
		1    accepted b
		100  fault stop to=w1 until=5200
		5201 started  a run=1 on=w1
		5202 started  b run=2 on=w2
		5900 finished a run=1 on=w1
		5900 finished b run=2 on=w2`},
	{"an ordered partition", "", `
		0    offered  a partition=k limits=1/0/0/1 retry=9
		1    accepted a
		2    offered  b partition=k limits=1/0/0/1
		3    accepted b
		100  started  a run=1 on=w1 retry=9
		200  finished a run=1 on=w1 err=1
		500  started  a run=2 on=w2 retried=1 retry=9
		600  finished a run=2 on=w2 retried=1
		601  started  b run=3 on=w2
		602  finished b run=3 on=w2`},
	{"a task that overtook the retry of its predecessor", Disordered, `
		0    offered  a partition=k limits=1/0/0/1 retry=9
		1    accepted a
		2    offered  b partition=k limits=1/0/0/1
		3    accepted b
		100  started  a run=1 on=w1 retry=9
		200  finished a run=1 on=w1 err=1
		301  started  b run=3 on=w2
		302  finished b run=3 on=w2
		500  started  a run=2 on=w2 retried=1 retry=9
		600  finished a run=2 on=w2 retried=1`},
	{"tasks that were offered at the same time have no order", "", `
		0    offered  a partition=k limits=1/0/0/1
		2    offered  b partition=k limits=1/0/0/1
		3    accepted a
		3    accepted b
		301  started  b run=3 on=w2
		302  finished b run=3 on=w2
		500  started  a run=2 on=w2
		600  finished a run=2 on=w2`},
	{"a member that was lost again after its group", Lost, `
		0    offered  a group=g
		1    accepted a
		2900 started  g run=1 on=w1 of=a
		3000 fault failover to=* until=3100 loses=500`},
}

// TestFaultsExplainRuns verifies the limits of the rules from both sides.
func TestFaultsExplainRuns(t *testing.T) {
	t.Parallel()
	for _, tt := range histories {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := Check(parse(t, tt.text), simRules)
			if tt.kind == "" && !r.OK() {
				t.Fatalf("this is valid:\n%s", r)
			}
			if tt.kind != "" && (r.Total(tt.kind) != 1 || len(r.Violations) != 1) {
				t.Fatalf("want one violation %q and no other:\n%s", tt.kind, r)
			}
			if delete(r.Oddities, "queue without statistics"); len(r.Oddities) > 0 {
				t.Errorf("oddities: %v", r.Oddities)
			}
		})
	}
}

// TestRules verifies the settings of the rules.
func TestRules(t *testing.T) {
	t.Parallel()
	lost := parse(t, "0 offered a\n1 accepted a\n2 fault failover to=* until=9 loses=5")
	crash := parse(t, once+"11000 died w1\n15000 started a run=2 on=w2 retried=1\n15001 finished a run=2 on=w2")
	early := parse(t, "0 offered a\n1 accepted a\n2 started a run=1 on=w1\n3 finished a run=1 on=w1")
	early[0].Delay = 10 * time.Millisecond
	failed := parse(t, "0 offered a\n1 accepted a\n2 started a run=1 on=w1\n3 finished a run=1 on=w1 err=1\n9000 outcome b state=archived")
	failed = append(failed, parse(t, "0 offered b\n1 accepted b\n2 started b run=2 on=w1\n3 finished b run=2 on=w1 err=1")...)
	for _, tt := range []struct {
		name   string
		events []history.Event
		kind   Kind
		loosen func(r *Rules)
	}{
		{"MayLose", lost, Lost, func(r *Rules) { r.MayLose = true }},
		{"CrashCounts", crash, Jump, func(r *Rules) { r.CrashCounts = true }},
		{"ClockSkew", early, Early, func(r *Rules) { r.ClockSkew = 8 * time.Millisecond }},
		{"ArchiveSize", failed, Lost, func(r *Rules) { r.ArchiveSize = 1 }},
	} {
		rules := Rules{Lease: simRules.Lease, Extend: simRules.Extend, Slack: simRules.Slack}
		if r := Check(tt.events, rules); r.Total(tt.kind) != 1 {
			t.Errorf("%s: no violation %q:\n%s", tt.name, tt.kind, r)
		}
		rules.ArchiveSize = 2 // one more than exist
		if r := Check(tt.events, rules); r.OK() {
			t.Errorf("%s: no violation where the archive has room", tt.name)
		}
		if tt.loosen(&rules); !Check(tt.events, rules).OK() {
			t.Errorf("%s:\n%s", tt.name, Check(tt.events, rules))
		}
	}
}

// TestReport verifies the numbers of a small history.
func TestReport(t *testing.T) {
	t.Parallel()
	events := parse(t, once+`
		10900 fault kill to=w1 until=10900
		11000 died w1
		14000 started a run=2 on=w2 retried=1
		14001 finished a run=2 on=w2
		20000 offered b
		20001 accepted b
		20002 fault failover to=* until=20010 loses=5`)
	events = append(events, history.Event{At: 3e10, Kind: history.Queue, Queue: "q", Processed: 9, Failures: 1})
	for range 7 {
		events = append(events, history.Event{At: 3e10, Kind: history.Finding, Queue: "q", Err: "something"})
	}
	r := Check(events, simRules)
	want := []Recovery{{Name: "kill", N: 1, P50: 3 * time.Second, Max: 3 * time.Second}}
	if fmt.Sprint(r.Recoveries) != fmt.Sprint(want) || r.Repeats["kill"] != 1 || r.Losses["failover"] != 1 {
		t.Errorf("recoveries %v, repeats %v, losses %v", r.Recoveries, r.Repeats, r.Losses)
	}
	if v := r.Violations[Invariant]; v == nil || v.Total != 7 || len(v.Examples) != simRules.Examples {
		t.Errorf("findings: %v", v)
	}
	text := r.String()
	for _, want := range []string{
		"**8 violations.**", "2 tasks were offered: 2 accepted", "| kill | 0 | 1 | 1 | 3s | 3s |", "| q | 9 | 2 | 1 | 1 |", "## statistics: 1", "4 more.",
		"Redis counts 9 processed",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}
