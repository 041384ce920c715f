// Package fault plans the faults of a run. The plan depends on a seed only.
package fault

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/asynq-go/asynq/test/chaos/node"
)

// Kind is a kind of fault.
type Kind string

// Faults of one worker or producer.
const (
	WorkerKill      Kind = "worker kill"      // SIGKILL
	WorkerFreeze    Kind = "worker freeze"    // SIGSTOP, and SIGCONT later
	WorkerRestart   Kind = "worker restart"   // SIGTERM
	ProducerKill    Kind = "producer kill"    // SIGKILL
	ProducerFreeze  Kind = "producer freeze"  // SIGSTOP, and SIGCONT later
	ProducerRestart Kind = "producer restart" // SIGTERM
	NetCut          Kind = "network cut"
	NetHalf         Kind = "network half" // half of a message is delivered, then the connection is cut
	NetDelay        Kind = "network delay"
	NetBlackhole    Kind = "network blackhole"
)

// Faults of Redis.
const (
	RedisRestart   Kind = "redis restart"    // SIGKILL and restart with its AOF
	PowerLoss      Kind = "redis power loss" // the same, without data that was not on disk
	ScriptFlush    Kind = "script flush"
	ClientKill     Kind = "client kill"
	Slow           Kind = "slow redis"
	Full           Kind = "full redis"
	DiskFull       Kind = "full disk"
	Malformed      Kind = "malformed data"
	FailoverCrash  Kind = "failover by crash"
	FailoverFreeze Kind = "failover by freeze"
	FailoverOrder  Kind = "failover by order"
	Reshard        Kind = "reshard"
	DeadShard      Kind = "dead shard"
)

// rule holds the lane of a kind, the sites that support it, and its duration in leases.
type rule struct {
	kind   Kind
	redis  bool
	sites  []string // nil means all
	leases [2]float64
	weight int
}

var rules = []rule{
	{kind: WorkerKill, weight: 4},
	{kind: WorkerFreeze, leases: [2]float64{0.2, 2}, weight: 3},
	{kind: WorkerRestart, weight: 2},
	{kind: ProducerKill, weight: 2},
	{kind: ProducerFreeze, leases: [2]float64{0.2, 1.5}, weight: 1},
	{kind: ProducerRestart, weight: 1},
	{kind: NetCut, weight: 3},
	{kind: NetHalf, weight: 3},
	{kind: NetDelay, leases: [2]float64{0.2, 1}, weight: 2},
	{kind: NetBlackhole, leases: [2]float64{0.2, 2}, weight: 3},

	{kind: RedisRestart, redis: true, leases: [2]float64{0.02, 0.6}, weight: 3},
	{kind: PowerLoss, redis: true, sites: []string{node.Standalone}, leases: [2]float64{0.02, 0.4}, weight: 1},
	{kind: ScriptFlush, redis: true, weight: 2},
	{kind: ClientKill, redis: true, weight: 2},
	{kind: Slow, redis: true, leases: [2]float64{0.05, 0.25}, weight: 2},
	{kind: Full, redis: true, leases: [2]float64{0.2, 1}, weight: 2},
	{kind: DiskFull, redis: true, leases: [2]float64{0.1, 0.6}, weight: 1},
	{kind: Malformed, redis: true, weight: 2},
	{kind: FailoverCrash, redis: true, sites: []string{node.Sentinel, node.Cluster}, weight: 3},
	{kind: FailoverFreeze, redis: true, sites: []string{node.Sentinel, node.Cluster}, weight: 2},
	{kind: FailoverOrder, redis: true, sites: []string{node.Sentinel, node.Cluster}, weight: 2},
	{kind: Reshard, redis: true, sites: []string{node.Cluster}, weight: 4},
	{kind: DeadShard, redis: true, sites: []string{node.Cluster}, leases: [2]float64{0.2, 1}, weight: 2},
}

// Fault is one fault of a plan.
type Fault struct {
	At   time.Duration // after the start of the run; later if the previous fault of its lane is not over
	Kind Kind
	Pick uint64        // selects the target
	For  time.Duration // 0 for instantaneous faults
}

// Options configures Plan.
type Options struct {
	Seed   uint64
	Site   string
	Length time.Duration
	Every  time.Duration // average interval of process faults; that of Redis faults is twice as long
	Lease  time.Duration
	Only   []Kind // nil means all that the site supports
	Except []Kind
}

// Kinds returns all kinds that a site supports; "" means any site.
func Kinds(site string) []Kind {
	var all []Kind
	for _, r := range rules {
		if site == "" || r.sites == nil || slices.Contains(r.sites, site) {
			all = append(all, r.kind)
		}
	}
	return all
}

// Plan returns the faults of processes and of Redis, which happen independently, ordered by time.
// Each kind occurs at least once if there is enough time. The first faults happen after one
// interval, when all processes are working.
func Plan(o Options) (processes, redis []Fault) {
	return o.lane(false), o.lane(true)
}

func (o *Options) lane(redis bool) []Fault {
	var possible []rule
	for _, r := range rules {
		wanted := o.Only == nil || slices.Contains(o.Only, r.kind)
		if r.redis == redis && wanted && !slices.Contains(o.Except, r.kind) && (r.sites == nil || slices.Contains(r.sites, o.Site)) {
			possible = append(possible, r)
		}
	}
	if len(possible) == 0 {
		return nil
	}
	stream, every := uint64(1), o.Every
	if redis {
		stream, every = 2, 2*o.Every
	}
	r := rand.New(rand.NewPCG(o.Seed, stream))
	var faults []Fault
	var deck []rule
	for at := o.Every; at < o.Length; at += time.Duration((0.5 + r.Float64()) * float64(every)) {
		if len(deck) == 0 {
			deck = shuffled(r, possible, len(faults) == 0)
		}
		next := deck[0]
		deck = deck[1:]
		span := next.leases[0] + r.Float64()*(next.leases[1]-next.leases[0])
		faults = append(faults, Fault{At: at, Kind: next.kind, Pick: r.Uint64(), For: time.Duration(span * float64(o.Lease))})
	}
	return faults
}

// shuffled is a deck of faults: each kind occurs according to its weight, after all kinds occurred
// once.
func shuffled(r *rand.Rand, rules []rule, first bool) []rule {
	var deck []rule
	for _, rule := range rules {
		for range rule.weight {
			deck = append(deck, rule)
		}
	}
	r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	if !first {
		return deck
	}
	once := slices.Clone(rules)
	r.Shuffle(len(once), func(i, j int) { once[i], once[j] = once[j], once[i] })
	return append(once, deck...)
}
