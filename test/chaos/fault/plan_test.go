package fault_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq/test/chaos/fault"
	"github.com/asynq-go/asynq/test/chaos/node"
)

var options = fault.Options{Seed: 1, Site: node.Cluster, Length: 2 * time.Minute, Every: 2 * time.Second, Lease: 5 * time.Second}

func TestPlanIsDeterministic(t *testing.T) {
	t.Parallel()
	processes, redis := fault.Plan(options)
	again, redisAgain := fault.Plan(options)
	if !reflect.DeepEqual(processes, again) || !reflect.DeepEqual(redis, redisAgain) {
		t.Error("the same seed gives two plans")
	}
	other := options
	other.Seed = 2
	if p, _ := fault.Plan(other); reflect.DeepEqual(p, processes) {
		t.Error("two seeds give the same plan")
	}
}

func TestPlanHasEachKind(t *testing.T) {
	t.Parallel()
	for _, site := range []string{node.Standalone, node.Sentinel, node.Cluster} {
		o := options
		o.Site = site
		processes, redis := fault.Plan(o)
		seen := make(map[fault.Kind]int)
		for _, lane := range [][]fault.Fault{processes, redis} {
			last := time.Duration(0)
			for _, f := range lane {
				seen[f.Kind]++
				if f.At < last || f.At < o.Every || f.At >= o.Length || f.For > 2*o.Lease {
					t.Errorf("%s: %+v comes after one at %v", site, f, last)
				}
				last = f.At
			}
		}
		for _, kind := range fault.Kinds(site) {
			if seen[kind] == 0 {
				t.Errorf("%s: %q never comes", site, kind)
			}
			delete(seen, kind)
		}
		if len(seen) > 0 {
			t.Errorf("%s cannot have %v", site, seen)
		}
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	o := options
	o.Only = []fault.Kind{fault.WorkerKill, fault.NetCut, fault.PowerLoss}
	o.Except = []fault.Kind{fault.NetCut}
	processes, redis := fault.Plan(o)
	if len(redis) > 0 || len(processes) == 0 {
		t.Errorf("got %v and %v", processes, redis)
	}
	if slices.ContainsFunc(processes, func(f fault.Fault) bool { return f.Kind != fault.WorkerKill }) {
		t.Errorf("got %v", processes)
	}
}
